//! SUMO, as the other simulator of the tests.

use std::path::PathBuf;

use crate::step::Step;

/// Environment variable by which the test finds the program `sumo`.
pub(crate) const VARIABLE: &str = "KEEPTIME_SUMO";

/// The package and its version: 460 MB on disk.
const PACKAGE: &str = "eclipse-sumo==1.28.0";

/// The program, in an environment of its own; the one that the variable names, if any.
///
/// # Errors
/// If the environment cannot be made or the package not be had.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Ok(given.into());
    }
    let environment = std::path::absolute(crate::target())?.join("sumo");
    let python = environment.join("bin/python3");
    if !python.exists() {
        Step::program("python3").args(["-m", "venv"]).arg(&environment).run()?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"];
    Step::program(&python).args(install).arg(PACKAGE).run()?;
    Ok(environment.join("bin/sumo"))
}
