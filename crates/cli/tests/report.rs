//! Drives the real `keeptime report` on traces written by hand.

mod support;

use record::layout::host_copy;
use record::{Action, Class, Kind, Raw, Record};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use support::Folder;
use trace::metadata::{Clock, LostRange, Tier};
use trace::{BlockHead, Metadata, StreamKind, TraceWriter};

const MUTEX: u64 = 0x1000;
const INFER: u32 = 4712;
const COPIER: u32 = 4711;

/// One thread's records as they come.
#[derive(Default)]
struct Records(Vec<Raw>);

impl Records {
    fn put(&mut self, time: u64, kind: Kind, subject: u64, detail: u64, number: u32) {
        self.0.push(Record { time, subject, detail, number, kind }.to_raw());
    }

    fn name(&mut self, name: &[u8; 8]) {
        self.put(1, Kind::Thread, u64::from_le_bytes(*name), 0, 0);
    }

    fn lock(&mut self, time: u64, action: Action, owner: u32) {
        self.put(time, Kind::Lock(Class::Mutex, action), MUTEX, 0, owner);
    }
}

/// Twenty launches of 4 us, and one of 2 ms that waits for a mutex that a copy has. A tick is a
/// nanosecond.
fn threads() -> [(u32, Records); 2] {
    let (mut infer, mut copier) = (Records::default(), Records::default());
    infer.name(b"infer\0\0\0");
    copier.name(b"copy-3\0\0");
    copier.put(1_000_000, Kind::Enter, 7, host_copy(4 << 20, false), 1);
    copier.lock(1_000_100, Action::Acquired, 0);
    copier.lock(3_090_000, Action::Released, 0);
    copier.put(3_095_000, Kind::Exit, 0, 0, 0);
    infer.put(1_100_000, Kind::Enter, 7, 0x77, 0);
    infer.lock(1_101_000, Action::Waiting, COPIER);
    infer.lock(3_091_000, Action::Acquired, 0);
    infer.lock(3_092_000, Action::Released, 0);
    infer.put(3_100_000, Kind::Exit, 0, 0, 0);
    for call in 0..20 {
        infer.put(5_000_000 + call * 10_000, Kind::Enter, 7, 0x77, 0);
        infer.put(5_004_000 + call * 10_000, Kind::Exit, 0, 0, 0);
    }
    [(INFER, infer), (COPIER, copier)]
}

fn write(path: &Path) {
    write_threads(path, threads(), &["drive"]);
}

fn write_threads(path: &Path, threads: [(u32, Records); 2], command: &[&str]) {
    let mut writer = TraceWriter::create(path).unwrap();
    for (id, Records(records)) in threads {
        let head = BlockHead {
            stream: StreamKind::Thread,
            process: 1,
            id,
            sequence: 0,
            torn: 0,
            before: 0,
            lost: LostRange::default(),
        };
        writer.block(head, &records).unwrap();
    }
    let clock = Clock {
        source: "tsc".into(),
        even: true,
        start: (0, 1_000_000),
        end: (10_000_000, 11_000_000),
        spread: 0,
    };
    let functions = ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2"].map(str::to_owned).into();
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let metadata =
        Metadata { command, clock, functions, tier: Tier::Preload, ..Metadata::default() };
    writer.finish(&metadata).unwrap();
}

fn folder() -> Folder {
    let folder = Folder::new();
    write(&folder.trace());
    folder
}

fn report(folder: &Folder, options: &[&str]) -> Output {
    command(folder, options).output().expect("keeptime starts")
}

fn command(folder: &Folder, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.current_dir(&folder.0).env_remove("CLICOLOR_FORCE").arg("report");
    command.args(options);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const HEADLINE: &str = "worst launch: 2 ms (usual 4.03 us): 99.5 % waiting for mutex M1, held by \
    copy-3 (4711) inside cuMemcpyHtoDAsync (pageable, 1 to 16 MiB)";

#[test]
fn answer_is_the_first_thing_and_the_status_is_0() {
    let folder = folder();
    let output = report(&folder, &["t.kt"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = text(&output.stdout);
    let first = printed.split("\nIt was ").next().unwrap();
    assert_eq!(first.replace("\n  ", " "), HEADLINE);
    assert!(printed.contains("\nIt was cuLaunchKernel in infer (4712), 1.1 ms after the start.\n"));
    assert!(!printed.contains('\u{1b}'), "colours without a terminal");
    assert_eq!(text(&output.stderr), "");
    let forced = command(&folder, &["t.kt"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(text(&forced.stdout).contains("\u{1b}["), "{forced:?}");
}

#[test]
fn quiet_prints_one_sentence() {
    let folder = folder();
    let output = report(&folder, &["--quiet", "t.kt"]);
    assert_eq!(text(&output.stdout), format!("{HEADLINE}\n"));
}

#[test]
fn json_is_one_object() {
    let folder = folder();
    let output = report(&folder, &["--json", "--worst", "1", "t.kt"]);
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = testing::result::of(&output);
    assert_eq!(
        (json["schema"].as_str(), json["headline"].as_str()),
        (Some("keeptime.late"), Some(HEADLINE))
    );
    assert_eq!(json["worst"].as_array().unwrap().len(), 1);
}

#[test]
fn page_is_written_beside_the_answer() {
    let folder = folder();
    let output = report(&folder, &["--html", "page.html", "t.kt"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout), format!("{HEADLINE}\n"));
    assert_eq!(text(&output.stderr), "wrote page.html\n");
    let page = fs::read_to_string(folder.0.join("page.html")).unwrap();
    assert!(page.trim_end().ends_with("</html>") && page.contains("Worst launch: 2 ms"));
    let output = report(&folder, &["--html", "missing/page.html", "t.kt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("keeptime: --html missing/page.html: "), "{output:?}");
}

#[test]
fn calls_of_one_kind_can_be_asked_for() {
    let folder = folder();
    let copies = text(&report(&folder, &["--call", "copy", "t.kt"]).stdout);
    assert!(copies.contains("\nWorst copies\n") && !copies.contains("\nWorst launches\n"));
    assert!(copies.starts_with("no copy was late: "), "{copies}");
    assert!(copies.contains("--call all has 1 on other calls"), "{copies}");
    let function = text(&report(&folder, &["--call", "cuMemAlloc", "t.kt"]).stdout);
    assert!(function.contains("The trace has no whole call of cuMemAlloc."), "{function}");
    let output = report(&folder, &["--call", "copies", "t.kt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("expected launch, copy, sync, other, all"), "{output:?}");
    assert_eq!(report(&folder, &["--worst", "0", "t.kt"]).status.code(), Some(2));
}

/// The late launch waits for a mutex that the copy takes again and again.
fn unfair() -> [(u32, Records); 2] {
    let [(infer, launches), (copier, _)] = threads();
    let mut copies = Records::default();
    copies.put(1_000_000, Kind::Enter, 7, host_copy(4 << 20, false), 1);
    for turn in 0..5 {
        copies.lock(1_000_100 + turn * 418_000, Action::Acquired, 0);
        copies.lock(1_418_000 + turn * 418_000, Action::Released, 0);
    }
    copies.put(3_095_000, Kind::Exit, 0, 0, 0);
    [(infer, launches), (copier, copies)]
}

#[test]
fn command_of_the_answer_runs_the_recorded_program_under_a_guard() {
    let folder = Folder::new();
    let program = ["printf", "%s|", "two words", "it's", ""];
    write_threads(&folder.trace(), unfair(), &program);
    let json = report(&folder, &["--json", "t.kt"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let line = json["command_to_try"].as_str().unwrap_or_else(|| panic!("{json}"));
    let keeptime = Path::new(env!("CARGO_BIN_EXE_keeptime"));
    let paths = [keeptime.parent().unwrap().to_owned(), "/usr/bin".into(), "/bin".into()];
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("PATH", std::env::join_paths(paths).unwrap());
    shell.env("KEEPTIME_PRELOAD", support::preload_library()).env_remove("LD_PRELOAD");
    let output = shell.output().expect("a shell starts");
    assert_eq!(text(&output.stdout), "two words|it's||", "{line}: {output:?}");
    assert!(text(&output.stderr).contains("guard fair+inherit"), "{line}: {output:?}");
}

#[test]
fn trace_is_not_written_over() {
    let folder = folder();
    let before = fs::read(folder.trace()).unwrap();
    for option in ["--html", "--perfetto"] {
        let output = report(&folder, &[option, "./t.kt", "t.kt"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let expected =
            format!("keeptime: {option} t.kt: this is the trace; expected another file\n");
        assert_eq!(text(&output.stderr), expected);
        assert_eq!(fs::read(folder.trace()).unwrap(), before);
    }
}

#[test]
fn file_for_perfetto_is_written() {
    let folder = folder();
    let output = report(&folder, &["--perfetto", "t.pftrace", "t.kt"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout), format!("{HEADLINE}\n"));
    assert_eq!(text(&output.stderr), "wrote t.pftrace\n");
    let written = fs::read(folder.0.join("t.pftrace")).unwrap();
    let has = |name: &str| written.windows(name.len()).any(|part| part == name.as_bytes());
    assert!(has("cuLaunchKernel") && has("copy-3"), "{} bytes", written.len());
}

#[test]
fn file_that_cannot_be_read_ends_with_2_and_says_why() {
    let folder = folder();
    fs::write(folder.0.join("text.kt"), "This is not a trace, but long enough to be one.").unwrap();
    let whole = fs::read(folder.trace()).unwrap();
    fs::write(folder.0.join("cut.kt"), &whole[..whole.len() - 10]).unwrap();
    for (file, expected) in [
        ("missing.kt", "keeptime: missing.kt: cannot be read: No such file"),
        (
            "text.kt",
            "keeptime: text.kt: not a trace: begins with \"This is \", expected \"KEEPTIME\"",
        ),
        ("cut.kt", "keeptime: cut.kt: incomplete: "),
        (".", "keeptime: .: not a regular file"),
    ] {
        let output = report(&folder, &[file]);
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert_eq!(text(&output.stdout), "", "{file}");
        assert!(text(&output.stderr).starts_with(expected), "{output:?}");
    }
}

#[test]
fn conditions_that_hold_fail_a_pipeline() {
    let folder = folder();
    let fails = |conditions: &[&str], more: &[&str]| {
        let options = conditions.iter().flat_map(|condition| ["--fail-if", condition]);
        let options: Vec<&str> = ["-q", "t.kt"].into_iter().chain(options).collect();
        report(&folder, &[&options, more].concat())
    };
    // 21 launches: twenty of 4 us, one of 2 ms; one copy of 2.095 ms.
    for (condition, said) in [
        ("cuLaunchKernel.max > 2ms", None),
        ("cuLaunchKernel.max >= 2ms", Some("2 ms in 21 calls")),
        ("launch.p50 > 4us", Some("4.03 us in 21 calls")),
        ("launch.p90<1ms", Some("4.03 us in 21 calls")),
        ("copy.mean > 1ms", Some("2.1 ms in 1 call")),
        ("launch.count <= 20", None),
        ("sync.count < 1", Some("0")),
    ] {
        let output = fails(&[condition], &[]);
        let status = if said.is_some() { 1 } else { 0 };
        assert_eq!(output.status.code(), Some(status), "{condition}: {output:?}");
        let line = said
            .map_or("ok    ".to_owned() + condition, |said| format!("FAIL  {condition}: {said}"));
        assert!(text(&output.stdout).contains(&line), "{line}: {output:?}");
    }
    let output = fails(&["launch.max > 1ms", "launch.max > 1s"], &["--junit", "junit.xml"]);
    assert_eq!(output.status.code(), Some(1));
    let junit = fs::read_to_string(folder.0.join("junit.xml")).unwrap();
    assert!(junit.contains(r#"tests="2""#) && junit.contains(r#"failures="1""#), "{junit}");
    assert!(junit.contains("launch.max &gt; 1ms: 2 ms in 21 calls"), "{junit}");
}

#[test]
fn conditions_that_cannot_be_judged_are_errors_beside_the_report() {
    let folder = folder();
    let fails = |condition: &str| report(&folder, &["-q", "t.kt", "--fail-if", condition]);
    let output = fails("launch.p99 > 1ms");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(text(&output.stdout), format!("{HEADLINE}\n"), "the report is not lost");
    let error = "--fail-if launch.p99 > 1ms: found 21 such calls, expected at least 100";
    assert!(text(&output.stderr).contains(error), "{output:?}");
    for (condition, expected) in [
        ("launch.p99", "expected >, >=, < or <="),
        ("launch > 1ms", "expected CALLS.QUANTITY"),
        ("cuFooBar.p99 > 1ms", "found \"cuFooBar\""),
        ("launch.p98 > 1ms", "expected p50, p90, p99, p99.9, max, mean or count"),
        ("launch.p99 > 1", "expected a number with its unit"),
        ("launch.count > 1ms", "expected a number of calls"),
    ] {
        let output = fails(condition);
        assert_eq!(output.status.code(), Some(2), "{condition}: {output:?}");
        assert!(text(&output.stderr).contains(expected), "{condition}: {output:?}");
    }
}
