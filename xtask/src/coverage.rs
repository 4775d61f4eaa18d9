//! `cargo xtask coverage`: line coverage of the server by its own tests.
//!
//! Rust's instrumented builds write raw profiles that only the LLVM tools of the same major
//! version read. They are `llvm-profdata` and `llvm-cov` from the toolchain's `llvm-tools`
//! component, or from a Debian package such as `llvm-22`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::step::Step;

/// Files that must be covered, and how far.
const COVERED: &str = "crates/serve/accel-server/src/";
const LEAST_PERCENT: f64 = 85.0;

/// Runs the server's tests instrumented, and fails when too few lines were run.
pub(crate) fn run() -> anyhow::Result<()> {
    let (profdata, cov) = tools()?;
    let folder = crate::target().join("coverage");
    let profiles = folder.join("profiles");
    let _ = std::fs::remove_dir_all(&profiles);
    std::fs::create_dir_all(&profiles)?;
    // Test processes that are killed leave empty profiles; each process has a file of its own.
    Step::cargo("test -p keeptime-accel-server --target-dir")
        .arg(&folder)
        .env("RUSTFLAGS", "-C instrument-coverage")
        .env("LLVM_PROFILE_FILE", profiles.join("%p-%m.profraw"))
        .run()?;
    let merged = folder.join("merged.profdata");
    let raw = files(&profiles, |path| path.metadata().is_ok_and(|data| data.len() > 0))?;
    let list = folder.join("profiles.txt");
    let names: Vec<String> = raw.iter().map(|path| path.display().to_string()).collect();
    std::fs::write(&list, names.join("\n"))?;
    Step::program(profdata)
        .args(["merge", "-sparse", "--failure-mode=all", "-o"])
        .arg(&merged)
        .arg("-f")
        .arg(&list)
        .run()?;
    report(&cov, &folder, &merged)
}

fn report(cov: &Path, folder: &Path, merged: &Path) -> anyhow::Result<()> {
    let is_test = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ours = ["accel_server-", "arbitration-", "hostile-", "lifecycle-"];
        path.extension().is_none() && ours.iter().any(|ours| name.starts_with(ours))
    };
    let mut objects = Vec::new();
    for binary in files(&folder.join("debug/deps"), is_test)? {
        objects.extend(["-object".into(), binary]);
    }
    let mut export = Command::new(cov);
    export.args(["export", "-summary-only", "-instr-profile"]).arg(merged).args(&objects);
    let output = export.output().context("llvm-cov")?;
    ensure!(output.status.success(), "llvm-cov: {}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout)?;
    let (mut lines, mut covered) = (0, 0);
    for file in summary["data"][0]["files"].as_array().into_iter().flatten() {
        let name = file["filename"].as_str().unwrap_or_default();
        let Some((_, name)) = name.split_once(COVERED) else { continue };
        let count = |key: &str| file["summary"]["lines"][key].as_u64().unwrap_or(0);
        println!(
            "{:>6.1} %  {:>4} lines  {name}",
            percent(count("covered"), count("count")),
            count("count")
        );
        lines += count("count");
        covered += count("covered");
    }
    ensure!(lines > 0, "no file under {COVERED} in the profile");
    let all = percent(covered, lines);
    println!("{all:>6.1} %  {lines:>4} lines  {COVERED}");
    if all < LEAST_PERCENT {
        bail!("{COVERED} is covered to {all:.1} %, expected {LEAST_PERCENT} %");
    }
    Ok(())
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// The LLVM tools: from the toolchain, else of the compiler's major version on the path.
fn tools() -> anyhow::Result<(PathBuf, PathBuf)> {
    let says = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = Command::new("rustc").args(arguments).output().context("rustc")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let version = says(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let llvm = version.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    let major = llvm.and_then(|llvm| llvm.split('.').next()).unwrap_or_default();
    let own =
        PathBuf::from(says(&["--print", "sysroot"])?).join("lib/rustlib").join(host).join("bin");
    let packaged = PathBuf::from("/usr/bin");
    for (folder, suffix) in [(own, String::new()), (packaged, format!("-{major}"))] {
        let tool = |name: &str| folder.join(format!("{name}{suffix}"));
        let (profdata, cov) = (tool("llvm-profdata"), tool("llvm-cov"));
        if profdata.exists() && cov.exists() {
            return Ok((profdata, cov));
        }
    }
    bail!(
        "no llvm-profdata and llvm-cov of LLVM {major}: install the toolchain's llvm-tools \
         component, or the package llvm-{major}"
    )
}

fn files(folder: &Path, wanted: impl Fn(&Path) -> bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_file() && wanted(&path) {
            found.push(path);
        }
    }
    Ok(found)
}
