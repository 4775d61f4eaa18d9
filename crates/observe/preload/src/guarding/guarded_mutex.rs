//! Guarded mutexes, between the hooks and [`guard::mutex`].

use super::{TABLE, Way, count, mutexes, table, thread, waiter};
use crate::object::Object as Library;
use crate::thread::this;
use crate::{origin, real};
use guard::mutex::{Failure, LockPolicy, Mutex, Unfit};
use guard::{Clock, Deadline, Table};
use record::guard::GuardCount;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

type Object = *mut c_void;

/// A mutex was initialised, from this address.
pub(crate) fn initialised(lock: Object, from: usize) {
    if mutexes(from) == Some(Way::Convert) {
        // SAFETY: the program has just initialised it.
        convert(unsafe { Mutex::at(lock) });
    }
}

/// A mutex is about to be taken, from this address: if no call initialised it, this may be its
/// first use.
///
/// # Safety
/// `lock` must be what the program passed to take it.
#[inline(always)]
pub(crate) unsafe fn before_use(lock: Object, from: usize) {
    if mutexes(from) != Some(Way::Convert) {
        return;
    }
    // SAFETY: the caller's promise.
    let mutex = unsafe { Mutex::at(lock) };
    if mutex.fitness().is_err() {
        return;
    }
    // Other users of it at this very moment, without a hook or from a library that is not guarded,
    // are not known; only those of a library's own variables are.
    if super::everywhere() || is_in_its_own_library(lock, from) {
        convert(mutex);
    } else {
        count(GuardCount::MutexUnknownUsers);
    }
}

/// Returns true if the words of the C library's mutexes are where we take them to be.
pub(crate) fn words_are_known() -> bool {
    [libc::PTHREAD_MUTEX_NORMAL, libc::PTHREAD_MUTEX_RECURSIVE].into_iter().all(|kind| {
        let mutex = Mutex::of_kind(kind as u32);
        let lock = std::ptr::from_ref(&mutex).cast_mut().cast();
        // SAFETY: all zero but the kind is a free mutex, which no other code knows.
        unsafe {
            real::pthread_mutex_trylock()(lock) == 0
                && mutex.is_taken_once_by(thread())
                && real::pthread_mutex_unlock()(lock) == 0
                && mutex.is_free()
        }
    })
}

/// True if the C library and the kernel wait for inheritance mutexes by the monotonic clock.
static WAITS_BY_MONOTONIC: AtomicBool = AtomicBool::new(true);

/// Finds out what can be done with inheritance mutexes, before the gate opens.
pub(crate) fn learn_about_inheritance() {
    WAITS_BY_MONOTONIC.store(can_wait_by_monotonic(), Ordering::Relaxed);
}

/// Returns true with Linux 5.14 and version 2.34 of the C library, or later. A wait of the owner
/// for itself until a time that is over tells.
fn can_wait_by_monotonic() -> bool {
    let mutex = Mutex::inheriting();
    let lock: Object = std::ptr::from_ref(&mutex).cast_mut().cast();
    let mut long_ago = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    let until: Object = (&raw mut long_ago).cast();
    // SAFETY: a free mutex, which no other code knows, and a time.
    unsafe {
        let clock = libc::CLOCK_MONOTONIC;
        real::pthread_mutex_lock()(lock) == 0
            && real::pthread_mutex_clocklock()(lock, clock, until) == libc::ETIMEDOUT
            && real::pthread_mutex_unlock()(lock) == 0
    }
}

/// `pthread_mutex_clocklock`, also for mutexes that were made inheritance mutexes and cannot be
/// waited for by this clock as such.
///
/// # Safety
/// The arguments must be what the program passed.
pub(crate) unsafe fn clock_lock(lock: Object, clock: c_int, until: Object) -> c_int {
    // SAFETY: the caller's promise, in all calls.
    unsafe {
        let deadline = match clock {
            libc::CLOCK_MONOTONIC
                if !WAITS_BY_MONOTONIC.load(Ordering::Relaxed)
                    && Mutex::at(lock).was_converted() =>
            {
                deadline(clock, until)
            }
            _ => None,
        };
        match deadline {
            Some(deadline) => lock_by_realtime(lock, deadline),
            None => real::pthread_mutex_clocklock()(lock, clock, until),
        }
    }
}

/// Waits for a mutex by the realtime clock until a time of the monotonic one, and looks again
/// now and then, since the realtime clock may be set meanwhile.
///
/// # Safety
/// `lock` must be what the program passed to take it.
#[cold]
unsafe fn lock_by_realtime(lock: Object, deadline: Deadline) -> c_int {
    const LONGEST_NS: i64 = 100_000_000;
    loop {
        let soon = deadline.on_realtime_clock(LONGEST_NS);
        let mut time =
            libc::timespec { tv_sec: soon / 1_000_000_000, tv_nsec: soon % 1_000_000_000 };
        // SAFETY: the caller's promise, and a time.
        let result = unsafe { real::pthread_mutex_timedlock()(lock, (&raw mut time).cast()) };
        if result != libc::ETIMEDOUT || deadline.is_over() {
            return result;
        }
    }
}

/// The calling thread's id as the C library knows it, whose words it writes it to; without a system
/// call. None where mutexes are not the C library's, or a thread is not.
pub(crate) fn id_in_the_c_library() -> Option<u32> {
    if !super::ARE_THE_C_LIBRARYS.load(Ordering::Relaxed) {
        return None;
    }
    let mutex = Mutex::of_kind(libc::PTHREAD_MUTEX_NORMAL as u32);
    let lock = std::ptr::from_ref(&mutex).cast_mut().cast();
    // SAFETY: a free mutex, which no other code knows.
    unsafe {
        if real::pthread_mutex_trylock()(lock) != 0 {
            return None;
        }
        let owner = mutex.owner();
        real::pthread_mutex_unlock()(lock);
        (owner != 0).then_some(owner)
    }
}

/// Attempts to take a mutex.
///
/// # Safety
/// `lock` must be what the program passed to take it.
#[inline(always)]
pub(crate) unsafe fn attempt(lock: Object, from: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        before_use(lock, from);
        match real::pthread_mutex_trylock()(lock) {
            libc::EDEADLK if Mutex::at(lock).is_converted_and_checks() => libc::EBUSY,
            libc::EBUSY => take_back(lock),
            result => result,
        }
    }
}

/// Takes a mutex that was busy, if it was handed to a thread that does not take it.
///
/// # Safety
/// `lock` must be what the program passed to take it.
#[cold]
unsafe fn take_back(lock: Object) -> c_int {
    // SAFETY: the caller's promise.
    let mutex = unsafe { Mutex::at(lock) };
    let taken = table().is_some_and(|table| mutex.try_take_back(table, thread));
    if taken {
        count(GuardCount::TakenBack);
    }
    if taken { 0 } else { libc::EBUSY }
}

fn is_in_its_own_library(lock: Object, from: usize) -> bool {
    let library = Library::at(from);
    library.is_some_and(|library| (library.start..library.end).contains(&(lock as usize)))
}

#[cold]
fn convert(mutex: &Mutex) {
    count(match mutex.convert() {
        Ok(()) => GuardCount::MutexConverted,
        Err(None) => GuardCount::MutexBusy,
        Err(Some(unfit)) => counter(unfit),
    });
}

fn counter(unfit: Unfit) -> GuardCount {
    match unfit {
        Unfit::Robust => GuardCount::MutexRobust,
        Unfit::Inherits => GuardCount::MutexInherits,
        Unfit::Ceiling => GuardCount::MutexCeiling,
        Unfit::Shared => GuardCount::MutexShared,
        Unfit::Destroyed => GuardCount::MutexDestroyed,
    }
}

/// Takes a mutex for any caller, if that is possible at once; otherwise does nothing.
///
/// # Safety
/// `lock` must be what the program passed to take it.
#[inline(always)]
pub(crate) unsafe fn lock_now(lock: Object) -> bool {
    // SAFETY: the caller's promise; a null pointer is the program's own mistake, as without us.
    super::hands_over()
        && this().known_id().is_some_and(|me| unsafe { Mutex::at(lock) }.lock_now(me))
}

/// Returns true if the guard does nothing for a mutex that is taken from this address. Where
/// mutexes are not handed over, it is false for each one that the guard has converted.
///
/// # Safety
/// As for [`lock_now`].
#[inline(always)]
pub(crate) unsafe fn is_left_alone(lock: Object, from: usize) -> bool {
    if super::hands_over() {
        return !origin::is_guarded(from);
    }
    // SAFETY: the caller's promise.
    let mutex = unsafe { Mutex::at(lock) };
    // A thread that takes one that we have converted must not wait for it in the C library.
    !mutex.was_converted() && (!origin::is_guarded(from) || mutex.is_converted())
}

/// Takes a mutex that [`lock_now`] could not take, and that is [not left alone](is_left_alone).
///
/// # Safety
/// As for [`lock_now`].
pub(crate) unsafe fn lock_guarded(lock: Object, from: usize) -> c_int {
    // SAFETY: the caller's promise, in each of the calls.
    unsafe {
        let mutex = Mutex::at(lock);
        let real = || real::pthread_mutex_lock()(lock);
        before_use(lock, from);
        // The thread's id may not have been known.
        if super::hands_over() && mutex.lock_now(thread()) {
            return 0;
        }
        match mutex.fitness() {
            Err(_) if !mutex.is_taken() && !mutex.was_converted() => real(),
            _ => wait(lock, from, None, real),
        }
    }
}

/// Releases a mutex for any caller, if no waiter stands in the table and it is simple; otherwise
/// does nothing.
///
/// # Safety
/// `lock` must be what the program passed to let it go.
#[inline(always)]
pub(crate) unsafe fn unlock_now(lock: Object) -> bool {
    let table = TABLE.table();
    if !super::hands_over() || !table.is_empty() {
        return false;
    }
    // SAFETY: as in `lock_now`.
    let unlock = |me| unsafe { Mutex::at(lock) }.unlock_now(me);
    let done = this().known_id().is_some_and(unlock);
    if done {
        Mutex::let_go(lock as usize, table, thread);
    }
    done
}

/// Takes a mutex: in turn where it is guarded, else by `wait`. `until` is when to give up.
///
/// # Safety
/// `lock` must be what the program passed to take it.
#[inline(always)]
pub(crate) unsafe fn wait(
    lock: Object,
    from: usize,
    until: Option<Deadline>,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let mutex = unsafe { Mutex::at(lock) };
    let (Some(Way::Hand(policy)), Some(table)) = (mutexes(from), table()) else {
        return match super::inherits() && mutex.was_converted() {
            // SAFETY: the caller's promise.
            true => unsafe { inherit(lock, mutex, until) },
            false => wait(),
        };
    };
    if let Err(unfit) = mutex.fitness() {
        count(counter(unfit));
        return wait();
    }
    // SAFETY: the caller's promise.
    match unsafe { real::pthread_mutex_trylock()(lock) } {
        libc::EBUSY => wait_in_turn(mutex, table, until, policy),
        other => other,
    }
}

/// Takes a mutex that was converted. The C library would wait for it in the kernel until its owner
/// lets it go, but a program may let it go in another thread.
///
/// # Safety
/// `lock` must be what the program passed to take it.
unsafe fn inherit(lock: Object, mutex: &Mutex, until: Option<Deadline>) -> c_int {
    loop {
        // SAFETY: the caller's promise.
        let tried = unsafe { real::pthread_mutex_trylock()(lock) };
        if tried != libc::EBUSY {
            return tried;
        }
        if until.is_some_and(Deadline::is_over) {
            return libc::ETIMEDOUT;
        }
        if mutex.inherit(thread(), until) {
            return 0;
        }
    }
}

#[cold]
#[inline(never)]
fn wait_in_turn(
    mutex: &Mutex,
    table: &Table,
    until: Option<Deadline>,
    policy: LockPolicy,
) -> c_int {
    let taken = match mutex.lock(table, waiter(policy), until, policy) {
        Ok(taken) => taken,
        Err(Failure::TimedOut) => return libc::ETIMEDOUT,
        Err(Failure::Deadlock) => return libc::EDEADLK,
    };
    if taken.handed {
        count(GuardCount::HandedOver);
    }
    if taken.taken_back {
        count(GuardCount::TakenBack);
    }
    if taken.lent > 0 {
        count(GuardCount::Lent);
    }
    if taken.outlasted {
        count(if taken.stood { GuardCount::OutlastedBound } else { GuardCount::TableFull });
    }
    0
}

/// Returns the deadline of a timed call; `None` if the clock or the time is not valid, which is not
/// for the guard to report.
///
/// # Safety
/// `until` must be null or point to a `timespec`.
pub(crate) unsafe fn deadline(clock: c_int, until: Object) -> Option<Deadline> {
    let clock = match clock {
        libc::CLOCK_REALTIME => Clock::Realtime,
        libc::CLOCK_MONOTONIC => Clock::Monotonic,
        _ => return None,
    };
    if until.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let time = unsafe { until.cast::<libc::timespec>().read_unaligned() };
    let is_time = (0..1_000_000_000).contains(&time.tv_nsec);
    let at_ns = time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec);
    is_time.then_some(Deadline { clock, at_ns })
}

/// Waits until a deadline, as [`wait`] does.
///
/// # Safety
/// `lock` and `until` must be what the program passed.
pub(crate) unsafe fn wait_until(
    lock: Object,
    from: usize,
    clock: c_int,
    until: Object,
    real: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise, in both calls.
    unsafe {
        let Some(deadline) = deadline(clock, until) else { return real() };
        let before_1970 = deadline.at_ns < 0;
        match wait(lock, from, Some(deadline), real) {
            // The kernel refuses to wait for inheritance mutexes until then; the time is over.
            libc::EINVAL if before_1970 && Mutex::at(lock).was_converted() => libc::ETIMEDOUT,
            result => result,
        }
    }
}

/// Lets a mutex go: to whose turn it is, by id, or by the C library.
///
/// # Safety
/// `lock` must be what the program passed to let it go.
#[inline(always)]
pub(crate) unsafe fn release(lock: Object, handed_to: impl FnOnce(u32)) -> c_int {
    let Some(table) = table() else {
        // SAFETY: the caller's promise.
        return unsafe { release_inherited(lock) };
    };
    // SAFETY: the caller's promise; a null pointer is the program's own mistake, as without us.
    if let Some(next) = unsafe { Mutex::at(lock) }.hand_over(table, thread) {
        handed_to(next);
        return 0;
    }
    // SAFETY: the caller's promise.
    let result = unsafe { real::pthread_mutex_unlock()(lock) };
    Mutex::let_go(lock as usize, table, thread);
    result
}

/// Lets a mutex go that may have been converted: also one that another thread has.
///
/// # Safety
/// `lock` must be what the program passed to let it go.
#[inline(always)]
unsafe fn release_inherited(lock: Object) -> c_int {
    // SAFETY: the caller's promise, in all calls.
    unsafe {
        let let_go = || real::pthread_mutex_unlock()(lock);
        if !super::inherits() || !Mutex::at(lock).was_converted() {
            return let_go();
        }
        let mutex = Mutex::at(lock);
        let (before, bell) = (mutex.is_let_go_by_others(), mutex.bell());
        if mutex.let_go_for_its_owner(thread()) {
            if !before {
                count(GuardCount::MutexLetGoByOthers);
            }
            return 0;
        }
        if mutex.let_go_free() {
            return 0;
        }
        let result = let_go();
        if before {
            bell.ring();
        }
        result
    }
}

/// The C library is about to let a mutex go, inside a wait for a condition.
#[inline(always)]
pub(crate) fn will_wait_for_condition(lock: Object) {
    if let Some(table) = table() {
        // SAFETY: the program's own argument, of a call that will use it.
        unsafe { Mutex::at(lock) }.will_let_go(table, thread);
    }
}
