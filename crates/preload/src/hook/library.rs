//! The dynamic linker's functions: `dlsym` and `dlvsym`, so that a program that looks the driver's
//! functions up gets the hooks, and `dlclose`, after which addresses may mean something else.
//!
//! All three look at their caller, so that the real ones must be reached by a jump, with the
//! caller's address where they expect it. Only names that begin with `cu`, asked of a library,
//! take the way through [`crate::cuda`], which calls the real function itself.

use crate::cuda::{look_up, look_up_version};
use crate::{origin, real};
use core::arch::naked_asm;

/// `void *dlsym(void *library, const char *name)`
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dlsym() {
    naked_asm!(
        // RTLD_DEFAULT is 0 and RTLD_NEXT is -1: these depend on the caller.
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "jbe 2f",
        "test rsi, rsi",
        "jz 2f",
        "cmp word ptr [rsi], 0x7563", // "cu"
        "jne 2f",
        "jmp {look_up}",
        "2:",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {address}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        look_up = sym look_up,
        address = sym real::dlsym_address,
    )
}

/// `void *dlvsym(void *library, const char *name, const char *version)`
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dlvsym() {
    naked_asm!(
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "jbe 2f",
        "test rsi, rsi",
        "jz 2f",
        "cmp word ptr [rsi], 0x7563",
        "jne 2f",
        "jmp {look_up}",
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {address}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        look_up = sym look_up_version,
        address = sym real::dlvsym_address,
    )
}

/// `int dlclose(void *library)`
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dlclose() {
    naked_asm!(
        "push rdi",
        "call {forget}",
        "call {address}",
        "pop rdi",
        "jmp rax",
        forget = sym forget,
        address = sym real::dlclose_address,
    )
}

extern "C" fn forget() {
    origin::forget();
}
