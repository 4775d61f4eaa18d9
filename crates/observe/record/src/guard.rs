//! Settings and counters, in the side area, of the guard of locks.

use crate::Side;
use std::sync::atomic::Ordering;

/// Beginnings of the file names of libraries whose locks are in the way of accelerator calls: those
/// that are guarded unless others are named.
pub const ACCELERATOR_LIBRARIES: [&str; 6] =
    ["libcuda.so", "libcudart.so", "libnvidia-", "libcublas", "libcudnn", "libnvinfer"];

/// Measures for those who wait for a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mutexes {
    /// Nothing.
    #[default]
    Alone,
    /// Inheritance mutexes in place of all mutexes.
    Inherit,
    /// Bounded bypass.
    Fair,
    /// Bounded bypass, and inheritance where a real-time thread waits.
    FairInherit,
}

/// Locks of a program that are guarded, and the measures for them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Guard {
    /// Measures for those who wait for a mutex.
    pub mutexes: Mutexes,
    /// True if read-write locks are made phase-fair.
    pub phase_fair: bool,
    /// True if the holders of phase-fair locks run at the priority of those who wait.
    pub boost: bool,
    /// Time in nanoseconds after which a waiter is not overtaken any more.
    pub bound_ns: u64,
    /// Locks of all libraries, not only of `libraries`.
    pub everywhere: bool,
    /// Beginnings of the file names of libraries whose locks are guarded.
    pub libraries: Vec<String>,
}

/// Counters that are kept while locks are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum GuardCount {
    /// Mutexes that were made inheritance mutexes.
    MutexConverted,
    /// Uses of mutexes that were left alone: robust ones.
    MutexRobust,
    /// Uses of mutexes that were left alone: with inheritance already.
    MutexInherits,
    /// Uses of mutexes that were left alone: with a ceiling.
    MutexCeiling,
    /// Uses of mutexes that were left alone: used by several processes.
    MutexShared,
    /// Uses of mutexes that were left alone: destroyed.
    MutexDestroyed,
    /// Uses of mutexes that were left alone: in use at the first encounter.
    MutexBusy,
    /// Uses of mutexes that were left alone: without an initialiser, in memory with unknown other
    /// users.
    MutexUnknownUsers,
    /// Waits for a mutex that ended with a hand-over.
    HandedOver,
    /// Waits that outlasted the bound.
    OutlastedBound,
    /// Waits of real-time threads in which the owner was lent their priority.
    Lent,
    /// Waits for which there was no place in the table.
    TableFull,
    /// Read-write locks that were made phase-fair.
    RwlockConverted,
    /// Uses of read-write locks that were left alone: used by several processes.
    RwlockShared,
    /// Uses of read-write locks that were left alone: in use at the first encounter.
    RwlockBusy,
    /// Processes whose lock functions are not the C library's own, as under a sanitizer, or that run
    /// under Valgrind.
    Intercepted,
    /// Read-write locks that got the C library's order, since readers waited too long for writers
    /// that wait.
    RwlockReadersFirst,
    /// Mutexes that were handed to a thread that did not take them in time, and taken back.
    TakenBack,
    /// Mutexes that were made inheritance mutexes, and that another thread than their owner let go.
    MutexLetGoByOthers,
}

/// Number of counters.
pub const GUARD_COUNTS: usize = 19;

impl GuardCount {
    /// All of them, in the order of their numbers.
    pub const ALL: [GuardCount; GUARD_COUNTS] = [
        GuardCount::MutexConverted,
        GuardCount::MutexRobust,
        GuardCount::MutexInherits,
        GuardCount::MutexCeiling,
        GuardCount::MutexShared,
        GuardCount::MutexDestroyed,
        GuardCount::MutexBusy,
        GuardCount::MutexUnknownUsers,
        GuardCount::HandedOver,
        GuardCount::OutlastedBound,
        GuardCount::Lent,
        GuardCount::TableFull,
        GuardCount::RwlockConverted,
        GuardCount::RwlockShared,
        GuardCount::RwlockBusy,
        GuardCount::Intercepted,
        GuardCount::RwlockReadersFirst,
        GuardCount::TakenBack,
        GuardCount::MutexLetGoByOthers,
    ];
}

const INHERIT: u32 = 1;
const FAIR: u32 = 2;
const PHASE_FAIR: u32 = 4;
const BOOST: u32 = 8;
const EVERYWHERE: u32 = 16;

/// Settings as a guarded process needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardFlags(u32);

impl GuardFlags {
    pub(crate) fn of(guard: &Guard) -> GuardFlags {
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        let mutexes = match guard.mutexes {
            Mutexes::Alone => 0,
            Mutexes::Inherit => INHERIT,
            Mutexes::Fair => FAIR,
            Mutexes::FairInherit => FAIR | INHERIT,
        };
        let others = flag(guard.phase_fair, PHASE_FAIR)
            | flag(guard.boost, BOOST)
            | flag(guard.everywhere, EVERYWHERE);
        GuardFlags(mutexes | others)
    }

    pub(crate) fn from_bits(bits: u32) -> GuardFlags {
        GuardFlags(bits)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if anything is guarded.
    pub fn any(self) -> bool {
        self.mutexes() != Mutexes::Alone || self.phase_fair()
    }

    /// Returns the measures for those who wait for a mutex.
    pub fn mutexes(self) -> Mutexes {
        match self.0 & (INHERIT | FAIR) {
            INHERIT => Mutexes::Inherit,
            FAIR => Mutexes::Fair,
            0 => Mutexes::Alone,
            _ => Mutexes::FairInherit,
        }
    }

    /// Returns true if read-write locks are made phase-fair.
    pub fn phase_fair(self) -> bool {
        self.0 & PHASE_FAIR != 0
    }

    /// Returns true if holders of phase-fair locks are boosted.
    pub fn boost(self) -> bool {
        self.0 & BOOST != 0
    }

    /// Returns true if locks of all libraries are guarded.
    pub fn everywhere(self) -> bool {
        self.0 & EVERYWHERE != 0
    }
}

impl Side {
    /// Counts something about guarded locks.
    pub fn count_guard(&self, what: GuardCount) {
        self.guard_counters()[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counters, in the order of [`GuardCount`].
    pub fn guard_counts(&self) -> [u64; GUARD_COUNTS] {
        std::array::from_fn(|at| self.guard_counters()[at].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_the_settings_say() {
        for mutexes in [Mutexes::Alone, Mutexes::Inherit, Mutexes::Fair, Mutexes::FairInherit] {
            for bits in 0..8 {
                let is = |bit: u32| bits & bit != 0;
                let guard = Guard {
                    mutexes,
                    phase_fair: is(1),
                    boost: is(2),
                    everywhere: is(4),
                    ..Guard::default()
                };
                let flags = GuardFlags::from_bits(GuardFlags::of(&guard).bits());
                assert_eq!(flags.mutexes(), mutexes);
                let all = (flags.phase_fair(), flags.boost(), flags.everywhere());
                assert_eq!(all, (is(1), is(2), is(4)));
                assert_eq!(flags.any(), mutexes != Mutexes::Alone || is(1));
            }
        }
    }

    #[test]
    fn counters_have_their_own_places() {
        assert!(GuardCount::ALL.iter().enumerate().all(|(at, count)| *count as usize == at));
    }
}
