//! `keeptime-lab study merge`: the folders of all shards become the folder of the whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};

use super::experiment::Study;
use super::folder::{self, Manifest};
use super::options::Shard;
use super::row::Row;

/// Options of `keeptime-lab study merge`.
#[derive(clap::Args)]
pub struct Args {
    /// The folders of the shards
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// The folder to write
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The study and all its rows, in order.
///
/// # Errors
/// The folders are not the shards of one study, each once; says which are missing.
pub fn read(folders: &[PathBuf]) -> anyhow::Result<(Study, Vec<Row>)> {
    let mut manifests = Vec::new();
    for folder in folders {
        manifests.push((folder.as_path(), folder::manifest(folder)?));
    }
    let (first, study) = (manifests[0].0, manifests[0].1.study.clone());
    for (folder, manifest) in &manifests[1..] {
        agree((first, &study), (*folder, &manifest.study))?;
    }
    complete(&manifests)?;
    let mut rows = Vec::new();
    for (folder, manifest) in &manifests {
        let of_shard = folder::rows(folder, manifest)?;
        belong(folder, &study, manifest.shard, &of_shard)?;
        rows.extend(of_shard);
    }
    rows.sort_unstable_by_key(Row::key);
    Ok((study, rows))
}

/// Checks that two folders are of the same study; names the difference.
fn agree(first: (&Path, &Study), other: (&Path, &Study)) -> anyhow::Result<()> {
    let (a, b) = (serde_json::to_value(first.1)?, serde_json::to_value(other.1)?);
    let differs = |key: &&String| a[key.as_str()] != b[key.as_str()];
    let keys = a.as_object().into_iter().flat_map(|object| object.keys());
    if let Some(key) = keys.clone().find(differs) {
        let shown = |value: &serde_json::Value| {
            let text = value.to_string();
            match text.char_indices().nth(120) {
                Some((end, _)) => format!("{}...", &text[..end]),
                None => text,
            }
        };
        bail!(
            "{}: {key}: found {}, expected {} as in {}: these are shards of two studies",
            other.0.display(),
            shown(&b[key.as_str()]),
            shown(&a[key.as_str()]),
            first.0.display()
        );
    }
    Ok(())
}

/// Checks that every shard is there once.
fn complete(manifests: &[(&Path, Manifest)]) -> anyhow::Result<()> {
    let of = manifests[0].1.shard.of;
    let mut found: BTreeMap<u64, &Path> = BTreeMap::new();
    for (folder, manifest) in manifests {
        let shard = manifest.shard;
        ensure!(
            shard.of == of,
            "{}: found shard {shard}, expected a shard of {of} as in {}",
            folder.display(),
            manifests[0].0.display()
        );
        if let Some(other) = found.insert(shard.index, folder) {
            bail!(
                "{}: found shard {shard}, expected each shard once: {} has it too",
                folder.display(),
                other.display()
            );
        }
    }
    let missing: Vec<String> = (1..=of)
        .filter(|index| !found.contains_key(index))
        .map(|index| Shard { index, of }.to_string())
        .take(100)
        .collect();
    let all = "expected every shard of the study";
    ensure!(
        missing.is_empty(),
        "found {} of {of} shards, {all}: missing {}",
        found.len(),
        missing.join(", ")
    );
    Ok(())
}

/// Checks that the rows of a shard are there, each once, in order.
fn belong(folder: &Path, study: &Study, shard: Shard, rows: &[Row]) -> anyhow::Result<()> {
    let mut found = rows.iter().map(Row::key);
    for point in 0..study.points.len() {
        for set in shard.sets(study.sets) {
            for method in 0..study.methods.len() {
                ensure!(
                    found.next() == Some((point, set, method)),
                    "{}: expected a row for point {}, set {set}, {} here",
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
