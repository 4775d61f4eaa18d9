//! Seccomp: a program that restricts its own system calls is not recorded any further.
//!
//! A system call that the program's filter does not allow may kill the program, and what a
//! filter allows cannot be told. So this library looks at the two functions by which filters are
//! installed, and before one is, it stops making system calls: the recording of this process and
//! of those that it will start ends there, which the recording is told. If the kernel refuses the
//! filter, recording goes on. A filter that is installed by the instruction itself is not seen; but
//! a program without privileges must give them up for good before, and a program that does that by
//! one of the two functions has the guard make no system calls but those of the C library's own
//! locks. All other uses of the two functions are a comparison and a jump.

use crate::{attachment, real};
use core::arch::naked_asm;
use std::ffi::c_int;

const SET_SECCOMP: i32 = libc::PR_SET_SECCOMP;
/// Option that a program sets before it installs a filter, unless it has privileges.
const GIVE_UP: i32 = libc::PR_SET_NO_NEW_PRIVS;
/// The operations of `seccomp` that install something: strict mode and a filter.
const LAST_INSTALLING: usize = libc::SECCOMP_SET_MODE_FILTER as usize;

/// `int prctl(int option, ...)`
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn prctl() {
    naked_asm!(
        "cmp edi, {set_seccomp}",
        "je {set}",
        "cmp edi, {give_up}",
        "je {set}",
        super::jump!(),
        set_seccomp = const SET_SECCOMP,
        give_up = const GIVE_UP,
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
pub(super) unsafe extern "C-unwind" fn syscall() {
    naked_asm!(
        "cmp rdi, {seccomp}",
        "je {set}",
        "cmp rdi, {mlockall}",
        "je {lock_all}",
        "cmp rdi, {prctl}",
        "jne 2f",
        "cmp esi, {set_seccomp}",
        "je {set}",
        "cmp esi, {give_up}",
        "je {set}",
        "2:",
        super::jump!(),
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        mlockall = const libc::SYS_mlockall,
        lock_all = sym super::memory::lock_all_by_number,
        set_seccomp = const SET_SECCOMP,
        give_up = const GIVE_UP,
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
    let call = || unsafe { real::prctl()(option, mode, filter, third, fourth) };
    if option == GIVE_UP { give_up(call) } else { restrict(call) }
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
    match number {
        libc::SYS_seccomp if first > LAST_INSTALLING => call(),
        libc::SYS_prctl if first as i32 == GIVE_UP => give_up(call),
        _ => restrict(call),
    }
}

/// The program gives up to gain privileges: without it, or privileges, the kernel takes no filter.
fn give_up<T: Into<i64> + Copy>(call: impl FnOnce() -> T) -> T {
    let result = call();
    if result.into() == 0 {
        attachment::be_careful();
    }
    result
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
