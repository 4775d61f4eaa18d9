//! The order in which threads get in, by count.

use crate::guarded::{Guarded, MS, me};
use guard::Deadline;
use guard::rwlock::{Failure, Waiting};
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use testing::until;

unsafe extern "C" {
    fn sched_setscheduler(process: c_int, policy: c_int, parameters: *const c_int) -> c_int;
}

#[test]
fn writer_that_leaves_lets_in_all_readers_before_the_next_writer() {
    let guarded = Guarded::new();
    guarded.write(None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            guarded.write(None).unwrap();
            assert_eq!(guarded.entries.load(Ordering::SeqCst), 3);
            guarded.change();
            guarded.unlock().unwrap();
        });
        guarded.await_waiting(0, 1);
        for _ in 0..3 {
            scope.spawn(|| {
                guarded.read(None).unwrap();
                assert_eq!(guarded.writes.load(Ordering::SeqCst), 0);
                guarded.look();
                guarded.unlock().unwrap();
            });
        }
        guarded.await_waiting(3, 1);
        guarded.unlock().unwrap();
    });
    guarded.check_idle();
}

#[test]
fn writer_that_gives_up_lets_in_the_readers_behind_it() {
    let guarded = Guarded::new();
    guarded.read(None).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| guarded.write(Some(Deadline::after_ns(200 * MS))));
        until("the writer waits", || {
            guarded.lock.waiting(me()).writers > 0 || writer.is_finished()
        });
        let reader = scope.spawn(|| {
            guarded.read(None).unwrap();
            guarded.unlock().unwrap();
        });
        assert_eq!(writer.join().unwrap(), Err(Failure::TimedOut));
        // It gets in while this thread reads on.
        reader.join().unwrap();
    });
    guarded.unlock().unwrap();
    guarded.check_idle();
}

/// Lets writers queue one after the other and returns the order in which they got in.
fn order_of_writers(prepare: [fn(); 4]) -> Vec<usize> {
    let guarded = Guarded::new();
    let order = Mutex::new(Vec::new());
    guarded.write(None).unwrap();
    thread::scope(|scope| {
        for (number, prepare) in prepare.into_iter().enumerate() {
            let (guarded, order) = (&guarded, &order);
            scope.spawn(move || {
                prepare();
                guarded.write(None).unwrap();
                order.lock().unwrap().push(number);
                guarded.unlock().unwrap();
            });
            guarded.await_waiting(0, number as u32 + 1);
        }
        guarded.unlock().unwrap();
    });
    guarded.check_idle();
    order.into_inner().unwrap()
}

#[test]
fn writers_get_in_by_urgency_and_then_in_order_of_arrival() {
    const FIFO: c_int = 1;
    let set = |priority: c_int| {
        let policy = if priority == 0 { 0 } else { FIFO };
        // SAFETY: it reads one number.
        unsafe { sched_setscheduler(0, policy, &priority) == 0 }
    };
    assert_eq!(order_of_writers([|| {}; 4]), [0, 1, 2, 3]);
    let allowed = thread::spawn(move || set(5)).join().unwrap();
    if !allowed {
        println!("SKIP: no right to a real-time priority");
        return;
    }
    fn urgent() {
        let priority: c_int = 5;
        // SAFETY: it reads one number.
        unsafe { sched_setscheduler(0, 1, &priority) };
    }
    assert_eq!(order_of_writers([|| {}, || {}, urgent, urgent]), [2, 3, 0, 1]);
}

/// Four readers that overlap all the time, the first pattern of starvation: once a writer waits,
/// only those get in that were about to.
#[test]
fn writer_waits_for_the_readers_present_at_its_arrival_only() {
    const READERS: u64 = 4;
    let (guarded, inside) = (Guarded::new(), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    guarded.read(None).unwrap();
                    guarded.look();
                    inside.fetch_add(1, Ordering::SeqCst);
                    // It leaves when there is another one, or a writer waits.
                    while inside.load(Ordering::SeqCst) < 2
                        && guarded.lock.waiting(me()).writers == 0
                        && !stop.load(Ordering::Relaxed)
                    {
                        thread::yield_now();
                    }
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guarded.unlock().unwrap();
                }
            });
        }
        for _ in 0..50 {
            let before = AtomicU64::new(u64::MAX);
            thread::scope(|inner| {
                let writer = inner.spawn(|| {
                    guarded.write(None).unwrap();
                    let entries = guarded.entries.load(Ordering::SeqCst);
                    guarded.change();
                    guarded.unlock().unwrap();
                    entries
                });
                until("the writer waits", || {
                    guarded.lock.waiting(me()).writers > 0 || writer.is_finished()
                });
                before.store(guarded.entries.load(Ordering::SeqCst), Ordering::SeqCst);
                let at_entry = writer.join().unwrap();
                let later = at_entry.saturating_sub(before.load(Ordering::SeqCst));
                assert!(later <= READERS, "{later} readers got in before a waiting writer");
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(guarded.writes.load(Ordering::SeqCst), 50);
    guarded.check_idle();
}

/// Two writers that alternate, the second pattern of starvation.
#[test]
fn reader_waits_for_one_writer_at_most() {
    let guarded = Guarded::new();
    let nobody = Waiting { readers: 0, writers: 0 };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    guarded.write(None).unwrap();
                    guarded.change();
                    // It leaves when the other one, or a reader, waits.
                    while guarded.lock.waiting(me()) == nobody && !stop.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                    guarded.unlock().unwrap();
                }
            });
        }
        for _ in 0..50 {
            let reader = scope.spawn(|| {
                guarded.read(None).unwrap();
                let writes = guarded.writes.load(Ordering::SeqCst);
                guarded.look();
                guarded.unlock().unwrap();
                writes
            });
            until("the reader waits", || {
                guarded.lock.waiting(me()).readers > 0 || reader.is_finished()
            });
            let before = guarded.writes.load(Ordering::SeqCst);
            let writes = reader.join().unwrap().saturating_sub(before);
            assert!(writes <= 1, "{writes} writers got in before a waiting reader");
        }
        stop.store(true, Ordering::Relaxed);
    });
    guarded.check_idle();
}
