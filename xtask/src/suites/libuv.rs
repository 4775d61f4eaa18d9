//! libuv's own tests: one program, which runs each test by its name.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use super::{Program, Suite, debian_source};
use crate::step::Step;

/// The variable without which the tests do not run as root.
const AS_ROOT: &str = "UV_RUN_AS_ROOT";

/// Tests have time limits of their own, for idle machines.
const PATIENCE: (&str, &str) = ("UV_TEST_TIMEOUT_MULTIPLIER", "10");

pub(super) fn suite(folder: &Path, limit: Duration) -> anyhow::Result<Suite> {
    let source = debian_source::unpacked(folder, "libuv1", None)?;
    let build = folder.join("build/libuv");
    super::once(&folder.join("build/libuv.done"), || {
        super::need(&["cmake"], || Path::new("/usr/bin/cmake").exists())?;
        Step::program("cmake")
            .arg("-S")
            .arg(&source)
            .arg("-B")
            .arg(&build)
            .args(["-DBUILD_TESTING=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"])
            .run()?;
        Step::program("cmake").arg("--build").arg(&build).args(["--target", "uv_run_tests"]).run()
    })?;
    let program = build.join("uv_run_tests");
    let answer = Command::new(&program).arg("--list").env(AS_ROOT, "1").output();
    let answer = answer.with_context(|| program.display().to_string())?;
    let names = String::from_utf8_lossy(&answer.stdout).into_owned();
    let one = |name: &str| {
        let command = vec![program.to_string_lossy().into_owned(), name.to_owned()];
        let mut one = Program::one(name.to_owned(), command, &source, limit);
        let variables = [(AS_ROOT, "1"), PATIENCE];
        one.variables = variables.map(|(name, value)| (name.into(), value.into())).into();
        one
    };
    if names.is_empty() {
        bail!("{} --list: {}", program.display(), String::from_utf8_lossy(&answer.stderr).trim());
    }
    let programs = names.lines().map(str::trim).filter(|name| !name.is_empty()).map(one).collect();
    let version = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Suite { programs, version, left_out: Vec::new() })
}
