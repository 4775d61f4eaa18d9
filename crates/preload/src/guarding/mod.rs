//! Guarded locks: what of them is decided by how the program was started.
//!
//! A hook that finds the guard on asks [`mutexes`] whether the lock, taken from this address, is
//! guarded, and how. [`mutex`] does it. What is left alone is counted in the recording's side
//! area. When the program restricts its system calls the guard ends as the recording does: whoever
//! waits in the table also sleeps where the C library wakes, or looks for itself.

pub mod mutex;

use crate::object::Object;
use crate::{attachment, origin, real};
use guard::mutex::Policy;
use guard::{Table, Waiter};
use record::Side;
use record::guard::{GuardCount, GuardFlags, Mutexes};
use rustix::mm::Advice;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};

/// Pages of their own, so that the kernel can wipe them in a forked child: whoever waits there is
/// a thread of the parent's.
#[repr(C, align(4096))]
pub struct Wiped(Table);

/// The waiters of this process.
pub static TABLE: Wiped = Wiped(Table::new());

static EVERYWHERE: AtomicBool = AtomicBool::new(false);
static PHASE_FAIR: AtomicBool = AtomicBool::new(false);
static MUTEXES: AtomicU8 = AtomicU8::new(ALONE);
static BOUND_NS: AtomicI64 = AtomicI64::new(0);

const ALONE: u8 = 0;
const INHERIT: u8 = 1;
const FAIR: u8 = 2;
const FAIR_INHERIT: u8 = 3;

/// What the gate is to say.
pub struct Begun {
    /// Mutexes are looked at before each use, since they may have to be converted.
    pub converts: bool,
}

/// Takes over how locks are to be guarded, before the gate opens. `None` when they are not.
pub fn begin(side: &Side) -> Option<Begun> {
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
    if !are_the_c_librarys() {
        side.count_guard(GuardCount::Intercepted);
        return None;
    }
    let mutexes = match flags.mutexes() {
        Mutexes::Alone => ALONE,
        Mutexes::Inherit => INHERIT,
        Mutexes::Fair => FAIR,
        Mutexes::FairInherit => FAIR_INHERIT,
    };
    EVERYWHERE.store(flags.everywhere(), Ordering::Relaxed);
    PHASE_FAIR.store(flags.phase_fair(), Ordering::Relaxed);
    BOUND_NS.store(i64::try_from(bound_ns).unwrap_or(i64::MAX), Ordering::Relaxed);
    MUTEXES.store(mutexes, Ordering::Relaxed);
    Some(Begun { converts: mutexes == INHERIT })
}

/// Whether the functions behind the hooks are the C library's own. Others, a sanitizer's for one,
/// keep accounts of their own of who has what.
fn are_the_c_librarys() -> bool {
    let is_its = |address: usize| {
        let library = Object::at(address);
        library.is_some_and(|library| {
            let name = library.file_name();
            name.starts_with(b"libc.so") || name.starts_with(b"libpthread")
        })
    };
    is_its(real::pthread_mutex_lock() as *const () as usize)
        && is_its(real::pthread_rwlock_rdlock() as *const () as usize)
}

/// Whether locks are guarded wherever they are taken from.
pub fn everywhere() -> bool {
    EVERYWHERE.load(Ordering::Relaxed)
}

/// What is done for mutexes that are taken from an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// They are made inheritance mutexes.
    Convert,
    /// Bounded bypass, perhaps with inheritance.
    Hand(Policy),
}

/// How mutexes that are taken from this address are guarded, if they are.
#[inline(always)]
pub fn mutexes(from: usize) -> Option<Way> {
    if !attachment::is_guarded() || !origin::is_guarded(from) {
        return None;
    }
    let bound_ns = BOUND_NS.load(Ordering::Relaxed);
    match MUTEXES.load(Ordering::Relaxed) {
        INHERIT => Some(Way::Convert),
        FAIR => Some(Way::Hand(Policy { bound_ns, inherit: false })),
        FAIR_INHERIT => Some(Way::Hand(Policy { bound_ns, inherit: true })),
        _ => None,
    }
}

/// The table, while mutexes may stand in it.
#[inline(always)]
pub fn table() -> Option<&'static Table> {
    (attachment::is_guarded() && MUTEXES.load(Ordering::Relaxed) >= FAIR).then_some(&TABLE.0)
}

/// The calling thread's id.
pub fn thread() -> u32 {
    crate::thread::this().id()
}

/// The calling thread as a waiter.
fn waiter(policy: Policy) -> Waiter {
    let thread = thread();
    let urgency = if policy.inherit { crate::thread::urgency(thread) } else { 0 };
    Waiter { thread, urgency }
}

/// Counts something about guarded locks.
#[cold]
pub fn count(what: GuardCount) {
    if let Some(side) = attachment::side() {
        side.count_guard(what);
    }
}
