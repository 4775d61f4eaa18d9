//! Many threads and few mutexes, for as long as `KEEPTIME_SOAK_SECONDS` says (1 second), best under
//! a sanitizer: `cargo xtask soak`.

use super::{Failure, LockPolicy, Mutex, model};
use crate::futex::Deadline;
use crate::table::{Table, Waiter};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MUTEXES: usize = 3;
const THREADS: u32 = 8;

struct Scene {
    table: Table,
    mutexes: [Mutex; MUTEXES],
    /// Value that each mutex protects.
    values: [UnsafeCell<u64>; MUTEXES],
    stop: AtomicBool,
    taken: [AtomicU64; MUTEXES],
    given_up: AtomicU64,
    handed: AtomicU64,
}

// SAFETY: each value is used under its mutex only, which is what is tested.
unsafe impl Sync for Scene {}

impl Scene {
    fn use_one(&self, at: usize, me: Waiter, until: Option<Deadline>, policy: LockPolicy) {
        let mutex = &self.mutexes[at];
        if !model::try_lock(mutex, me.thread) {
            match mutex.lock(&self.table, me, until, policy) {
                Ok(taken) => self.handed.fetch_add(u64::from(taken.handed), Ordering::Relaxed),
                Err(Failure::TimedOut) => {
                    self.given_up.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(Failure::Deadlock) => panic!("nobody takes it twice"),
            };
        }
        // SAFETY: under the mutex.
        unsafe { *self.values[at].get() += 1 };
        if self.taken[at].fetch_add(1, Ordering::Relaxed) % 64 == 0 {
            std::thread::yield_now();
        }
        if mutex.hand_over(&self.table, || me.thread).is_none() {
            let address = mutex.address();
            model::unlock(mutex);
            Mutex::let_go(address, &self.table, || me.thread);
        }
    }

    /// Takes mutexes in an order of its own until it is stopped.
    fn work(&self, number: u32) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        // Two of the threads lend their priority, such as it is, and come first.
        let me = Waiter { thread, urgency: if number < 2 { 10 + number } else { 0 } };
        let mut random = fastrand::Rng::with_seed(number.into());
        while !self.stop.load(Ordering::Relaxed) {
            let until = match random.u32(..4) {
                0 => Some(Deadline::after_ns(random.i64(0..50_000))),
                _ => None,
            };
            let policy = LockPolicy { bound_ns: random.i64(0..100_000), inherit: true };
            self.use_one(random.usize(..MUTEXES), me, until, policy);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes in Miri")]
fn many_threads_lose_no_update_and_leave_nothing_behind() {
    let seconds = std::env::var("KEEPTIME_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(1.0));
    let scene = Scene {
        table: Table::new(),
        mutexes: std::array::from_fn(|_| Mutex::new()),
        values: std::array::from_fn(|_| UnsafeCell::new(0)),
        stop: AtomicBool::new(false),
        taken: std::array::from_fn(|_| AtomicU64::new(0)),
        given_up: AtomicU64::new(0),
        handed: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|number| {
            drop(scope.spawn({
                let scene = &scene;
                move || scene.work(number)
            }))
        });
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        scene.stop.store(true, Ordering::Relaxed);
    });
    for (value, taken) in scene.values.iter().zip(&scene.taken) {
        // SAFETY: the threads have ended.
        assert_eq!(unsafe { *value.get() }, taken.load(Ordering::Relaxed));
    }
    assert!(scene.table.is_empty());
    assert!(scene.mutexes.iter().all(Mutex::is_free));
    let [given_up, handed] = [&scene.given_up, &scene.handed].map(|n| n.load(Ordering::Relaxed));
    eprintln!("{:?} taken, {handed} handed over, {given_up} given up", scene.taken);
    assert!(given_up > 0 && handed > 0, "{given_up} given up, {handed} handed over");
}
