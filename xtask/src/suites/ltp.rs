//! The Linux Test Project: its open POSIX tests, and tests of the system calls that threads and
//! processes are made of.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use super::{Program, Suite};
use crate::step::Step;

/// Advice if there is no checkout.
pub(super) const MISSING: &str = "Debian has no sources of the Linux Test Project: \
    git clone https://github.com/linux-test-project/ltp, and name the folder with --ltp";

/// Folders of `testcases/kernel/syscalls` whose tests are run.
const CALLS: [&str; 24] = [
    "clone",
    "clone3",
    "execve",
    "exit_group",
    "fork",
    "futex",
    "getrusage",
    "kill",
    "membarrier",
    "mlock",
    "mlockall",
    "munlockall",
    "pause",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigsuspend",
    "sched_setscheduler",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
    "tgkill",
    "vfork",
    "waitpid",
];

/// A copy of the checkout that is configured; the one of an earlier time if no checkout is given.
pub(super) fn tree(checkout: Option<&Path>, folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let tree = folder.join("build/ltp");
    let stamp = folder.join("build/ltp.done");
    if !stamp.exists() {
        let Some(checkout) = checkout else { return Ok(None) };
        if !checkout.join("testcases/open_posix_testsuite").is_dir() {
            bail!("{}: not a checkout of the Linux Test Project", checkout.display());
        }
        super::need(&["autoconf", "automake", "pkg-config"], || {
            Path::new("/usr/bin/autoreconf").exists()
        })?;
        std::fs::create_dir_all(folder.join("build"))?;
        Step::program("cp").arg("-a").arg(checkout).arg(&tree).run()?;
        let step = |program: &str| Step::program(program).folder(&tree);
        step("make").args(["--silent", "autotools"]).run()?;
        step("./configure").arg("--quiet").run()?;
        let posix = tree.join("testcases/open_posix_testsuite");
        Step::program("./configure").folder(&posix).arg("--quiet").run()?;
        step("make").args(["--silent", "-j2", "-C", "lib"]).run()?;
        step("make").args(["--silent", "-C"]).arg(&posix).arg("generate-makefiles").run()?;
        std::fs::write(&stamp, "")?;
    }
    Ok(Some(tree))
}

/// Programs below these folders of the open POSIX tests.
pub(super) fn open_posix(tree: &Path, folders: &[&str], limit: Duration) -> anyhow::Result<Suite> {
    let posix = tree.join("testcases/open_posix_testsuite");
    let mut files = Vec::new();
    for folder in folders {
        super::once(&posix.join(format!("{folder}.done")), || {
            let target = format!("{folder}-all");
            Step::program("make").args(["--silent", "-C"]).arg(&posix).arg(target).run()
        })?;
        collect(&posix.join(folder), &mut files)?;
    }
    files.sort();
    let program = |file: &PathBuf| {
        let name = file.strip_prefix(&posix).unwrap_or(file).with_extension("");
        let command = vec![file.to_string_lossy().into_owned()];
        let folder = file.parent().unwrap_or(&posix);
        Program::one(name.to_string_lossy().into_owned(), command, folder, limit)
    };
    let programs = files.iter().map(program).collect();
    Ok(Suite { programs, version: version(tree), left_out: Vec::new() })
}

/// Its programs that test some system calls.
pub(super) fn system_calls(tree: &Path, limit: Duration) -> anyhow::Result<Suite> {
    let calls = tree.join("testcases/kernel/syscalls");
    let (mut programs, mut left_out) = (Vec::new(), Vec::new());
    for call in CALLS {
        let folder = calls.join(call);
        if !folder.is_dir() {
            left_out.push(format!("{call}: not in this checkout"));
            continue;
        }
        super::once(&folder.join("keeptime-suites.done"), || {
            Step::program("make").args(["--silent", "-k", "-C"]).arg(&folder).run()
        })?;
        let mut sources = sources(&folder)?;
        sources.sort();
        for source in sources {
            let file = source.with_extension("");
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !file.is_file() {
                left_out.push(format!("{name}: not built"));
                continue;
            }
            // Programs that tests start, and not tests.
            if name.ends_with("_child") {
                continue;
            }
            let command = vec![file.to_string_lossy().into_owned()];
            let mut program = Program::one(name, command, &folder, limit);
            // Path by which the tests' programs find others that they start.
            let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.display());
            program.variables.push(("PATH".into(), path));
            // Tests have time limits of their own, for idle machines.
            program.variables.push(("LTP_TIMEOUT_MUL".into(), "5".into()));
            programs.push(program);
        }
    }
    Ok(Suite { programs, version: version(tree), left_out })
}

fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        sources.extend((path.extension().is_some_and(|end| end == "c")).then_some(path));
    }
    Ok(sources)
}

/// All programs in a folder and in those below it.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "run-test") {
            files.push(path);
        }
    }
    Ok(())
}

fn version(tree: &Path) -> String {
    let answer =
        Command::new("git").arg("-C").arg(tree).args(["log", "-1", "--format=%H"]).output();
    let commit = answer.ok().filter(|answer| answer.status.success());
    let commit = commit.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned());
    let file = || std::fs::read_to_string(tree.join("VERSION")).ok();
    format!("LTP {}", commit.or_else(file).unwrap_or_default().trim())
}
