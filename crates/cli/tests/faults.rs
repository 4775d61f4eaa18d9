//! A fault while a program is recorded must not change how the program ends, and the records so far
//! are kept as far as they can be.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use support::Folder;
use trace::Trace;
use trace::metadata::ProgramEnd;

/// Locks a mutex 100,000 times: 200,000 records, 6.4 MB.
const LOCKS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int main(int count, char **words) {
    for (int i = 0; i < 100000; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    puts("locked");
    fflush(stdout);
    char byte;
    if (count > 1) read(0, &byte, 1);
    return 7;
}
"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lost(trace: &Trace) -> u64 {
    let blocks = trace.streams().iter().flat_map(|stream| &stream.blocks);
    blocks.map(|block| block.lost.count).sum::<u64>() + trace.metadata().lost_without_chunk.count
}

#[test]
fn full_disk_keeps_what_fits_and_the_status_is_the_programs() {
    let folder = Folder::new();
    let program = folder.compile(LOCKS);
    let disk = folder.0.join("disk");
    fs::create_dir(&disk).unwrap();
    let keeptime = folder.keeptime(&["--all-locks", "--tier", "preload", "--memory", "16MiB"]);
    // The disk goes with the namespace, so that the trace is copied out of it.
    let script = "mount -t tmpfs -o size=2m none \"$0\" && { \"$@\"; status=$?; \
        cp \"$0\"/t.kt \"$0\"-t.kt; ls \"$0\"; exit $status; }";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(&disk);
    command.arg(keeptime.get_program()).args(["run", "--record"]).arg(disk.join("t.kt"));
    let options = keeptime.get_args().skip(3);
    let output = command
        .args(options)
        .arg(&program)
        .env("KEEPTIME_PRELOAD", support::preload_library())
        .output()
        .unwrap();
    if text(&output.stderr).contains("unshare:") || text(&output.stderr).contains("mount:") {
        eprintln!("SKIP: no private file systems here: {}", text(&output.stderr));
        return;
    }
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(text(&output.stdout), "locked\nt.kt\n");
    assert!(text(&output.stderr).contains("No space left on device"), "{output:?}");
    let trace = Trace::open(&folder.0.join("disk-t.kt")).unwrap();
    assert!(trace.records() > 30_000, "{}", trace.records());
    assert!(trace.records() + lost(&trace) >= 200_000, "{}", lost(&trace));
    let troubles = &trace.metadata().troubles;
    assert!(troubles.iter().any(|note| note.trouble.contains("No space left")), "{troubles:?}");
    assert_eq!(trace.metadata().outcome, ProgramEnd::Exited(7));
}

#[test]
fn limit_on_files_keeps_what_fits() {
    let folder = Folder::new();
    let program = folder.compile(LOCKS);
    let keeptime = folder.keeptime(&["--all-locks", "--tier", "preload", "--memory", "16MiB"]);
    let mut shell = Command::new("bash");
    // In KiB: the recording's memory is below it, too, and the trace needs some room beside that.
    shell.args(["-c", "ulimit -f 4096; exec \"$@\"", "sh"]).arg(keeptime.get_program());
    shell.args(keeptime.get_args()).arg(&program);
    let output = shell.env("KEEPTIME_PRELOAD", support::preload_library()).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(text(&output.stdout), "locked\n");
    assert!(folder.open().records() > 30_000, "{output:?}");
}

/// A recorded program that waits before it ends.
fn waiting(folder: &Folder, trace: &Path) -> std::process::Child {
    let program = folder.compile(LOCKS);
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.env("KEEPTIME_PRELOAD", support::preload_library()).args(["run", "--record"]);
    command.arg(trace).args(["--all-locks", "--tier", "preload", "--memory", "16MiB", "--"]);
    command.args([&program, "wait"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");
    child
}

#[test]
fn trace_whose_folder_has_gone_is_kept_elsewhere() {
    let folder = Folder::new();
    let gone = folder.0.join("gone");
    fs::create_dir(&gone).unwrap();
    let child = waiting(&folder, &gone.join("t.kt"));
    fs::remove_dir_all(&gone).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = text(&output.stderr);
    let elsewhere = said.split("; ").nth(1).and_then(|rest| rest.split(" has what").next());
    let elsewhere = Path::new(elsewhere.unwrap_or_else(|| panic!("{said}")));
    assert!(said.contains("/gone/t.kt: No such file"), "{said}");
    let trace = Trace::open(elsewhere).unwrap();
    fs::remove_file(elsewhere).unwrap();
    assert!(trace.records() >= 200_000);
}

#[test]
fn killed_recorder_leaves_the_program_alone_and_its_trace_behind() {
    let folder = Folder::new();
    let mut child = waiting(&folder, &folder.trace());
    let mut input = child.stdin.take().unwrap();
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert!(!folder.trace().exists(), "the program goes on");
    input.write_all(b"\n").unwrap();
    // The program and who writes the trace have the standard streams; the file comes last.
    let mut rest = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut rest).unwrap();
    wait_for(&folder.trace());
    let trace = folder.open();
    assert!(trace.records() >= 200_000);
    let metadata = trace.metadata();
    assert_eq!(metadata.outcome, ProgramEnd::Unknown);
    assert!(metadata.tier_reasons.iter().any(|reason| reason.contains("was killed")));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 3, "source, program and trace");
}

/// Waits until a file has its name.
fn wait_for(file: &Path) {
    use rustix::fs::inotify;
    let flags = inotify::CreateFlags::CLOEXEC;
    let watch = inotify::init(flags).unwrap();
    let events = inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, file.parent().unwrap(), events).unwrap();
    while !file.exists() {
        rustix::io::read(&watch, &mut [0u8; 4096]).unwrap();
    }
}

#[test]
fn closed_and_full_error_streams_change_nothing() {
    let folder = Folder::new();
    for redirection in ["2>&-", "2>/dev/full"] {
        let keeptime = folder.keeptime(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" {redirection}"), "sh"]);
        shell.arg(keeptime.get_program()).args(keeptime.get_args()).args(["sh", "-c", "exit 9"]);
        let status = shell.env("KEEPTIME_PRELOAD", support::preload_library()).status().unwrap();
        assert_eq!(status.code(), Some(9), "{redirection}");
    }
}
