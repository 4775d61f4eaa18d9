//! Prerequisites of the tests of DDS security: OpenSSL, and a foreign node with the security plugins.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::debian;
use crate::step::Step;

/// Packages by which OpenSSL's development files are found.
const PACKAGES: [&str; 3] = ["libssl-dev", "openssl", "pkg-config"];

/// Reason for which there is no feature to build with.
const MISSING: &str = "no libssl-dev, and no perl and make to build it with";

/// Environment variable by which the test finds an interpreter whose Cyclone DDS has the security
/// plugins.
pub(crate) const VARIABLE: &str = "KEEPTIME_ROS_SECURE_PYTHON";

/// Cyclone DDS with its security plugins, and what its Python binding is built with.
const PEER_PACKAGES: [&str; 4] =
    ["cyclonedds-dev", "cyclonedds-tools", "python3-dev", "python3-venv"];

/// The binding of Debian's version, built for it: the one in the Python index comes without.
const PEER: &str = "cyclonedds==0.10.2";

/// Debian's Python: another one would lack the headers.
const PYTHON: &str = "/usr/bin/python3";

/// Debian's folder of that library.
const PEER_LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// All features of the tool that this machine can build; a line says so where DDS security cannot.
pub(crate) fn features() -> String {
    let all = "keeptime/full";
    let Some(security) = feature() else {
        eprintln!("==> SKIP: DDS security: {MISSING}");
        return all.into();
    };
    format!("{all},{security}")
}

/// The feature to build with: with the machine's OpenSSL, which is installed where it is missing
/// and the machine lets us, else with one that is built from source, which takes perl and make.
/// None where neither can be had.
fn feature() -> Option<&'static str> {
    if debian::have(&PACKAGES, is_there) {
        return Some("keeptime/dds-security");
    }
    let has = |program| debian::runs(Command::new(program).arg("--version"));
    (has("perl") && has("make")).then_some("keeptime/dds-security-vendored")
}

fn is_there() -> bool {
    debian::runs(Command::new("pkg-config").args(["--exists", "openssl"]))
}

/// The interpreter of an environment of its own, with Debian's Cyclone DDS; the one that the
/// variable names, if any. None, and a line that says so, where Debian's packages cannot be had.
///
/// # Errors
/// If the foreign node cannot be built.
pub(crate) fn python() -> anyhow::Result<Option<PathBuf>> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Ok(Some(given.into()));
    }
    let is_complete = || {
        let mut files = ["libddsc.so", "libddsc0debian/libdds_security_auth.so"].iter();
        files.all(|file| Path::new(PEER_LIBRARIES).join(file).exists())
            && Path::new("/usr/bin/python3-config").exists()
            && debian::runs(Command::new(PYTHON).args(["-c", "import ensurepip"]))
    };
    if !debian::have(&PEER_PACKAGES, is_complete) {
        eprintln!("==> SKIP: DDS security with Cyclone DDS: no {}", PEER_PACKAGES.join(" "));
        return Ok(None);
    }
    let environment = std::path::absolute(crate::target())?.join("ros-secure-peer");
    let python = environment.join("bin/python3");
    if !python.exists() {
        Step::program(PYTHON).args(["-m", "venv"]).arg(&environment).run()?;
    }
    // The folder of an installation, as the binding looks for one.
    let home = std::path::absolute(crate::target())?.join("ros-secure-home");
    fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    for (name, to) in [("include", "/usr/include"), ("lib", PEER_LIBRARIES), ("bin", "/usr/bin")] {
        if !home.join(name).exists() {
            symlink(to, home.join(name)).with_context(|| format!("cannot link {name}"))?;
        }
    }
    let install = ["-m", "pip", "install", "--quiet", "--no-binary", "cyclonedds", PEER];
    Step::program(&python).args(install).env("CYCLONEDDS_HOME", &home).run()?;
    Ok(Some(python))
}
