//! The phase-fair read-write lock with real threads: exclusion, errors, bounds by count, time.
#![cfg(not(loom))]

mod cost;
mod everything;
mod guarded;
mod order;

use guard::rwlock::{Failure, Reads, Unlocked};
use guard::{Clock, Deadline};
use guarded::{Bytes, Guarded, MS, me, realtime_after};
use std::ffi::{c_int, c_void};
use std::sync::Barrier;
use std::thread;

unsafe extern "C" {
    fn pthread_rwlock_init(lock: *mut c_void, attributes: *const c_void) -> c_int;
    fn pthread_rwlock_rdlock(lock: *mut c_void) -> c_int;
    fn pthread_rwlock_wrlock(lock: *mut c_void) -> c_int;
    fn pthread_rwlock_unlock(lock: *mut c_void) -> c_int;
}

#[test]
fn initialised_lock_is_claimed_once_and_keeps_the_librarys_words() {
    let bytes = Bytes::new();
    // SAFETY: the bytes are a lock's; no attributes.
    unsafe { pthread_rwlock_init(bytes.pointer(), std::ptr::null()) };
    // SAFETY: nobody else has the bytes. The flags prefer writers.
    unsafe { bytes.0.get().cast::<u32>().add(12).write(2) };
    assert!(!bytes.lock().is_claimed());
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                assert!(bytes.lock().claim());
                bytes.lock().write(me(), None).unwrap();
                assert_eq!(bytes.word(24), me());
                bytes.lock().unlock(&Reads::new(), me()).unwrap();
            });
        }
    });
    assert!(bytes.lock().is_claimed() && bytes.lock().claim());
    assert_eq!([24, 28, 48, 52].map(|offset| bytes.word(offset)), [0, 0, 2, 0]);
}

#[test]
fn lock_that_the_library_uses_or_processes_share_is_not_claimed() {
    let reading: fn(*mut c_void) = |lock| {
        // SAFETY: it is an initialised lock.
        unsafe { pthread_rwlock_rdlock(lock) };
    };
    let written: fn(*mut c_void) = |lock| {
        // SAFETY: it is an initialised lock.
        unsafe {
            pthread_rwlock_wrlock(lock);
            pthread_rwlock_unlock(lock);
        }
    };
    let shared: fn(*mut c_void) = |lock| {
        // SAFETY: the word is inside the lock.
        unsafe { lock.cast::<u32>().add(7).write(1) };
    };
    for used in [reading, written, shared] {
        let bytes = Bytes::new();
        used(bytes.pointer());
        assert!(!bytes.lock().claim() && !bytes.lock().is_claimed());
        assert_eq!(bytes.word(40), 0, "a lock of the library's was changed");
    }
    let bytes = Bytes::new();
    // SAFETY: nobody else has the bytes. The rest of the structure may have any value.
    unsafe { bytes.0.get().cast::<u32>().add(13).write(7) };
    assert!(bytes.lock().claim());
}

#[test]
fn errors_are_those_of_the_c_library() {
    let guarded = Guarded::new();
    let past = Some(Deadline { clock: Clock::Monotonic, at_ns: 1 });
    assert_eq!(guarded.unlock(), Err(Failure::NotHeld));
    // A deadline that is over does not matter on a free lock.
    guarded.write(past).unwrap();
    assert_eq!(guarded.write(None), Err(Failure::Deadlock));
    assert_eq!(guarded.read(past), Err(Failure::Deadlock));
    assert_eq!(guarded.lock.try_write(me()), Err(Failure::Busy));
    assert_eq!(guarded.try_read(), Err(Failure::Busy));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert_eq!(guarded.read(past), Err(Failure::TimedOut));
            assert_eq!(guarded.write(past), Err(Failure::TimedOut));
            assert_eq!(guarded.try_read(), Err(Failure::Busy));
            assert_eq!(guarded.unlock(), Err(Failure::NotHeld), "another thread writes");
        });
        other.join().unwrap();
    });
    assert_eq!(guarded.unlock(), Ok(Unlocked::Write));
    guarded.read(past).unwrap();
    assert_eq!(guarded.lock.try_write(me()), Err(Failure::Busy));
    assert_eq!(guarded.write(past), Err(Failure::TimedOut));
    assert_eq!(guarded.try_read(), Ok(()));
    assert_eq!(guarded.unlock(), Ok(Unlocked::Read));
    assert_eq!(guarded.unlock(), Ok(Unlocked::Read));
    assert_eq!(guarded.unlock(), Err(Failure::NotHeld));
    guarded.check_idle();
    let numbers = [Failure::TimedOut, Failure::Busy, Failure::Deadlock, Failure::Again];
    assert_eq!(numbers.map(Failure::errno), [110, 16, 35, 11]);
}

#[test]
fn too_many_readers_are_told_to_try_again() {
    let bytes = Bytes::new();
    assert!(bytes.lock().claim());
    // SAFETY: nobody else has the bytes. So many readers cannot be made in a test.
    unsafe { bytes.0.get().cast::<u32>().add(8).write(1 << 29) };
    let reads = Reads::new();
    assert_eq!(bytes.lock().read(&reads, me(), None), Err(Failure::Again));
    assert_eq!(bytes.lock().try_read(&reads, me()), Err(Failure::Again));
    assert!(reads.is_empty());
}

#[test]
fn waits_end_with_the_deadline_on_either_clock() {
    let guarded = Guarded::new();
    guarded.read(None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for until in [Deadline::after_ns(30 * MS), realtime_after(30 * MS)] {
                assert_eq!(guarded.write(Some(until)), Err(Failure::TimedOut));
                assert!(until.is_over());
            }
        });
    });
    guarded.unlock().unwrap();
    guarded.write(None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for until in [Deadline::after_ns(30 * MS), realtime_after(30 * MS)] {
                assert_eq!(guarded.read(Some(until)), Err(Failure::TimedOut));
                assert!(until.is_over());
            }
        });
    });
    guarded.unlock().unwrap();
    guarded.check_idle();
}

#[test]
fn thread_that_reads_gets_in_again_while_a_writer_waits() {
    let guarded = Guarded::new();
    thread::scope(|scope| {
        guarded.read(None).unwrap();
        let writer = scope.spawn(|| {
            guarded.write(None).unwrap();
            guarded.unlock().unwrap();
        });
        guarded.await_waiting(0, 1);
        scope.spawn(|| assert_eq!(guarded.try_read(), Err(Failure::Busy))).join().unwrap();
        guarded.read(None).unwrap();
        guarded.try_read().unwrap();
        for _ in 0..3 {
            assert!(!writer.is_finished());
            assert_eq!(guarded.unlock(), Ok(Unlocked::Read));
        }
    });
    guarded.check_idle();
}

/// A writer waits for the calling thread, which reads, while `act` runs.
fn while_a_writer_waits(guarded: &Guarded, act: impl FnOnce()) {
    thread::scope(|scope| {
        guarded.read(None).unwrap();
        scope.spawn(|| {
            guarded.write(None).unwrap();
            guarded.unlock().unwrap();
        });
        guarded.await_waiting(0, 1);
        act();
        guarded.unlock().unwrap();
    });
}

#[test]
fn reader_that_waits_too_long_for_a_waiting_writer_gives_the_lock_the_librarys_order() {
    let guarded = Guarded::new();
    assert!(guarded.lock.claim());
    while_a_writer_waits(&guarded, || {
        // Two at once: both get in while this thread reads on.
        thread::scope(|scope| {
            let read = || {
                guarded.read(None).unwrap();
                guarded.unlock().unwrap();
            };
            scope.spawn(read);
            scope.spawn(read);
        });
        assert!(guarded.lock.is_claimed() && !guarded.lock.is_claimed_plainly());
        assert!(guarded.lock.was_put_in_the_librarys_order());
        assert!(!guarded.lock.was_put_in_the_librarys_order(), "it is told once");
        // From now on readers get in at once.
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(guarded.try_read(), Ok(()));
                guarded.unlock().unwrap();
            });
        });
    });
    guarded.check_idle();
}

#[test]
fn lock_whose_writers_come_first_in_the_library_keeps_its_order() {
    let bytes = Bytes::new();
    // SAFETY: nobody else has the bytes. The flags prefer writers, also before nested readers.
    unsafe { bytes.0.get().cast::<u32>().add(12).write(2) };
    let (lock, reads) = (bytes.lock(), Reads::new());
    assert!(lock.claim());
    lock.read(&reads, me(), None).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            lock.write(me(), None).unwrap();
            lock.unlock(&Reads::new(), me()).unwrap();
        });
        testing::until("the writer waits", || lock.waiting(me()).writers > 0);
        scope.spawn(|| {
            let until = Some(Deadline::after_ns(150 * MS));
            assert_eq!(lock.read(&Reads::new(), me(), until), Err(Failure::TimedOut));
        });
        testing::until("the reader waits", || lock.waiting(me()).readers > 0);
        testing::until("it gives up", || lock.waiting(me()).readers == 0);
        assert!(!lock.lets_readers_first() && !writer.is_finished());
        lock.unlock(&reads, me()).unwrap();
    });
}

#[test]
fn reader_that_waits_long_for_a_writer_inside_changes_nothing() {
    let guarded = Guarded::new();
    guarded.write(None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let until = Some(Deadline::after_ns(150 * MS));
            assert_eq!(guarded.read(until), Err(Failure::TimedOut));
        });
    });
    assert!(!guarded.lock.lets_readers_first());
    guarded.unlock().unwrap();
    guarded.check_idle();
}

#[test]
fn thread_that_reads_more_locks_than_its_table_holds_never_waits_for_itself() {
    let many: Vec<Guarded> = (0..20).map(|_| Guarded::new()).collect();
    many.iter().for_each(|guarded| guarded.read(None).unwrap());
    thread::scope(|scope| {
        let last = &many[19];
        scope.spawn(move || {
            last.write(None).unwrap();
            last.unlock().unwrap();
        });
        last.await_waiting(0, 1);
        last.read(None).unwrap();
        last.unlock().unwrap();
        many.iter().for_each(|guarded| assert_eq!(guarded.unlock(), Ok(Unlocked::Read)));
    });
    many.iter().for_each(Guarded::check_idle);
}
