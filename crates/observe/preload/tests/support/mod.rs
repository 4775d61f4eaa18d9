//! Runs programs bare and under the preload library, and reads what was recorded.
//!
//! The recorder here is the smallest that there can be: the memory, a thread that lets processes
//! in, and nothing that looks at the program from outside.
#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod build;
pub(crate) mod trace;

#[allow(unused_imports, reason = "every test file uses its own part")]
pub(crate) use build::{
    Folder, can_compile, compile, library, program, program_with, shared_folder,
};
pub(crate) use trace::Trace;

use record::attach::{Invitation, VARIABLE};
use record::door::RecorderSocket;
use record::guard::{Guard, Mutexes};
use record::{Recording, Settings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};

/// A program that takes longer than this hangs, and one that is known to take long.
const HANG_S: i64 = 240;
const LONG_HANG_S: i64 = 3600;

/// Settings and size of a recording, with a name.
#[derive(Clone, Debug)]
pub(crate) struct Mode {
    pub name: &'static str,
    pub settings: Settings,
    pub bytes: u64,
}

const MEMORY_BYTES: u64 = 32 << 20;

fn mode(name: &'static str, contended_only: bool, all_locks: bool, libraries: &[&str]) -> Mode {
    let libraries = libraries.iter().map(|name| (*name).to_owned()).collect();
    let settings = Settings { contended_only, all_locks, libraries, ..Settings::default() };
    Mode { name, settings, bytes: MEMORY_BYTES }
}

impl Mode {
    /// Every lock from anywhere.
    pub(crate) fn full() -> Mode {
        mode("full", false, true, &[])
    }

    /// Locks from anywhere that were waited for.
    pub(crate) fn contended() -> Mode {
        mode("contended", true, true, &[])
    }

    /// Returns the mode for when nothing else is asked for: the locks of the CUDA libraries.
    pub(crate) fn default_filter() -> Mode {
        mode("default", false, false, &["libcuda.so", "libcudart.so"])
    }

    /// Every lock that is taken by a library, or a program, whose file name begins like this.
    pub(crate) fn only(file: &str) -> Mode {
        mode("only", false, false, &[file])
    }

    /// The same, when it had to be waited for.
    pub(crate) fn only_contended(file: &str) -> Mode {
        mode("only, contended", true, false, &[file])
    }

    /// All three that a user chooses from.
    pub(crate) fn all() -> [Mode; 3] {
        [Mode::full(), Mode::contended(), Mode::default_filter()]
    }

    /// Ways to guard every lock, recorded or not.
    pub(crate) fn guarded() -> [Mode; 4] {
        let of = |name, mutexes, nothing| {
            let bound_ns = 200_000;
            let guard =
                Guard { mutexes, phase_fair: true, bound_ns, everywhere: true, ..Guard::default() };
            let mut mode = Mode { name, ..Mode::full() };
            mode.settings.guard = Some(guard);
            mode.settings.nothing = nothing;
            mode
        };
        [
            of("inherit", Mutexes::Inherit, true),
            of("fair", Mutexes::Fair, true),
            of("fair+inherit", Mutexes::FairInherit, true),
            of("fair+inherit, recorded", Mutexes::FairInherit, false),
        ]
    }

    /// The same, where holders of read-write locks are boosted.
    pub(crate) fn boosted(mut self) -> Mode {
        if let Some(guard) = &mut self.settings.guard {
            guard.boost = true;
        }
        self
    }

    pub(crate) fn bytes(self, bytes: u64) -> Mode {
        Mode { bytes, ..self }
    }

    pub(crate) fn keep_last(mut self) -> Mode {
        self.settings.keep_last = true;
        self
    }
}

/// Exit status and output of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// Returns its output, if it ended well.
    #[track_caller]
    pub(crate) fn success(&self) -> &str {
        assert!(self.status.success(), "{}\n{}\n{}", self.status, self.out, self.err);
        &self.out
    }
}

/// Runs a program to its end; kills it and fails when it hangs.
pub(crate) fn run(command: &mut Command) -> Ended {
    run_for(command, HANG_S)
}

fn run_for(command: &mut Command, hang_s: i64) -> Ended {
    let folder = Folder::new();
    let file = |name: &str| File::create(folder.path(name)).expect("a file for its output");
    command.stdout(file("out")).stderr(file("err")).process_group(0);
    let shown = format!("{command:?}");
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
    let pid = rustix::process::Pid::from_child(&child);
    let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd");
    let hangs = !wait_readable(&descriptor, hang_s);
    if hangs {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait().expect("its status");
    let read = |name: &str| {
        String::from_utf8_lossy(&std::fs::read(folder.path(name)).expect("its output")).into_owned()
    };
    let ended = Ended { status, out: read("out"), err: read("err") };
    assert!(!hangs, "{shown} hangs\n{}\n{}", ended.out, ended.err);
    ended
}

fn wait_readable(descriptor: &OwnedFd, seconds: i64) -> bool {
    let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return ready == 1,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}

/// A program, to be run as often as needed.
pub(crate) struct Subject {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    /// Entries before and after the library in `LD_PRELOAD`.
    before: Vec<OsString>,
    after: Vec<OsString>,
    hang_s: i64,
}

impl Subject {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Subject {
        Subject {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            hang_s: HANG_S,
        }
    }

    /// It takes long.
    pub(crate) fn patient(mut self) -> Subject {
        self.hang_s = LONG_HANG_S;
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(
        mut self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Subject {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Subject {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Subject {
        self.environment.push((name.into(), Some(value.as_ref().to_owned())));
        self
    }

    /// Another preloaded library, before this one.
    pub(crate) fn preload_before(mut self, path: &Path) -> Subject {
        self.before.push(path.into());
        self
    }

    /// Another preloaded library, after this one.
    pub(crate) fn preload_after(mut self, path: &Path) -> Subject {
        self.after.push(path.into());
        self
    }

    fn command(&self, library: Option<&Path>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_remove(VARIABLE);
        let own = library.map(|path| path.as_os_str().to_owned());
        let preload: Vec<_> =
            self.before.iter().chain(own.iter()).chain(&self.after).cloned().collect();
        command.env_remove("LD_PRELOAD");
        if !preload.is_empty() {
            command.env("LD_PRELOAD", preload.join(OsStr::new(":")));
        }
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Runs it without the library.
    pub(crate) fn bare(&self) -> Ended {
        run_for(&mut self.command(None), self.hang_s)
    }

    /// Runs it under the library, without a recording.
    pub(crate) fn uninvited(&self) -> Ended {
        run_for(&mut self.command(Some(library())), self.hang_s)
    }

    /// Runs it recorded.
    pub(crate) fn recorded(&self, mode: &Mode) -> (Ended, Trace) {
        let recorder = Recorder::new(mode);
        let ended = run_for(&mut recorder.invite(self), self.hang_s);
        (ended, recorder.finish())
    }

    /// Runs it bare, then in each mode, then guarded in every way: it must end in the same way and
    /// print the same.
    /// Returns what it printed, and the recordings.
    #[track_caller]
    pub(crate) fn compare<const MODES: usize>(
        &self,
        modes: [Mode; MODES],
    ) -> (String, [Trace; MODES]) {
        let compared = self.compare_recorded(modes);
        let bare = self.bare();
        for mode in Mode::guarded() {
            self.assert_same(mode.name, &bare, &self.recorded(&mode).0);
        }
        compared
    }

    /// Runs it bare and in each mode.
    #[track_caller]
    pub(crate) fn compare_recorded<const MODES: usize>(
        &self,
        modes: [Mode; MODES],
    ) -> (String, [Trace; MODES]) {
        let bare = self.bare();
        bare.success();
        let uninvited = self.uninvited();
        self.assert_same("without a recording", &bare, &uninvited);
        let traces = modes.map(|mode| {
            let (ended, trace) = self.recorded(&mode);
            self.assert_same(mode.name, &bare, &ended);
            assert!(!trace.processes.is_empty(), "{}: nobody attached", mode.name);
            trace
        });
        (bare.out, traces)
    }

    /// It ended in the same way as without the library, and printed the same.
    #[track_caller]
    pub(crate) fn assert_same(&self, name: &str, bare: &Ended, ended: &Ended) {
        let same = (bare.status, &bare.out) == (ended.status, &ended.out);
        let lines = bare.out.lines().zip(ended.out.lines()).enumerate();
        let differing = lines.filter(|(_, (bare, recorded))| bare != recorded);
        let shown: Vec<_> = differing
            .take(10)
            .map(|(at, (bare, recorded))| format!("line {at}\n  - {bare}\n  + {recorded}\n"))
            .collect();
        assert!(
            same,
            "{:?} behaves differently in mode {name}: {}, {} lines, not {}, {} lines\n{}{}",
            self.program,
            ended.status,
            ended.out.lines().count(),
            bare.status,
            bare.out.lines().count(),
            shown.concat(),
            ended.err
        );
    }
}

/// Somebody who records: memory, and a door.
pub(crate) struct Recorder {
    recording: std::sync::Arc<Recording>,
    invitation: Invitation,
    /// Dropped to end the thread at the door.
    stop: OwnedFd,
    door: std::thread::JoinHandle<()>,
}

impl Recorder {
    pub(crate) fn new(mode: &Mode) -> Recorder {
        let recording = Recording::create(mode.bytes, &mode.settings).expect("memory");
        let recording = std::sync::Arc::new(recording);
        let invitation = Invitation::new(recording.fd()).expect("random bytes");
        let door = RecorderSocket::open(invitation).expect("a socket");
        let (watch, stop) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
        let shared = recording.clone();
        let door = std::thread::spawn(move || keep_door(door, &shared, &watch));
        Recorder { recording, invitation, stop, door }
    }

    /// The command that runs a program under the library, recorded.
    pub(crate) fn invite(&self, subject: &Subject) -> Command {
        let mut command = subject.command(Some(library()));
        command.env(VARIABLE, self.invitation.value());
        command
    }

    /// The memory.
    pub(crate) fn recording(&self) -> std::sync::Arc<Recording> {
        self.recording.clone()
    }

    /// Returns the recording so far.
    pub(crate) fn trace(&self) -> Trace {
        Trace::read(&self.recording)
    }

    /// Shuts the door; what was recorded.
    pub(crate) fn finish(self) -> Trace {
        drop(self.stop);
        self.door.join().expect("the door is kept");
        Trace::read(&self.recording)
    }
}

fn keep_door(mut door: RecorderSocket, recording: &Recording, stop: &OwnedFd) {
    loop {
        let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
        fds.extend(door.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) if !fds[0].revents().is_empty() => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
        door.serve(recording.fd().as_fd(), recording.size()).expect("it can be served");
    }
}

/// Returns true if the tests run as root: some of what programs do needs it.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The signal that ended a program.
pub(crate) fn signal(ended: &Ended) -> Option<i32> {
    ended.status.signal()
}
