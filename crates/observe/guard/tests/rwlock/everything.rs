//! Threads, signal handlers and children of forks that do everything at once.

use crate::guarded::{Bytes, Guarded, me, reads_nothing, realtime_after};
use guard::Deadline;
use guard::rwlock::{Failure, Reads, Unlocked};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Barrier, LazyLock, Mutex};
use std::thread;

unsafe extern "C" {
    fn pthread_self() -> usize;
    fn pthread_kill(thread: usize, signal: c_int) -> c_int;
    fn signal(signal: c_int, handler: usize) -> usize;
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn alarm(seconds: u32) -> u32;
}

/// One step of a thread that does everything there is, as a number says.
fn step(guarded: &Guarded, number: u64, entered: &AtomicU64) {
    let soon = |ns| match number % 2 {
        0 => Some(Deadline::after_ns(ns)),
        _ => Some(realtime_after(ns)),
    };
    let reading = |result: Result<(), Failure>| {
        if result.is_ok() {
            guarded.look();
            assert_eq!(guarded.unlock(), Ok(Unlocked::Read));
            entered.fetch_add(1, Ordering::Relaxed);
        }
    };
    let writing = |result: Result<(), Failure>| {
        if result.is_ok() {
            guarded.change();
            assert_eq!(guarded.unlock(), Ok(Unlocked::Write));
            entered.fetch_add(1, Ordering::Relaxed);
        }
    };
    match number >> 8 & 7 {
        0 => reading(guarded.read(None)),
        1 => reading(guarded.read(soon(20_000))),
        2 => reading(guarded.try_read()),
        3 => {
            guarded.read(None).unwrap();
            thread::yield_now();
            reading(guarded.read(None));
            assert_eq!(guarded.unlock(), Ok(Unlocked::Read));
        }
        4 => writing(guarded.write(None)),
        5 => writing(guarded.write(soon(20_000))),
        6 => writing(guarded.write(soon(-1))),
        _ => writing(guarded.lock.try_write(me())),
    }
}

/// Number of times that a lock is taken.
const ENTRIES: u64 = 100_000;

#[test]
fn nothing_is_torn_when_threads_do_everything_at_once() {
    let guarded = Guarded::new();
    let entered = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 1..=6u64 {
            let (guarded, entered) = (&guarded, &entered);
            scope.spawn(move || {
                let mut number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                while entered.load(Ordering::Relaxed) < ENTRIES {
                    number ^= number << 13;
                    number ^= number >> 7;
                    number ^= number << 17;
                    step(guarded, number, entered);
                }
                assert!(reads_nothing());
            });
        }
    });
    guarded.check_idle();
}

static INTERRUPTED: LazyLock<Guarded> = LazyLock::new(Guarded::new);
static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn handler(_: c_int) {
    if INTERRUPTED.try_read().is_ok() {
        INTERRUPTED.look();
        assert_eq!(INTERRUPTED.unlock(), Ok(Unlocked::Read));
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn signal_handler_may_use_the_lock_that_it_interrupted() {
    const SIGUSR1: c_int = 10;
    LazyLock::force(&INTERRUPTED);
    // SAFETY: the handler keeps to what handlers may do.
    unsafe { signal(SIGUSR1, handler as *const () as usize) };
    let workers = Mutex::new(Vec::new());
    let barrier = Barrier::new(4);
    let (entered, over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for seed in 1..=3u64 {
            let (workers, barrier, entered, over) = (&workers, &barrier, &entered, &over);
            scope.spawn(move || {
                assert!(reads_nothing());
                // SAFETY: it has no conditions.
                workers.lock().unwrap().push(unsafe { pthread_self() });
                barrier.wait();
                let mut number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                while !over.load(Ordering::Relaxed) {
                    number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(seed);
                    step(&INTERRUPTED, number >> 32, entered);
                }
                barrier.wait();
            });
        }
        barrier.wait();
        let workers = workers.lock().unwrap().clone();
        testing::until("handlers take the lock", || {
            for worker in &workers {
                // SAFETY: the workers end after the second barrier.
                unsafe { pthread_kill(*worker, SIGUSR1) };
            }
            HANDLED.load(Ordering::Relaxed) >= 1000
        });
        over.store(true, Ordering::Relaxed);
        barrier.wait();
    });
    INTERRUPTED.check_idle();
}

/// The last one to let a lock go may free its memory. Here it writes over it instead, and nobody
/// may change that.
#[test]
fn nobody_touches_a_lock_that_its_last_owner_may_free() {
    const USERS: u32 = 3;
    const GONE: u32 = 0x5555_5555;
    let barrier = Barrier::new(USERS as usize);
    let rounds: Vec<(Bytes, AtomicU32)> =
        (0..5000).map(|_| (Bytes::new(), AtomicU32::new(0))).collect();
    thread::scope(|scope| {
        for number in 0..USERS {
            let (barrier, rounds) = (&barrier, &rounds);
            scope.spawn(move || {
                let reads = Reads::new();
                for (turn, (bytes, users)) in rounds.iter().enumerate() {
                    barrier.wait();
                    let lock = bytes.lock();
                    let soon = Some(Deadline::after_ns(1000 * i64::from(number)));
                    let entered = match turn % 3 {
                        0 => lock.write(me(), soon),
                        1 => lock.read(&reads, me(), soon),
                        _ => Err(Failure::TimedOut),
                    };
                    if entered.is_ok() {
                        lock.unlock(&reads, me()).unwrap();
                    }
                    lock.write(me(), None).unwrap();
                    let last = users.fetch_add(1, Ordering::Relaxed) == USERS - 1;
                    lock.unlock(&reads, me()).unwrap();
                    if last {
                        // SAFETY: all others have let it go and want it no more.
                        unsafe { bytes.0.get().write_volatile([GONE; 14]) };
                    }
                }
            });
        }
    });
    for (bytes, _) in &rounds {
        let words: Vec<u32> = (0..14).map(|word| bytes.word(4 * word)).collect();
        assert_eq!(words, [GONE; 14], "a lock was used after it was gone");
    }
}

/// Uses, in the child of a fork, a lock that its parent wrote while threads that are not in the
/// child waited. True if all calls succeed.
fn in_child(guarded: &Guarded) -> bool {
    let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let reads = Reads::new();
    let unlocked = guarded.lock.unlock(&reads, me) == Ok(Unlocked::Write);
    let read = guarded.lock.read(&reads, me, None).is_ok();
    let left = guarded.lock.unlock(&reads, me) == Ok(Unlocked::Read);
    let written = guarded.lock.write(me, None).is_ok();
    unlocked && read && left && written && guarded.lock.unlock(&reads, me).is_ok()
}

#[test]
fn child_of_a_fork_waits_for_nobody_who_stayed_behind() {
    let guarded = Guarded::new();
    guarded.write(None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            guarded.write(None).unwrap();
            guarded.unlock().unwrap();
        });
        scope.spawn(|| {
            guarded.read(None).unwrap();
            guarded.unlock().unwrap();
        });
        guarded.await_waiting(1, 1);
        // SAFETY: the child makes system calls only.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: it ends a child that hangs, and the child.
            unsafe {
                alarm(20);
                _exit(if in_child(&guarded) { 0 } else { 1 });
            }
        }
        let mut status = -1;
        // SAFETY: it writes one number.
        unsafe { waitpid(child, &mut status, 0) };
        guarded.unlock().unwrap();
        assert_eq!(status, 0, "the child hung or failed");
    });
    guarded.check_idle();
}
