//! `mlockall`, which real-time programs call first: it counts all that is mapped, used or not. So
//! while the kernel does it, only the part of the recording is mapped that this process writes.

use super::export;
use crate::{attachment, real};
use std::ffi::c_int;

unsafe extern "C-unwind" fn lock_all(flags: c_int, _: usize) -> c_int {
    // SAFETY: the program's own argument.
    around(flags, || unsafe { real::mlockall()(flags) })
}

/// The same by `syscall`.
pub(super) unsafe extern "C-unwind" fn lock_all_by_number(number: i64, flags: usize) -> i64 {
    // SAFETY: the program's own arguments; the system call has no others.
    around(flags as c_int, || unsafe { real::syscall()(number, flags, 0, 0, 0, 0, 0) })
}

fn around<T>(flags: c_int, call: impl FnOnce() -> T) -> T {
    // Without `MCL_CURRENT`, the kernel counts nothing that is mapped now.
    if flags & libc::MCL_CURRENT == 0 { call() } else { attachment::without_unused(call) }
}

export! {
    mlockall => lock_all, "rsi";
}
