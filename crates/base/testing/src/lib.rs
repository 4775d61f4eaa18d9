//! For tests alone: what cargo builds for none of them. A library that no test links to and the
//! program of another package are built on first use, with the profile of the test, into the same
//! folder.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The preload library.
pub fn preload_library() -> PathBuf {
    built("keeptime-preload", "libkeeptime_preload.so")
}

/// The program `keeptime`.
pub fn keeptime() -> PathBuf {
    built("keeptime", "keeptime")
}

/// A file that cargo makes of a package.
///
/// # Panics
/// If it cannot be built.
pub fn built(package: &str, file: &str) -> PathBuf {
    built_folder(package).join(file)
}

/// The folder with what cargo makes of a package.
///
/// # Panics
/// If it cannot be built.
pub fn built_folder(package: &str) -> PathBuf {
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let (target, folder) = folders();
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if !built.contains(package) {
        let profile = if folder.ends_with("debug") { "dev" } else { "release" };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", package, "--profile", profile])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.expect("cargo starts").success(), "{package} cannot be built");
        built.insert(package.to_owned());
    }
    folder
}

/// The target folder, and in it that of the profile: a test is TARGET/PROFILE/deps/NAME.
fn folders() -> (PathBuf, PathBuf) {
    let test = std::env::current_exe().expect("this test's own file");
    let folder = test.ancestors().nth(2).expect("a folder of the profile");
    (folder.parent().map(Path::to_owned).unwrap_or_default(), folder.to_owned())
}
