//! Barriers. All but the last to arrive wait.

use super::{Object, Site, Words, export};
use crate::origin::recorder;
use crate::real;
use record::{Action, Class};
use std::ffi::c_int;

fn site(lock: Object, from: usize) -> Site {
    Site { class: Class::Barrier, lock, from }
}

unsafe extern "C-unwind" fn init(lock: Object, how: Object, count: u32, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let result = unsafe { real::pthread_barrier_init()(lock, how, count) };
    if result == 0 {
        site(lock, from).life(Action::Created, Words::None);
    }
    result
}

unsafe extern "C-unwind" fn destroy(lock: Object, from: usize) -> c_int {
    site(lock, from).life(Action::Destroyed, Words::None);
    // SAFETY: the program's own argument.
    unsafe { real::pthread_barrier_destroy()(lock) }
}

unsafe extern "C-unwind" fn wait(lock: Object, from: usize) -> c_int {
    let thread = recorder(from);
    if let Some(thread) = thread {
        site(lock, from).record(thread, Action::Waiting, 0);
    }
    // SAFETY: the program's own argument.
    let result = unsafe { real::pthread_barrier_wait()(lock) };
    if let Some(thread) = thread {
        site(lock, from).record(thread, Action::Acquired, result as u32);
    }
    result
}

export! {
    pthread_barrier_init => init, "rcx";
    pthread_barrier_destroy => destroy, "rsi";
    pthread_barrier_wait => wait, "rsi";
}
