//! The dynamic linker's functions: `dlsym` and `dlvsym`, so that a program that looks the driver's
//! functions up gets the hooks, and not where it would have got nothing; and `dlclose`, after which
//! addresses may mean something else.
//!
//! The real `dlsym` and `dlvsym` look at who calls them, so that they must be reached by a jump,
//! with the program's stack as it was. Only names that begin with `cu` take the way through
//! [`crate::cuda`], which decides whether it has the answer or the jump is to be made after all.

use super::Object;
use crate::cuda::{look_up, look_up_version};
use crate::{cuda, origin, real};
use core::arch::naked_asm;
use std::ffi::c_int;

/// `void *dlsym(void *library, const char *name)`
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn dlsym() {
    naked_asm!(
        "test rsi, rsi",
        "jz 2f",
        "cmp byte ptr [rsi], 99", // 'c'
        "jne 2f",
        "cmp byte ptr [rsi + 1], 117", // 'u'
        "jne 2f",
        "push rdi",
        "push rsi",
        "mov rdx, qword ptr [rsp + 16]", // the caller's address
        "sub rsp, 8",
        "call {look_up}", // the answer in rax; rdx is 0 if there is none
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rdx, rdx",
        "jz 2f",
        "ret",
        "2:",
        super::jump!(),
        look_up = sym look_up,
        addresses = sym real::ADDRESSES,
        index = const real::Index::dlsym as usize,
        find = sym real::find,
    )
}

/// `void *dlvsym(void *library, const char *name, const char *version)`
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn dlvsym() {
    naked_asm!(
        "test rsi, rsi",
        "jz 2f",
        "cmp byte ptr [rsi], 99",
        "jne 2f",
        "cmp byte ptr [rsi + 1], 117",
        "jne 2f",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {look_up}",
        "mov rcx, rdx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rcx, rcx",
        "jz 2f",
        "ret",
        "2:",
        super::jump!(),
        look_up = sym look_up_version,
        addresses = sym real::ADDRESSES,
        index = const real::Index::dlvsym as usize,
        find = sym real::find,
    )
}

unsafe extern "C-unwind" fn close(library: Object, _from: usize) -> c_int {
    // SAFETY: the program's own argument.
    let result = unsafe { real::dlclose()(library) };
    origin::forget_closed();
    cuda::forget_closed();
    result
}

super::export! {
    dlclose => close, "rsi";
}
