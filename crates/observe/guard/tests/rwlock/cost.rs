//! Cost of the lock beside the C library's.

use crate::guarded::{Bytes, me, realtime_after};
use crate::{pthread_rwlock_rdlock, pthread_rwlock_unlock, pthread_rwlock_wrlock};
use guard::Deadline;
use guard::rwlock::{Reads, Rwlock};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn pthread_rwlock_timedwrlock(lock: *mut c_void, until: *const i64) -> c_int;
}

/// Nanoseconds of one of many calls.
fn cost_ns(mut pair: impl FnMut()) -> f64 {
    const TIMES: u32 = 100_000;
    let start = Instant::now();
    (0..TIMES).for_each(|_| pair());
    start.elapsed().as_nanos() as f64 / f64::from(TIMES)
}

/// The costs of the two, in turns, the best of some rounds each.
fn compare(what: &str, mut ours: impl FnMut(), mut librarys: impl FnMut()) {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..100 {
        best[0] = best[0].min(cost_ns(&mut ours));
        best[1] = best[1].min(cost_ns(&mut librarys));
    }
    let [ours, librarys] = best;
    let ratio = ours / librarys;
    println!("{what}: {ours:.2} ns, the C library {librarys:.2} ns, ratio {ratio:.2}");
}

#[test]
#[ignore = "a measurement: cargo test -p keeptime-guard --release --test rwlock -- --ignored --nocapture"]
fn costs_beside_the_c_library() {
    let bytes = Bytes::new();
    let lock = Rwlock::new();
    let reads = Reads::new();
    let me = me();
    let (lock, reads) = std::hint::black_box((&lock, &reads));
    let read = || {
        let _ = lock.read(reads, me, None);
        let _ = lock.unlock(reads, me);
    };
    // SAFETY: it is a lock, all zero, that only the library uses.
    compare("read pair", read, || unsafe {
        pthread_rwlock_rdlock(bytes.pointer());
        pthread_rwlock_unlock(bytes.pointer());
    });
    let write = || {
        let _ = lock.write(me, None);
        let _ = lock.unlock(reads, me);
    };
    // SAFETY: as above.
    compare("write pair", write, || unsafe {
        pthread_rwlock_wrlock(bytes.pointer());
        pthread_rwlock_unlock(bytes.pointer());
    });
}

/// Four readers that overlap, each a millisecond inside, and a writer that comes again and again
/// for a second: how often it got in, and its longest wait.
fn writes_beside_readers(
    enter: impl Fn(bool, &Reads) -> bool + Sync,
    leave: impl Fn(&Reads) + Sync,
) -> (u32, Duration) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in 0..4 {
            let (enter, leave, stop) = (&enter, &leave, &stop);
            scope.spawn(move || {
                let reads = Reads::new();
                thread::sleep(Duration::from_micros(250 * reader));
                while !stop.load(Ordering::Relaxed) {
                    enter(false, &reads);
                    thread::sleep(Duration::from_millis(1));
                    leave(&reads);
                }
            });
        }
        let reads = Reads::new();
        let start = Instant::now();
        let (mut writes, mut longest) = (0, Duration::ZERO);
        while start.elapsed() < Duration::from_secs(1) {
            let asked = Instant::now();
            if enter(true, &reads) {
                leave(&reads);
                writes += 1;
            }
            longest = longest.max(asked.elapsed());
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        (writes, longest)
    })
}

/// Operations in half a second by four threads of which one writes, all inside for a moment.
fn throughput(enter: impl Fn(bool, &Reads) + Sync, leave: impl Fn(&Reads) + Sync) -> u64 {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads = (0..4).map(|number| {
            let (enter, leave, stop) = (&enter, &leave, &stop);
            scope.spawn(move || {
                let reads = Reads::new();
                let mut operations = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    enter(number == 0, &reads);
                    leave(&reads);
                    (0..200).for_each(|_| std::hint::spin_loop());
                    operations += 1;
                }
                operations
            })
        });
        let threads: Vec<_> = threads.collect();
        thread::sleep(Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
#[ignore = "a measurement: cargo test -p keeptime-guard --release --test rwlock -- --ignored --nocapture"]
fn contention_beside_the_c_library() {
    let lock = Rwlock::new();
    let bytes = Bytes::new();
    let ours = |write: bool, reads: &Reads| match write {
        true => lock.write(me(), Some(Deadline::after_ns(2_000_000_000))).is_ok(),
        false => lock.read(reads, me(), None).is_ok(),
    };
    let librarys = |write: bool, _: &Reads| {
        let until = realtime_after(2_000_000_000).at_ns;
        let until = [until / 1_000_000_000, until % 1_000_000_000];
        // SAFETY: it is a lock, all zero, that only the library uses.
        let result = unsafe {
            match write {
                true => pthread_rwlock_timedwrlock(bytes.pointer(), until.as_ptr()),
                false => pthread_rwlock_rdlock(bytes.pointer()),
            }
        };
        result == 0
    };
    let leave_ours = |reads: &Reads| {
        let _ = lock.unlock(reads, me());
    };
    let leave_librarys = |_: &Reads| {
        // SAFETY: as above; the thread has it.
        unsafe { pthread_rwlock_unlock(bytes.pointer()) };
    };
    let (writes, longest) = writes_beside_readers(ours, leave_ours);
    println!("writer beside readers: {writes} writes, longest wait {longest:?}");
    let (writes, longest) = writes_beside_readers(librarys, leave_librarys);
    println!("the C library: {writes} writes, longest wait {longest:?}");
    for _ in 0..3 {
        let enter = |write: bool, reads: &Reads| {
            let _ = ours(write, reads);
        };
        let ours = throughput(enter, leave_ours);
        let enter = |write: bool, reads: &Reads| {
            let _ = librarys(write, reads);
        };
        let librarys = throughput(enter, leave_librarys);
        let ratio = ours as f64 / librarys as f64;
        println!("operations in 0.5 s: {ours}, the C library {librarys}, ratio {ratio:.2}");
    }
}
