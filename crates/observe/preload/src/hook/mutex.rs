//! Mutexes.

use super::short::{export_release, export_take};
use super::{Object, Site, Words, export, is_clock, word};
use crate::guarding;
use crate::origin::recorder;
use crate::real::{self, Attempt};
use record::{Action, Class};
use std::ffi::c_int;

fn site(lock: Object, from: usize) -> Site {
    Site { class: Class::Mutex, lock, from }
}

unsafe extern "C-unwind" fn init(lock: Object, attributes: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let result = unsafe { real::pthread_mutex_init()(lock, attributes) };
    if result == 0 {
        guarding::guarded_mutex::initialised(lock, from);
        site(lock, from).life(Action::Created, Words::Mutex);
    }
    result
}

unsafe extern "C-unwind" fn destroy(lock: Object, from: usize) -> c_int {
    site(lock, from).life(Action::Destroyed, Words::None);
    // SAFETY: the program's own argument.
    unsafe { real::pthread_mutex_destroy()(lock) }
}

/// Takes a mutex.
///
/// # Safety
/// `lock` must be what the program passed.
#[inline(always)]
unsafe fn take(lock: Object, from: usize, wait: impl FnOnce() -> c_int) -> c_int {
    let site = site(lock, from);
    // SAFETY: the caller's promise.
    unsafe { guarding::guarded_mutex::before_use(lock, from) };
    // In glibc, attempts at these are not without consequences. One at a robust mutex that cannot
    // be recovered leaves it locked for ever; one at a ceiling that the thread may not have raises
    // the thread's idea of its priority, so that the next one succeeds.
    let kind = word(lock, KIND);
    if kind & (ROBUST | CEILING) != 0 {
        return site.take_without_attempt(is_busy(lock, kind), wait, Words::Mutex);
    }
    // SAFETY: the program's own argument.
    let try_now = || unsafe { real::attempt(Attempt::Mutex)(lock) };
    site.take(try_now, wait, Words::Mutex)
}

/// Offset of the word that says of which kind a mutex is; the same from glibc 2.31 to 2.42.
const KIND: usize = 16;
/// Set in the kind of robust mutexes.
const ROBUST: u32 = 16;
/// Set in the kind of mutexes with a priority ceiling.
const CEILING: u32 = 64;

/// Returns true if a mutex of one of these kinds has an owner that lives.
fn is_busy(lock: Object, kind: u32) -> bool {
    const OWNER: u32 = 0x3fff_ffff;
    const OWNER_DIED: u32 = 0x4000_0000;
    // Below the ceiling: 0 free, 1 taken, 2 waited for.
    const STATE: u32 = 0x0007_ffff;
    let word = word(lock, 0);
    if kind & CEILING != 0 {
        word & STATE != 0
    } else {
        word & OWNER != 0 && word & OWNER_DIED == 0
    }
}

unsafe extern "C-unwind" fn lock(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument, in each of the calls.
    unsafe {
        let real = || real::pthread_mutex_lock()(lock);
        take(lock, from, || guarding::guarded_mutex::wait(lock, from, None, real))
    }
}

unsafe extern "C-unwind" fn lock_recorded(mutex: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument, in each of the calls.
    unsafe {
        site(mutex, from).take_recorded(
            || word(mutex, KIND),
            || real::attempt(Attempt::Mutex)(mutex),
            |tried| lock_busy(mutex, from, tried),
            || lock(mutex, from),
        )
    }
}

unsafe extern "C-unwind" fn lock_busy(mutex: Object, from: usize, tried: c_int) -> c_int {
    // SAFETY: the program's own argument.
    let wait = || unsafe {
        let real = || real::pthread_mutex_lock()(mutex);
        guarding::guarded_mutex::wait(mutex, from, None, real)
    };
    site(mutex, from).take_busy(recorder(from), tried, wait, Words::Mutex)
}

unsafe extern "C-unwind" fn try_lock(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument.
    let result = unsafe { guarding::guarded_mutex::attempt(lock, from) };
    site(lock, from).tried(result, Words::Mutex)
}

unsafe extern "C-unwind" fn timed_lock(lock: Object, until: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments, in each of the calls.
    unsafe {
        let real = || real::pthread_mutex_timedlock()(lock, until);
        let clock = libc::CLOCK_REALTIME;
        take(lock, from, || guarding::guarded_mutex::wait_until(lock, from, clock, until, real))
    }
}

unsafe extern "C-unwind" fn clock_lock(
    lock: Object,
    clock: c_int,
    until: Object,
    from: usize,
) -> c_int {
    // SAFETY: the program's own arguments, in each of the calls.
    unsafe {
        let real = || guarding::guarded_mutex::clock_lock(lock, clock, until);
        let wait = || guarding::guarded_mutex::wait_until(lock, from, clock, until, real);
        // Refused by the C library also when the mutex is free.
        if is_clock(clock) { take(lock, from, wait) } else { wait() }
    }
}

unsafe extern "C-unwind" fn unlock(lock: Object, from: usize) -> c_int {
    site(lock, from).release();
    // SAFETY: the program's own argument.
    unsafe { guarding::guarded_mutex::release(lock, |to| handed_over(lock, from, to)) }
}

unsafe extern "C-unwind" fn unlock_recorded(lock: Object, from: usize) -> c_int {
    site(lock, from).release_recorded();
    // SAFETY: the program's own argument.
    unsafe { guarding::guarded_mutex::release(lock, |to| handed_over(lock, from, to)) }
}

/// Notes that the guard gave the mutex to a waiter, in whose name it never was free.
#[cold]
fn handed_over(lock: Object, from: usize, to: u32) {
    if let Some(thread) = recorder(from) {
        site(lock, from).record(thread, Action::HandedOver, to);
    }
}

/// Takes a mutex when locks are guarded and nothing is recorded: a short way for the usual case.
unsafe extern "C-unwind" fn lock_guarded(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument, in both calls.
    unsafe { if guarding::guarded_mutex::lock_now(lock) { 0 } else { lock_not_ours(lock, from) } }
}

/// The same after that, for mutexes that only the C library can take.
#[inline(never)]
unsafe extern "C-unwind" fn lock_not_ours(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument, in all calls.
    unsafe {
        guarding::know_thread();
        if guarding::guarded_mutex::is_left_alone(lock, from) {
            real::pthread_mutex_lock()(lock)
        } else {
            guarding::guarded_mutex::lock_guarded(lock, from)
        }
    }
}

/// Lets a mutex go, likewise.
unsafe extern "C-unwind" fn unlock_guarded(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument, in both calls.
    unsafe {
        if guarding::guarded_mutex::unlock_now(lock) { 0 } else { unlock_not_ours(lock, from) }
    }
}

#[inline(never)]
unsafe extern "C-unwind" fn unlock_not_ours(lock: Object, _: usize) -> c_int {
    // SAFETY: the program's own argument.
    unsafe { guarding::guarded_mutex::release(lock, |_| ()) }
}

/// The check of `take`, for `export_take`: robust or with a ceiling.
macro_rules! check {
    () => {
        "
        test byte ptr [rdi + 16], 80
        jnz 2f
        "
    };
}
const _: () = assert!(KIND == 16 && ROBUST | CEILING == 80);

export_take! {
    pthread_mutex_lock =>
        pthread_mutex_lock, Mutex, lock, lock_recorded, lock_busy, check!(), lock_guarded;
    __pthread_mutex_lock =>
        pthread_mutex_lock, Mutex, lock, lock_recorded, lock_busy, check!(), lock_guarded;
}

export_release! {
    pthread_mutex_unlock => pthread_mutex_unlock, unlock, unlock_recorded, unlock_guarded;
    __pthread_mutex_unlock => pthread_mutex_unlock, unlock, unlock_recorded, unlock_guarded;
}

export! {
    pthread_mutex_init => init, "rdx";
    pthread_mutex_destroy => destroy, "rsi";
    pthread_mutex_trylock => try_lock, "rsi";
    pthread_mutex_timedlock => timed_lock, "rdx";
    pthread_mutex_clocklock => clock_lock, "rcx";
    // Names that programs linked with an old C library use.
    __pthread_mutex_init => init, "rdx";
    __pthread_mutex_destroy => destroy, "rsi";
    __pthread_mutex_trylock => try_lock, "rsi";
}
