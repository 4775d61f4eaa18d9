//! `cargo xtask deny`: known vulnerabilities, licences and sources of all crates, by cargo-deny and
//! the advisory database of RustSec. What is allowed, and why, stands in `deny.toml`.
//!
//! It reads the crates of the platform that is built for, so that those of others need not be
//! fetched, and the database that is there: `cargo deny fetch db` brings it up to date, and is tried
//! where there is none.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::debian;
use crate::step::Step;

/// Runs the checks, or says why not.
///
/// # Errors
/// If one fails.
pub(crate) fn run() -> anyhow::Result<()> {
    if !debian::runs(cargo().args(["deny", "--version"])) {
        eprintln!("==> SKIP: advisories and licences: no cargo-deny (cargo install cargo-deny)");
        return Ok(());
    }
    if !has_database() && Step::cargo("deny fetch db").run().is_err() {
        eprintln!(
            "==> SKIP: advisories and licences: no database in {}, and none can be fetched",
            databases().display()
        );
        return Ok(());
    }
    let file = std::path::absolute(crate::target())?.join("crates.json");
    std::fs::write(&file, metadata()?).with_context(|| file.display().to_string())?;
    Step::cargo("deny --offline --metadata-path").arg(&file).arg("check").run()
}

/// Returns the folder of cargo-deny's databases.
fn databases() -> PathBuf {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let home = std::env::var_os("CARGO_HOME")
        .map_or_else(|| PathBuf::from(home).join(".cargo"), PathBuf::from);
    home.join("advisory-dbs")
}

fn has_database() -> bool {
    std::fs::read_dir(databases()).is_ok_and(|mut entries| entries.next().is_some())
}

/// The crates of all features, on the platform that is built for.
fn metadata() -> anyhow::Result<Vec<u8>> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = cargo()
        .args(["metadata", "--all-features", "--format-version", "1", "--filter-platform"])
        .arg(platform)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo metadata")?;
    anyhow::ensure!(output.status.success(), "cargo metadata ended with {}", output.status);
    Ok(output.stdout)
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::root());
    cargo
}
