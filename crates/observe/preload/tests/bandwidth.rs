//! Programs that hold the bandwidth lock without knowing it: under the library, on a fake driver
//! that says at any time what is outstanding, with a regulator's side that is looked at as the
//! threads of the cores do.

mod support;

use bandwidth::holders::{Config, Holders};
use record::Recording;
use record::bandwidth::{Bandwidth, BandwidthCount};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Ended, Folder, Mode, Recorder, Subject, compile, shared_folder};

/// Interval at which the library asks about streams.
const PERIOD: Duration = Duration::from_millis(1);
/// For so many periods the thread that asks may sleep after the last work has ended, its timer
/// being late. While it waits for a core it is not asked of it.
const LATE_PERIODS: u32 = 10;
/// The name of that thread.
const POLLER: &str = "kt-bandwidth";
const INCLUDE: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../../examples/late-launch");

/// Returns the folder of the fake driver, which the first call builds.
fn fake() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = shared_folder().path("fake");
        let mut make = Command::new("make");
        make.args([
            "-s",
            "-C",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/late-launch"),
        ]);
        make.arg(format!("BUILD={}", folder.display())).arg("all");
        assert!(make.status().expect("make").success(), "the fake driver cannot be built");
        folder
    })
}

fn regulator(folder: &Folder) -> Holders {
    let socket = folder.path("bandwidth.sock");
    Holders::start(Config { socket, ..Config::default() }).expect("a socket")
}

/// A mode in which the lock is taken as well.
fn holding(mut mode: Mode, folder: &Folder) -> Mode {
    let period_ns = PERIOD.as_nanos() as u64;
    let socket = folder.path("bandwidth.sock");
    mode.settings.bandwidth = Some(Bandwidth { socket, period_ns });
    mode
}

/// Nothing is recorded.
fn only_holding(folder: &Folder) -> Mode {
    let mut mode = holding(Mode::full(), folder).bytes(1 << 16);
    mode.settings.nothing = true;
    mode
}

fn counted(recording: &Recording, what: BandwidthCount) -> u64 {
    recording.side().bandwidth_counts()[what as usize]
}

/// The words that the driver and the program share with whoever looks; see
/// `fake-cuda/outstanding.c` and `programs/activity.c`.
#[repr(C)]
struct Words {
    submitted: AtomicU64,
    ended: AtomicU64,
    queued: AtomicU64,
    drained: AtomicU64,
    unused: [u64; 4],
    begun: AtomicU64,
    inside: AtomicU64,
    asked: AtomicU64,
    answered: AtomicU64,
}

fn words(path: &Path) -> &'static Words {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let file = file.expect("a new file");
    file.set_len(4096).expect("room for a page");
    let (null, access) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a fresh mapping of a file of a page; it stays, and only atomics are in it.
    unsafe {
        let memory = rustix::mm::mmap(null, 4096, access, MapFlags::SHARED, &file, 0);
        &*memory.expect("a mapping").cast::<Words>()
    }
}

fn read(word: &AtomicU64) -> u64 {
    word.load(Ordering::SeqCst)
}

/// A time in which the program made no call, and no stream had any work.
struct Pause {
    queued: u64,
    begun: u64,
    rounds: u64,
    since: Instant,
    released: bool,
    late: bool,
}

/// Observations of the test.
#[derive(Debug, Default)]
struct Seen {
    /// There was work for certain, and the lock was held, or not.
    working: [u64; 2],
    /// Nobody had work for certain, the library has asked about all since, and the lock was free,
    /// or not.
    idle: [u64; 2],
    /// Pauses in which the library has not asked either, although it could.
    late: usize,
    /// The program had just waited for all work, and the lock was free, or not.
    waited: [u64; 2],
    /// From the first look at a pause to the look that found the lock free.
    over: Vec<Duration>,
}

/// Looks at the lock and at the work until it is told to stop.
fn watch(words: &Words, holders: &Holders, recording: &Recording, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut pause: Option<Pause> = None;
    while !stop.load(Ordering::Relaxed) {
        let asked = read(&words.asked);
        if asked != read(&words.answered) {
            seen.waited[usize::from(holders.is_held())] += 1;
            words.answered.store(asked, Ordering::SeqCst);
        }
        // The submissions are read first, the ends last.
        let submitted = read(&words.submitted);
        let rounds_ended = counted(recording, BandwidthCount::RoundsEnded);
        let held = holders.is_held();
        if submitted > read(&words.ended) {
            seen.working[usize::from(!held)] += 1;
        }
        pause = look_at_pause(pause, words, holders, recording, (held, rounds_ended), &mut seen);
        std::thread::sleep(Duration::from_micros(20));
    }
    seen
}

/// Returns true if the thread that asks is on a core, or waits for one, or for the driver.
fn wants_a_core(holders: &Holders) -> bool {
    let Some(holder) = holders.status().holders.first().map(|holder| holder.pid) else {
        return false;
    };
    let read = |task: &Path, file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{holder}/task")).into_iter().flatten().flatten();
    let mut pollers = tasks.filter(|task| read(&task.path(), "comm").trim_end() == POLLER);
    pollers.any(|task| {
        let stat = read(&task.path(), "stat");
        stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with('S'))
    })
}

/// The lock and the rounds were read before this; if the program did nothing meanwhile, they are
/// of the pause.
fn look_at_pause(
    pause: Option<Pause>,
    words: &Words,
    holders: &Holders,
    recording: &Recording,
    (held, rounds_ended): (bool, u64),
    seen: &mut Seen,
) -> Option<Pause> {
    let (begun, inside) = (read(&words.begun), read(&words.inside));
    let (queued, drained) = (read(&words.queued), read(&words.drained));
    if inside > 0 || queued != drained {
        return None;
    }
    let same = pause.filter(|pause| pause.queued == queued && pause.begun == begun);
    let Some(mut pause) = same else {
        let rounds = counted(recording, BandwidthCount::RoundsBegun);
        // Nothing may have begun between the words above.
        let is_quiet = read(&words.begun) == begun && read(&words.inside) == 0;
        let since = Instant::now();
        return is_quiet.then_some(Pause {
            queued,
            begun,
            rounds,
            since,
            released: false,
            late: false,
        });
    };
    // A round that began in the pause has ended.
    if rounds_ended > pause.rounds {
        seen.idle[usize::from(held)] += 1;
    } else if held && pause.since.elapsed() > PERIOD * LATE_PERIODS && !wants_a_core(holders) {
        // It may have done it while we looked.
        let is_late = counted(recording, BandwidthCount::RoundsEnded) <= pause.rounds;
        let is_late = is_late && !pause.late && holders.is_held();
        seen.late += usize::from(is_late);
        pause.late |= is_late;
    }
    if !held && !pause.released {
        seen.over.push(pause.since.elapsed());
        pause.released = true;
    }
    Some(pause)
}

/// Runs the program under the library.
fn play(mode: impl Fn(&Folder) -> Mode, seed: u64, operations: u64) -> (Ended, Seen, Vec<u64>) {
    let folder = Folder::new();
    let path = folder.path("outstanding");
    let words = words(&path);
    let link = [INCLUDE.to_owned(), format!("-L{}", fake().display()), "-lcuda".to_owned()];
    let program = compile(&folder, "activity.c", "activity", &link);
    let subject = Subject::new(program)
        .args([seed.to_string(), operations.to_string()])
        .env("LD_LIBRARY_PATH", fake())
        .env("FAKE_CUDA_OUTSTANDING", &path)
        .env("FAKE_CUDA_RANDOM", seed.to_string());
    let holders = regulator(&folder);
    let recorder = Recorder::new(&mode(&folder));
    let recording = recorder.recording();
    let stop = AtomicBool::new(false);
    let (ended, seen) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(words, &holders, &recording, &stop));
        let ended = support::run(&mut recorder.invite(&subject));
        stop.store(true, Ordering::Relaxed);
        (ended, watch.join().expect("nothing to panic about"))
    });
    let counts = recording.side().bandwidth_counts().to_vec();
    // Its process is gone.
    testing::until("the holder is gone", || {
        !holders.is_held() && holders.status().holders.is_empty()
    });
    recorder.finish();
    (ended, seen, counts)
}

/// Checks a run and returns it.
#[track_caller]
fn check(name: &str, (ended, mut seen, counts): (Ended, Seen, Vec<u64>)) -> Seen {
    let said = ended.success();
    seen.over.sort_unstable();
    let quantile = |share: f64| {
        let at = (seen.over.len() as f64 * share) as usize;
        seen.over.get(at.min(seen.over.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    println!(
        "{name}: {said}  held while there was work: {} of {}; free after a round without: {} of \
         {}; after a wait for all: {} of {}; late: {} of {}; free after {:?} (median), {:?} (99 %)\n  \
         counted {counts:?}",
        seen.working[0],
        seen.working[0] + seen.working[1],
        seen.idle[0],
        seen.idle[0] + seen.idle[1],
        seen.waited[0],
        seen.waited[0] + seen.waited[1],
        seen.late,
        seen.late + seen.over.len(),
        quantile(0.5),
        quantile(0.99),
    );
    assert_eq!(seen.working[1], 0, "{name}: the lock was free while there was work");
    assert_eq!(seen.idle[1], 0, "{name}: the lock was held without work, and that was looked for");
    assert_eq!(seen.waited[1], 0, "{name}: the lock was held after all had been waited for");
    let many = seen.working[0] > 100 && seen.idle[0] > 20 && seen.waited[0] > 0;
    assert!(many, "{name}: too little was seen: {seen:?}");
    let count = |what: BandwidthCount| counts[what as usize];
    assert_eq!(count(BandwidthCount::Attached), 1);
    for trouble in [
        BandwidthCount::NotAttached,
        BandwidthCount::NoPoller,
        BandwidthCount::NoPlace,
        BandwidthCount::NotAsked,
        BandwidthCount::Failed,
    ] {
        assert_eq!(count(trouble), 0, "{name}: {trouble:?}");
    }
    seen
}

#[test]
fn lock_is_held_exactly_while_work_is_outstanding() {
    let number = |name, default| {
        std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
    };
    let seed = number("KEEPTIME_SEED", 1);
    let operations = number("KEEPTIME_OPERATIONS", 1_000_000);
    check("alone", play(only_holding, seed, operations));
}

/// A bound in time, for a machine without other work: `cargo xtask soak` runs it.
mod soak {
    use super::*;

    #[test]
    #[ignore = "soak"]
    fn lock_is_looked_for_within_ten_periods_after_the_last_work() {
        let seen = check("alone", play(only_holding, 5, 1_000_000));
        // A hypervisor may have the core on which the timer of the thread that asks is.
        assert!(seen.late * 10 <= seen.over.len(), "{} of {}", seen.late, seen.over.len());
    }
}

#[test]
fn lock_is_held_under_a_recording_and_a_guard_too() {
    check("recorded", play(|folder| holding(Mode::full().bytes(64 << 20), folder), 2, 50_000));
    let [_, _, fair_inherit, both] = Mode::guarded();
    check("guarded", play(|folder| holding(fair_inherit.clone(), folder), 3, 50_000));
    check("both", play(|folder| holding(both.clone(), folder), 4, 50_000));
}

fn linked(folder: &Folder, source: &str, name: &str, define: &[&str]) -> PathBuf {
    let mut words = vec![INCLUDE.to_owned(), format!("-L{}", fake().display()), "-lcuda".into()];
    words.extend(define.iter().map(|word| (*word).to_owned()));
    compile(folder, source, name, &words)
}

/// Runs a program that holds the lock; also what was counted.
fn held(subject: &Subject, mode: &Mode) -> (Ended, Vec<u64>) {
    let recorder = Recorder::new(mode);
    let ended = support::run(&mut recorder.invite(subject));
    let counts = recorder.recording().side().bandwidth_counts().to_vec();
    recorder.finish();
    (ended, counts)
}

#[test]
fn programs_that_find_the_driver_in_any_way_hold_the_lock() {
    let folder = Folder::new();
    let _holders = regulator(&folder);
    for way in ["link", "dlsym", "ask", "ask-per-thread"] {
        let program = match way {
            "link" => linked(&folder, "cuda.c", "linked", &["-DLINKED"]),
            _ => compile(&folder, "cuda.c", "cuda", &[INCLUDE]),
        };
        let subject = Subject::new(program).args([way]).env("LD_LIBRARY_PATH", fake());
        let bare = subject.bare();
        bare.success();
        for mode in [only_holding(&folder), holding(Mode::full(), &folder)] {
            let (ended, counts) = held(&subject, &mode);
            assert_eq!((ended.status, &ended.out), (bare.status, &bare.out), "{way}");
            assert_eq!(counts[BandwidthCount::Attached as usize], 1, "{way}");
            // The default one, the program's own, and none in vain.
            assert_eq!(counts[BandwidthCount::Streams as usize], 2, "{way}");
        }
    }
}

#[test]
fn program_runs_as_it_is_when_there_is_no_regulator() {
    let folder = Folder::new();
    let program = linked(&folder, "cuda.c", "linked", &["-DLINKED"]);
    let subject = Subject::new(program).args(["link"]).env("LD_LIBRARY_PATH", fake());
    let bare = subject.bare();
    let recorder = Recorder::new(&only_holding(&folder));
    let ended = support::run(&mut recorder.invite(&subject));
    assert_eq!((ended.status, &ended.out), (bare.status, &bare.out));
    assert_eq!(counted(&recorder.recording(), BandwidthCount::NotAttached), 1);
    recorder.finish();
}

#[test]
fn forked_child_holds_nothing_and_gives_nothing_back() {
    use std::io::{BufRead, BufReader, Write};
    let folder = Folder::new();
    let holders = regulator(&folder);
    let program = linked(&folder, "forked.c", "forked", &[]);
    let recorder = Recorder::new(&only_holding(&folder));
    let subject = Subject::new(program).env("LD_LIBRARY_PATH", fake());
    let mut command = recorder.invite(&subject);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "waited");
    assert!(!holders.is_held(), "the parent waited for all of its work");
    let known = holders.status().holders;
    assert_eq!(known.len(), 1);
    assert_eq!((known[0].acquisitions, known[0].holds), (1, 0));
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    assert_eq!(lines.next().unwrap().unwrap(), "child 0");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(counted(&recorder.recording(), BandwidthCount::Attached), 1);
    recorder.finish();
}

#[test]
fn program_that_restricts_its_system_calls_holds_nothing_any_more() {
    use std::io::{BufRead, BufReader, Write};
    let folder = Folder::new();
    let holders = regulator(&folder);
    let program = linked(&folder, "sandboxed.c", "sandboxed", &[]);
    let recorder = Recorder::new(&only_holding(&folder));
    let subject = Subject::new(program).env("LD_LIBRARY_PATH", fake());
    let mut command = recorder.invite(&subject);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut go = child.stdin.take().expect("a pipe");
    for (line, is_held) in [("working", true), ("refused", true), ("restricted", false)] {
        assert_eq!(lines.next().unwrap().unwrap(), line);
        assert_eq!(holders.is_held(), is_held, "{line}");
        go.write_all(b"\n").expect("it reads");
    }
    assert!(child.wait().expect("it ends").success());
    recorder.finish();
}

#[test]
fn checks_of_the_driver_pass_with_the_lock_too() {
    let folder = Folder::new();
    let _holders = regulator(&folder);
    // Not the one that counts the driver's locks: what the library asks takes some.
    let checks = ["driver", "streams", "graphs"];
    let mut make = Command::new("make");
    make.args(["-s", "-C", concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/late-launch")]);
    make.arg(format!("BUILD={}", fake().display()));
    make.args(checks.map(|check| fake().join(format!("check_{check}"))));
    assert!(make.status().expect("make").success(), "the checks cannot be built");
    for check in checks {
        let subject = Subject::new(fake().join(format!("check_{check}")));
        let subject = subject.env("LD_LIBRARY_PATH", fake());
        let (ended, counts) = held(&subject, &only_holding(&folder));
        assert!(ended.success().contains(" passed, 0 failed"), "{check}: {ended:?}");
        assert!(counts[BandwidthCount::Streams as usize] > 0, "{check}: the lock was never taken");
        assert_eq!(counts[BandwidthCount::NoPlace as usize], 0, "{check}");
    }
}

/// Prints what taking the lock adds to calls of the driver, in nanoseconds: runs with and without
/// it in turn. Run with
/// `cargo test -p keeptime-preload --release --test bandwidth -- --ignored --nocapture adds`.
#[test]
#[ignore = "a measurement, for a release build"]
fn what_the_lock_adds_to_a_launch() {
    const RUNS: usize = 9;
    let folder = Folder::new();
    let driver = ["-shared", "-fPIC", "-O2", "-Wl,-soname,libcuda.so.1"];
    let driver = compile(&folder, "null-driver.c", "libcuda.so.1", &driver);
    let program = compile(&folder, "launch-cost.c", "launch-cost", &[driver]);
    let place = folder.path("");
    let subject = Subject::new(program).arg("2000000").env("LD_LIBRARY_PATH", place);
    let holders = regulator(&folder);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // As a thread of a core: it sleeps until the lock is held, and looks again a period later.
        scope.spawn(|| {
            let ordinary = libc::sched_param { sched_priority: 0 };
            // SAFETY: the calling thread's policy: it does not take the core of who wakes it.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const ordinary) };
            while !stop.load(Ordering::Relaxed) {
                holders.wait_until_held(None);
                std::thread::sleep(PERIOD);
            }
        });
        let numbers = |ended: Ended| -> Vec<f64> {
            let words = ended.success().split_whitespace();
            words.map(|word| word.parse().expect("a number")).collect()
        };
        let runs: Vec<[Vec<f64>; 2]> = (0..RUNS)
            .map(|_| {
                let bare = numbers(subject.bare());
                let recorder = Recorder::new(&only_holding(&folder));
                let held = numbers(support::run(&mut recorder.invite(&subject)));
                recorder.finish();
                [bare, held]
            })
            .collect();
        let names = [
            "launch, state unchanged",
            "launch and wait, taken and given back",
            "first launch after 100 ms",
            "for comparison: a thread is woken after 100 ms",
        ];
        for (at, name) in names.iter().enumerate() {
            let sorted = |of: &dyn Fn(&[Vec<f64>; 2]) -> f64| {
                let mut all: Vec<f64> = runs.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                (all[0], all[RUNS / 2], all[RUNS - 1])
            };
            let (bare, held) = (sorted(&|run| run[0][at]), sorted(&|run| run[1][at]));
            let added = sorted(&|run| run[1][at] - run[0][at]);
            println!(
                "{name}: bare {bare:.1?}, with the lock {held:.1?}, added {added:.1?} (least, median, most of {RUNS}, ns)"
            );
        }
        stop.store(true, Ordering::Relaxed);
        holders.end_waits();
    });
}
