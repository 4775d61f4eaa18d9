//! Guarded read-write locks, between the hooks and [`guard::rwlock`].
//!
//! Once a lock is ours it stays ours, whoever uses it, until it is initialised anew: the C library
//! could not read it.

use super::mutex::deadline;
use super::{TABLE, count, thread};
use crate::thread::this;
use crate::{attachment, origin};
use guard::rwlock::{Failure, Lender, Rwlock};
use guard::{Deadline, Table, Waiter};
use record::guard::GuardCount;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

type Object = *mut c_void;

static PHASE_FAIR: AtomicBool = AtomicBool::new(false);

static BOOST: AtomicBool = AtomicBool::new(false);

/// Whether read-write locks are guarded, from now on, and whether who writes is boosted.
pub fn begin(phase_fair: bool, boost: bool) {
    PHASE_FAIR.store(phase_fair, Ordering::Relaxed);
    BOOST.store(phase_fair && boost, Ordering::Relaxed);
}

fn table() -> &'static Table {
    TABLE.table()
}

/// The calling thread, if it is to lend its priority while it waits.
#[cold]
fn lender() -> Option<Lender<'static>> {
    if !BOOST.load(Ordering::Relaxed) || !attachment::is_guarded() {
        return None;
    }
    let urgency = guard::urgency_of(0);
    let waiter = Waiter { thread: thread(), urgency };
    (urgency > 0).then_some(Lender { table: table(), waiter })
}

/// The lock, if it is ours, or becomes ours now that it is used from this address.
///
/// # Safety
/// `lock` must be what the program passed to a function of read-write locks.
#[inline(always)]
pub unsafe fn of<'a>(lock: Object, from: usize) -> Option<Guarded<'a>> {
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
    let claimed = lock.claim();
    count(match claimed {
        true => GuardCount::RwlockConverted,
        false if lock.is_shared() => GuardCount::RwlockShared,
        false => GuardCount::RwlockBusy,
    });
    claimed
}

/// Takes a lock for reading if it is ours, and if that is possible at once; else does nothing.
///
/// # Safety
/// As for [`of`].
#[inline(always)]
pub unsafe fn read_now(lock: Object) -> bool {
    // SAFETY: the caller's promise; a null pointer is the program's own mistake.
    let ours = unsafe { Rwlock::at(lock) };
    ours.is_claimed() && ours.read_now(this().reads())
}

/// Lets a lock go if it is ours and read, and nobody waits for it; else does nothing.
///
/// # Safety
/// As for [`of`].
#[inline(always)]
pub unsafe fn unlock_read_now(lock: Object) -> bool {
    // SAFETY: as in `read_now`.
    let ours = unsafe { Rwlock::at(lock) };
    ours.is_claimed() && ours.unlock_read_now(this().reads())
}

/// A lock that is ours. All functions answer as the C library's of their names.
#[derive(Clone, Copy)]
pub struct Guarded<'a>(&'a Rwlock);

fn answer(result: Result<(), Failure>) -> c_int {
    result.map_or_else(Failure::errno, |()| 0)
}

impl Guarded<'_> {
    /// `pthread_rwlock_tryrdlock`
    #[inline(always)]
    pub fn try_read(self) -> c_int {
        answer(self.0.try_read(this().reads(), thread()))
    }

    /// `pthread_rwlock_rdlock`
    #[inline(always)]
    pub fn read(self) -> c_int {
        self.read_by(None)
    }

    #[inline(always)]
    fn read_by(self, until: Option<Deadline>) -> c_int {
        let reads = this().reads();
        // Who need not wait need not know how urgent it is.
        if BOOST.load(Ordering::Relaxed) && self.try_read() == 0 {
            return 0;
        }
        match lender() {
            None => answer(self.0.read(reads, thread(), until)),
            Some(lender) => answer(self.0.read_lending(reads, lender, until)),
        }
    }

    #[inline(always)]
    fn write_by(self, until: Option<Deadline>) -> c_int {
        if BOOST.load(Ordering::Relaxed) && self.try_write() == 0 {
            return 0;
        }
        match lender() {
            None => answer(self.0.write(thread(), until)),
            Some(lender) => answer(self.0.write_lending(lender, until)),
        }
    }

    /// `pthread_rwlock_clockrdlock`
    ///
    /// # Safety
    /// `until` must be null or point to a `timespec`.
    pub unsafe fn read_until(self, clock: c_int, until: Object) -> c_int {
        // SAFETY: the caller's promise.
        match unsafe { deadline(clock, until) } {
            Some(until) => self.read_by(Some(until)),
            None => libc::EINVAL,
        }
    }

    /// `pthread_rwlock_trywrlock`
    #[inline(always)]
    pub fn try_write(self) -> c_int {
        answer(self.0.try_write(thread()))
    }

    /// `pthread_rwlock_wrlock`
    #[inline(always)]
    pub fn write(self) -> c_int {
        self.write_by(None)
    }

    /// `pthread_rwlock_clockwrlock`
    ///
    /// # Safety
    /// `until` must be null or point to a `timespec`.
    pub unsafe fn write_until(self, clock: c_int, until: Object) -> c_int {
        // SAFETY: the caller's promise.
        match unsafe { deadline(clock, until) } {
            Some(until) => self.write_by(Some(until)),
            None => libc::EINVAL,
        }
    }

    /// `pthread_rwlock_unlock`
    #[inline(always)]
    pub fn unlock(self) -> c_int {
        let address = std::ptr::from_ref(self.0) as usize;
        let result = self.0.unlock(this().reads(), thread());
        if BOOST.load(Ordering::Relaxed) {
            table().let_go(address, thread);
        }
        answer(result.map(|_| ()))
    }
}
