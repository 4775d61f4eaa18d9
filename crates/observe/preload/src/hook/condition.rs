//! Condition variables.
//!
//! A wait lets its mutex go and takes it again inside the C library, where no hook sees it. So
//! the two records around the wait carry both objects: the mutex is free from the first on, and
//! held again at the second. Where in between the signal came is told by the signaller's record.
//! In cheap mode a signal is recorded only while a thread waits for it, which a table of waiters
//! by address tells.

use super::{Object, Site, Words, export, full};
use crate::attachment::{self, CONTENDED, OFF};
use crate::origin::recorder;
use crate::thread::Thread;
use crate::{guarding, real};
use record::{Action, Class, Kind, clock};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

const SLOTS: usize = 256;
/// Recorded waiters, by a hash of the object's address.
static WAITERS: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];

fn waiters(object: Object) -> &'static AtomicU32 {
    &WAITERS[(object as usize >> 4).wrapping_mul(0x9e37_79b9) >> 8 & (SLOTS - 1)]
}

/// Counts the calling thread as a waiter for an object. A thread that is cancelled stays counted,
/// which costs no more than a few records of signals too many.
pub(super) struct Waiter(&'static AtomicU32);

impl Waiter {
    /// Counts it. Relaxed: a signal that comes at this very moment may go unrecorded.
    pub(super) fn of(object: Object) -> Waiter {
        let count = waiters(object);
        count.fetch_add(1, Ordering::Relaxed);
        Waiter(count)
    }

    /// Ends the count of this waiter.
    pub(super) fn done(self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a wait between its two records.
pub(super) fn wait(
    thread: &Thread,
    object: Object,
    mutex: Object,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let record = |action, number| {
        let kind = Kind::Lock(Class::Condition, action);
        thread.record(clock::now(), kind, object as u64, mutex as u64, number);
    };
    let waiting = Waiter::of(object);
    // The records say that the mutex is let go and taken again; cheap mode, too, then records
    // when it is let go for good.
    thread.forget(mutex as usize);
    record(Action::Waiting, 0);
    let result = wait();
    record(Action::Acquired, result as u32);
    thread.remember(mutex as usize);
    waiting.done();
    result
}

/// Notes that waiters are about to be woken: one, or all.
#[inline(always)]
pub(super) fn signal(site: Site, count: u32) {
    let thread = match attachment::gate() {
        OFF => None,
        CONTENDED if waiters(site.lock).load(Ordering::Relaxed) == 0 => None,
        CONTENDED => recorder(site.from),
        _ => full(site.from),
    };
    if let Some(thread) = thread {
        site.record(thread, Action::Signalled, count);
    }
}

unsafe extern "C-unwind" fn init(object: Object, attributes: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let result = unsafe { real::pthread_cond_init()(object, attributes) };
    if result == 0 {
        let site = Site { class: Class::Condition, lock: object, from };
        site.life(Action::Created, Words::None);
    }
    result
}

unsafe extern "C-unwind" fn destroy(object: Object, from: usize) -> c_int {
    let site = Site { class: Class::Condition, lock: object, from };
    site.life(Action::Destroyed, Words::None);
    // SAFETY: the program's own argument.
    unsafe { real::pthread_cond_destroy()(object) }
}

unsafe extern "C-unwind" fn plain(object: Object, mutex: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let call = || unsafe {
        guarding::guarded_mutex::will_wait_for_condition(mutex);
        real::pthread_cond_wait()(object, mutex)
    };
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
    let call = || unsafe {
        guarding::guarded_mutex::will_wait_for_condition(mutex);
        real::pthread_cond_timedwait()(object, mutex, until)
    };
    match recorder(from) {
        Some(thread) => wait(thread, object, mutex, call),
        None => call(),
    }
}

unsafe extern "C-unwind" fn clocked(
    object: Object,
    mutex: Object,
    clock: c_int,
    until: Object,
    from: usize,
) -> c_int {
    // SAFETY: the program's own arguments.
    let call = || unsafe {
        guarding::guarded_mutex::will_wait_for_condition(mutex);
        real::pthread_cond_clockwait()(object, mutex, clock, until)
    };
    match recorder(from) {
        Some(thread) => wait(thread, object, mutex, call),
        None => call(),
    }
}

unsafe extern "C-unwind" fn signal_one(object: Object, from: usize) -> c_int {
    signal(Site { class: Class::Condition, lock: object, from }, 1);
    // SAFETY: the program's own argument.
    unsafe { real::pthread_cond_signal()(object) }
}

unsafe extern "C-unwind" fn signal_all(object: Object, from: usize) -> c_int {
    signal(Site { class: Class::Condition, lock: object, from }, u32::MAX);
    // SAFETY: the program's own argument.
    unsafe { real::pthread_cond_broadcast()(object) }
}

export! {
    pthread_cond_init => init, "rdx";
    pthread_cond_destroy => destroy, "rsi";
    pthread_cond_wait => plain, "rdx";
    pthread_cond_timedwait => timed, "rcx";
    pthread_cond_clockwait => clocked, "r8";
    pthread_cond_signal => signal_one, "rsi";
    pthread_cond_broadcast => signal_all, "rsi";
}
