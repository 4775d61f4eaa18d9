//! Guarded locks: what of them is decided by how the program was started.
//!
//! A hook that finds the guard on asks [`mutexes`] whether the lock, taken from this address, is
//! guarded, and how. [`mutex`] does it. What is left alone is counted in the recording's side
//! area. When the program restricts its system calls the guard ends as the recording does: a thread
//! that waits in the table also sleeps where the C library wakes, or looks for itself.

pub(crate) mod guarded_mutex;
pub(crate) mod guarded_rwlock;

use crate::{attachment, origin, real};
use guard::mutex::LockPolicy;
use guard::rwlock::Readers;
use guard::{Table, Waiter};
use record::Side;
use record::guard::{GuardCount, GuardFlags, Mutexes};
use rustix::mm::Advice;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};

/// Pages of their own, so that the kernel can wipe them in a forked child: a thread that waits or
/// reads there is a thread of the parent's.
#[repr(C, align(4096))]
pub(crate) struct Wiped(Table, Readers);

impl Wiped {
    /// The table in the pages.
    pub(crate) fn table(&self) -> &Table {
        &self.0
    }

    /// The register in the pages.
    pub(crate) fn readers(&self) -> &Readers {
        &self.1
    }
}

/// The waiters of this process, and its readers where they are to be known.
pub(crate) static TABLE: Wiped = Wiped(Table::new(), Readers::new());

/// True if mutexes are the C library's own, with the words that we know.
static ARE_THE_C_LIBRARYS: AtomicBool = AtomicBool::new(false);
static EVERYWHERE: AtomicBool = AtomicBool::new(false);
static MUTEXES: AtomicU8 = AtomicU8::new(ALONE);
static BOUND_NS: AtomicI64 = AtomicI64::new(0);

const ALONE: u8 = 0;
const INHERIT: u8 = 1;
const FAIR: u8 = 2;
const FAIR_INHERIT: u8 = 3;

/// State that the gate is to show.
pub(crate) struct Begun {
    /// Mutexes are looked at before each use, since they may have to be converted.
    pub converts: bool,
}

/// Takes over how locks are to be guarded, before the gate opens. `None` when they are not.
pub(crate) fn begin(side: &Side) -> Option<Begun> {
    let (flags, bound_ns): (GuardFlags, u64) = side.guard();
    if !flags.any() {
        return None;
    }
    // SAFETY: the pages are this library's own, whole ones, and hold nothing that a child needs.
    let wiped = unsafe {
        let pages = std::ptr::from_ref(&TABLE).cast_mut().cast();
        rustix::mm::madvise(pages, size_of::<Wiped>(), Advice::LinuxWipeOnFork)
    };
    if wiped.is_err() {
        // A child would hand mutexes to its parent's threads: rather no guard.
        side.count(record::Trouble::NotAttached);
        return None;
    }
    guard::number_memory_by(attachment::memory);
    // A library between this one and the C library sees what the program calls.
    let rwlocks = flags.phase_fair() && !real::wraps_rwlocks();
    let are_known = !real::wraps_mutexes() && guarded_mutex::words_are_known();
    ARE_THE_C_LIBRARYS.store(are_known, Ordering::Relaxed);
    let mutexes = if are_known { flags.mutexes() } else { Mutexes::Alone };
    if (rwlocks, mutexes) != (flags.phase_fair(), flags.mutexes()) {
        side.count_guard(GuardCount::Intercepted);
    }
    if mutexes == Mutexes::Inherit {
        guarded_mutex::learn_about_inheritance();
    }
    let mutexes = match mutexes {
        Mutexes::Alone => ALONE,
        Mutexes::Inherit => INHERIT,
        Mutexes::Fair => FAIR,
        Mutexes::FairInherit => FAIR_INHERIT,
    };
    EVERYWHERE.store(flags.everywhere(), Ordering::Relaxed);
    guarded_rwlock::begin(rwlocks, flags.boost());
    BOUND_NS.store(i64::try_from(bound_ns).unwrap_or(i64::MAX), Ordering::Relaxed);
    MUTEXES.store(mutexes, Ordering::Relaxed);
    Some(Begun { converts: mutexes == INHERIT })
}

/// Returns true if locks are guarded wherever they are taken from.
pub(crate) fn everywhere() -> bool {
    EVERYWHERE.load(Ordering::Relaxed)
}

/// Measure for mutexes that are taken from an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// They are made inheritance mutexes.
    Convert,
    /// Bounded bypass, perhaps with inheritance.
    Hand(LockPolicy),
}

/// Returns the way in which mutexes that are taken from this address are guarded, if they are.
#[inline(always)]
pub(crate) fn mutexes(from: usize) -> Option<Way> {
    if !attachment::is_guarded() || !origin::is_guarded(from) {
        return None;
    }
    let bound_ns = BOUND_NS.load(Ordering::Relaxed);
    match MUTEXES.load(Ordering::Relaxed) {
        INHERIT => Some(Way::Convert),
        FAIR => Some(Way::Hand(LockPolicy { bound_ns, inherit: false })),
        FAIR_INHERIT => Some(Way::Hand(LockPolicy { bound_ns, inherit: true })),
        _ => None,
    }
}

/// Returns true if mutexes are handed over, as long as there is a guard.
#[inline(always)]
fn hands_over() -> bool {
    MUTEXES.load(Ordering::Relaxed) >= FAIR
}

/// Returns true if mutexes are made inheritance mutexes.
#[inline(always)]
fn inherits() -> bool {
    MUTEXES.load(Ordering::Relaxed) == INHERIT
}

/// The table, while mutexes may stand in it.
#[inline(always)]
pub(crate) fn table() -> Option<&'static Table> {
    (attachment::is_guarded() && hands_over()).then_some(&TABLE.0)
}

/// The calling thread's id.
pub(crate) fn thread() -> u32 {
    crate::thread::this().id()
}

/// Finds out the calling thread's id, which the short ways need.
#[inline(always)]
pub(crate) fn know_thread() {
    if crate::thread::this().known_id().is_none() {
        thread();
    }
}

/// The calling thread as a waiter.
fn waiter(policy: LockPolicy) -> Waiter {
    let thread = thread();
    let urgency = if policy.inherit { guard::urgency_of(0) } else { 0 };
    Waiter { thread, urgency }
}

/// Counts something about guarded locks.
#[cold]
pub(crate) fn count(what: GuardCount) {
    if let Some(side) = attachment::side() {
        side.count_guard(what);
    }
}
