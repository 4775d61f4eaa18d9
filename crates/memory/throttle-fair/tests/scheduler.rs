//! The scheduler in a kernel that has sched_ext: `cargo xtask sched-ext` boots one and runs this there.
//! Elsewhere each test says SKIP, except that the refusal is one that helps.
#![cfg(feature = "sched-ext")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bandwidth::regulator::{Budget, Config, Managed, Regulator};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use throttle_fair::{Error, ThrottleFair};

const NORMAL: i32 = libc::SCHED_OTHER;
const EXT: i32 = 7;

/// Returns true if the scheduler can be loaded. If so, this program is read into memory now: once
/// something computes on a guest's core, a page of it takes the guest milliseconds.
fn has_sched_ext() -> bool {
    let has = Path::new("/sys/kernel/sched_ext").is_dir();
    match has {
        true => realtime::thread::lock_memory().unwrap(),
        false => eprintln!("SKIP: this kernel has no sched_ext"),
    }
    has
}

/// A process that computes until it is dropped.
struct Busy(Child);

impl Busy {
    /// Starts it, and waits until it computes: reading programs takes a guest none of its own time.
    fn start(prefix: &[&str]) -> Self {
        let mut words = prefix.to_vec();
        words.extend(["sh", "-c", "echo computes; while :; do :; done"]);
        let mut command = Command::new(words[0]);
        let mut child = command.args(&words[1..]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "computes\n");
        Self(child)
    }

    fn id(&self) -> i32 {
        self.0.id() as i32
    }

    fn policy(&self) -> i32 {
        // SAFETY: no pointers.
        unsafe { libc::sched_getscheduler(self.id()) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets the machine run.
fn pass(ms: u64) {
    sleep_until_ns(monotonic_ns() + ms * 1_000_000);
}

fn run_ns(scheduler: &ThrottleFair, tid: i32) -> f64 {
    scheduler.task(tid).unwrap().run_ns as f64
}

#[test]
fn kernel_without_sched_ext_is_named_with_what_it_takes() {
    if Path::new("/sys/kernel/sched_ext").is_dir() {
        return;
    }
    let error = ThrottleFair::load(1.0).unwrap_err();
    assert!(matches!(error, Error::NoSchedExt { .. }), "{error}");
    assert!(error.to_string().contains("CONFIG_SCHED_CLASS_EXT"), "{error}");
}

#[test]
fn rho_that_is_no_factor_is_refused() {
    for rho in [-1.0, f64::NAN, 1e9] {
        assert!(matches!(ThrottleFair::load(rho), Err(Error::Factor { .. })));
    }
}

#[test]
fn threads_get_their_policy_back_and_the_next_scheduler_can_come() {
    if !has_sched_ext() {
        return;
    }
    let (kept, released) = (Busy::start(&["env"]), Busy::start(&["env"]));
    let mut first = ThrottleFair::load(1.0).unwrap();
    let error = ThrottleFair::load(1.0).unwrap_err();
    assert!(error.to_string().contains("keeptime_tfs"), "{error}");
    first.manage(kept.id()).unwrap();
    first.manage(released.id()).unwrap();
    assert_eq!((kept.policy(), released.policy()), (EXT, EXT));
    first.release(released.id());
    assert_eq!((kept.policy(), released.policy()), (EXT, NORMAL));
    assert_eq!(first.ended(), None);
    drop(first);
    assert_eq!(kept.policy(), NORMAL);
    drop(ThrottleFair::load(1.0).unwrap());
}

#[test]
fn threads_that_are_not_ordinary_or_not_there_are_refused() {
    if !has_sched_ext() {
        return;
    }
    let mut scheduler = ThrottleFair::load(1.0).unwrap();
    let urgent = Busy::start(&["chrt", "--rr", "1"]);
    let error = scheduler.manage(urgent.id()).unwrap_err();
    assert!(matches!(error, Error::Policy { policy: 2, .. }), "{error}");
    assert_eq!(urgent.policy(), libc::SCHED_RR);
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let tid = gone.id() as i32;
    assert!(matches!(scheduler.manage(tid), Err(Error::NoThread { .. })));
    assert!(!scheduler.charge(tid, Duration::from_secs(1)), "nobody is charged");
    assert!(scheduler.tasks().is_empty());
}

#[test]
fn run_time_is_shared_by_weight_and_virtual_time_evenly() {
    if !has_sched_ext() {
        return;
    }
    let mut scheduler = ThrottleFair::load(1.0).unwrap();
    let on_core = ["taskset", "-c", "1"];
    let plain = Busy::start(&on_core);
    let nice = Busy::start(&[&on_core[..], &["nice", "-n", "5"]].concat());
    for task in [&plain, &nice] {
        scheduler.manage(task.id()).unwrap();
    }
    pass(2000);
    let ratio = run_ns(&scheduler, plain.id()) / run_ns(&scheduler, nice.id());
    // The kernel's weights for nice 0 and 5 are 1024 and 335.
    assert!((2.7..3.4).contains(&ratio), "{ratio}: {:?}", scheduler.tasks());
    let virtual_ns = |task: &Busy| scheduler.task(task.id()).unwrap().virtual_ns;
    let apart = virtual_ns(&plain).abs_diff(virtual_ns(&nice));
    // They began within a few slices of each other, and one of them is in the middle of a run.
    assert!(apart < 200_000_000, "{apart} ns apart: {:?}", scheduler.tasks());
}

#[test]
fn charged_task_waits_until_the_other_has_made_up_for_it() {
    if !has_sched_ext() {
        return;
    }
    let mut scheduler = ThrottleFair::load(2.0).unwrap();
    let on_core = ["taskset", "-c", "1"];
    let (charged, other) = (Busy::start(&on_core), Busy::start(&on_core));
    for task in [&charged, &other] {
        scheduler.manage(task.id()).unwrap();
    }
    pass(100);
    assert!(scheduler.charge(charged.id(), Duration::from_millis(500)));
    assert_eq!(scheduler.task(charged.id()).unwrap().charged_ns, 1_000_000_000);
    pass(100);
    let before = [run_ns(&scheduler, charged.id()), run_ns(&scheduler, other.id())];
    pass(500);
    let ran =
        [run_ns(&scheduler, charged.id()) - before[0], run_ns(&scheduler, other.id()) - before[1]];
    assert!(ran[0] < 10e6 && ran[1] > 300e6, "{ran:?}");
    pass(2000);
    assert!(run_ns(&scheduler, charged.id()) > before[0] + 100e6, "it does not starve");
}

#[test]
fn tasks_that_may_run_anywhere_use_all_cores() {
    if !has_sched_ext() {
        return;
    }
    let cores = realtime::thread::cores().len();
    let tasks: Vec<_> = (0..cores).map(|_| Busy::start(&["env"])).collect();
    let mut scheduler = ThrottleFair::load(1.0).unwrap();
    for task in &tasks {
        scheduler.manage(task.id()).unwrap();
    }
    pass(200);
    let before: Vec<_> = tasks.iter().map(|task| run_ns(&scheduler, task.id())).collect();
    pass(1000);
    for (task, before) in tasks.iter().zip(before) {
        let ran = run_ns(&scheduler, task.id()) - before;
        assert!(ran > 700e6, "{ran} ns of a second: {:?}", scheduler.tasks());
    }
}

#[test]
fn regulator_has_its_threads_scheduled_and_charged_and_gives_them_back() {
    if !has_sched_ext() {
        return;
    }
    let managed = Busy::start(&["taskset", "-c", "1"]);
    // Nothing computes on the other core: an emulator that counts instructions runs one core at a
    // time, for longer than a period.
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::new(vec![1], Budget::Share(0.25));
    config.holders.socket = folder.path().join("bandwidth.sock");
    config.rho = Some(3.0);
    config.managed = vec![Managed::Process(managed.id())];
    let loaded = throttle_fair::load(3.0).unwrap();
    let regulator = Regulator::start_with(config, loaded.rule).unwrap();
    let hold = regulator.hold().unwrap();
    hold.acquire();
    let begun = monotonic_ns();
    while managed.policy() != EXT {
        assert!(monotonic_ns() - begun < 10_000_000_000, "it is not managed");
        pass(10);
    }
    pass(500);
    let statistics = regulator.statistics();
    let account = &statistics.threads[0];
    let part = account.charged_ns as f64 / (account.run_ns + account.charged_ns) as f64;
    assert!((0.6..0.8).contains(&part), "{account:?}");
    let expected = account.run_ns as f64 + 3.0 * account.charged_ns as f64;
    assert!((account.virtual_ns as f64 / expected - 1.0).abs() < 0.01, "{account:?}");
    assert_eq!((loaded.watch)(), None);
    hold.release();
    drop(regulator);
    assert_eq!(managed.policy(), NORMAL);
    assert_eq!((loaded.watch)(), None);
    drop(throttle_fair::load(1.0).unwrap());
}
