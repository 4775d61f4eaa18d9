//! Seccomp: a program that restricts its own system calls is not recorded any further.
//!
//! Whoever makes a system call that the program's filter does not allow may kill it, and what a
//! filter allows cannot be told. So this library looks at the two functions by which filters are
//! installed, and before one is, it stops making system calls: the recording of this process and
//! of those that it will start ends there, which the recording is told. If the kernel refuses the
//! filter, recording goes on. All other uses of the two functions are a comparison and a jump.

use crate::{attachment, real};
use core::arch::naked_asm;
use std::ffi::c_int;

const SET_SECCOMP: i32 = libc::PR_SET_SECCOMP;
/// The operations of `seccomp` that install something: strict mode and a filter.
const LAST_INSTALLING: usize = libc::SECCOMP_SET_MODE_FILTER as usize;

/// `int prctl(int option, ...)`
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn prctl() {
    naked_asm!(
        "cmp edi, {set_seccomp}",
        "je {set}",
        super::jump!(),
        set_seccomp = const SET_SECCOMP,
        set = sym set_by_prctl,
        addresses = sym real::ADDRESSES,
        index = const real::Index::prctl as usize,
        find = sym real::find,
    )
}

/// `long syscall(long number, ...)`
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall() {
    naked_asm!(
        "cmp rdi, {seccomp}",
        "je {set}",
        "cmp rdi, {prctl}",
        "jne 2f",
        "cmp esi, {set_seccomp}",
        "je {set}",
        "2:",
        super::jump!(),
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        set_seccomp = const SET_SECCOMP,
        set = sym set_by_number,
        addresses = sym real::ADDRESSES,
        index = const real::Index::syscall as usize,
        find = sym real::find,
    )
}

unsafe extern "C-unwind" fn set_by_prctl(
    option: c_int,
    mode: usize,
    filter: usize,
    third: usize,
    fourth: usize,
) -> c_int {
    // SAFETY: the program's own arguments.
    restrict(|| unsafe { real::prctl()(option, mode, filter, third, fourth) })
}

unsafe extern "C-unwind" fn set_by_number(
    number: i64,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
) -> i64 {
    // SAFETY: the program's own arguments; none of the two system calls has a sixth.
    let call = || unsafe { real::syscall()(number, first, second, third, fourth, fifth, 0) };
    if number == libc::SYS_seccomp && first > LAST_INSTALLING { call() } else { restrict(call) }
}

/// Installs a filter.
fn restrict<T: Into<i64> + Copy>(install: impl FnOnce() -> T) -> T {
    let suspended = attachment::suspend();
    let result = install();
    if result.into() < 0 {
        suspended.resume()
    } else {
        suspended.end()
    }
    result
}
