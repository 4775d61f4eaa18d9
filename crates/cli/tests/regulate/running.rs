//! Programs of the tests: regulators, loads and holders, which end with the values.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testing::{run_ns, until, until_ok};

pub(crate) const HOLDER: &str = "KEEPTIME_TEST_HOLDER";

pub(crate) fn keeptime() -> Command {
    Command::new(env!("CARGO_BIN_EXE_keeptime"))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The last core, if cores can be regulated here. The calling thread, which holds locks, is kept
/// away from it: a holder on a stopped core cannot give the lock back.
pub(crate) fn core() -> Option<usize> {
    let cores = realtime::machine::online_cores();
    if !rustix::process::geteuid().is_root() || cores.len() < 2 {
        eprintln!("SKIP: regulating takes root and two cores");
        return None;
    }
    let (core, others) = cores.split_last()?;
    realtime::thread::pin(others).unwrap();
    Some(*core)
}

/// One regulator at a time: it keeps others from their core.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that is killed when the test ends, however it does.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn id(&self) -> i32 {
        self.0.id() as i32
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Processor time of its main thread.
    pub(crate) fn run_ns(&self) -> u64 {
        run_ns(self.0.id()).unwrap()
    }

    /// Waits until it has run for so much longer.
    pub(crate) fn until_it_ran(&self, more_ns: u64) {
        let before_ns = self.run_ns();
        until("the process runs", || self.run_ns() >= before_ns + more_ns);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A load that is on its core.
pub(crate) fn load(name: &str, core: usize) -> Process {
    let mut command = keeptime();
    command.args(["regulate-load", name, &core.to_string()]).stdout(Stdio::piped());
    let mut load = Process(command.spawn().unwrap());
    let mut said = [0; 7];
    load.0.stdout.take().unwrap().read_exact(&mut said).unwrap();
    load
}

/// Sums of the lines of `--verbose`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) periods: u64,
    pub(crate) stops: u64,
    pub(crate) stopped_ms: f64,
    /// Lines without a period: the lock was free for a second.
    pub(crate) idle: u64,
}

impl Seen {
    /// Adds a line: `... core 1: 950 periods, 940 stops, 712.3 ms stopped`. Others say nothing here.
    pub(crate) fn add(&mut self, line: &str) -> Option<()> {
        let (_, numbers) = line.split_once(": ")?.1.split_once(": ")?;
        let words: Vec<&str> = numbers.split_whitespace().collect();
        let [periods, "periods,", stops, "stops,", stopped_ms, "ms", "stopped"] = words[..] else {
            return None;
        };
        let periods: u64 = periods.parse().ok()?;
        self.periods += periods;
        self.stops += stops.parse::<u64>().ok()?;
        self.stopped_ms += stopped_ms.parse::<f64>().ok()?;
        self.idle += u64::from(periods == 0);
        Some(())
    }
}

/// A running `keeptime regulate --json --verbose`, whose socket is open.
pub(crate) struct Regulate {
    pub(crate) process: Process,
    pub(crate) socket: PathBuf,
    core: usize,
    pub(crate) said: String,
    seen: Arc<Mutex<Seen>>,
    _folder: tempfile::TempDir,
}

impl Regulate {
    pub(crate) fn start(core: usize, options: &[&str]) -> Regulate {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("bandwidth.sock");
        Regulate::start_at(core, options, folder, &socket)
    }

    pub(crate) fn start_at(
        core: usize,
        options: &[&str],
        folder: tempfile::TempDir,
        socket: &Path,
    ) -> Regulate {
        let mut command = keeptime();
        command.args(["regulate", "--json", "--verbose", "--cores", &core.to_string()]);
        command.arg("--socket").arg(socket).args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let mut lines = BufReader::new(process.0.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("listening") {
            assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
        }
        let seen = Arc::<Mutex<Seen>>::default();
        let sums = seen.clone();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                sums.lock().unwrap().add(&line);
            }
        });
        Regulate { process, socket: socket.into(), core, said, seen, _folder: folder }
    }

    pub(crate) fn seen(&self) -> Seen {
        *self.seen.lock().unwrap()
    }

    pub(crate) fn until(&self, event: &str, has_come: impl Fn(&Seen) -> bool) {
        until_ok(event, || {
            let seen = self.seen();
            if has_come(&seen) { Ok(()) } else { Err(seen) }
        });
    }

    /// Waits until a line comes in which the lock was free.
    pub(crate) fn until_idle(&self) {
        let before = self.seen().idle;
        self.until("a second without a period", |seen| seen.idle > before);
    }

    /// Waits until the core's thread wants its core: it begins a period or keeps the core.
    pub(crate) fn until_awake(&self) {
        let tasks = format!("/proc/{}/task", self.process.id());
        let name = format!("kt-core-{}", self.core);
        let numbers = || std::fs::read_dir(&tasks).unwrap().flatten();
        let is_it = |path: &Path| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
        };
        let task = numbers().find(|task| is_it(&task.path())).expect("the thread of the core");
        let thread = task.file_name().to_str().unwrap().parse().unwrap();
        until("the core's thread is awake", || testing::sleeps(thread) == Some(false));
    }

    /// Ends it by a signal and returns its totals.
    pub(crate) fn end(self, signal: Signal) -> Value {
        self.process.signal(signal);
        self.totals()
    }

    /// Waits for its end and returns its totals.
    pub(crate) fn totals(mut self) -> Value {
        let mut text = String::new();
        self.process.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.process.0.wait().unwrap();
        assert!(status.success(), "{status}: {text}");
        testing::result::read(&text)
    }
}

pub(crate) fn of_core(totals: &Value, key: &str) -> u64 {
    totals["statistics"]["cores"][0][key].as_u64().unwrap()
}

pub(crate) fn of_thread(totals: &Value, id: i32) -> &Value {
    let threads = totals["statistics"]["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["thread"] == id).unwrap_or_else(|| panic!("{totals}"))
}

/// A process that holds the lock.
pub(crate) fn holder(socket: &Path) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "holder_for_others", "--nocapture"]);
    command.env(HOLDER, socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = Process(command.spawn().unwrap());
    let mut lines = BufReader::new(holder.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("holds")));
    holder
}
