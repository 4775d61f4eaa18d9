//! The short ways through the hooks of mutexes and read-write locks, by hand.
//!
//! Most calls record nothing: in full mode those from libraries that are not recorded, in cheap
//! mode those that need not wait. What they cost is the way from the program to the real function.
//! A compiled hook begins by saving the registers that some of its branches need, and the
//! processor must finish those stores before it can finish the locked instruction of the real
//! function. Here nothing is saved but the lock's address, while cheap mode tries to take the lock.
//! A call that full mode records goes to a hook that knows so ([`Site::take_recorded`]). All else
//! goes to the hooks that find out: before the gate is open, at the first call from a page of code,
//! and where an attempt would have consequences.

use super::Site;
use crate::attachment::{CONTENDED, CONVERTING, FULL, GUARDED};
use crate::thread::{Thread, this};
use record::Action;
use std::ffi::c_int;

/// The beginning of an exported function with one argument. It puts the caller's address into the
/// register of the second, and goes
/// - to the real function when nothing is recorded, or nothing from this page of code;
/// - to 4 in cheap mode, and to 5 in full mode when calls from this page are recorded;
/// - to `{lean}`, a hook, when locks are guarded and nothing is recorded;
/// - to 2 in all other cases.
macro_rules! sort_out {
    () => {
        "
        mov rsi, qword ptr [rsp]
        movzx eax, byte ptr [rip + {gate}]
        cmp eax, {contended}
        je 4f
        jb 3f
        and eax, ~{converting}
        cmp eax, {guarded}
        je {lean}
        cmp eax, {full}
        jne 2f
        mov rax, rsi
        shr rax, 12
        mov ecx, eax
        and ecx, {pages} - 1
        lea rdx, [rip + {by_page}]
        mov rdx, qword ptr [rdx + 8 * rcx]
        lea rax, [8 * rax + {passed}]
        cmp rdx, rax
        je 3f
        inc rax
        cmp rdx, rax
        je 5f
        jmp 2f
    3:
        mov rax, qword ptr [rip + {addresses} + 8 * {real}]
        test rax, rax
        jz 2f
        jmp rax
        "
    };
}
pub(super) use sort_out;

// Conditions that `sort_out` relies on: nothing is recorded below cheap mode, and full mode is
// never mistaken for anything else.
const _: () = assert!(CONTENDED == 1 && FULL == 2 && GUARDED > FULL && CONVERTING > GUARDED);

/// Exports functions that take a lock. `hook` finds out what to do, `recorded` is for full mode,
/// `busy` goes on after an `attempt` that failed, or was not made. `check` jumps to 2 when an attempt at the lock
/// at `rdi` is not without consequences. `lean` is for when locks are guarded and nothing is
/// recorded.
macro_rules! export_take {
    ($($name:ident => $real:ident, $attempt:ident, $hook:ident, $recorded:ident, $busy:ident,
       $check:expr, $lean:ident;)*) => {$(
        /// The exported function of this name.
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                // For those who look at the stack during the attempt.
                ".cfi_startproc",
                $crate::hook::short::sort_out!(),
                "4:",
                $check,
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                // Its address is known since before the gate opened.
                "call qword ptr [rip + {attempts} + 8 * {attempt}]",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test eax, eax",
                "jnz 6f",
                "ret",
                "6:",
                "mov rsi, qword ptr [rsp]",
                "mov edx, eax",
                "jmp {busy}",
                "5:",
                $check,
                "jmp {recorded}",
                "2:",
                "jmp {hook}",
                ".cfi_endproc",
                gate = sym $crate::attachment::GATE,
                lean = sym $lean,
                contended = const $crate::attachment::CONTENDED,
                guarded = const $crate::attachment::GUARDED,
                converting = const $crate::attachment::CONVERTING,
                full = const $crate::attachment::FULL,
                by_page = sym $crate::origin::BY_PAGE,
                pages = const $crate::origin::PAGES,
                passed = const $crate::origin::PASSED,
                addresses = sym $crate::real::ADDRESSES,
                real = const $crate::real::Index::$real as usize,
                attempts = sym $crate::real::ATTEMPTS,
                attempt = const $crate::real::Attempt::$attempt as usize,
                hook = sym $hook,
                recorded = sym $recorded,
                busy = sym $busy,
            )
        }
    )*};
}
pub(super) use export_take;

/// Exports functions that let a lock go. `hook` finds out what to do, `recorded` is for full mode,
/// `lean` for when locks are guarded and nothing is recorded.
macro_rules! export_release {
    ($($name:ident => $real:ident, $hook:ident, $recorded:ident, $lean:ident;)*) => {$(
        /// The exported function of this name.
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $crate::hook::short::sort_out!(),
                "4:",
                "mov rax, qword ptr [rip + keeptime_thread@GOTTPOFF]",
                "cmp dword ptr fs:[rax + {remembered}], 0",
                "je 3b",
                "2:",
                "jmp {hook}",
                "5:",
                "jmp {recorded}",
                ".cfi_endproc",
                gate = sym $crate::attachment::GATE,
                contended = const $crate::attachment::CONTENDED,
                guarded = const $crate::attachment::GUARDED,
                converting = const $crate::attachment::CONVERTING,
                lean = sym $lean,
                full = const $crate::attachment::FULL,
                by_page = sym $crate::origin::BY_PAGE,
                pages = const $crate::origin::PAGES,
                passed = const $crate::origin::PASSED,
                remembered = const $crate::thread::Thread::REMEMBERED_OFFSET,
                addresses = sym $crate::real::ADDRESSES,
                real = const $crate::real::Index::$real as usize,
                hook = sym $hook,
                recorded = sym $recorded,
            )
        }
    )*};
}
pub(super) use export_release;

impl Site {
    /// Takes a lock whose taking is recorded from here, in full mode, unless the thread is inside
    /// a call of this library's own. `busy` goes on after an attempt that failed, or was not made.
    #[inline(always)]
    pub(super) fn take_recorded(
        self,
        attributes: impl FnOnce() -> u32,
        attempt: impl FnOnce() -> c_int,
        busy: impl FnOnce(c_int) -> c_int,
        quiet: impl FnOnce() -> c_int,
    ) -> c_int {
        let Some(thread) = loud() else { return quiet() };
        match attempt() {
            0 => {
                self.record(thread, Action::Acquired, attributes());
                0
            }
            tried => busy(tried),
        }
    }

    /// Notes that the lock is about to be let go, in full mode, when that is recorded from here.
    #[inline(always)]
    pub(super) fn release_recorded(self) {
        if let Some(thread) = loud() {
            self.record(thread, Action::Released, 0);
        }
    }
}

/// The calling thread, unless it is inside a call of this library's own.
#[inline(always)]
fn loud() -> Option<&'static Thread> {
    let thread = this();
    (!thread.is_quiet()).then_some(thread)
}
