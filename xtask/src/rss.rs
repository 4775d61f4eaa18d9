//! A Python with Intel's ad-rss-lib, as the judge of the safe distances.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use crate::step::Step;

/// Environment variable by which the test finds the interpreter.
pub(crate) const VARIABLE: &str = "KEEPTIME_RSS_PYTHON";

/// The package and what it needs, with nothing else: 110 MB.
const PACKAGES: [&str; 2] = ["ad-rss==5.0.0", "ad-physics==3.0.0"];

/// Python 3.x for which there are wheels of both.
const MINORS: std::ops::RangeInclusive<u32> = 10..=13;

/// The interpreter of an environment of its own, in which the packages are installed; the one that
/// the variable names, if any. None where Python is one that they are not built for.
///
/// # Errors
/// If the environment cannot be made or the packages not be had.
pub(crate) fn python() -> anyhow::Result<Option<PathBuf>> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Ok(Some(given.into()));
    }
    let minor = minor()?;
    if !MINORS.contains(&minor) {
        eprintln!("==> no ad-rss for Python 3.{minor}: the test against it will be skipped");
        return Ok(None);
    }
    let environment = std::path::absolute(crate::target())?.join("rss-oracle");
    let python = environment.join("bin/python3");
    if !python.exists() {
        Step::program("python3").args(["-m", "venv"]).arg(&environment).run()?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"];
    Step::program(&python).args(install).args(PACKAGES).run()?;
    Ok(Some(python))
}

fn minor() -> anyhow::Result<u32> {
    let program = ["-c", "import sys; print(sys.version_info.minor)"];
    let output = Command::new("python3").args(program).output().context("cannot start python3")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().parse() {
        Ok(minor) if output.status.success() => Ok(minor),
        _ => bail!("python3 reports no version that can be read: {text:?}"),
    }
}
