//! The folders of all shards become the folder of the whole.

use crate::folder::LOG;
use crate::{Error, Folder, Machine};
use std::path::{Path, PathBuf};

/// The folders of all shards of a study become one, at `out`.
///
/// # Errors
/// A folder is none, they are not the shards of one study, each once and to its end, or `out`
/// holds a study.
pub fn merge(folders: &[PathBuf], out: &Path) -> Result<Folder, Error> {
    let shards = folders.iter().map(|path| Folder::read(path)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = shards.first() else {
        let expected = "the folders of all shards".to_owned();
        return Err(Error::Option { option: "--merge", found: "none".to_owned(), expected });
    };
    let parts = shards.iter().map(|folder| (folder.path(), folder.study(), folder.shard()));
    trial::complete(&parts.collect::<Vec<_>>())
        .map_err(|(folder, problem)| Error::content(folder, problem))?;
    for shard in &shards {
        let (done, all) = shard.done();
        if done < all {
            let problem = format!("found {done} drives, expected {all}; --resume drives the rest");
            return Err(Error::content(&shard.file(LOG), problem));
        }
    }
    let mut machines: Vec<Machine> = Vec::new();
    for machine in shards.iter().flat_map(|shard| shard.machines()) {
        if !machines.contains(machine) {
            machines.push(machine.clone());
        }
    }
    let mut slower = Vec::new();
    for found in shards.iter().flat_map(|shard| shard.slower()) {
        if !slower.contains(found) {
            slower.push(found.clone());
        }
    }
    Folder::of(out, first.study(), (machines, slower), shards.iter().flat_map(Folder::rows))
}
