//! Sleeping on words of memory, and lending priority through them.
//!
//! All waits may end early for no reason; a waiter looks again. None of these functions
//! touches `errno`. A word is *private* when only this process waits for it.

#[cfg(loom)]
pub(crate) use model::{have_limits, lock_pi, now, unlock_pi, wait, wait_either, wake};
#[cfg(loom)]
pub use model::{interrupt_next_sleep, with_limits};
#[cfg(not(loom))]
pub(crate) use real::{have_limits, lock_pi, now, unlock_pi, wait, wait_either, wake};

/// The clocks by which the C library's functions take deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_REALTIME`, which jumps when it is set.
    Realtime,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
}

/// A point in time at which to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Clock of the deadline.
    pub clock: Clock,
    /// Nanoseconds on it.
    pub at_ns: i64,
}

impl Deadline {
    /// Returns the deadline this number of nanoseconds from now.
    pub fn after_ns(ns: i64) -> Deadline {
        Deadline { clock: Clock::Monotonic, at_ns: now(Clock::Monotonic).saturating_add(ns) }
    }

    /// The end of a limit that a wait has by itself, from now on.
    pub(crate) fn limit_ns(ns: i64) -> Option<Deadline> {
        have_limits().then(|| Deadline::after_ns(ns))
    }

    /// Returns true if it has passed.
    pub fn is_over(self) -> bool {
        now(self.clock) >= self.at_ns
    }

    /// Returns its time on the realtime clock, as far as can be said now, but at most so many
    /// nanoseconds from now.
    pub fn on_realtime_clock(self, at_most_ns: i64) -> i64 {
        let left = self.at_ns.saturating_sub(now(self.clock)).clamp(0, at_most_ns);
        now(Clock::Realtime).saturating_add(left)
    }

    /// The earlier of this and a point in time on the monotonic clock.
    pub(crate) fn or_before(this: Option<Deadline>, limit: Deadline) -> Deadline {
        match this {
            // Deadlines on different clocks: how far away each is.
            Some(own) if own.at_ns - now(own.clock) < limit.at_ns - now(limit.clock) => own,
            _ => limit,
        }
    }
}

/// Reason for the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// A wake-up, another value of the word, or a spurious return.
    Maybe,
    /// The time is over.
    TimedOut,
}

/// Reason for which a thread could not lend its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLent {
    /// The time is over, or the wait ended early.
    #[cfg_attr(loom, allow(dead_code, reason = "the models' kernel does not time out"))]
    TimedOut,
    /// The kernel refuses: the owner is dead, or waits for this thread, or it has no such futexes.
    Refused,
}

#[cfg(not(loom))]
mod real {
    use super::{Clock, Deadline, NotLent, Woken};
    use crate::atomic::{AtomicU32, Ordering};
    use crate::kernel::{call, is_restricted};
    use core::ptr;
    use core::sync::atomic::AtomicBool;

    /// The numbers of the system calls on x86-64.
    const FUTEX: usize = 202;
    const FUTEX_WAITV: usize = 449;

    /// Operations of `futex`.
    const WAKE: usize = 1;
    const LOCK_PI: usize = 6;
    const UNLOCK_PI: usize = 7;
    const WAIT_BITSET: usize = 9;
    const LOCK_PI2: usize = 13;
    /// Added to them.
    const PRIVATE: usize = 128;
    const CLOCK_REALTIME: usize = 256;
    /// Waits for a wake-up.
    const ALL_BITS: usize = u32::MAX as usize;

    /// Errors.
    const NOT_PERMITTED: isize = -1;
    const INTERRUPTED: isize = -4;
    const AGAIN: isize = -11;
    const INVALID: isize = -22;
    const NO_SUCH_CALL: isize = -38;
    const TIMED_OUT: isize = -110;

    /// Returns true if waits have limits of their own.
    pub(crate) const fn have_limits() -> bool {
        true
    }

    /// A point in time as the kernel takes it.
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }

    /// Nanoseconds on a clock.
    pub(crate) fn now(clock: Clock) -> i64 {
        let ns = match clock {
            Clock::Realtime => realtime::clock::realtime_ns(),
            Clock::Monotonic => realtime::clock::monotonic_ns(),
        };
        i64::try_from(ns).unwrap_or(i64::MAX)
    }

    fn time(deadline: Deadline) -> Time {
        let at_ns = deadline.at_ns.max(0);
        Time { seconds: at_ns / 1_000_000_000, nanoseconds: at_ns % 1_000_000_000 }
    }

    fn address(time: Option<&Time>) -> usize {
        time.map_or(0, |time| ptr::from_ref(time).expose_provenance())
    }

    fn woken(result: isize) -> Woken {
        if result == TIMED_OUT { Woken::TimedOut } else { Woken::Maybe }
    }

    /// Sleeps while the word has this value. Of those that sleep the kernel wakes the most urgent
    /// first, and equals in the order in which they came.
    pub(crate) fn wait(
        word: &AtomicU32,
        value: u32,
        until: Option<Deadline>,
        private: bool,
    ) -> Woken {
        let time = until.map(time);
        let mut operation = if private { WAIT_BITSET | PRIVATE } else { WAIT_BITSET };
        if until.is_some_and(|until| until.clock == Clock::Realtime) {
            operation |= CLOCK_REALTIME;
        }
        let (word, value) = (word.as_ptr().expose_provenance(), value as usize);
        let arguments = [word, operation, value, address(time.as_ref()), 0, ALL_BITS];
        // SAFETY: it reads the word and the time.
        woken(unsafe { call(FUTEX, arguments) })
    }

    /// Wakes this number of threads that sleep on a word. The word may be gone by now: a thread
    /// that let a lock go has no right to look at it any more, and the kernel takes the address as
    /// a name.
    pub(crate) fn wake(word: *const AtomicU32, count: u32, private: bool) {
        let operation = if private { WAKE | PRIVATE } else { WAKE };
        // SAFETY: this system call reads and writes no memory of this process.
        unsafe { call(FUTEX, [word.expose_provenance(), operation, count as usize, 0, 0, 0]) };
    }

    /// Sleeps while both private words have these values.
    pub(crate) fn wait_either(
        words: [(&AtomicU32, u32); 2],
        until: Option<Deadline>,
        poll_ns: i64,
    ) -> Woken {
        /// `struct futex_waitv`
        #[repr(C)]
        struct Entry {
            value: u64,
            word: u64,
            flags: u32,
            reserved: u32,
        }
        const SIZE_U32: u32 = 2;
        let entries = words.map(|(word, value)| Entry {
            value: value.into(),
            word: word.as_ptr().expose_provenance() as u64,
            flags: SIZE_U32 | PRIVATE as u32,
            reserved: 0,
        });
        let clock = match until.map(|until| until.clock) {
            Some(Clock::Realtime) => 0,
            _ => 1,
        };
        let time = until.map(time);
        let arguments =
            [entries.as_ptr().expose_provenance(), 2, 0, address(time.as_ref()), clock, 0];
        let result = match is_restricted() {
            true => NOT_PERMITTED,
            // SAFETY: it reads the entries, the words that they name, and the time.
            false => unsafe { call(FUTEX_WAITV, arguments) },
        };
        match result {
            // Before Linux 5.16, or forbidden: look at the first word now and then.
            NO_SUCH_CALL | NOT_PERMITTED | INVALID => {
                let limit = Deadline::or_before(until, Deadline::after_ns(poll_ns));
                let _ = wait(words[1].0, words[1].1, Some(limit), true);
                match until {
                    Some(until) if until.is_over() => Woken::TimedOut,
                    _ => Woken::Maybe,
                }
            }
            result => woken(result),
        }
    }

    fn lock_pi_by(operation: usize, word: &AtomicU32, until: Deadline) -> isize {
        let time = time(until);
        let arguments =
            [word.as_ptr().expose_provenance(), operation | PRIVATE, 0, address(Some(&time)), 0, 0];
        // SAFETY: it reads and writes the word, and reads the time.
        unsafe { call(FUTEX, arguments) }
    }

    /// Lends the calling thread's priority to the thread whose id is in the private word, until
    /// that one gives it back by [`unlock_pi`] or ends. The word then has the caller's id.
    pub(crate) fn lock_pi(word: &AtomicU32, _me: u32, until: Deadline) -> Result<(), NotLent> {
        /// True if the kernel is older than Linux 5.14: deadlines of the realtime clock only.
        static IS_OLD: AtomicBool = AtomicBool::new(false);
        if is_restricted() {
            return Err(NotLent::Refused);
        }
        // Relaxed: who does not know it yet finds it out.
        let by_monotonic = until.clock == Clock::Monotonic && !IS_OLD.load(Ordering::Relaxed);
        let by_realtime = || {
            let at_ns = match until.clock {
                Clock::Realtime => until.at_ns,
                Clock::Monotonic => until.on_realtime_clock(i64::MAX),
            };
            lock_pi_by(LOCK_PI, word, Deadline { clock: Clock::Realtime, at_ns })
        };
        let mut result =
            if by_monotonic { lock_pi_by(LOCK_PI2, word, until) } else { by_realtime() };
        if by_monotonic && result == NO_SUCH_CALL {
            IS_OLD.store(true, Ordering::Relaxed);
            result = by_realtime();
        }
        match result {
            0 => Ok(()),
            TIMED_OUT | INTERRUPTED | AGAIN => Err(NotLent::TimedOut),
            _ => Err(NotLent::Refused),
        }
    }

    /// Gives back what was lent through a word that has the caller's id; else does nothing.
    pub(crate) fn unlock_pi(word: &AtomicU32, me: u32) {
        const ID: u32 = 0x3fff_ffff;
        // The kernel checks that too; here it saves the call.
        if word.load(Ordering::SeqCst) & ID == me {
            // SAFETY: it reads and writes the word.
            unsafe {
                call(FUTEX, [word.as_ptr().expose_provenance(), UNLOCK_PI | PRIVATE, 0, 0, 0, 0])
            };
        }
    }
}

/// The kernel's promises as a model: looking at the words and going to sleep is one step. Time is
/// over whenever a thread would have to sleep until a deadline.
#[cfg(loom)]
mod model {
    use super::{Clock, Deadline, NotLent, Woken};
    use crate::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    /// The kernel's mark that a thread waits for the word.
    const WAITERS: u32 = 1 << 31;

    struct Sleeper {
        words: [usize; 2],
        number: u64,
        /// Its id, when it lends its priority.
        lender: u32,
        woken: bool,
    }

    #[derive(Default)]
    struct Sleepers {
        next: u64,
        list: Vec<Sleeper>,
    }

    loom::lazy_static! {
        static ref QUEUE: (Mutex<Sleepers>, Condvar) =
            (Mutex::new(Sleepers::default()), Condvar::new());
    }

    std::thread_local! {
        static LIMITS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Runs a model in which the limits that waits have by themselves are over at once; else they
    /// never are. Loom's threads all run on the calling thread.
    pub fn with_limits(model: impl FnOnce()) {
        LIMITS.set(true);
        model();
        LIMITS.set(false);
    }

    pub(crate) fn have_limits() -> bool {
        LIMITS.get()
    }

    type Handler = Box<dyn FnOnce()>;

    loom::thread_local! {
        static HANDLER: std::cell::RefCell<Option<Handler>> = std::cell::RefCell::new(None);
    }

    /// A signal handler of the calling thread, which interrupts it where it would sleep on two
    /// words.
    pub fn interrupt_next_sleep(handler: impl FnOnce() + 'static) {
        HANDLER.with(|slot| *slot.borrow_mut() = Some(Box::new(handler)));
    }

    pub(crate) fn now(_: Clock) -> i64 {
        0
    }

    fn address(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word) as usize
    }

    /// The value that a word has: a load may give loom's threads an older one.
    fn latest(word: &AtomicU32) -> u32 {
        word.fetch_add(0, Ordering::SeqCst)
    }

    /// Sleeps until it is woken, if `looks` still says so.
    fn sleep(words: [usize; 2], lender: u32, looks: impl Fn() -> bool) {
        let (mutex, condition) = &*QUEUE;
        let mut sleepers = mutex.lock().unwrap();
        if !looks() {
            return;
        }
        sleepers.next += 1;
        let number = sleepers.next;
        sleepers.list.push(Sleeper { words, number, lender, woken: false });
        loop {
            sleepers = condition.wait(sleepers).unwrap();
            let at = sleepers.list.iter().position(|sleeper| sleeper.number == number).unwrap();
            if sleepers.list[at].woken {
                sleepers.list.remove(at);
                return;
            }
        }
    }

    pub(crate) fn wait(
        word: &AtomicU32,
        value: u32,
        until: Option<Deadline>,
        _private: bool,
    ) -> Woken {
        if until.is_some() {
            let looks = latest(word) == value;
            return if looks { Woken::TimedOut } else { Woken::Maybe };
        }
        sleep([address(word), 0], 0, || latest(word) == value);
        Woken::Maybe
    }

    pub(crate) fn wait_either(
        words: [(&AtomicU32, u32); 2],
        until: Option<Deadline>,
        _poll_ns: i64,
    ) -> Woken {
        let looks = || words.iter().all(|(word, value)| latest(word) == *value);
        if let Some(handler) = HANDLER.with(|slot| slot.borrow_mut().take()) {
            handler();
            return Woken::Maybe;
        }
        if until.is_some() {
            return if looks() { Woken::TimedOut } else { Woken::Maybe };
        }
        sleep(words.map(|(word, _)| address(word)), 0, looks);
        Woken::Maybe
    }

    pub(crate) fn wake(word: *const AtomicU32, count: u32, _private: bool) {
        let (mutex, condition) = &*QUEUE;
        let mut sleepers = mutex.lock().unwrap();
        let asleep = sleepers.list.iter_mut().filter(|sleeper| {
            !sleeper.woken && sleeper.lender == 0 && sleeper.words.contains(&(word as usize))
        });
        asleep.take(count as usize).for_each(|sleeper| sleeper.woken = true);
        condition.notify_all();
    }

    /// Locks as the kernel does: a word without an owner's id becomes the caller's at once. The
    /// deadline is that of a safety net, which a correct protocol does not need: it never comes
    /// here.
    pub(crate) fn lock_pi(word: &AtomicU32, me: u32, _: Deadline) -> Result<(), NotLent> {
        let (mutex, condition) = &*QUEUE;
        let mut sleepers = mutex.lock().unwrap();
        if word.fetch_or(WAITERS, Ordering::SeqCst) == 0 {
            word.store(me, Ordering::SeqCst);
            return Ok(());
        }
        sleepers.next += 1;
        let number = sleepers.next;
        let words = [address(word), 0];
        sleepers.list.push(Sleeper { words, number, lender: me, woken: false });
        loop {
            sleepers = condition.wait(sleepers).unwrap();
            let at = sleepers.list.iter().position(|sleeper| sleeper.number == number).unwrap();
            if sleepers.list[at].woken {
                sleepers.list.remove(at);
                return Ok(());
            }
        }
    }

    pub(crate) fn unlock_pi(word: &AtomicU32, me: u32) {
        let (mutex, condition) = &*QUEUE;
        let mut sleepers = mutex.lock().unwrap();
        if latest(word) & !WAITERS != me {
            return;
        }
        let here = address(word);
        let mut lenders = sleepers
            .list
            .iter_mut()
            .filter(|sleeper| !sleeper.woken && sleeper.lender != 0 && sleeper.words[0] == here);
        let id = lenders.next().map_or(0, |sleeper| {
            sleeper.woken = true;
            sleeper.lender
        });
        let mark = if lenders.next().is_some() { WAITERS } else { 0 };
        word.store(id | mark, Ordering::SeqCst);
        condition.notify_all();
    }
}
