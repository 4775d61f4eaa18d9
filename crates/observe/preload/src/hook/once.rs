//! `pthread_once`. A control that is done is passed through; otherwise the thread runs the
//! routine, or waits for the one that does.

use super::{Object, Site, export, word};
use crate::origin::recorder;
use crate::real;
use record::{Action, Class};
use std::ffi::c_int;

/// glibc's state of a control whose routine has run.
const DONE: u32 = 2;

unsafe extern "C-unwind" fn once(control: Object, routine: Object, from: usize) -> c_int {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::pthread_once()(control, routine) };
    if control.is_null() || word(control, 0) == DONE {
        return call();
    }
    let Some(thread) = recorder(from) else { return call() };
    let site = Site { class: Class::Once, lock: control, from };
    site.record(thread, Action::Waiting, 0);
    let result = call();
    site.record(thread, Action::Acquired, 0);
    result
}

export! {
    pthread_once => once, "rdx";
    __pthread_once => once, "rdx";
}
