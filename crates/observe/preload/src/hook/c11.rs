//! The locks of C11, which the C library builds from the same objects but calls from within.

use super::condition::{signal, wait};
use super::{Object, Site, Words, export};
use crate::origin::recorder;
use crate::real::{self, Attempt};
use record::{Action, Class};
use std::ffi::c_int;

// glibc's values of C11's results.
const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const TIMED_OUT: c_int = 4;

fn site(lock: Object, from: usize) -> Site {
    Site { class: Class::Mutex, lock, from }
}

/// C11's result as the hooks for mutexes know it.
fn number(result: c_int) -> c_int {
    match result {
        SUCCESS => 0,
        BUSY => libc::EBUSY,
        real::NOT_TRIED => real::NOT_TRIED,
        TIMED_OUT => libc::ETIMEDOUT,
        _ => libc::EINVAL,
    }
}

/// Takes a mutex; the program is given C11's own result.
///
/// # Safety
/// `lock` must be what the program passed.
unsafe fn take(lock: Object, from: usize, wait: impl FnOnce() -> c_int) -> c_int {
    let mut result = SUCCESS;
    let wait = || {
        result = wait();
        number(result)
    };
    // SAFETY: the program's own argument.
    let try_now = || number(unsafe { real::attempt(Attempt::C11)(lock) });
    site(lock, from).take(try_now, wait, Words::Mutex);
    result
}

unsafe extern "C-unwind" fn init(lock: Object, kind: c_int, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let result = unsafe { real::mtx_init()(lock, kind) };
    if result == SUCCESS {
        site(lock, from).life(Action::Created, Words::Mutex);
    }
    result
}

unsafe extern "C-unwind" fn destroy(lock: Object, from: usize) {
    site(lock, from).life(Action::Destroyed, Words::None);
    // SAFETY: the program's own argument.
    unsafe { real::mtx_destroy()(lock) };
}

unsafe extern "C-unwind" fn lock(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument, in each of the calls.
    unsafe { take(lock, from, || real::mtx_lock()(lock)) }
}

unsafe extern "C-unwind" fn timed_lock(lock: Object, until: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments, in each of the calls.
    unsafe { take(lock, from, || real::mtx_timedlock()(lock, until)) }
}

unsafe extern "C-unwind" fn try_lock(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument.
    let result = unsafe { real::mtx_trylock()(lock) };
    site(lock, from).tried(number(result), Words::Mutex);
    result
}

unsafe extern "C-unwind" fn unlock(lock: Object, from: usize) -> c_int {
    site(lock, from).release();
    // SAFETY: the program's own argument.
    unsafe { real::mtx_unlock()(lock) }
}

unsafe extern "C-unwind" fn plain(object: Object, mutex: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::cnd_wait()(object, mutex) };
    match recorder(from) {
        Some(thread) => wait(thread, object, mutex, call),
        None => call(),
    }
}

unsafe extern "C-unwind" fn timed(
    object: Object,
    mutex: Object,
    until: Object,
    from: usize,
) -> c_int {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::cnd_timedwait()(object, mutex, until) };
    match recorder(from) {
        Some(thread) => wait(thread, object, mutex, call),
        None => call(),
    }
}

unsafe extern "C-unwind" fn signal_one(object: Object, from: usize) -> c_int {
    signal(Site { class: Class::Condition, lock: object, from }, 1);
    // SAFETY: the program's own argument.
    unsafe { real::cnd_signal()(object) }
}

unsafe extern "C-unwind" fn signal_all(object: Object, from: usize) -> c_int {
    signal(Site { class: Class::Condition, lock: object, from }, u32::MAX);
    // SAFETY: the program's own argument.
    unsafe { real::cnd_broadcast()(object) }
}

unsafe extern "C-unwind" fn once(control: Object, routine: Object, from: usize) {
    let thread = recorder(from);
    let done = control.is_null() || super::word(control, 0) == 2;
    let site = Site { class: Class::Once, lock: control, from };
    if let (Some(thread), false) = (thread, done) {
        site.record(thread, Action::Waiting, 0);
    }
    // SAFETY: the program's own arguments.
    unsafe { real::call_once()(control, routine) };
    if let (Some(thread), false) = (thread, done) {
        site.record(thread, Action::Acquired, 0);
    }
}

export! {
    mtx_init => init, "rdx";
    mtx_destroy => destroy, "rsi";
    mtx_lock => lock, "rsi";
    mtx_trylock => try_lock, "rsi";
    mtx_timedlock => timed_lock, "rdx";
    mtx_unlock => unlock, "rsi";
    cnd_wait => plain, "rdx";
    cnd_timedwait => timed, "rcx";
    cnd_signal => signal_one, "rsi";
    cnd_broadcast => signal_all, "rsi";
    call_once => once, "rdx";
}
