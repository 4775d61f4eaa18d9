//! Spinlocks.

use super::{Object, Site, Words, export};
use crate::real::{self, Attempt};
use record::{Action, Class};
use std::ffi::c_int;

fn site(lock: Object, from: usize) -> Site {
    Site { class: Class::Spin, lock, from }
}

unsafe extern "C-unwind" fn init(lock: Object, shared: c_int, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let result = unsafe { real::pthread_spin_init()(lock, shared) };
    if result == 0 {
        site(lock, from).life(Action::Created, Words::None);
    }
    result
}

unsafe extern "C-unwind" fn destroy(lock: Object, from: usize) -> c_int {
    site(lock, from).life(Action::Destroyed, Words::None);
    // SAFETY: the program's own argument.
    unsafe { real::pthread_spin_destroy()(lock) }
}

unsafe extern "C-unwind" fn lock(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument, in each of the calls.
    unsafe {
        let try_now = || real::attempt(Attempt::Spin)(lock);
        let wait = || real::pthread_spin_lock()(lock);
        site(lock, from).take(try_now, wait, Words::None)
    }
}

unsafe extern "C-unwind" fn try_lock(lock: Object, from: usize) -> c_int {
    // SAFETY: the program's own argument.
    let result = unsafe { real::pthread_spin_trylock()(lock) };
    site(lock, from).tried(result, Words::None)
}

unsafe extern "C-unwind" fn unlock(lock: Object, from: usize) -> c_int {
    site(lock, from).release();
    // SAFETY: the program's own argument.
    unsafe { real::pthread_spin_unlock()(lock) }
}

export! {
    pthread_spin_init => init, "rdx";
    pthread_spin_destroy => destroy, "rsi";
    pthread_spin_lock => lock, "rsi";
    pthread_spin_trylock => try_lock, "rsi";
    pthread_spin_unlock => unlock, "rsi";
}
