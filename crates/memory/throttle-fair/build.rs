//! Compiles the scheduler in BPF, if it is asked for, with the first clang that is there.

use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "scheduler/throttle_fair.bpf.c";
const HEADER: &str = "scheduler/kernel.h";
/// The variable that names another clang.
const VARIABLE: &str = "KEEPTIME_CLANG";
/// Debian's names, newest first; before 15, clang does not know the kernel's wide enumerations.
const CLANGS: [&str; 7] =
    ["clang", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15"];
const OLDEST: u32 = 15;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_SCHED_EXT").is_none() {
        return;
    }
    for file in [SOURCE, HEADER] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let output = PathBuf::from(variable("OUT_DIR")).join("throttle_fair.bpf.o");
    let machine = variable("CARGO_CFG_TARGET_ARCH");
    let mut command = Command::new(clang());
    command.args("-g -O2 -Wall -Werror -mcpu=v3 -target bpf -c".split(' '));
    // Names of the libbpf-sys package and of Debian's folder of this machine's header files.
    command.arg("-I").arg(variable("DEP_BPF_INCLUDE"));
    let own = format!("/usr/include/{machine}-linux-gnu");
    if Path::new(&own).is_dir() {
        command.arg("-I").arg(own);
    }
    let status = command.arg(SOURCE).arg("-o").arg(&output).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{SOURCE} was not compiled: {command:?} ended with {status}"),
        Err(error) => panic!("{SOURCE} was not compiled: {command:?}: {error}"),
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"))
}

fn clang() -> String {
    if let Ok(named) = std::env::var(VARIABLE) {
        return named;
    }
    let found = CLANGS.iter().find(|name| version(name).is_some_and(|major| major >= OLDEST));
    found.map(|name| (*name).to_owned()).unwrap_or_else(|| {
        panic!(
            "the feature `sched-ext` takes clang {OLDEST} or later, and none of {CLANGS:?} is it: \
             install one (Debian 12: clang-16), or name it in {VARIABLE}"
        )
    })
}

/// The first number of a clang's version.
fn version(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().split('.').next()?.parse().ok()
}
