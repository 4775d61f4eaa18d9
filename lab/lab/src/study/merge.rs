//! `keeptime-lab study merge`: the folders of all shards become the folder of the whole.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure};
use trial::Shard;

use super::experiment::Study;
use super::folder;
use super::row::Row;

/// Options of `keeptime-lab study merge`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The folders of the shards
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// The folder to write
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write the page to this file, and print the summary only
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// The study and all its rows, in order.
///
/// # Errors
/// The folders are not the shards of one study, each once; says which are missing.
pub(super) fn read(folders: &[PathBuf]) -> anyhow::Result<(Study, Vec<Row>)> {
    let mut manifests = Vec::new();
    for folder in folders {
        manifests.push((folder.as_path(), folder::manifest(folder)?));
    }
    let shards: Vec<_> =
        manifests.iter().map(|(folder, of)| (*folder, &of.study, of.shard)).collect();
    trial::complete(&shards).map_err(|(folder, why)| anyhow!("{}: {why}", folder.display()))?;
    let study = manifests[0].1.study.clone();
    let mut rows = Vec::new();
    for (folder, manifest) in &manifests {
        let of_shard = folder::rows(folder, manifest)?;
        belong(folder, &study, manifest.shard, &of_shard)?;
        rows.extend(of_shard);
    }
    rows.sort_unstable_by_key(Row::key);
    Ok((study, rows))
}

/// Checks that the rows of a shard are there, each once, in order.
fn belong(folder: &Path, study: &Study, shard: Shard, rows: &[Row]) -> anyhow::Result<()> {
    let mut found = rows.iter().map(Row::key);
    for point in 0..study.points.len() {
        for set in shard.units(study.sets) {
            for method in 0..study.methods.len() {
                ensure!(
                    found.next() == Some((point, set, method)),
                    "{}: expected a row for point {}, set {set}, {} here: a study that was interrupted \
                     is not merged",
                    folder.display(),
                    study.points[point].number,
                    study.methods[method]
                );
            }
        }
    }
    ensure!(found.next().is_none(), "{}: found more rows than sets", folder.display());
    Ok(())
}
