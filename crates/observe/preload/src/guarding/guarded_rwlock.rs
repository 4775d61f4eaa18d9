//! Guarded read-write locks, between the hooks and [`guard::rwlock`].
//!
//! Once a lock is ours it stays ours, whichever thread uses it, until it is initialised anew: the C
//! library could not read it.

use super::guarded_mutex::deadline;
use super::{TABLE, count, thread};
use crate::thread::this;
use crate::{attachment, origin};
use guard::rwlock::{Failure, Lender, Rwlock};
use guard::{Deadline, Waiter};
use record::guard::GuardCount;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

type Object = *mut c_void;

static PHASE_FAIR: AtomicBool = AtomicBool::new(false);

static BOOST: AtomicBool = AtomicBool::new(false);

/// Sets if read-write locks are guarded, from now on, and if those that have them are boosted.
pub(crate) fn begin(phase_fair: bool, boost: bool) {
    PHASE_FAIR.store(phase_fair, Ordering::Relaxed);
    BOOST.store(phase_fair && boost, Ordering::Relaxed);
}

/// The calling thread, as one that may be lent the priority of others, and has this urgency itself
/// if it has to wait.
fn lender(urgency: u32) -> Lender<'static> {
    let waiter = Waiter { thread: thread(), urgency };
    Lender { table: TABLE.table(), readers: TABLE.readers(), waiter }
}

/// The calling thread, about to wait. It lends its priority unless the guard has ended.
#[cold]
fn urgent_lender() -> Lender<'static> {
    lender(if attachment::is_guarded() { guard::urgency_of(0) } else { 0 })
}

/// The lock, if it is ours, or becomes ours now that it is used from this address.
///
/// # Safety
/// `lock` must be what the program passed to a function of read-write locks.
#[inline(always)]
pub(crate) unsafe fn of<'a>(lock: Object, from: usize) -> Option<Guarded<'a>> {
    if !attachment::is_attached() || !PHASE_FAIR.load(Ordering::Relaxed) || lock.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let ours = unsafe { Rwlock::at(lock) };
    if ours.is_claimed() || origin::is_guarded(from) && claim(ours) {
        Some(Guarded(ours))
    } else {
        None
    }
}

#[cold]
fn claim(lock: &Rwlock) -> bool {
    if !attachment::is_guarded() {
        return false;
    }
    let claimed = match BOOST.load(Ordering::Relaxed) {
        true => lock.claim_for_lenders(),
        false => lock.claim(),
    };
    count(match claimed {
        true => GuardCount::RwlockConverted,
        false if lock.is_shared() => GuardCount::RwlockShared,
        false => GuardCount::RwlockBusy,
    });
    claimed
}

/// Takes a lock for reading if it is ours, and if that is possible at once, and readers need not
/// be known; else does nothing.
///
/// # Safety
/// As for [`of`].
#[inline(always)]
pub(crate) unsafe fn read_now(lock: Object) -> bool {
    // SAFETY: the caller's promise; a null pointer is the program's own mistake.
    let ours = unsafe { Rwlock::at(lock) };
    ours.is_claimed_plainly() && ours.read_now(this().reads())
}

/// The same for writing.
///
/// # Safety
/// As for [`of`].
#[inline(always)]
pub(crate) unsafe fn write_now(lock: Object) -> bool {
    // SAFETY: as in `read_now`.
    let ours = unsafe { Rwlock::at(lock) };
    ours.is_claimed_plainly() && this().known_id().is_some_and(|me| ours.write_now(me))
}

/// Releases a lock if it is ours and read, and no thread waits for it, and readers need not be
/// known; else does nothing.
///
/// # Safety
/// As for [`of`].
#[inline(always)]
pub(crate) unsafe fn unlock_read_now(lock: Object) -> bool {
    // SAFETY: as in `read_now`.
    let ours = unsafe { Rwlock::at(lock) };
    ours.is_claimed_plainly() && ours.unlock_read_now(this().reads())
}

/// Lets a lock go if it is ours and the thread writes, and lends nothing; else does nothing.
///
/// # Safety
/// As for [`of`].
#[inline(always)]
pub(crate) unsafe fn unlock_write_now(lock: Object) -> bool {
    // SAFETY: as in `read_now`.
    let ours = unsafe { Rwlock::at(lock) };
    ours.is_claimed_plainly() && this().known_id().is_some_and(|me| ours.unlock_write_now(me))
}

/// A lock that is ours. All functions answer as the C library's of their names.
#[derive(Clone, Copy)]
pub(crate) struct Guarded<'a>(&'a Rwlock);

fn answer(result: Result<(), Failure>) -> c_int {
    result.map_or_else(Failure::errno, |()| 0)
}

impl Guarded<'_> {
    /// `pthread_rwlock_tryrdlock`
    #[inline(always)]
    pub(crate) fn try_read(self) -> c_int {
        let reads = this().reads();
        let result = answer(match BOOST.load(Ordering::Relaxed) {
            true => self.0.try_read_lending(reads, lender(0)),
            false => self.0.try_read(reads, thread()),
        });
        self.count_order();
        result
    }

    /// Counts the lock if it has got the C library's order.
    #[inline(always)]
    fn count_order(self) {
        if self.0.was_put_in_the_librarys_order() {
            count(GuardCount::RwlockReadersFirst);
        }
    }

    /// `pthread_rwlock_rdlock`
    #[inline(always)]
    pub(crate) fn read(self) -> c_int {
        self.read_by(None)
    }

    #[inline(always)]
    fn read_by(self, until: Option<Deadline>) -> c_int {
        let reads = this().reads();
        let result = if !BOOST.load(Ordering::Relaxed) {
            answer(self.0.read(reads, thread(), until))
        } else {
            // A thread that need not wait need not know how urgent it is.
            match self.try_read() {
                0 => 0,
                _ => answer(self.0.read_lending(reads, urgent_lender(), until)),
            }
        };
        self.count_order();
        result
    }

    #[inline(always)]
    fn write_by(self, until: Option<Deadline>) -> c_int {
        if !BOOST.load(Ordering::Relaxed) {
            return answer(self.0.write(thread(), until));
        }
        match self.try_write() {
            0 => 0,
            _ => answer(self.0.write_lending(urgent_lender(), until)),
        }
    }

    /// `pthread_rwlock_clockrdlock`
    ///
    /// # Safety
    /// `until` must be null or point to a `timespec`.
    pub(crate) unsafe fn read_until(self, clock: c_int, until: Object) -> c_int {
        // SAFETY: the caller's promise.
        match unsafe { deadline(clock, until) } {
            Some(until) => self.read_by(Some(until)),
            None => libc::EINVAL,
        }
    }

    /// `pthread_rwlock_trywrlock`
    #[inline(always)]
    pub(crate) fn try_write(self) -> c_int {
        answer(self.0.try_write(thread()))
    }

    /// `pthread_rwlock_wrlock`
    #[inline(always)]
    pub(crate) fn write(self) -> c_int {
        self.write_by(None)
    }

    /// `pthread_rwlock_clockwrlock`
    ///
    /// # Safety
    /// `until` must be null or point to a `timespec`.
    pub(crate) unsafe fn write_until(self, clock: c_int, until: Object) -> c_int {
        // SAFETY: the caller's promise.
        match unsafe { deadline(clock, until) } {
            Some(until) => self.write_by(Some(until)),
            None => libc::EINVAL,
        }
    }

    /// `pthread_rwlock_unlock`
    #[inline(always)]
    pub(crate) fn unlock(self) -> c_int {
        let reads = this().reads();
        let result = match BOOST.load(Ordering::Relaxed) {
            true => self.0.unlock_lending(reads, lender(0)),
            false => self.0.unlock(reads, thread()),
        };
        answer(result.map(drop))
    }
}
