//! The tests of DDS security. OpenSSL is in no ordinary build, so their programs are built a
//! second time, with it.

use std::process::{Command, Stdio};

use crate::step::Step;

/// What the development files of OpenSSL are found with.
const PACKAGES: [&str; 3] = ["libssl-dev", "openssl", "pkg-config"];

/// Runs them, or says why not.
///
/// # Errors
/// If one fails.
pub fn tests() -> anyhow::Result<()> {
    let Some(feature) = feature() else {
        eprintln!("==> SKIP: DDS security: no libssl-dev, and no perl and make to build it with");
        return Ok(());
    };
    Step::cargo("test -p ros -p cli --test security --test ros_security --features")
        .arg(feature)
        .args(["--config", crate::TIME_LIMIT])
        .run()
}

/// The feature to build with: with the machine's OpenSSL, which is installed where it is missing
/// and the machine lets us, else with one that is built from source, which takes perl and make.
/// None where neither can be had.
fn feature() -> Option<&'static str> {
    if is_there() || installed() {
        return Some("cli/dds-security");
    }
    let has = |program| runs(Command::new(program).arg("--version"));
    if has("perl") && has("make") {
        return Some("cli/dds-security-vendored");
    }
    eprintln!(
        "==> SKIP: the tests of DDS security: no libssl-dev, and no perl and make to build it"
    );
    None
}

fn is_there() -> bool {
    runs(Command::new("pkg-config").args(["--exists", "openssl"]))
}

fn installed() -> bool {
    if !runs(Command::new("apt-get").arg("--version")) {
        return false;
    }
    let step = |arguments: &[&str]| {
        Step::program("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").run()
    };
    let install = [&["install", "-y", "-qq", "--no-install-recommends"], &PACKAGES[..]].concat();
    let done = step(&install).or_else(|_| step(&["update", "-qq"]).and_then(|()| step(&install)));
    done.is_ok() && is_there()
}

fn runs(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
