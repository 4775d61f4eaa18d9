//! Builds the preload library for a release, as a part of the program: an installed `keeptime` is one
//! file. In other builds the library lies beside the program. And says of which sources and
//! features the program is made.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders, from this crate's, with the library's sources.
const SOURCES: [&str; 3] = ["../base", "../memory", "../observe"];

/// Features of the program, by the variables that cargo sets for them.
const FEATURES: [&str; 5] = ["dds-security", "onnx", "ros", "sched-ext", "vulkan"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=KEEPTIME_VERSION={}", version());
    let folder = PathBuf::from(variable("OUT_DIR"));
    let content = folder.join("preload.so");
    if variable("PROFILE") == "release" {
        let library = build(&folder.join("preload"));
        std::fs::copy(&library, &content).expect("the library can be copied");
    } else {
        std::fs::write(&content, []).expect("the folder can be written");
    }
}

/// Version, commit, machine and features: `0.1.0 (1a2b3c4d5e6f, x86_64, features: ros vulkan)`.
fn version() -> String {
    let is_set = |name: &&str| {
        env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase().replace('-', "_"))).is_some()
    };
    let features: Vec<&str> = FEATURES.into_iter().filter(is_set).collect();
    let features = if features.is_empty() { "none".into() } else { features.join(" ") };
    let (number, machine) = (variable("CARGO_PKG_VERSION"), variable("CARGO_CFG_TARGET_ARCH"));
    let commit = commit().unwrap_or_else(|| "unknown commit".into());
    format!("{number} ({commit}, {machine}, features: {features})")
}

/// The commit of the sources, if git knows them.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // The log of what was checked out changes with each commit.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
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
