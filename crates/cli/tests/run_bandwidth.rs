//! Drives the real `keeptime run --bandwidth`: what is said at the end of a program that used the
//! accelerator, and what happens without a regulator. The program runs on a fake CUDA driver.

mod support;

use bandwidth::holders::{Config, Holders};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use support::{Folder, preload_library};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/late-launch");
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/launches.c");

/// Builds the fake driver and the program once, and returns their folder.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-bandwidth");
        let mut make = Command::new("make");
        make.args(["-s", "-C", EXAMPLES, &format!("BUILD={}", build.display())]);
        make.arg(build.join("libcuda.so.1")).arg(build.join("libcuda.so"));
        assert!(make.status().expect("make").success(), "the fake driver cannot be built");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Werror", "-I", EXAMPLES, "-o"]).arg(build.join("launches"));
        cc.arg(PROGRAM).arg("-L").arg(&build).arg("-lcuda");
        assert!(cc.status().expect("a C compiler").success());
        build
    })
}

fn socket(folder: &Folder) -> PathBuf {
    folder.0.join("bandwidth.sock")
}

fn regulator(folder: &Folder) -> Holders {
    Holders::start(Config { socket: socket(folder), ..Config::default() }).unwrap()
}

fn keeptime(folder: &Folder, options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.env("KEEPTIME_PRELOAD", preload_library()).env_remove("LD_PRELOAD");
    command.env("KEEPTIME_BANDWIDTH", socket(folder)).env("LD_LIBRARY_PATH", built());
    command.args(["run", "--bandwidth"]).args(options).arg("--").args(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn launches(how: &str) -> [String; 2] {
    [built().join("launches").to_str().unwrap().to_owned(), how.to_owned()]
}

/// Runs the program to its end; what was said on the standard error stream. `before_driver` is
/// called before the program uses the driver.
#[track_caller]
fn run(folder: &Folder, options: &[&str], how: &str, before_driver: impl FnOnce()) -> String {
    let program = launches(how);
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let mut child = keeptime(folder, options, &program).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    before_driver();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    output.read_to_string(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(7), "{said}");
    said
}

#[test]
fn what_was_held_is_told_at_the_end() {
    let folder = Folder::new();
    let holders = regulator(&folder);
    let said = run(&folder, &[], "wait", || ());
    let begin = "keeptime run: bandwidth lock: taken 3 times and held for ";
    assert!(said.starts_with(begin) && said.ends_with(" by 1 process\n"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    let begun = std::time::Instant::now();
    let said: Value = testing::result::read(run(&folder, &["--json"], "wait", || ()));
    let most_ns = begun.elapsed().as_nanos() as u64;
    assert_eq!((&said["schema"], &said["version"]), (&"keeptime.run".into(), &1.into()));
    assert_eq!(said["outcome"], serde_json::json!({"exited": 7}));
    assert_eq!((&said["trace"], &said["guard"]), (&Value::Null, &Value::Null));
    let lock = &said["bandwidth_lock"];
    assert_eq!((&lock["attached"], &lock["acquisitions"]), (&1.into(), &3.into()), "{said}");
    assert_eq!((&lock["outstanding"], &lock["not_attached"]), (&0.into(), &0.into()), "{said}");
    let held_ns = lock["held_ns"].as_u64().unwrap();
    assert!((6_000_000..most_ns).contains(&held_ns), "{said}");
    assert!(!holders.is_held());
}

#[test]
fn recording_and_guard_are_told_of_beside_it() {
    let folder = Folder::new();
    let _holders = regulator(&folder);
    let trace = folder.trace();
    // Records of the process alone: on a busy machine those of the kernel come faster than they
    // are read.
    let record = ["--record", trace.to_str().unwrap(), "--memory", "4MiB", "--tier", "preload"];
    let options = [&record[..], &["--guard", "fair"]].concat();
    let said = run(&folder, &options, "wait", || ());
    let lines: Vec<&str> = said.lines().collect();
    let [recorded, guarded, held, next] = lines[..] else { panic!("{said}") };
    assert!(recorded.contains(" records, 0 lost"), "{said}");
    assert!(guarded.starts_with("keeptime run: guard fair: "), "{said}");
    assert!(held.starts_with("keeptime run: bandwidth lock: taken 3 times"), "{said}");
    assert!(next.contains("keeptime report "), "{said}");
    let said = run(&folder, &[&options[..], &["--json"]].concat(), "wait", || ());
    let said: Value = testing::result::read(&said);
    assert_eq!(said["trace"]["file"], trace.to_str().unwrap());
    assert_eq!((&said["trace"]["lost"], &said["guard"]["mutexes"]), (&0.into(), &"fair".into()));
    assert_eq!(said["bandwidth_lock"]["acquisitions"], 3);

    let audited = run(&folder, &["--guard", "audit", "--json"], "wait", || ());
    let audited: Value = testing::result::read(&audited);
    assert_eq!(audited["schema"], "keeptime.guard-audit");
    assert_eq!(audited["bandwidth_lock"]["acquisitions"], 3);
    assert!(run(&folder, &["--quiet"], "wait", || ()).is_empty());
}

#[test]
fn process_that_ends_with_work_outstanding_is_told_and_holds_nothing() {
    let folder = Folder::new();
    let holders = regulator(&folder);
    let said = run(&folder, &[], "leave", || ());
    assert!(said.contains("taken 4 times and held for "), "{said}");
    assert!(said.contains("; 1 process ended with work outstanding"), "{said}");
    // Its end is the kernel's word.
    testing::until("the lock is free", || !holders.is_held());
}

#[test]
fn program_without_an_accelerator_is_told_so() {
    let folder = Folder::new();
    let _holders = regulator(&folder);
    let output = keeptime(&folder, &[], &["true"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "keeptime run: bandwidth lock: the program did not use the accelerator\n");
}

#[test]
fn nothing_is_run_without_a_regulator() {
    let folder = Folder::new();
    let ran = folder.0.join("ran");
    let output = keeptime(&folder, &[], &["touch", ran.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let socket = socket(&folder);
    let expected = format!("{}: the bandwidth lock cannot be held", socket.display());
    assert!(said.contains(&expected) && said.contains("no regulator answers"), "{said}");
    assert!(!ran.exists());
}

#[test]
fn program_whose_regulator_has_gone_is_unharmed_and_that_is_told() {
    let folder = Folder::new();
    let holders = regulator(&folder);
    let said = run(&folder, &[], "wait", || drop(holders));
    let expected = "keeptime run: bandwidth lock: never held; 1 process found no regulator, so that \
                    nothing was held\n";
    assert_eq!(said, expected);
}
