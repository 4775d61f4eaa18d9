//! Drives the real `keeptime run`: the program must not notice, and whoever waits neither.

mod support;

use record::{Action, Class, Kind, Record};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use support::Folder;
use trace::metadata::{ProgramEnd, Tier};
use trace::{Stream, StreamKind, Trace};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All records of a stream.
fn records(trace: &Trace, stream: &Stream) -> Vec<Record> {
    let (mut block_records, mut all) = (Vec::new(), Vec::new());
    for block in &stream.blocks {
        assert_eq!(trace.read(block, &mut block_records).unwrap(), 0, "unknown kinds");
        all.append(&mut block_records);
    }
    all
}

fn threads(trace: &Trace) -> impl Iterator<Item = &Stream> {
    trace.streams().iter().filter(|stream| stream.kind == StreamKind::Thread)
}

fn assert_nothing_is_left_but(folder: &Folder, names: &[&str]) {
    let mut found: Vec<String> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, names);
}

#[test]
fn exit_status_is_that_of_the_program() {
    let folder = Folder::new();
    for status in [0, 1, 7, 255] {
        let output = folder.run(&[], &["sh", "-c", &format!("exit {status}")]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(folder.open().metadata().outcome, ProgramEnd::Exited(status));
    }
}

#[test]
fn program_killed_by_a_signal_ends_keeptime_by_the_same_signal() {
    let folder = Folder::new();
    for signal in [libc_signal::TERM, libc_signal::KILL, libc_signal::SEGV, libc_signal::INT] {
        // Whoever starts the tests in the background may have them ignore some signals.
        let kill = format!("kill -{signal} $$");
        let output = folder.run(&[], &["env", "--default-signal", "sh", "-c", &kill]);
        assert_eq!(output.status.signal(), Some(signal), "{output:?}");
        assert!(!output.status.core_dumped());
        assert_eq!(folder.open().metadata().outcome, ProgramEnd::Killed(signal));
    }
}

/// Numbers of signals.
mod libc_signal {
    pub(crate) const INT: i32 = 2;
    pub(crate) const KILL: i32 = 9;
    pub(crate) const SEGV: i32 = 11;
    pub(crate) const TERM: i32 = 15;
}

#[test]
fn standard_streams_are_those_of_the_program() {
    let folder = Folder::new();
    let script = "cat; echo out; echo err >&2; printf 'no newline'";
    let mut child = folder
        .keeptime(&["--quiet"])
        .args(["sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"from stdin\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "from stdin\nout\nno newline");
    assert_eq!(text(&output.stderr), "err\n");
}

#[test]
fn one_line_on_stderr_tells_of_the_trace() {
    let folder = Folder::new();
    let output = folder.run(&["--tier", "preload"], &["echo", "out"]);
    assert_eq!(text(&output.stdout), "out\n");
    let line = text(&output.stderr);
    let records = folder.open().records();
    let path = folder.trace();
    let expected =
        format!("keeptime run: {}: {records} records, 0 lost, tier preload\n", path.display());
    assert_eq!(line, expected);
    assert_eq!(folder.open().metadata().tier, Tier::Preload);
}

#[test]
fn program_sees_the_same_descriptors_signals_and_limits_as_without() {
    let folder = Folder::new();
    let script = "ls /proc/self/fd | wc -l; grep -E '^Sig(Blk|Ign|Cgt|Pnd)' /proc/self/status; \
        ulimit -a; umask; nice; pwd; ps -o pgid=,sid= -p $$ 2>/dev/null | wc -w";
    let bare = Command::new("sh").args(["-c", script]).output().unwrap();
    let recorded = folder.run(&["--quiet"], &["sh", "-c", script]);
    assert!(bare.status.success(), "{bare:?}");
    assert_eq!(without_internal_signals(&recorded), without_internal_signals(&bare));
    assert_eq!(text(&recorded.stderr), text(&bare.stderr));
}

/// Returns the output, without signals 32 and 33 in the lines of signal masks: the C library keeps
/// them for itself, and resets them in every program with threads, such as `keeptime`.
fn without_internal_signals(output: &Output) -> String {
    let line = |line: &str| match line.split_once(":\t").filter(|(name, _)| name.starts_with("Sig"))
    {
        None => line.to_owned(),
        Some((name, mask)) => {
            let mask = u64::from_str_radix(mask, 16).expect("a mask");
            format!("{name} {:x}", mask & !(3 << 31))
        }
    };
    text(&output.stdout).lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn signals_that_were_ignored_or_blocked_stay_so_for_the_program() {
    let folder = Folder::new();
    let env = || {
        let mut command = Command::new("env");
        command.args(["--default-signal", "--ignore-signal=INT,HUP,PIPE,CHLD"]);
        command.arg("--block-signal=USR1,CHLD");
        command
    };
    let ignored = |command: &mut Command| -> String {
        let output = command.args(["grep", "^Sig[BI]", "/proc/self/status"]).output().unwrap();
        without_internal_signals(&output)
    };
    let keeptime = folder.keeptime(&["--quiet"]);
    let (mut bare, mut recorded) = (env(), env());
    recorded.arg(keeptime.get_program()).args(keeptime.get_args());
    recorded.env("KEEPTIME_PRELOAD", support::preload_library());
    let bare = ignored(&mut bare);
    let expected = "SigBlk 10200\nSigIgn 11003";
    assert_eq!(bare, expected, "CHLD, PIPE, USR1, INT and HUP are bits 16, 12, 9, 1 and 0");
    assert_eq!(ignored(&mut recorded), bare);
    assert_eq!(folder.open().metadata().outcome, ProgramEnd::Exited(0));
}

#[test]
fn trace_without_a_name_gets_the_programs_and_the_next_command_is_said() {
    let folder = Folder::new();
    let program = folder.compile(
        "#include <pthread.h>\nint main(void) { pthread_mutex_t m = \
        PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&m); pthread_mutex_unlock(&m); return 3; }",
    );
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
        command.env("KEEPTIME_PRELOAD", support::preload_library()).current_dir(&folder.0);
        command.args(["run", "--all-locks", "--tier", "preload", "--", &program]).output().unwrap()
    };
    for name in ["program.kt", "program-2.kt"] {
        let output = run();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(Trace::open(&folder.0.join(name)).unwrap().records() > 0);
        let next = format!("keeptime report {name}\n");
        assert!(text(&output.stderr).ends_with(&next), "{output:?}");
    }
}

#[test]
fn program_that_is_not_there_is_named_and_leaves_no_trace() {
    let folder = Folder::new();
    let output = folder.run(&[], &["/no/such/program", "argument"]);
    assert_eq!(output.status.code(), Some(2));
    let line = text(&output.stderr);
    assert!(line.starts_with("keeptime: cannot run /no/such/program: No such file"), "{line}");
    assert_eq!(line.matches("No such file").count(), 1, "{line}");
    assert_nothing_is_left_but(&folder, &[]);
    let output = folder.run(&[], &["/"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("keeptime: cannot run /: Permission"), "{output:?}");
}

#[test]
fn nothing_is_run_when_the_trace_cannot_be_written() {
    let folder = Folder::new();
    let ran = folder.0.join("ran");
    for path in ["absent/t.kt", ".", "/dev/null"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
        command.env("KEEPTIME_PRELOAD", support::preload_library());
        command.arg("run").arg("--record").arg(folder.0.join(path)).arg("--").arg("touch");
        let output = command.arg(&ran).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{path}: {output:?}");
        let line = text(&output.stderr);
        let reasons = ["cannot be written: No such file", "not a regular file"];
        assert!(reasons.iter().any(|reason| line.contains(reason)), "{line}");
        assert!(!ran.exists(), "{path}");
    }
    assert_nothing_is_left_but(&folder, &[]);
}

#[test]
fn missing_library_is_an_error_that_says_where_it_was_looked_for() {
    let folder = Folder::new();
    let copy = folder.0.join("keeptime");
    // By another process: what this one has open for writing is also open in processes that other
    // tests have just forked, and cannot be executed meanwhile.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_keeptime")).arg(&copy).status();
    assert!(copied.unwrap().success());
    let run = |variable: Option<&str>| {
        let mut command = Command::new(&copy);
        command.env_remove("KEEPTIME_PRELOAD").args(["run", "--record"]).arg(folder.trace());
        command.args(["--", "true"]);
        if let Some(value) = variable {
            command.env("KEEPTIME_PRELOAD", value);
        }
        command.output().unwrap()
    };
    let output = run(None);
    assert_eq!(output.status.code(), Some(2));
    let line = text(&output.stderr);
    let beside = folder.0.join("libkeeptime_preload.so");
    for place in [beside.to_str().unwrap(), "/../lib/keeptime/", "KEEPTIME_PRELOAD"] {
        assert!(line.contains(place), "{place} in {line}");
    }
    let output = run(Some("/absent.so"));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("KEEPTIME_PRELOAD: /absent.so is not a file"));

    fs::copy(support::preload_library(), &beside).unwrap();
    assert_eq!(run(None).status.code(), Some(0), "now it is beside the program");
    assert_eq!(folder.open().metadata().processes.len(), 1);
}

#[test]
fn wrong_options_are_refused() {
    let folder = Folder::new();
    for options in [
        &["--memory", "12 parsecs"][..],
        &["--memory", "999999GiB"],
        &["--memory", "1KiB"],
        &["--keep", "all"],
        &["--tier", "best"],
        &["--locks-from", ""],
        &["--all-locks", "--locks-from", "libc.so"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
        command.env("KEEPTIME_PRELOAD", support::preload_library());
        command.args(["run", "--record"]).arg(folder.trace()).args(options);
        let output = command.args(["--", "echo", "ran"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{options:?}");
    }
    assert_nothing_is_left_but(&folder, &[]);
}

#[test]
fn children_are_recorded_too() {
    let folder = Folder::new();
    let output = folder.run(&[], &["sh", "-c", "ls / >/dev/null; (cat </dev/null); exec uname"]);
    assert!(output.status.success(), "{output:?}");
    let trace = folder.open();
    let processes = &trace.metadata().processes;
    for program in ["sh", "ls", "cat", "uname"] {
        let path = fs::canonicalize(which(program)).unwrap();
        let found = processes.iter().any(|process| process.program == path.to_str().unwrap());
        assert!(found, "{program} is not among {processes:?}");
    }
    let numbers: Vec<u32> = processes.iter().map(|process| process.number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let shell = processes[0].pid;
    assert!(processes[1..].iter().any(|process| process.parent == shell), "{processes:?}");
    assert_eq!(trace.metadata().command[..2], ["sh", "-c"]);
}

fn which(program: &str) -> String {
    let output = Command::new("sh").args(["-c", "command -v \"$0\"", program]).output().unwrap();
    text(&output.stdout).trim_end().to_owned()
}

#[test]
fn sigterm_is_passed_on_and_the_trace_is_written() {
    let folder = Folder::new();
    let script = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = folder
        .keeptime(&[])
        .args(["sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    send(child.id(), rustix::process::Signal::TERM);
    assert_eq!(lines.next().unwrap().unwrap(), "told");
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(folder.open().metadata().outcome, ProgramEnd::Exited(3));
}

fn send(process: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Locks a mutex many times, and sleeps where it is told to.
const LOCKS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *lock(void *times) {
    for (long i = 0; i < (long)times; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

/* THREADS one after the other, LOCKS each, MICROSECONDS between. */
int main(int count, char **words) {
    if (count != 4) return 1;
    for (int i = 0; i < atoi(words[1]); i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, lock, (void *)atol(words[2]))) return 2;
        if (pthread_join(thread, NULL)) return 3;
        usleep(atoi(words[3]));
    }
    return 0;
}
"#;

/// Acquisitions of mutexes in a stream.
fn acquisitions(trace: &Trace, stream: &Stream) -> usize {
    let acquired = Kind::Lock(Class::Mutex, Action::Acquired);
    records(trace, stream).iter().filter(|record| record.kind == acquired).count()
}

/// The stream of the only thread that is not the main one.
fn worker(trace: &Trace) -> &Stream {
    let main = trace.metadata().processes[0].pid;
    let mut workers = threads(trace).filter(|stream| stream.id != main);
    let worker = workers.next().expect("a worker");
    assert!(workers.next().is_none());
    worker
}

fn succeed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    text(&output.stderr)
}

#[test]
fn every_lock_of_a_thread_is_recorded_in_order() {
    let folder = Folder::new();
    let program = folder.compile(LOCKS);
    succeed(&folder.run(&["--all-locks"], &[&program, "1", "10000", "0"]));
    let trace = folder.open();
    let worker = worker(&trace);
    let records = records(&trace, worker);
    assert_eq!(records[0].kind, Kind::Thread);
    assert!(records.is_sorted_by_key(|record| record.time));
    assert!(acquisitions(&trace, worker) >= 10_000);
    assert!(worker.unknown().is_empty());
    let (from, to) = (trace.start(), trace.end());
    assert!(records.iter().all(|record| (from..=to).contains(&record.time)));
}

#[test]
fn locks_of_other_libraries_are_not_recorded() {
    let folder = Folder::new();
    let program = folder.compile(LOCKS);
    succeed(&folder.run(&[], &[&program, "1", "1000", "0"]));
    let trace = folder.open();
    assert_eq!(threads(&trace).map(|stream| acquisitions(&trace, stream)).sum::<usize>(), 0);
    succeed(&folder.run(&["--locks-from", "program"], &[&program, "1", "1000", "0"]));
    let trace = folder.open();
    assert_eq!(acquisitions(&trace, worker(&trace)), 1_000);
    assert_eq!(trace.metadata().settings.libraries, ["program"]);
}

#[test]
fn full_memory_keeps_the_first_records_and_counts_the_others() {
    let folder = Folder::new();
    let program = folder.compile(LOCKS);
    let options = ["--all-locks", "--memory", "256KiB", "--tier", "preload"];
    let line = succeed(&folder.run(&options, &[&program, "1", "100000", "0"]));
    let trace = folder.open();
    let lost: u64 = threads(&trace).flat_map(|s| &s.blocks).map(|block| block.lost.count).sum();
    assert!(lost >= 100_000, "{lost} lost");
    assert!(line.contains(&format!("{} records, {lost} lost", trace.records())), "{line}");
    assert_eq!(records(&trace, worker(&trace))[0].kind, Kind::Thread, "the first is there");
    assert_eq!(worker(&trace).unknown().len(), 1);
}

#[test]
fn full_memory_keeps_the_last_records_if_asked_to() {
    let folder = Folder::new();
    let program = folder.compile(LOCKS);
    let options = ["--all-locks", "--memory", "256KiB", "--keep", "last", "--tier", "preload"];
    let line = succeed(&folder.run(&options, &[&program, "1", "100000", "0"]));
    let trace = folder.open();
    let worker = worker(&trace);
    assert!(line.contains(" overwritten"), "{line}");
    assert!(worker.blocks[0].missing_before >= 100_000);
    let kept = records(&trace, worker);
    assert!(kept.len() > 3 * 2_000 && kept.iter().all(|record| record.kind != Kind::Thread));
    let [unknown] = worker.unknown()[..] else { panic!("{:?}", worker.unknown()) };
    assert_eq!(unknown, (trace.start(), kept[0].time));
}

#[test]
fn memory_of_dead_threads_is_given_again() {
    let folder = Folder::new();
    let program = folder.compile(LOCKS);
    let options = ["--all-locks", "--memory", "512KiB", "--keep", "last", "--tier", "preload"];
    // Eight chunks, which eight of the threads take in the first eighth of the time.
    succeed(&folder.run(&options, &[&program, "64", "10", "20000"]));
    let trace = folder.open();
    let main = trace.metadata().processes[0].pid;
    let workers = threads(&trace).filter(|stream| stream.id != main);
    let latest = workers.flat_map(|stream| &stream.blocks).map(|block| block.last).max().unwrap();
    let middle = trace.start() + (trace.end() - trace.start()) / 2;
    assert!(latest > middle, "nothing after {latest}, half of the time was {middle}");
}

#[test]
fn program_that_kills_itself_leaves_a_whole_trace() {
    let folder = Folder::new();
    let source = LOCKS.replace("return 0;\n}", "abort();\n}");
    let program = folder.compile(&source);
    let output = folder.run(&["--all-locks"], &[&program, "1", "3000", "0"]);
    assert_eq!(output.status.signal(), Some(6), "{output:?}");
    let trace = folder.open();
    assert!(acquisitions(&trace, worker(&trace)) >= 3_000);
}

#[test]
fn program_that_does_not_load_the_library_is_told() {
    let folder = Folder::new();
    let (file, program) = (folder.0.join("s.c"), folder.0.join("static"));
    fs::write(&file, "int main(void) { return 5; }").unwrap();
    let mut cc = Command::new("cc");
    if !cc.args(["-static", "-o"]).arg(&program).arg(&file).status().unwrap().success() {
        eprintln!("SKIP: there is no static C library here");
        return;
    }
    let output = folder.run(&["--tier", "preload"], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("did not load the library"), "{output:?}");
    assert_eq!(folder.open().records(), 0);
}

#[test]
fn closed_standard_descriptors_stay_closed_for_the_program() {
    let folder = Folder::new();
    let program = folder.compile(
        r#"
        #include <fcntl.h>
        #include <unistd.h>
        int main(void) {
            int open = 0;
            for (int fd = 0; fd < 3; fd++) open |= (fcntl(fd, F_GETFD) != -1) << fd;
            return open;
        }
        "#,
    );
    for (closed, open) in [("<&-", 6), (">&-", 5), ("2>&-", 3), ("<&- >&- 2>&-", 0), ("", 7)] {
        let keeptime = folder.keeptime(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" {closed}"), "sh"]).arg(keeptime.get_program());
        shell.args(keeptime.get_args()).arg(&program);
        let status = shell.env("KEEPTIME_PRELOAD", support::preload_library()).status().unwrap();
        assert_eq!(status.code(), Some(open), "{closed}");
        assert_eq!(folder.open().metadata().processes.len(), 1);
    }
}

#[test]
fn limit_on_files_is_the_programs_and_ends_nothing() {
    let folder = Folder::new();
    let run = |limit: &str, script: &str| {
        let keeptime = folder.keeptime(&["--tier", "preload"]);
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh"]);
        shell.arg(keeptime.get_program()).args(keeptime.get_args()).args(["bash", "-c", script]);
        shell.env("KEEPTIME_PRELOAD", support::preload_library()).output().unwrap()
    };
    // In KiB: below the recording's 4 MiB.
    let output = run("-S -f 64", "ulimit -S -f; exit 3");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "64\n".to_owned()));
    assert_eq!(folder.open().metadata().processes.len(), 1);
    let output = run("-f 3072", "ulimit -H -f; exit 4");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(4), "3072\n".to_owned()));
    let trace = folder.open();
    assert_eq!(trace.metadata().processes.len(), 1);
    let troubles = &trace.metadata().troubles;
    assert!(troubles.iter().any(|note| note.trouble.contains("ulimit -H -f")), "{troubles:?}");
    let output = run("-f 64", "exit 0");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("at most 65536 bytes (ulimit -H -f)"), "{output:?}");
}

/// Two threads that take two mutexes in different orders; ends by a signal once both wait.
const DEADLOCK: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t both_have_one;
static int waiting[2]; /* the thread that is about to */

static void *cross(void *argument) {
    int own = argument != NULL;
    pthread_mutex_lock(&mutexes[own]);
    pthread_barrier_wait(&both_have_one);
    __atomic_store_n(&waiting[own], syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&mutexes[!own]);
    return NULL;
}

static int sleeps(int which) {
    char name[64], text[16] = "";
    int thread = __atomic_load_n(&waiting[which], __ATOMIC_SEQ_CST);
    if (thread == 0) return 0;
    snprintf(name, sizeof name, "/proc/self/task/%d/syscall", thread);
    FILE *file = fopen(name, "r");
    int read = file && fgets(text, sizeof text, file);
    if (file) fclose(file);
    return read && strncmp(text, "202 ", 4) == 0; /* futex */
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&both_have_one, NULL, 2);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, cross, (void *)i);
    while (!sleeps(0) || !sleeps(1)) sched_yield();
    raise(SIGTERM);
    return 0;
}
"#;

#[test]
fn report_opens_with_a_deadlock_that_ended_the_program() {
    let folder = Folder::new();
    let program = folder.compile(DEADLOCK);
    let output = folder.run(&["--all-locks"], &[&program]);
    assert_eq!(output.status.signal(), Some(15), "{output:?}");
    let mut report = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    let report = report.arg("report").arg(folder.trace()).output().unwrap();
    let said = String::from_utf8_lossy(&report.stdout);
    let first = said.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(first.starts_with("deadlock: program ("), "{said}");
    for of in [" waits for mutex M1, which program (", " waits for mutex M2, which program ("] {
        assert!(first.contains(of), "{said}");
    }
}

#[test]
fn option_without_a_unit_is_refused_with_the_units_it_may_have_been_meant_in() {
    for (options, expected) in [
        (&["run", "--memory", "64", "--", "true"][..], "64KiB or 64MiB"),
        (&["regulate", "--duration", "10"], "10us or 10ms"),
        (&["regulate", "--period", "500"], "500us or 500ms"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_keeptime")).args(options).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        let expected = format!("expected a number with its unit: {expected}");
        assert!(said.contains(&expected), "{options:?}: {said}");
    }
}
