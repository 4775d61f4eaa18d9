//! Programs to be recorded: this test binary again, and a thread that disturbs them.
//!
//! A shell reads a line, which is the wait before `exec`, and becomes one of the ignored tests
//! below. It prints the ids of its threads and other numbers.

use realtime::mutex::PiMutex;
use realtime::thread::{Scheduling, pin, set_name, set_policy};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

/// A process that waits before `exec`.
pub(crate) struct Program {
    child: Child,
}

impl Program {
    /// One of the ignored tests below, with its settings.
    pub(crate) fn waiting(role: &str, settings: &[(&str, &str)]) -> Program {
        let child = Command::new("/bin/sh")
            .args(["-c", "read go; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .arg(format!("program::{role}"))
            .args(["--exact", "--ignored", "--nocapture"])
            .env("KEEPTIME_TEST_PROGRAM", "1")
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Program { child }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go on, waits for its end, and gives the numbers that it printed, by name.
    pub(crate) fn run(mut self) -> BTreeMap<String, u64> {
        self.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success(), "{text}");
        let said = |line: &str| {
            let (name, number) = line.strip_prefix("said ")?.split_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        };
        text.lines().filter_map(|line| said(&line[line.find("said ")?..])).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn say(name: &str, number: u64) {
    println!("\nsaid {name} {number}");
}

fn is_program() -> bool {
    std::env::var_os("KEEPTIME_TEST_PROGRAM").is_some()
}

/// Computes without a system call.
pub(crate) fn compute(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Two threads on one processor that wait for each other; the first computes a while each time,
/// the second goes on when the first sleeps in the kernel, unless it is told not to look.
#[test]
#[ignore = "not a test: the program of the others"]
fn ping_pong() {
    if !is_program() {
        return;
    }
    let (rounds, compute_us) = (setting("ROUNDS", 40), setting("COMPUTE_US", 2000));
    let (looks, core) = (setting("LOOKS", 1) == 1, setting("CORE", 0) as usize);
    let real_time = setting("REAL_TIME", 0) == 1;
    let first = Arc::new(AtomicU32::new(0));
    let turn = Arc::new((Mutex::new(0_u64), Condvar::new()));
    let player = move |name: &'static str, mine: u64, turn: Arc<(Mutex<u64>, Condvar)>| {
        let first = first.clone();
        std::thread::spawn(move || {
            set_name(name);
            say(name, realtime::thread::id().into());
            if mine == 0 {
                first.store(realtime::thread::id(), Ordering::Relaxed);
            }
            pin(&[core]).unwrap();
            if real_time {
                set_policy(Scheduling::Fifo(10)).unwrap();
            }
            for _ in 0..rounds {
                let whose = turn.0.lock().unwrap();
                let mut whose = turn.1.wait_while(whose, |whose| *whose % 2 != mine).unwrap();
                if mine == 0 && compute_us > 0 {
                    compute(Duration::from_micros(compute_us));
                }
                if mine == 1 && looks {
                    let first = first.load(Ordering::Relaxed);
                    // None: it has ended.
                    testing::until("the first waits", || testing::sleeps(first) != Some(false));
                }
                *whose += 1;
                turn.1.notify_all();
            }
        })
    };
    let start = Instant::now();
    let players = [player("ping", 0, turn.clone()), player("pong", 1, turn)];
    players.into_iter().for_each(|player| player.join().unwrap());
    say("nanoseconds", start.elapsed().as_nanos() as u64 / (2 * rounds));
}

/// Two real-time threads on one processor that give it to each other.
#[test]
#[ignore = "not a test: the program of the measurement"]
fn yield_to_each_other() {
    if !is_program() {
        return;
    }
    let (rounds, core) = (setting("ROUNDS", 50_000), setting("CORE", 0) as usize);
    let both = Arc::new(Barrier::new(2));
    let threads = [0, 1].map(|_| {
        let both = both.clone();
        std::thread::spawn(move || {
            pin(&[core]).unwrap();
            set_policy(Scheduling::Fifo(10)).unwrap();
            both.wait();
            let start = Instant::now();
            (0..rounds).for_each(|_| rustix::thread::sched_yield());
            start.elapsed()
        })
    });
    let times = threads.map(|thread| thread.join().unwrap());
    say("nanoseconds", times[0].max(times[1]).as_nanos() as u64 / (2 * rounds));
}

/// A thread that holds a lock with inheritance until a more urgent one waits for it.
#[test]
#[ignore = "not a test: the program of another"]
fn inherit() {
    if !is_program() {
        return;
    }
    let lock = Arc::new(PiMutex::new(()));
    let held = lock.lock();
    say("low", realtime::thread::id().into());
    let waiting = std::thread::spawn({
        let lock = lock.clone();
        move || {
            set_policy(Scheduling::Fifo(20)).unwrap();
            say("high", realtime::thread::id().into());
            drop(lock.lock());
        }
    });
    let status = format!("/proc/self/task/{}/stat", realtime::thread::id());
    // The 18th value is the priority as the kernel counts, less 100.
    let priority = || {
        let text = std::fs::read_to_string(&status).unwrap();
        let after_name = text.rsplit_once(") ").unwrap().1;
        after_name.split(' ').nth(15).unwrap().parse::<i64>().unwrap()
    };
    testing::until("it inherits", || priority() < 0);
    drop(held);
    waiting.join().unwrap();
}

/// A real-time thread of this process that takes the processor again and again.
pub(crate) struct Hog {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    pub id: u32,
}

impl Hog {
    /// `None` when this user may not have a real-time priority.
    pub(crate) fn on(core: usize) -> Option<Hog> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, id) = mpsc::channel();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            set_name("hog");
            pin(&[core]).unwrap();
            let allowed = set_policy(Scheduling::Fifo(50)).is_ok();
            sender.send(allowed.then(realtime::thread::id)).unwrap();
            while allowed && !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(3));
                compute(Duration::from_micros(300));
            }
        });
        let id = id.recv().unwrap();
        let hog = Hog { stop, thread: Some(thread), id: id.unwrap_or(0) };
        id.map(|_| hog)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(|thread| thread.join());
    }
}
