//! The phase-fair read-write lock under the loom model checker, with mutants that must fail. Run
//! with `RUSTFLAGS="--cfg loom" cargo test -p keeptime-guard --release --test rwlock_loom`.
//!
//! A deadline in the model is over whenever a thread would have to sleep until it. The lock at the
//! door is the kernel's, one step to enter and one to leave; the queue behind it is a cell of
//! loom's, which complains about two threads at once.
#![cfg(loom)]

use guard::mutant::Mutant;
use guard::rwlock::{Failure, Lender, Readers, Reads, Rwlock, Unlocked, Waiting};
use guard::{Clock, Deadline, Table, Waiter, with_limits};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

const SOON: Option<Deadline> = Some(Deadline { clock: Clock::Monotonic, at_ns: 1 });

/// A lock and what it guards.
struct Guarded {
    lock: Rwlock,
    /// Number of writers that have been inside.
    writes: UnsafeCell<u32>,
}

// SAFETY: the cell is what the models check: loom fails when two threads get at it.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    fn new() -> Arc<Guarded> {
        Arc::new(Guarded { lock: Rwlock::new(), writes: UnsafeCell::new(0) })
    }

    fn look(&self) -> u32 {
        // SAFETY: loom checks it.
        self.writes.with(|writes| unsafe { *writes })
    }

    /// Waits to write, writes, lets go.
    fn write(&self, me: u32, until: Option<Deadline>) -> Result<(), Failure> {
        self.lock.write(me, until)?;
        // SAFETY: loom checks it.
        self.writes.with_mut(|writes| unsafe { *writes += 1 });
        assert_eq!(self.lock.unlock(&Reads::new(), me), Ok(Unlocked::Write));
        Ok(())
    }

    /// Waits to write, lets go.
    fn write_nothing(&self, me: u32, until: Option<Deadline>) -> Result<(), Failure> {
        self.lock.write(me, until)?;
        self.lock.unlock(&Reads::new(), me).map(drop)
    }

    /// Waits to read, reads, lets go; returns how many writers have been inside.
    fn read(&self, me: u32, until: Option<Deadline>) -> Result<u32, Failure> {
        let reads = Reads::new();
        if let Err(failure) = self.lock.read(&reads, me, until) {
            assert!(reads.is_empty(), "a reader that gave up reads");
            return Err(failure);
        }
        let seen = self.look();
        assert_eq!(self.lock.unlock(&reads, me), Ok(Unlocked::Read));
        assert!(reads.is_empty());
        Ok(seen)
    }

    /// Nobody is left inside or in the queue.
    fn check_idle(&self) {
        assert!(self.lock.is_idle(1), "somebody was left behind");
        assert_eq!(self.lock.try_write(1), Ok(()), "a free lock is not to be had");
        assert_eq!(self.lock.unlock(&Reads::new(), 1), Ok(Unlocked::Write));
    }
}

fn spawn<S: 'static, T: 'static>(
    shared: &Arc<S>,
    act: impl FnOnce(&S) -> T + 'static,
) -> JoinHandle<T> {
    let shared = shared.clone();
    thread::spawn(move || act(&shared))
}

/// Explores all executions with at most so many preemptions, that is, switches away from a thread
/// that could go on. Without a bound the models take hours; `LOOM_MAX_PREEMPTIONS` raises it.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.max(Some(preemptions));
    builder.check(model);
}

fn two_readers_and_a_writer() {
    check(2, || {
        let guarded = Guarded::new();
        let writer = spawn(&guarded, |guarded| guarded.write(2, None));
        let reader = spawn(&guarded, |guarded| guarded.read(3, None));
        guarded.read(1, None).unwrap();
        writer.join().unwrap().unwrap();
        reader.join().unwrap().unwrap();
        guarded.check_idle();
    });
}

fn a_reader_and_two_writers() {
    check(2, || {
        let guarded = Guarded::new();
        let writer = spawn(&guarded, |guarded| guarded.write(2, None));
        let reader = spawn(&guarded, |guarded| guarded.read(3, None));
        guarded.write(1, None).unwrap();
        writer.join().unwrap().unwrap();
        assert!(reader.join().unwrap().unwrap() <= 2);
        assert_eq!(guarded.look(), 2);
        guarded.check_idle();
    });
}

/// A writer that comes while somebody reads, and a reader that comes after it: the reader is not
/// before the writer.
fn reader_behind_a_writer() {
    check(2, || {
        let guarded = Guarded::new();
        let reads = Reads::new();
        guarded.lock.read(&reads, 1, None).unwrap();
        let writer = spawn(&guarded, |guarded| guarded.write(2, None));
        let reader = spawn(&guarded, |guarded| {
            let writer_waits = guarded.lock.is_contended();
            let writes = guarded.read(3, None).unwrap();
            assert!(!writer_waits || writes == 1, "a reader overtook a writer");
        });
        guarded.lock.unlock(&reads, 1).unwrap();
        writer.join().unwrap().unwrap();
        reader.join().unwrap();
        guarded.check_idle();
    });
}

/// A reader that waits with a writer for a writer inside is next.
fn reader_between_writers() {
    check(2, || {
        let guarded = Guarded::new();
        guarded.lock.write(1, None).unwrap();
        let writer = spawn(&guarded, |guarded| guarded.write(2, None));
        let reader = spawn(&guarded, |guarded| guarded.read(3, None));
        let both_wait = guarded.lock.waiting(1) == Waiting { readers: 1, writers: 1 };
        guarded.lock.unlock(&Reads::new(), 1).unwrap();
        writer.join().unwrap().unwrap();
        let writes = reader.join().unwrap().unwrap();
        assert!(!both_wait || writes == 0, "a writer overtook a reader");
        guarded.check_idle();
    });
}

/// A writer gives up while somebody reads: readers that waited because of it get in although the
/// first reader stays.
fn writer_gives_up() {
    check(3, || {
        let guarded = Guarded::new();
        let reads = Reads::new();
        guarded.lock.read(&reads, 1, None).unwrap();
        let writer = spawn(&guarded, |guarded| guarded.write(2, SOON));
        let reader = spawn(&guarded, |guarded| guarded.read(3, None));
        assert_eq!(writer.join().unwrap(), Err(Failure::TimedOut));
        assert_eq!(reader.join().unwrap(), Ok(0));
        guarded.lock.unlock(&reads, 1).unwrap();
        guarded.check_idle();
    });
}

/// A writer gives up while the lock is perhaps handed to it.
fn writer_gives_up_late() {
    check(3, || {
        let guarded = Guarded::new();
        let reads = Reads::new();
        guarded.lock.read(&reads, 1, None).unwrap();
        let writer = spawn(&guarded, |guarded| guarded.write(2, SOON));
        let other = spawn(&guarded, |guarded| guarded.write(3, None));
        guarded.lock.unlock(&reads, 1).unwrap();
        let written = u32::from(writer.join().unwrap().is_ok());
        other.join().unwrap().unwrap();
        assert_eq!(guarded.look(), written + 1);
        guarded.check_idle();
    });
}

/// A reader gives up while it is perhaps let in.
fn reader_gives_up() {
    check(2, || {
        let guarded = Guarded::new();
        guarded.lock.write(1, None).unwrap();
        let reader = spawn(&guarded, |guarded| guarded.read(3, SOON));
        let writer = spawn(&guarded, |guarded| guarded.write(2, None));
        guarded.lock.unlock(&Reads::new(), 1).unwrap();
        writer.join().unwrap().unwrap();
        let _ = reader.join().unwrap();
        guarded.check_idle();
    });
}

/// A reader inside waits for another reader while a writer waits.
fn reader_needs_reader() {
    check(2, || {
        let guarded = Guarded::new();
        let reads = Reads::new();
        guarded.lock.read(&reads, 1, None).unwrap();
        let writer = spawn(&guarded, |guarded| guarded.write(2, None));
        let reader = spawn(&guarded, |guarded| guarded.read(3, None));
        assert_eq!(reader.join().unwrap(), Ok(0));
        guarded.lock.unlock(&reads, 1).unwrap();
        writer.join().unwrap().unwrap();
        guarded.check_idle();
    });
}

fn reader_that_needs_a_reader() {
    with_limits(reader_needs_reader);
}

/// A reader's limit is over while the lock is perhaps handed to the writer that it waits for, or
/// to another one.
fn limit_beside_writers() {
    fn model() {
        check(2, || {
            let guarded = Guarded::new();
            let reads = Reads::new();
            guarded.lock.read(&reads, 1, None).unwrap();
            let writer = spawn(&guarded, |guarded| guarded.write(2, None));
            let reader = spawn(&guarded, |guarded| guarded.read(3, None));
            guarded.lock.unlock(&reads, 1).unwrap();
            guarded.write(1, None).unwrap();
            writer.join().unwrap().unwrap();
            assert!(reader.join().unwrap().unwrap() <= 2);
            assert_eq!(guarded.look(), 2);
            guarded.check_idle();
        });
    }
    with_limits(model);
}

/// A thread that reads reads again while a writer waits.
fn nested_reader() {
    check(2, || {
        let guarded = Guarded::new();
        let writer = spawn(&guarded, |guarded| guarded.write(2, None));
        let other = spawn(&guarded, |guarded| guarded.write(3, SOON));
        let reads = Reads::new();
        guarded.lock.read(&reads, 1, None).unwrap();
        let before = guarded.look();
        guarded.lock.read(&reads, 1, None).unwrap();
        assert_eq!(guarded.look(), before);
        guarded.lock.unlock(&reads, 1).unwrap();
        assert_eq!(guarded.look(), before);
        guarded.lock.unlock(&reads, 1).unwrap();
        assert!(reads.is_empty());
        writer.join().unwrap().unwrap();
        let _ = other.join().unwrap();
        guarded.check_idle();
    });
}

/// Attempts that do not wait, beside a writer and a reader.
fn attempts() {
    check(2, || {
        let guarded = Guarded::new();
        let writer = spawn(&guarded, |guarded| guarded.write(2, None));
        let reader = spawn(&guarded, |guarded| guarded.read(3, None));
        let reads = Reads::new();
        if guarded.lock.try_read(&reads, 1).is_ok() {
            guarded.look();
            guarded.lock.unlock(&reads, 1).unwrap();
        }
        assert!(reads.is_empty());
        if guarded.lock.try_write(1).is_ok() {
            // SAFETY: loom checks it.
            guarded.writes.with_mut(|writes| unsafe { *writes += 1 });
            guarded.lock.unlock(&reads, 1).unwrap();
        }
        writer.join().unwrap().unwrap();
        reader.join().unwrap().unwrap();
        guarded.check_idle();
    });
}

/// The last one to get the lock may free it: nobody else touches it any more.
fn last_owner_may_free_the_lock() {
    fn leave(guarded: &Guarded, me: u32) {
        guarded.lock.write(me, None).unwrap();
        // SAFETY: loom checks it.
        let left = guarded.writes.with_mut(|writes| unsafe {
            *writes += 1;
            *writes
        });
        assert!(left < 3 || guarded.lock.is_door_free(), "the lock is still in use");
        guarded.lock.unlock(&Reads::new(), me).unwrap();
    }
    check(2, || {
        let guarded = Guarded::new();
        let other = spawn(&guarded, |guarded| leave(guarded, 2));
        let third = spawn(&guarded, |guarded| {
            let _ = guarded.write_nothing(3, SOON);
            leave(guarded, 3);
        });
        leave(&guarded, 1);
        other.join().unwrap();
        third.join().unwrap();
    });
}

/// As above, when the only one who waited gives up while the owner lets the lock go.
fn next_owner_may_free_the_lock() {
    check(4, || {
        let guarded = Guarded::new();
        guarded.lock.write(1, None).unwrap();
        let waiter = spawn(&guarded, |guarded| guarded.write_nothing(3, SOON));
        let next = spawn(&guarded, |guarded| {
            let _ = waiter.join().unwrap();
            guarded.lock.write(2, None).unwrap();
            assert!(guarded.lock.is_door_free(), "the lock is still in use");
            guarded.lock.unlock(&Reads::new(), 2).unwrap();
        });
        guarded.lock.unlock(&Reads::new(), 1).unwrap();
        next.join().unwrap();
    });
}

/// A lock whose users lend their priority. Nobody's net is ever used in lending: whoever is not
/// given back what it lent sleeps for ever.
struct Lending {
    guarded: Arc<Guarded>,
    table: Table,
    readers: Readers,
}

impl Lending {
    fn new() -> Arc<Lending> {
        let (table, readers) = (Table::new(), Readers::new());
        Arc::new(Lending { guarded: Guarded::new(), table, readers })
    }

    fn by(&self, thread: u32, urgency: u32) -> Lender<'_> {
        Lender { table: &self.table, readers: &self.readers, waiter: Waiter { thread, urgency } }
    }

    /// Reads without letting go.
    fn enter(&self, me: u32) -> Reads {
        let reads = Reads::new();
        self.guarded.lock.read_lending(&reads, self.by(me, 0), None).unwrap();
        reads
    }

    /// Lets go what was read.
    fn leave(&self, me: u32, reads: &Reads) {
        let left = self.guarded.lock.unlock_lending(reads, self.by(me, 0));
        assert_eq!(left, Ok(Unlocked::Read));
    }

    fn read(&self, me: u32, urgency: u32) {
        let reads = Reads::new();
        self.guarded.lock.read_lending(&reads, self.by(me, urgency), None).unwrap();
        self.guarded.look();
        self.leave(me, &reads);
    }

    fn write(&self, me: u32, urgency: u32) {
        self.guarded.lock.write_lending(self.by(me, urgency), None).unwrap();
        // SAFETY: loom checks it.
        self.guarded.writes.with_mut(|writes| unsafe { *writes += 1 });
        let left = self.guarded.lock.unlock_lending(&Reads::new(), self.by(me, urgency));
        assert_eq!(left, Ok(Unlocked::Write));
    }
}

/// A writer lends to two readers inside, one after the other.
fn lending_writer_and_two_readers() {
    check(2, || {
        let lending = Lending::new();
        let (first, second) = (lending.enter(1), lending.enter(2));
        let writer = spawn(&lending, |lending| lending.write(3, 50));
        let reader = spawn(&lending, move |lending| lending.leave(2, &second));
        lending.leave(1, &first);
        writer.join().unwrap();
        reader.join().unwrap();
        lending.guarded.check_idle();
    });
}

/// A writer lends to a thread that reads twice.
fn lending_writer_and_nested_reader() {
    check(3, || {
        let lending = Lending::new();
        let reads = lending.enter(1);
        let writer = spawn(&lending, |lending| lending.write(3, 50));
        lending.guarded.lock.read_lending(&reads, lending.by(1, 0), None).unwrap();
        lending.leave(1, &reads);
        lending.leave(1, &reads);
        writer.join().unwrap();
        lending.guarded.check_idle();
    });
}

/// A reader lends to a writer inside.
fn lending_reader_and_a_writer() {
    check(3, || {
        let lending = Lending::new();
        let reader = spawn(&lending, |lending| lending.read(2, 50));
        lending.write(1, 0);
        reader.join().unwrap();
        lending.guarded.check_idle();
    });
}

/// A writer lends to the writer inside, and then to the one that came before itself.
fn lending_writer_behind_two_writers() {
    check(2, || {
        let lending = Lending::new();
        lending.guarded.lock.write_lending(lending.by(1, 0), None).unwrap();
        let next = spawn(&lending, |lending| lending.write(2, 0));
        let last = spawn(&lending, |lending| lending.write(3, 50));
        lending.guarded.lock.unlock_lending(&Reads::new(), lending.by(1, 0)).unwrap();
        next.join().unwrap();
        last.join().unwrap();
        lending.guarded.check_idle();
    });
}

/// A writer lends to the reader inside, not to one that waits behind itself.
fn lending_writer_before_a_reader() {
    check(2, || {
        let lending = Lending::new();
        let reads = lending.enter(5);
        let writer = spawn(&lending, |lending| lending.write(3, 50));
        let reader = spawn(&lending, |lending| lending.read(2, 0));
        lending.leave(5, &reads);
        writer.join().unwrap();
        reader.join().unwrap();
        lending.guarded.check_idle();
    });
}

macro_rules! models {
    ($($test:ident: $model:ident;)*) => {
        $(#[test]
        fn $test() {
            $model();
        })*
    };
}

models! {
    readers_and_a_writer_exclude_each_other: two_readers_and_a_writer;
    writers_and_a_reader_exclude_each_other: a_reader_and_two_writers;
    reader_does_not_overtake_a_waiting_writer: reader_behind_a_writer;
    writer_that_leaves_lets_readers_in_before_writers: reader_between_writers;
    writer_that_gives_up_lets_in_the_readers_behind_it: writer_gives_up;
    writer_that_gives_up_loses_no_hand_over: writer_gives_up_late;
    reader_that_gives_up_is_not_counted: reader_gives_up;
    thread_that_reads_may_read_again_while_a_writer_waits: nested_reader;
    reader_that_needs_a_reader_gets_it: reader_that_needs_a_reader;
    reader_whose_limit_is_over_excludes_writers: limit_beside_writers;
    attempts_leave_no_mark: attempts;
    nobody_touches_a_lock_that_its_last_owner_may_free: last_owner_may_free_the_lock;
    nobody_touches_a_lock_that_its_next_owner_may_free: next_owner_may_free_the_lock;
    writer_that_lends_to_readers_gets_in: lending_writer_and_two_readers;
    writer_that_lends_to_a_nested_reader_gets_in: lending_writer_and_nested_reader;
    reader_that_lends_to_a_writer_gets_in: lending_reader_and_a_writer;
    writer_that_lends_to_writers_gets_in: lending_writer_behind_two_writers;
    writer_does_not_lend_to_who_waits_for_it: lending_writer_before_a_reader;
}

const MUTANTS: [(Mutant, fn(), &str); 15] = [
    (Mutant::ReaderOvertakesWriter, reader_behind_a_writer, "a reader overtook a writer"),
    (Mutant::WriterNotTold, two_readers_and_a_writer, "deadlock"),
    (Mutant::WriterLeavesItsMark, writer_gives_up, "deadlock"),
    (Mutant::WriterOvertakesReaders, reader_between_writers, "a writer overtook a reader"),
    (Mutant::EntryForgotten, reader_gives_up, "somebody was left behind"),
    (Mutant::DoorNotWaitedFor, last_owner_may_free_the_lock, "the lock is still in use"),
    (Mutant::FreeBeforeDoorCloses, next_owner_may_free_the_lock, "the lock is still in use"),
    (Mutant::LimitForgotten, reader_that_needs_a_reader, "deadlock"),
    (Mutant::LimitIgnoresWriter, limit_beside_writers, "Causality violation"),
    (Mutant::NestedReaderWaits, nested_reader, "deadlock"),
    (Mutant::ReaderLeavesLate, lending_writer_and_two_readers, "deadlock"),
    (Mutant::ReaderNotLookedAtAgain, lending_writer_and_two_readers, "deadlock"),
    (Mutant::OwnerNotLookedAtAgain, lending_writer_behind_two_writers, "deadlock"),
    (Mutant::WaitingReaderLentTo, lending_writer_before_a_reader, "deadlock"),
    (Mutant::ReaderWaitsWithALoan, lending_writer_before_a_reader, "deadlock"),
];

// Some need one more than their models have time for.
mutant::every_mutant_is_found!(MUTANTS, "LOOM_MAX_PREEMPTIONS" = "3");
