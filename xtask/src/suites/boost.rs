//! Boost.Thread's tests, with the libraries that Debian built: each file is a program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::{Program, Suite, debian_source};
use crate::pool;

const VERSION: &str = "1.74";
const LIBRARIES: [&str; 4] = ["thread", "chrono", "atomic", "test"];
/// Options with which all tests are compiled: those of the project's own build, of C++11.
const OPTIONS: [&str; 3] =
    ["-w", "-std=c++11", "-DBOOST_THREAD_THROW_IF_PRECONDITION_NOT_SATISFIED"];
const LINKED: [&str; 6] = [
    "-Wl,--as-needed",
    "-lboost_thread",
    "-lboost_chrono",
    "-lboost_atomic",
    "-lboost_unit_test_framework",
    "-lpthread",
];

pub(super) fn suite(folder: &Path, limit: Duration) -> anyhow::Result<Suite> {
    let packages = LIBRARIES.map(|library| format!("libboost-{library}{VERSION}-dev"));
    let packages = packages.each_ref().map(String::as_str);
    super::need(&packages, || {
        Path::new("/usr/include/boost/thread.hpp").exists()
            && Path::new("/usr/include/boost/test/unit_test.hpp").exists()
    })?;
    let source = debian_source::unpacked(folder, &format!("boost{VERSION}"), None)?;
    let tests = source.join("libs/thread/test");
    let build = folder.join("build/boost");
    std::fs::create_dir_all(&build).with_context(|| build.display().to_string())?;
    let mut files = Vec::new();
    collect(&tests, &mut files)?;
    files.sort();
    eprintln!("==> c++ {} files of {}", files.len(), tests.display());
    let built = pool::map(&files, 2, |_, file| compile(file, &tests, &build));
    let (mut programs, mut left_out) = (Vec::new(), Vec::new());
    for (name, program) in built {
        match program {
            Some(program) => {
                let command = vec![program.to_string_lossy().into_owned()];
                programs.push(Program::one(name, command, &tests, limit));
            }
            None => left_out.push(format!("{name}: does not compile or link")),
        }
    }
    let version = debian_source::source_version(&format!("libboost-thread{VERSION}-dev"))?;
    Ok(Suite { programs, version: format!("boost {version}"), left_out })
}

/// All tests but those that are not to compile.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            collect(&path, files)?;
        } else if name.ends_with(".cpp") && !name.contains("fail") && name != "winrt_init.cpp" {
            files.push(path);
        }
    }
    Ok(())
}

/// The name of a test, and its program if it compiles. A mark beside it keeps one that does not
/// from being tried each time.
fn compile(file: &Path, tests: &Path, build: &Path) -> (String, Option<PathBuf>) {
    let name = file.strip_prefix(tests).unwrap_or(file).with_extension("");
    let name = name.to_string_lossy().replace('/', "-");
    let program = build.join(&name);
    let broken = build.join(format!("{name}.broken"));
    if program.exists() {
        return (name, Some(program));
    }
    if broken.exists() {
        return (name, None);
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut command = Command::new("c++");
    command.args(OPTIONS).arg(file).arg("-o").arg(&program);
    if text.contains("boost/test/") {
        command.arg("-DBOOST_TEST_DYN_LINK");
    }
    let done = command.args(LINKED).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if done.is_ok_and(|status| status.success()) {
        return (name, Some(program));
    }
    if let Err(error) = std::fs::write(&broken, "") {
        eprintln!("==> {}: {error}", broken.display());
    }
    (name, None)
}
