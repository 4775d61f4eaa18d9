//! Mutexes.

use super::{Object, Site, Words, export};
use crate::real;
use record::{Action, Class};
use std::ffi::c_int;

fn site(lock: Object, from: usize) -> Site {
    Site { class: Class::Mutex, lock, from }
}

unsafe extern "C-unwind" fn init(lock: Object, attributes: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let result = unsafe { real::pthread_mutex_init()(lock, attributes) };
    if result == 0 {
        site(lock, from).life(Action::Created, Words::Mutex);
    }
    result
}

unsafe extern "C-unwind" fn destroy(lock: Object, from: usize) -> c_int {
    site(lock, from).life(Action::Destroyed, Words::None);
    // SAFETY: the program's own argument.
    unsafe { real::pthread_mutex_destroy()(lock) }
}

unsafe extern "C-unwind" fn lock(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument, in each of the calls.
    unsafe {
        let try_now = || real::pthread_mutex_trylock()(lock);
        let wait = || real::pthread_mutex_lock()(lock);
        site(lock, from).take(try_now, wait, Words::Mutex)
    }
}

unsafe extern "C-unwind" fn try_lock(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument.
    let result = unsafe { real::pthread_mutex_trylock()(lock) };
    site(lock, from).tried(result, Words::Mutex)
}

unsafe extern "C-unwind" fn timed_lock(lock: Object, until: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments, in each of the calls.
    unsafe {
        let try_now = || real::pthread_mutex_trylock()(lock);
        let wait = || real::pthread_mutex_timedlock()(lock, until);
        site(lock, from).take(try_now, wait, Words::Mutex)
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
        let try_now = || real::pthread_mutex_trylock()(lock);
        let wait = || real::pthread_mutex_clocklock()(lock, clock, until);
        site(lock, from).take(try_now, wait, Words::Mutex)
    }
}

unsafe extern "C-unwind" fn unlock(lock: Object, from: usize) -> c_int {
    site(lock, from).release();
    // SAFETY: the program's own argument.
    unsafe { real::pthread_mutex_unlock()(lock) }
}

export! {
    pthread_mutex_init => init, "rdx";
    pthread_mutex_destroy => destroy, "rsi";
    pthread_mutex_lock => lock, "rsi";
    pthread_mutex_trylock => try_lock, "rsi";
    pthread_mutex_timedlock => timed_lock, "rdx";
    pthread_mutex_clocklock => clock_lock, "rcx";
    pthread_mutex_unlock => unlock, "rsi";
    // Names that programs linked with an old C library use.
    __pthread_mutex_init => init, "rdx";
    __pthread_mutex_destroy => destroy, "rsi";
    __pthread_mutex_lock => lock, "rsi";
    __pthread_mutex_trylock => try_lock, "rsi";
    __pthread_mutex_unlock => unlock, "rsi";
}
