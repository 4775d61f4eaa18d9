//! `keeptime run` on kernels as old as Linux 5.3, by a filter that refuses what came later.

mod support;

use std::process::{Command, Output};
use support::{Folder, preload_library, preload_test_program};
use testing::refusals;

/// Runs keeptime on the oldest kernel that it can be used on.
fn keeptime(folder: &Folder, arguments: &[&str]) -> Output {
    // Calls that keeptime cannot do without: random bytes, and a descriptor for a process.
    let needed = [libc::SYS_getrandom, libc::SYS_pidfd_open];
    let refused = refusals::REFUSALS.iter().filter(|refusal| !needed.contains(&refusal.number));
    let mut command = Command::new(preload_test_program(&folder.0, "refuse"));
    command.args(refused.map(refusals::Refusal::rule)).arg("--");
    command.arg(env!("CARGO_BIN_EXE_keeptime")).args(arguments);
    command.env("KEEPTIME_PRELOAD", preload_library()).env_remove("LD_PRELOAD");
    command.output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn programs_are_recorded_and_guarded_as_on_a_new_kernel() {
    let folder = Folder::new();
    let program = preload_test_program(&folder.0, "contended");
    let trace = folder.trace();
    let trace = trace.to_str().expect("a path in UTF-8");
    let ways: [&[&str]; 4] = [
        &["--record", trace, "--all-locks", "--memory", "4MiB"],
        &["--guard", "inherit", "--guard-all"],
        &["--guard", "fair+inherit", "--guard-all"],
        &["--guard", "fair+inherit", "--guard-all", "--record", trace, "--memory", "4MiB"],
    ];
    for way in ways {
        let output = keeptime(&folder, &[&["run"], way, &["--", &program]].concat());
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{way:?}: {err}");
        assert_eq!(text(&output.stdout), "1200 counted, 300 written, 160 turns\n", "{way:?}");
        assert!(!folder.trace().exists() || !folder.open().metadata().processes.is_empty());
    }
    assert!(folder.trace().exists());
}
