//! Builds the preload library for a release, as a part of the program: an installed `keeptime` is one
//! file. In other builds the library lies beside the program.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders, from this crate's, with the library's sources.
const SOURCES: [&str; 3] = ["../base", "../memory", "../observe"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = PathBuf::from(variable("OUT_DIR"));
    let content = folder.join("preload.so");
    if variable("PROFILE") == "release" {
        let library = build(&folder.join("preload"));
        std::fs::copy(&library, &content).expect("the library can be copied");
    } else {
        std::fs::write(&content, []).expect("the folder can be written");
    }
}

/// Builds the library, and returns its path.
fn build(target: &Path) -> PathBuf {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    let triple = variable("TARGET");
    let status = Command::new(variable("CARGO"))
        .args(["build", "--release", "--package", "keeptime-preload", "--target", &triple])
        .args(["--config", "profile.release.strip='symbols'"])
        .args(["--config", "profile.release.debug=false"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(Path::new(&variable("CARGO_MANIFEST_DIR")).join("../observe/preload"))
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "the preload library cannot be built: {status}");
    target.join(triple).join("release/libkeeptime_preload.so")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}
