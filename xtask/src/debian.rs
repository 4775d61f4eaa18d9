//! Packages of Debian that tests need, installed where the machine lets us.

use std::process::{Command, Stdio};

use crate::step::Step;

/// Returns true if the files of the packages are there, after they are installed if need be.
pub(crate) fn have(packages: &[&str], is_there: impl Fn() -> bool) -> bool {
    is_there() || (install(packages) && is_there())
}

/// Installs packages with nothing that they only recommend. Returns true if that succeeded; says so
/// if there is no `apt-get`, or it failed.
pub(crate) fn install(packages: &[&str]) -> bool {
    if !runs(Command::new("apt-get").arg("--version")) {
        eprintln!("==> no apt-get to install {}", packages.join(" "));
        return false;
    }
    let step = |arguments: &[&str]| {
        Step::program("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").run()
    };
    let install = [&["install", "-y", "-qq", "--no-install-recommends"], packages].concat();
    let done = step(&install).or_else(|_| step(&["update", "-qq"]).and_then(|()| step(&install)));
    if let Err(error) = &done {
        eprintln!("==> cannot install {}: {error:#}", packages.join(" "));
    }
    done.is_ok()
}

/// Returns true if a command ends well; its output is not shown.
pub(crate) fn runs(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
