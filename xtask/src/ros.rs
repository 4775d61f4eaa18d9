//! A Python with Cyclone DDS, as the foreign ROS 2 node of the tests.

use std::path::PathBuf;

use crate::step::Step;

/// Environment variable by which tests find the interpreter.
pub(crate) const VARIABLE: &str = "KEEPTIME_ROS_PYTHON";

/// The package and its version; it comes with the library of the implementation itself.
const PACKAGE: &str = "cyclonedds==11.0.1";

/// The interpreter of an environment of its own, in which the package is installed.
///
/// # Errors
/// If the environment cannot be made or the package not be had.
pub(crate) fn python() -> anyhow::Result<PathBuf> {
    let environment = std::path::absolute(crate::target())?.join("ros-peer");
    let python = environment.join("bin/python3");
    if !python.exists() {
        Step::program("python3").args(["-m", "venv"]).arg(&environment).run()?;
    }
    Step::program(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]).run()?;
    Ok(python)
}
