//! The folder of results: `rows.parquet`, `manifest.json` and `study.html`.
//!
//! Every file is written under another name and then renamed, so that a file under its own name
//! is always whole. The manifest comes last and carries the checksum of the rows: a folder whose
//! files are of two runs, because the second was killed between two names, is not taken for one.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use trial::Shard;

use super::experiment::Study;
use super::row::{self, Row};

/// The version of the manifest and of the columns.
const FORMAT: u32 = 1;

const ROWS: &str = "rows.parquet";
const MANIFEST: &str = "manifest.json";
const PAGE: &str = "study.html";

/// Content of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// [`FORMAT`].
    format: u32,
    /// The command that made the folder.
    pub command: String,
    /// Study whose rows are in the folder.
    pub study: Study,
    /// Shard whose sets are in the folder.
    pub shard: Shard,
    /// Number of rows.
    rows: u64,
    /// FNV-1a of the bytes of `rows.parquet`, as hexadecimal digits.
    checksum: String,
}

/// Writes all files of a folder, which is made where it does not exist.
pub(super) fn write(
    folder: &Path,
    study: &Study,
    shard: Shard,
    command: &str,
    rows: &[Row],
    page: &str,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let bytes = row::write(study, rows)?;
    let manifest = Manifest {
        format: FORMAT,
        command: command.to_owned(),
        study: study.clone(),
        shard,
        rows: rows.len() as u64,
        checksum: trial::checksum(&bytes),
    };
    let manifest = format!("{}\n", serde_json::to_string_pretty(&manifest)?);
    put(folder, ROWS, &bytes)?;
    put(folder, PAGE, page.as_bytes())?;
    put(folder, MANIFEST, manifest.as_bytes())
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let path = || folder.join(name).display().to_string();
    trial::write_whole(folder, name, bytes).map(|_| ()).with_context(path)
}

/// Reads the manifest of a folder.
pub(super) fn manifest(folder: &Path) -> anyhow::Result<Manifest> {
    let path = folder.join(MANIFEST);
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{}: expected the folder of a finished study", path.display()))?;
    let manifest: Manifest = serde_json::from_str(&text).with_context(name)?;
    let found = manifest.format;
    ensure!(found == FORMAT, "{}: format: found {found}, expected {FORMAT}", name());
    let shard = manifest.shard;
    ensure!(shard.is_possible(), "{}: shard: found {shard}, expected I/N, I from 1 to N", name());
    Ok(manifest)
}

/// Reads the rows of a folder, and checks that they are those of its manifest.
pub(super) fn rows(folder: &Path, manifest: &Manifest) -> anyhow::Result<Vec<Row>> {
    let path = folder.join(ROWS);
    let name = || path.display().to_string();
    let found = trial::checksum(&std::fs::read(&path).with_context(name)?);
    ensure!(
        found == manifest.checksum,
        "{}: checksum: found {found}, expected {} as {MANIFEST} says",
        name(),
        manifest.checksum
    );
    let rows = row::read(&manifest.study, File::open(&path)?).with_context(name)?;
    ensure!(
        rows.len() as u64 == manifest.rows,
        "{}: found {} rows, expected {} as {MANIFEST} says",
        name(),
        rows.len(),
        manifest.rows
    );
    Ok(rows)
}
