//! Wake-up of an executor: a count of rings, and a sleep until it has changed.
//!
//! The sleeper reads the count, looks whether there is something to do, and sleeps only while the
//! count is still the one it read: what came in between has rung, so no wake-up is lost. The end
//! of the sleep is a point in time of the monotonic clock, for a relative one would be late by as
//! long as the thread was kept from running before it fell asleep.
//!
//! Ringing is wait-free, and a system call only while a thread sleeps. Any thread may ring; a ring
//! wakes one sleeper, and an executor lets only one of its threads sleep here at a time.

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel's sleep until a point in time wants to know which wakers it is for: all.
const ANY: NonZeroU32 = NonZeroU32::MAX;

/// Rings when an executor may have something to do.
#[derive(Debug, Default)]
pub struct Bell {
    rings: AtomicU32,
    asleep: AtomicU32,
}

impl Bell {
    /// Wakes who sleeps, or keeps from sleeping who has looked before this ring.
    pub fn ring(&self) {
        // Sequentially consistent, as the two accesses in `wait`: of a ring and a sleep that
        // begins at the same time, at least one sees the other.
        self.rings.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            // The only error is a word that is not mapped, which a reference rules out.
            let _ = futex::wake(&self.rings, Flags::PRIVATE, 1);
        }
    }

    /// The number of rings so far.
    pub fn rings(&self) -> u32 {
        self.rings.load(Ordering::SeqCst)
    }

    /// Sleeps while the number of rings is `seen`, at most until the monotonic clock shows
    /// `until_ns`; may return early for no reason.
    pub fn wait(&self, seen: u32, until_ns: u64) {
        let until = Timespec {
            tv_sec: i64::try_from(until_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (until_ns % 1_000_000_000) as _,
        };
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let ended = futex::wait_bitset(&self.rings, Flags::PRIVATE, seen, Some(&until), ANY);
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(
            matches!(ended, Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT)),
            "{ended:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use realtime::clock::monotonic_ns;

    #[test]
    fn ring_between_the_look_and_the_sleep_is_not_lost() {
        let bell = Bell::default();
        let seen = bell.rings();
        bell.ring();
        // Without the ring this would sleep for ever.
        bell.wait(seen, u64::MAX);
    }

    #[test]
    fn sleep_ends_at_its_point_in_time() {
        let bell = Bell::default();
        let until_ns = monotonic_ns() + 3_000_000;
        while monotonic_ns() < until_ns {
            bell.wait(bell.rings(), until_ns);
        }
        bell.wait(bell.rings(), 0);
    }

    #[test]
    fn ring_wakes_a_sleeper_of_another_thread() {
        let bell = Bell::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while bell.rings() == 0 {
                    bell.wait(0, u64::MAX);
                }
            });
            while bell.asleep.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            bell.ring();
        });
        assert_eq!(bell.rings(), 1);
    }
}
