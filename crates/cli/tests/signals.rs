//! `keeptime run` stands between a program and whoever sends it signals: neither may notice.

mod support;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Stdio};
use support::Folder;
use trace::metadata::ProgramEnd;

/// Blocks all signals and says which ones it gets, until SIGTERM.
const LISTENER: &str = r#"
#include <signal.h>
#include <stdio.h>

int main(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setlinebuf(stdout);
    puts("ready");
    for (;;) {
        siginfo_t info;
        int signal = sigwaitinfo(&all, &info);
        if (signal < 0) continue; /* interrupted by a stop */
        if (signal == SIGTERM) return 5;
        if (info.si_code == SI_QUEUE)
            printf("%d %d %d\n", signal, info.si_pid, info.si_value.sival_int);
        else
            printf("%d\n", signal);
    }
}
"#;

/// A process group of its own, as a shell makes one for each job.
struct Job {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Job {
    fn start(command: &mut Command) -> Job {
        command.stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut job = Job { child, lines };
        assert_eq!(job.line(), "ready");
        job
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").unwrap()
    }

    fn send(&self, signal: i32) {
        send(self.pid(), signal);
    }
}

/// Any signal, also those without a name.
fn send(process: Pid, signal: i32) {
    let pid = process.as_raw_nonzero().to_string();
    let status = Command::new("kill").args(["-s", &signal.to_string(), &pid]).status();
    assert!(status.unwrap().success());
}

/// All that can be caught, but those that the C library keeps for itself.
fn catchable() -> impl Iterator<Item = i32> {
    (1..=64).filter(|signal| ![9, 15, 19, 32, 33].contains(signal))
}

#[test]
fn every_signal_reaches_the_program_once() {
    let folder = Folder::new();
    let program = folder.compile(LISTENER);
    let trace = folder.trace();
    for mode in [&["--record", trace.to_str().unwrap()][..], &["--guard", "fair", "--guard-all"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
        command.env("KEEPTIME_PRELOAD", support::preload_library());
        let mut job = Job::start(command.arg("run").args(mode).args(["--", &program]));
        for signal in catchable() {
            job.send(signal);
            assert_eq!(job.line(), signal.to_string(), "{mode:?}");
        }
        job.send(15);
        assert_eq!(job.child.wait().unwrap().code(), Some(5));
    }
    assert_eq!(folder.open().metadata().outcome, ProgramEnd::Exited(5));
}

/// Session and group have the number 0, as in a container that was entered from outside.
#[test]
fn hangup_reaches_a_program_whose_session_cannot_be_seen() {
    let folder = Folder::new();
    let keeptime = folder.keeptime(&["-q"]);
    let script = "mkfifo $0; \"$@\" > $0 & exec 3< $0; read -r line <&3; \
        kill -HUP $!; read -r line <&3; kill $!; wait $!; echo $line $?";
    let mut namespace = Command::new("unshare");
    namespace.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]);
    namespace.arg(folder.0.join("pipe")).arg(keeptime.get_program()).args(keeptime.get_args());
    namespace.env("KEEPTIME_PRELOAD", support::preload_library());
    let output = namespace.arg(folder.compile(LISTENER)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 5\n", "{output:?}");
}

#[test]
fn queued_signal_keeps_its_value_and_its_sender() {
    let folder = Folder::new();
    let mut job = Job::start(folder.keeptime(&[]).arg(folder.compile(LISTENER)));
    for signal in [10, 40] {
        let pid = job.pid().as_raw_nonzero().to_string();
        // procps's, since a shell's own does not know how to.
        let mut kill = Command::new("/bin/kill");
        let mut kill = kill.args(["-q", "1234", "-s", &signal.to_string(), &pid]).spawn().unwrap();
        let sender = kill.id();
        assert!(kill.wait().unwrap().success());
        assert_eq!(job.line(), format!("{signal} {sender} 1234"));
    }
    job.send(15);
    assert_eq!(job.child.wait().unwrap().code(), Some(5));
}

#[test]
fn signal_to_the_whole_group_reaches_the_program_once() {
    let folder = Folder::new();
    let mut job = Job::start(folder.keeptime(&[]).arg(folder.compile(LISTENER)));
    for signal in [Signal::INT, Signal::HUP, Signal::USR2, Signal::CONT, Signal::WINCH] {
        kill_process_group(job.pid(), signal).unwrap();
        assert_eq!(job.line(), signal.as_raw().to_string());
        // A signal that was passed on, too, would come before the one that is sent now.
        job.send(10);
        assert_eq!(job.line(), "10", "{signal:?} came twice");
    }
    job.send(15);
    assert_eq!(job.child.wait().unwrap().code(), Some(5));
}

/// The signal by which a job has stopped.
fn stopped_by(pid: Pid) -> Option<i32> {
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    status.stopping_signal()
}

#[test]
fn job_stops_and_goes_on_with_its_program() {
    let folder = Folder::new();
    let script = "echo ready; while read line; do echo \"$line\"; kill -s \"$line\" $$; done";
    let mut command = folder.keeptime(&[]);
    command.args(["env", "--default-signal", "sh", "-c", script]).stdin(Stdio::piped());
    let mut job = Job::start(&mut command);
    let mut input = job.child.stdin.take().unwrap();
    for (name, signal) in [("TSTP", 20), ("STOP", 19), ("TTIN", 21), ("TTOU", 22)] {
        writeln!(input, "{name}").unwrap();
        assert_eq!(job.line(), name);
        assert_eq!(stopped_by(job.pid()), Some(signal));
        job.send(18);
    }
    // To keeptime alone, and then to all.
    job.send(20);
    assert_eq!(stopped_by(job.pid()), Some(20));
    kill_process_group(job.pid(), Signal::CONT).unwrap();
    drop(input);
    assert_eq!(job.child.wait().unwrap().code(), Some(0));
    assert_eq!(folder.open().metadata().outcome, ProgramEnd::Exited(0));
}

#[test]
fn job_that_was_stopped_as_a_group_tells_groups_apart_afterwards() {
    let folder = Folder::new();
    let mut job = Job::start(folder.keeptime(&[]).arg(folder.compile(LISTENER)));
    kill_process_group(job.pid(), Signal::STOP).unwrap();
    assert_eq!(stopped_by(job.pid()), Some(19));
    // Only keeptime goes on; the program, when it is told.
    job.send(18);
    assert_eq!(job.line(), "18");
    kill_process_group(job.pid(), Signal::INT).unwrap();
    assert_eq!(job.line(), "2");
    job.send(15);
    assert_eq!(job.child.wait().unwrap().code(), Some(5));
}

#[test]
fn unhandled_signal_ends_both_and_leaves_a_trace() {
    let folder = Folder::new();
    for signal in [1, 2, 3, 6, 10, 11, 14, 15, 34, 40, 64] {
        let program = ["env", "--default-signal", "sh", "-c", "echo ready; read line"];
        let mut command = folder.keeptime(&[]);
        command.args(program).stdin(Stdio::piped());
        let mut job = Job::start(&mut command);
        let input = job.child.stdin.take();
        job.send(signal);
        let status = job.child.wait().unwrap();
        assert_eq!((status.signal(), status.core_dumped()), (Some(signal), false));
        assert_eq!(folder.open().metadata().outcome, ProgramEnd::Killed(signal));
        fs::remove_file(folder.trace()).unwrap();
        drop(input);
    }
}

#[test]
fn program_that_signals_its_parent_reaches_it() {
    let folder = Folder::new();
    let keeptime = folder.keeptime(&["-q"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap 'echo told' USR1; \"$@\"", "sh"]).arg(keeptime.get_program());
    shell.args(keeptime.get_args()).args(["sh", "-c", "kill -USR1 $PPID; exit 0"]);
    shell.env("KEEPTIME_PRELOAD", support::preload_library());
    let output = shell.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "told\n", "{output:?}");
}

#[test]
fn timer_that_began_before_ends_the_program() {
    let folder = Folder::new();
    let keeptime = folder.keeptime(&["-q"]);
    let mut words = vec![keeptime.get_program().to_str().unwrap().to_owned()];
    words.extend(keeptime.get_args().map(|word| word.to_str().unwrap().to_owned()));
    let script = "import os, signal, sys\n\
        signal.setitimer(signal.ITIMER_REAL, 1.5)\n\
        os.execv(sys.argv[1], sys.argv[1:])";
    let mut python = Command::new("python3");
    python.args(["-c", script]).args(words).args(["sh", "-c", "read line"]);
    python.env("KEEPTIME_PRELOAD", support::preload_library()).stdin(Stdio::piped());
    let mut child = python.spawn().unwrap();
    let input = child.stdin.take();
    assert_eq!(child.wait().unwrap().signal(), Some(14));
    assert_eq!(folder.open().metadata().outcome, ProgramEnd::Killed(14));
    drop(input);
}

/// Runs keeptime as the leader of a session on a terminal of its own.
fn on_terminal(folder: &Folder, script: &str, program: &[&str]) -> String {
    let keeptime = folder.keeptime(&["-q"]);
    let begin = "import os, pty, sys\n\
        pid, terminal = pty.fork()\n\
        if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
        lines = open(terminal, 'rb', buffering=0, closefd=False)\n\
        def line():\n\
        \x20   text = b''\n\
        \x20   while not text.endswith(b'\\n'): text += lines.read(1)\n\
        \x20   return text.decode().strip()\n\
        assert line() == 'ready'\n";
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{begin}{script}")]).arg(keeptime.get_program());
    python.args(keeptime.get_args()).args(program);
    python.env("KEEPTIME_PRELOAD", support::preload_library()).stdin(Stdio::null());
    let output = python.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_is_typed_at_the_terminal_reaches_the_program_once() {
    let folder = Folder::new();
    let program = folder.compile(LISTENER);
    let script = "os.system('stty -echo <&%d' % terminal)\n\
        for key in b'\\x03\\x1c\\x1a':\n\
        \x20   os.write(terminal, bytes([key]))\n\
        \x20   print(line())\n\
        \x20   os.kill(pid, 10)\n\
        \x20   print(line())\n\
        os.kill(pid, 15)\n\
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";
    let told = on_terminal(&folder, script, &[&program]);
    assert_eq!(
        told.split_whitespace().collect::<Vec<_>>(),
        ["2", "10", "3", "10", "20", "10", "5"]
    );
}

#[test]
fn terminal_that_hangs_up_ends_the_program() {
    let folder = Folder::new();
    let script = "lines.close()\n\
        os.close(terminal)\n\
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";
    let program = ["env", "--default-signal", "sh", "-c", "echo ready; exec sleep 1000"];
    assert_eq!(on_terminal(&folder, script, &program), "-1\n");
    assert_eq!(folder.open().metadata().outcome, ProgramEnd::Killed(1));
}

#[test]
fn nothing_of_keeptime_stays_behind() {
    let folder = Folder::new();
    // The reader of the output waits for its end, of all processes that have it.
    let output = folder.keeptime(&["-q"]).args(["echo", "out"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
}
