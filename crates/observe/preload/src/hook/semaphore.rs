//! Semaphores. Their functions report errors through `errno`, which is left as the real function
//! sets it, or as it was when the wait was fulfilled. Two of those that wait are points at which a
//! thread is cancelled also when they need not wait; glibc's `sem_clockwait` is not.

use super::condition::{Waiter, signal};
use super::{Object, Site, Words, export, full, is_clock, is_time, word};
use crate::attachment::{self, CONTENDED, OFF};
use crate::origin::recorder;
use crate::real::{self, Attempt};
use crate::thread::Thread;
use record::{Action, Class};
use std::ffi::c_int;

fn site(lock: Object, from: usize) -> Site {
    Site { class: Class::Semaphore, lock, from }
}

fn errno() -> *mut c_int {
    // SAFETY: the C library gives each thread a place of its own.
    unsafe { libc::__errno_location() }
}

/// Waits for a semaphore, if it must, between two records. `look` is what the real function begins
/// with, whether it must wait or not.
#[inline(always)]
fn take(site: Site, look: impl FnOnce(), wait: impl FnOnce() -> c_int) -> c_int {
    let thread = match attachment::gate() {
        OFF => return wait(),
        CONTENDED => None,
        _ => match full(site.from) {
            None => return wait(),
            thread => thread,
        },
    };
    if !real::is_attempted(Attempt::Semaphore) {
        return take_without_attempt(site, thread, wait);
    }
    look();
    // SAFETY: `errno` lives as long as the thread; the semaphore is the program's.
    unsafe {
        let before = *errno();
        if real::attempt(Attempt::Semaphore)(site.lock) == 0 {
            if let Some(thread) = thread {
                site.record(thread, Action::Acquired, 0);
            }
            return 0;
        }
        *errno() = before;
        take_busy(site, wait)
    }
}

/// The same where an attempt would be seen. The value of a semaphore is its first word; the same
/// from glibc 2.31 to 2.42.
#[cold]
fn take_without_attempt(
    site: Site,
    thread: Option<&Thread>,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    if word(site.lock, 0) == 0 {
        return take_busy(site, wait);
    }
    let result = wait();
    if let Some(thread) = thread {
        tried(site, thread, result);
    }
    result
}

/// Notes the outcome of a wait.
fn tried(site: Site, thread: &Thread, result: c_int) {
    if result == 0 {
        site.record(thread, Action::Acquired, 0);
    } else {
        // SAFETY: as in `errno`.
        site.record(thread, Action::Failed, unsafe { *errno() } as u32);
    }
}

/// Ends the thread if it is cancelled.
#[inline(always)]
fn look_for_cancellation() {
    // SAFETY: no arguments. A thread that is cancelled here unwinds no destructors.
    unsafe { real::pthread_testcancel()() }
}

#[cold]
fn take_busy(site: Site, wait: impl FnOnce() -> c_int) -> c_int {
    let Some(thread) = recorder(site.from) else { return wait() };
    let waiting = Waiter::of(site.lock);
    site.record(thread, Action::Waiting, 0);
    let result = wait();
    tried(site, thread, result);
    waiting.done();
    result
}

unsafe extern "C-unwind" fn init(lock: Object, shared: c_int, value: u32, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let result = unsafe { real::sem_init()(lock, shared, value) };
    if result == 0 {
        site(lock, from).life(Action::Created, Words::None);
    }
    result
}

unsafe extern "C-unwind" fn destroy(lock: Object, from: usize) -> c_int {
    site(lock, from).life(Action::Destroyed, Words::None);
    // SAFETY: the program's own argument.
    unsafe { real::sem_destroy()(lock) }
}

unsafe extern "C-unwind" fn plain(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument.
    let call = || unsafe { real::sem_wait()(lock) };
    take(site(lock, from), look_for_cancellation, call)
}

unsafe extern "C-unwind" fn timed(lock: Object, until: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::sem_timedwait()(lock, until) };
    // SAFETY: as above.
    let is_valid = unsafe { is_time(until) };
    if is_valid { take(site(lock, from), look_for_cancellation, call) } else { call() }
}

unsafe extern "C-unwind" fn clocked(
    lock: Object,
    clock: c_int,
    until: Object,
    from: usize,
) -> c_int {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::sem_clockwait()(lock, clock, until) };
    // SAFETY: as above.
    let is_valid = is_clock(clock) && unsafe { is_time(until) };
    if is_valid { take(site(lock, from), || {}, call) } else { call() }
}

unsafe extern "C-unwind" fn try_wait(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument.
    let result = unsafe { real::sem_trywait()(lock) };
    if let Some(thread) = full(from) {
        tried(site(lock, from), thread, result);
    }
    result
}

unsafe extern "C-unwind" fn post(lock: Object, from: usize) -> c_int {
    signal(site(lock, from), 1);
    // SAFETY: the program's own argument.
    unsafe { real::sem_post()(lock) }
}

export! {
    sem_init => init, "rcx";
    sem_destroy => destroy, "rsi";
    sem_wait => plain, "rsi";
    sem_timedwait => timed, "rdx";
    sem_clockwait => clocked, "rcx";
    sem_trywait => try_wait, "rsi";
    sem_post => post, "rsi";
}
