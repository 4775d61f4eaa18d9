//! Packages of the Python index that tests need a file of: fetched once, checked against a hash,
//! and unpacked. Nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::step::Step;

const FETCHING: &str =
    "-m pip download --quiet --no-deps --require-hashes --only-binary=:all: --requirement";

/// A wheel, the same file for whatever machine and Python are there.
pub(crate) struct Wheel {
    /// Its name and version, as pip wants them.
    pub requirement: &'static str,
    /// SHA-256 of its file.
    pub hash: &'static str,
    /// Options by which pip is told of the machine.
    pub platform: &'static [&'static str],
}

impl Wheel {
    fn name(&self) -> &'static str {
        self.requirement.split("==").next().unwrap_or(self.requirement)
    }

    /// The package's files, in a folder inside of `folder`.
    ///
    /// # Errors
    /// If it cannot be fetched or is not what is expected.
    pub(crate) fn unpacked(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let wheels = folder.join(format!("{}.wheel", self.name()));
        let requirement = folder.join(format!("{}.txt", self.name()));
        let line = format!("{} --hash=sha256:{}\n", self.requirement, self.hash);
        fs::write(&requirement, line).context("cannot write the requirement")?;
        let python = python(folder)?;
        let fetching = Step::program(&python).args(FETCHING.split(' ')).arg(&requirement);
        fetching.arg("--dest").arg(&wheels).args(self.platform).run()?;
        let wheel = fs::read_dir(&wheels)?.next().context("no package was fetched")??.path();
        let unpacked = folder.join(self.name());
        Step::program(python).args("-m zipfile -e".split(' ')).arg(wheel).arg(&unpacked).run()?;
        fs::remove_dir_all(wheels).context("cannot remove the package")?;
        Ok(unpacked)
    }
}

/// A Python with pip: that of the machine, or an environment of its own.
fn python(folder: &Path) -> anyhow::Result<PathBuf> {
    let pip = Command::new("python3")
        .args(["-m", "pip", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if pip.context("cannot start python3")?.success() {
        return Ok("python3".into());
    }
    let environment = folder.join("python");
    if !environment.exists() {
        Step::program("python3").args(["-m", "venv"]).arg(&environment).run()?;
    }
    Ok(environment.join("bin/python3"))
}
