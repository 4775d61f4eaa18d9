//! Read-write locks.

use super::short::{export_release, export_take};
use super::{Object, Site, Words, export, is_clock, is_time};
use crate::guarding;
use crate::origin::recorder;
use crate::real::{self, Attempt};
use record::{Action, Class};
use std::ffi::c_int;

unsafe extern "C-unwind" fn init(lock: Object, attributes: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let result = unsafe { real::pthread_rwlock_init()(lock, attributes) };
    if result == 0 {
        // SAFETY: the program has just initialised it.
        let _ = unsafe { guarding::guarded_rwlock::of(lock, from) };
        let site = Site { class: Class::ReadWrite, lock, from };
        site.life(Action::Created, Words::ReadWrite);
    }
    result
}

unsafe extern "C-unwind" fn destroy(lock: Object, from: usize) -> c_int {
    let site = Site { class: Class::ReadWrite, lock, from };
    site.life(Action::Destroyed, Words::None);
    // SAFETY: the program's own argument.
    unsafe { real::pthread_rwlock_destroy()(lock) }
}

/// Calls the guard's function for a lock that is ours, else the C library's.
macro_rules! ours_or {
    ($lock:ident, $from:ident, $ours:ident ( $($argument:expr),* ), $real:expr) => {
        match guarding::guarded_rwlock::of($lock, $from) {
            Some(ours) => ours.$ours($($argument),*),
            None => $real,
        }
    };
}

/// The hooks of one side: plain, attempt, timed, timed by a clock.
macro_rules! side {
    ($class:expr, $tried:expr, $plain:ident, $attempt:ident, $timed:ident, $clock:ident,
     $real:ident, $real_try:ident, $real_timed:ident, $real_clock:ident,
     $ours:ident, $ours_try:ident, $ours_until:ident) => {
        unsafe extern "C-unwind" fn $plain(lock: Object, from: usize) -> c_int {
            // SAFETY: the program's own argument, in each of the calls.
            unsafe {
                let try_now = || ours_or!(lock, from, $ours_try(), real::attempt($tried)(lock));
                let wait = || ours_or!(lock, from, $ours(), real::$real()(lock));
                let site = Site { class: $class, lock, from };
                site.take(try_now, wait, Words::ReadWrite)
            }
        }

        unsafe extern "C-unwind" fn $attempt(lock: Object, from: usize) -> c_int {
            // SAFETY: the program's own argument.
            let result = unsafe { ours_or!(lock, from, $ours_try(), real::$real_try()(lock)) };
            Site { class: $class, lock, from }.tried(result, Words::ReadWrite)
        }

        unsafe extern "C-unwind" fn $timed(lock: Object, until: Object, from: usize) -> c_int {
            // SAFETY: the program's own arguments, in each of the calls.
            unsafe {
                let clock = libc::CLOCK_REALTIME;
                let try_now = || ours_or!(lock, from, $ours_try(), real::attempt($tried)(lock));
                let real = || real::$real_timed()(lock, until);
                let wait = || ours_or!(lock, from, $ours_until(clock, until), real());
                // Refused by the C library also when the lock is free.
                if !is_time(until) {
                    return wait();
                }
                let site = Site { class: $class, lock, from };
                site.take(try_now, wait, Words::ReadWrite)
            }
        }

        unsafe extern "C-unwind" fn $clock(
            lock: Object,
            clock: c_int,
            until: Object,
            from: usize,
        ) -> c_int {
            // SAFETY: the program's own arguments, in each of the calls.
            unsafe {
                let try_now = || ours_or!(lock, from, $ours_try(), real::attempt($tried)(lock));
                let real = || real::$real_clock()(lock, clock, until);
                let wait = || ours_or!(lock, from, $ours_until(clock, until), real());
                if !is_clock(clock) || !is_time(until) {
                    return wait();
                }
                let site = Site { class: $class, lock, from };
                site.take(try_now, wait, Words::ReadWrite)
            }
        }
    };
}

side!(
    Class::Read,
    Attempt::Read,
    read,
    try_read,
    timed_read,
    clock_read,
    pthread_rwlock_rdlock,
    pthread_rwlock_tryrdlock,
    pthread_rwlock_timedrdlock,
    pthread_rwlock_clockrdlock,
    read,
    try_read,
    read_until
);
side!(
    Class::Write,
    Attempt::Write,
    write,
    try_write,
    timed_write,
    clock_write,
    pthread_rwlock_wrlock,
    pthread_rwlock_trywrlock,
    pthread_rwlock_timedwrlock,
    pthread_rwlock_clockwrlock,
    write,
    try_write,
    write_until
);

/// The other hooks of one side's plain way: for full mode, and after an attempt that failed.
macro_rules! short {
    ($class:expr, $tried:expr, $plain:ident, $recorded:ident, $busy:ident, $real:ident,
     $ours:ident, $ours_try:ident) => {
        unsafe extern "C-unwind" fn $recorded(lock: Object, from: usize) -> c_int {
            // SAFETY: the program's own argument, in each of the calls.
            unsafe {
                Site { class: $class, lock, from }.take_recorded(
                    || Words::ReadWrite.attributes(lock),
                    || ours_or!(lock, from, $ours_try(), real::attempt($tried)(lock)),
                    |tried| $busy(lock, from, tried),
                    || $plain(lock, from),
                )
            }
        }

        unsafe extern "C-unwind" fn $busy(lock: Object, from: usize, tried: c_int) -> c_int {
            // SAFETY: the program's own argument.
            let wait = || unsafe { ours_or!(lock, from, $ours(), real::$real()(lock)) };
            let site = Site { class: $class, lock, from };
            site.take_busy(recorder(from), tried, wait, Words::ReadWrite)
        }
    };
}

short!(
    Class::Read,
    Attempt::Read,
    read,
    read_recorded,
    read_busy,
    pthread_rwlock_rdlock,
    read,
    try_read
);
short!(
    Class::Write,
    Attempt::Write,
    write,
    write_recorded,
    write_busy,
    pthread_rwlock_wrlock,
    write,
    try_write
);

unsafe extern "C-unwind" fn unlock(lock: Object, from: usize) -> c_int {
    Site { class: Class::ReadWrite, lock, from }.release();
    // SAFETY: the program's own argument.
    unsafe { ours_or!(lock, from, unlock(), real::pthread_rwlock_unlock()(lock)) }
}

unsafe extern "C-unwind" fn unlock_recorded(lock: Object, from: usize) -> c_int {
    Site { class: Class::ReadWrite, lock, from }.release_recorded();
    // SAFETY: the program's own argument.
    unsafe { ours_or!(lock, from, unlock(), real::pthread_rwlock_unlock()(lock)) }
}

/// The hooks for when locks are guarded and nothing is recorded: a short way for the usual case,
/// and the other one.
macro_rules! lean {
    ($name:ident, $now:ident, $otherwise:ident) => {
        unsafe extern "C-unwind" fn $name(lock: Object, from: usize) -> c_int {
            // SAFETY: the program's own argument, in both calls.
            unsafe { if guarding::guarded_rwlock::$now(lock) { 0 } else { $otherwise(lock, from) } }
        }
    };
    ($name:ident, $now:ident, $otherwise:ident, $ours:ident, $real:ident) => {
        lean!($name, $now, $otherwise);

        #[inline(never)]
        unsafe extern "C-unwind" fn $otherwise(lock: Object, from: usize) -> c_int {
            // SAFETY: the program's own argument, in both calls.
            unsafe { ours_or!(lock, from, $ours(), real::$real()(lock)) }
        }
    };
}

lean!(read_guarded, read_now, read_otherwise, read, pthread_rwlock_rdlock);
lean!(write_guarded, write_now, write_otherwise, write, pthread_rwlock_wrlock);
lean!(unlock_guarded, unlock_read_now, unlock_writer);
lean!(unlock_writer, unlock_write_now, unlock_otherwise, unlock, pthread_rwlock_unlock);

export_take! {
    pthread_rwlock_rdlock =>
        pthread_rwlock_rdlock, Read, read, read_recorded, read_busy, "", read_guarded;
    pthread_rwlock_wrlock =>
        pthread_rwlock_wrlock, Write, write, write_recorded, write_busy, "", write_guarded;
    __pthread_rwlock_rdlock =>
        pthread_rwlock_rdlock, Read, read, read_recorded, read_busy, "", read_guarded;
    __pthread_rwlock_wrlock =>
        pthread_rwlock_wrlock, Write, write, write_recorded, write_busy, "", write_guarded;
}

export_release! {
    pthread_rwlock_unlock => pthread_rwlock_unlock, unlock, unlock_recorded, unlock_guarded;
    __pthread_rwlock_unlock => pthread_rwlock_unlock, unlock, unlock_recorded, unlock_guarded;
}

export! {
    pthread_rwlock_init => init, "rdx";
    pthread_rwlock_destroy => destroy, "rsi";
    pthread_rwlock_tryrdlock => try_read, "rsi";
    pthread_rwlock_timedrdlock => timed_read, "rdx";
    pthread_rwlock_clockrdlock => clock_read, "rcx";
    pthread_rwlock_trywrlock => try_write, "rsi";
    pthread_rwlock_timedwrlock => timed_write, "rdx";
    pthread_rwlock_clockwrlock => clock_write, "rcx";
    __pthread_rwlock_init => init, "rdx";
    __pthread_rwlock_destroy => destroy, "rsi";
    __pthread_rwlock_tryrdlock => try_read, "rsi";
    __pthread_rwlock_trywrlock => try_write, "rsi";
}
