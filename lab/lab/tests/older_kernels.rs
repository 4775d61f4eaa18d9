//! A server with its client on kernels as old as Linux 5.3, by a filter that refuses what came
//! later.

mod program;

use std::path::Path;
use std::process::Command;

use program::laboratory;
use testing::refusals;

#[test]
fn requests_are_served_as_on_a_new_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let programs = "../../crates/observe/preload/tests/programs/refuse.c";
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(programs);
    let refuse = folder.path().join("refuse");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-pthread", "-o"]).arg(&refuse).arg(source);
    assert!(compiler.status().unwrap().success());
    // Calls that keeptime cannot do without: random bytes, and a descriptor for a process.
    let needed = [libc::SYS_getrandom, libc::SYS_pidfd_open];
    let refused = refusals::REFUSALS.iter().filter(|refusal| !needed.contains(&refusal.number));
    let mut command = Command::new(refuse);
    command.args(refused.map(refusals::Refusal::rule)).arg("--");
    command.arg(laboratory().get_program());
    command.args(["bench", "requests", "--samples", "50", "--json"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
