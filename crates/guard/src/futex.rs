//! Sleeping on words of memory, and lending priority through them.
//!
//! All waits may end early for no reason; whoever waits looks again. None of these functions
//! touches `errno`. A word is *private* when only this process waits for it.

#[cfg(loom)]
pub(crate) use model::{lock_pi, now, unlock_pi, wait, wait_either, wake};
#[cfg(not(loom))]
pub(crate) use real::{lock_pi, now, unlock_pi, wait, wait_either, wake};

/// The clocks by which the C library's functions take deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_REALTIME`, which jumps when somebody sets it.
    Realtime,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
}

/// A point in time at which to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// By which clock.
    pub clock: Clock,
    /// Nanoseconds on it.
    pub at_ns: i64,
}

impl Deadline {
    /// So many nanoseconds from now.
    pub fn after_ns(ns: i64) -> Deadline {
        Deadline { clock: Clock::Monotonic, at_ns: now(Clock::Monotonic).saturating_add(ns) }
    }

    /// Whether it has passed.
    pub fn is_over(self) -> bool {
        now(self.clock) >= self.at_ns
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

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Somebody woke the thread, or the word had another value, or for no reason.
    Maybe,
    /// The time is over.
    TimedOut,
}

/// Why a thread could not lend its priority.
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
    use core::num::NonZeroU32;
    use rustix::io::Errno;
    use rustix::thread::futex::{self, Flags, Timespec, Wait, WaitFlags, WaitPtr, WaitvFlags};
    use rustix::time::{ClockId, clock_gettime};

    /// The number of the system call `futex` on x86-64.
    const FUTEX: usize = 202;

    fn id(clock: Clock) -> ClockId {
        match clock {
            Clock::Realtime => ClockId::Realtime,
            Clock::Monotonic => ClockId::Monotonic,
        }
    }

    /// Nanoseconds on a clock.
    pub fn now(clock: Clock) -> i64 {
        let time = clock_gettime(id(clock));
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
    }

    fn timespec(deadline: Deadline) -> Timespec {
        let at_ns = deadline.at_ns.max(0);
        Timespec { tv_sec: at_ns / 1_000_000_000, tv_nsec: at_ns % 1_000_000_000 }
    }

    fn flags(private: bool, until: Option<Deadline>) -> Flags {
        let mut flags = if private { Flags::PRIVATE } else { Flags::empty() };
        if until.is_some_and(|until| until.clock == Clock::Realtime) {
            flags |= Flags::CLOCK_REALTIME;
        }
        flags
    }

    fn woken(result: Result<(), Errno>) -> Woken {
        if result == Err(Errno::TIMEDOUT) { Woken::TimedOut } else { Woken::Maybe }
    }

    /// Sleeps while the word has this value. Of those that sleep the kernel wakes the most urgent
    /// first, and equals in the order in which they came.
    pub fn wait(word: &AtomicU32, value: u32, until: Option<Deadline>, private: bool) -> Woken {
        let time = until.map(timespec);
        let flags = flags(private, until);
        woken(futex::wait_bitset(word, flags, value, time.as_ref(), NonZeroU32::MAX))
    }

    /// Wakes so many of those that sleep on a word. The word may be gone by now: whoever let a
    /// lock go has no right to look at it any more, and the kernel takes the address as a name.
    pub fn wake(word: *const AtomicU32, count: u32, private: bool) {
        const WAKE: usize = 1;
        const PRIVATE: usize = 128;
        let operation = if private { WAKE | PRIVATE } else { WAKE };
        // SAFETY: this system call reads and writes no memory of this process.
        unsafe {
            core::arch::asm!("syscall", inlateout("rax") FUTEX => _, in("rdi") word,
                in("rsi") operation, in("rdx") count as usize, out("rcx") _, out("r11") _,
                options(nostack));
        }
    }

    /// Sleeps while both private words have these values.
    pub fn wait_either(
        words: [(&AtomicU32, u32); 2],
        until: Option<Deadline>,
        poll_ns: i64,
    ) -> Woken {
        let entries = words.map(|(word, value)| {
            let mut entry = Wait::new();
            entry.val = u64::from(value);
            entry.uaddr = WaitPtr::new(word.as_ptr().cast());
            entry.flags = WaitFlags::PRIVATE | WaitFlags::SIZE_U32;
            entry
        });
        let clock = until.map_or(ClockId::Monotonic, |until| id(until.clock));
        let time = until.map(timespec);
        match futex::waitv(&entries, WaitvFlags::empty(), time.as_ref(), clock) {
            Err(Errno::TIMEDOUT) => Woken::TimedOut,
            // Before Linux 5.16, or forbidden: look at the first word now and then.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {
                let limit = Deadline::or_before(until, Deadline::after_ns(poll_ns));
                let _ = wait(words[1].0, words[1].1, Some(limit), true);
                match until {
                    Some(until) if until.is_over() => Woken::TimedOut,
                    _ => Woken::Maybe,
                }
            }
            _ => Woken::Maybe,
        }
    }

    /// Lends the calling thread's priority to the thread whose id is in the private word, until
    /// that one gives it back by [`unlock_pi`] or ends. The word then has the caller's id.
    pub fn lock_pi(word: &AtomicU32, _me: u32, until: Deadline) -> Result<(), NotLent> {
        let time = timespec(until);
        // By the monotonic clock since Linux 5.14, by the other before.
        let mut result = match until.clock {
            Clock::Monotonic => futex::lock_pi2(word, Flags::PRIVATE, Some(&time)),
            Clock::Realtime => futex::lock_pi(word, Flags::PRIVATE, Some(&time)),
        };
        if result == Err(Errno::NOSYS) && until.clock == Clock::Monotonic {
            let left = until.at_ns - now(Clock::Monotonic);
            let at_ns = now(Clock::Realtime).saturating_add(left);
            let time = timespec(Deadline { clock: Clock::Realtime, at_ns });
            result = futex::lock_pi(word, Flags::PRIVATE, Some(&time));
        }
        match result {
            Ok(()) => Ok(()),
            Err(Errno::TIMEDOUT | Errno::INTR | Errno::AGAIN) => Err(NotLent::TimedOut),
            Err(_) => Err(NotLent::Refused),
        }
    }

    /// Gives back what was lent through a word that has the caller's id; else does nothing.
    pub fn unlock_pi(word: &AtomicU32, me: u32) {
        const ID: u32 = 0x3fff_ffff;
        // The kernel checks that too; here it saves the call.
        if word.load(Ordering::SeqCst) & ID == me {
            let _ = futex::unlock_pi(word, Flags::PRIVATE);
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

    /// The kernel's mark that somebody waits for the word.
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

    /// As the kernel does it: with nobody's id in the word it is the caller's at once. A deadline
    /// is that of a safety net, which a correct protocol does not need: it never comes here.
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
