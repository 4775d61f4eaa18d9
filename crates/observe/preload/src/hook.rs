//! The hooks for the C library's locks.
//!
//! Each exported function is two instructions that pass the caller's address on as one more
//! argument. The hook behind it looks at the gate. In full mode it asks whether locks from this
//! address are recorded ([`recorder`]); in cheap mode it asks that only when it must wait. To find
//! out, it tries to take the lock without waiting: when that works, the lock was free. When it
//! does not, the thread is about to wait, which is recorded with the owner before the real
//! function is called, and again after it. Where another library stands between this library and
//! the C library's functions, what the program called is all that is called, and the lock's words
//! are looked at instead ([`Site::looks_taken`]). The plain functions of mutexes and read-write
//! locks have ways of their own around most of this ([`short`]).
//!
//! A lock is stamped after it was taken and before it is let go, so that the recorded holds of
//! one lock never overlap.

mod barrier;
mod c11;
mod condition;
pub(crate) mod exec;
mod library;
mod memory;
mod mutex;
mod once;
mod rwlock;
mod sandbox;
mod semaphore;
mod short;
mod spin;

use crate::attachment::{self, CONTENDED, FULL, OFF, UNTRIED};
use crate::origin::recorder;
use crate::real::NOT_TRIED;
use crate::thread::{Thread, this};
use record::{Action, Class, Kind, clock};
use std::ffi::{c_int, c_void};

/// An object of the C library, by address.
type Object = *mut c_void;

/// Exports a function under its C name: it puts the caller's address into the register of the
/// argument after the last, and jumps to the hook.
macro_rules! export {
    ($($name:ident => $hook:path, $register:literal;)*) => {$(
        /// The exported function of this name.
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                concat!("mov ", $register, ", qword ptr [rsp]"),
                "jmp {hook}",
                hook = sym $hook,
            )
        }
    )*};
}
pub(crate) use export;

/// The end of a naked function: jumps to the function behind it, with all arguments as they are.
/// Needs the operands `addresses`, `index` and `find` of [`crate::real`].
macro_rules! jump {
    () => {
        "
        mov r11, qword ptr [rip + {addresses} + 8 * {index}]
        test r11, r11
        jnz 9f
        push rdi
        push rsi
        push rdx
        push rcx
        push r8
        push r9
        push rax
        mov edi, {index}
        call {find}
        mov r11, rax
        pop rax
        pop r9
        pop r8
        pop rcx
        pop rdx
        pop rsi
        pop rdi
    9:
        jmp r11
        "
    };
}
pub(crate) use jump;

/// Returns true if this is a point in time that the C library takes: some functions look at it even
/// when they need not wait, others do not.
///
/// # Safety
/// `until` must be null or point to a `timespec`.
unsafe fn is_time(until: Object) -> bool {
    if until.is_null() {
        return false;
    }
    // SAFETY: the caller's promise.
    let time = unsafe { until.cast::<libc::timespec>().read_unaligned() };
    (0..1_000_000_000).contains(&time.tv_nsec)
}

/// Returns true if the C library can wait by this clock.
fn is_clock(clock: c_int) -> bool {
    clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_MONOTONIC
}

/// The calling thread, when locks that were free are recorded, from this address too.
#[inline(always)]
fn full(from: usize) -> Option<&'static Thread> {
    match attachment::gate() {
        FULL => recorder(from),
        UNTRIED if attachment::is_on() => full(from),
        _ => None,
    }
}

/// A lock and where it is being taken from.
#[derive(Clone, Copy)]
struct Site {
    class: Class,
    lock: Object,
    from: usize,
}

impl Site {
    #[inline(always)]
    fn record(self, thread: &Thread, action: Action, number: u32) {
        let kind = Kind::Lock(self.class, action);
        thread.record(clock::now(), kind, self.lock as u64, self.from as u64, number);
    }

    /// Takes a lock. `try_now` must not wait and answer `EBUSY` where `wait` would, or
    /// [`NOT_TRIED`]; `words` are the lock's own.
    #[inline(always)]
    fn take(
        self,
        try_now: impl FnOnce() -> c_int,
        wait: impl FnOnce() -> c_int,
        words: Words,
    ) -> c_int {
        match attachment::gate() {
            OFF => wait(),
            CONTENDED => match try_now() {
                0 => 0,
                tried => self.take_busy(recorder(self.from), tried, wait, words),
            },
            _ => match full(self.from) {
                Some(thread) => match try_now() {
                    0 => {
                        self.record(thread, Action::Acquired, words.attributes(self.lock));
                        0
                    }
                    tried => self.take_busy(Some(thread), tried, wait, words),
                },
                None => wait(),
            },
        }
    }

    #[cold]
    #[inline(never)]
    fn take_busy(
        self,
        thread: Option<&Thread>,
        tried: c_int,
        wait: impl FnOnce() -> c_int,
        words: Words,
    ) -> c_int {
        if tried == NOT_TRIED {
            return self.take_without_attempt(self.looks_taken(words), wait, words);
        }
        let record = |action, number| {
            thread.inspect(|thread| self.record(thread, action, number));
        };
        // A robust mutex whose owner died is taken by the attempt.
        if tried == libc::EOWNERDEAD {
            record(Action::Acquired, words.attributes(self.lock));
            return tried;
        }
        record(Action::Waiting, words.owner(self.lock));
        let result = wait();
        if result == 0 || result == libc::EOWNERDEAD {
            record(Action::Acquired, words.attributes(self.lock));
            thread.inspect(|thread| thread.remember(self.lock as usize));
        } else {
            record(Action::Failed, result as u32);
        }
        result
    }

    /// Takes a lock that `is_busy` is known of, without an attempt that does not wait.
    #[cold]
    #[inline(never)]
    fn take_without_attempt(
        self,
        is_busy: bool,
        wait: impl FnOnce() -> c_int,
        words: Words,
    ) -> c_int {
        let thread = match attachment::gate() {
            CONTENDED if is_busy => recorder(self.from),
            CONTENDED | OFF => None,
            _ => full(self.from),
        };
        match thread {
            None => wait(),
            Some(thread) if is_busy => self.take_busy(Some(thread), libc::EBUSY, wait, words),
            Some(_) => self.tried(wait(), words),
        }
    }

    /// Returns true if another thread has the lock, according to its words; they may not be the C
    /// library's.
    fn looks_taken(self, words: Words) -> bool {
        const TYPE: u32 = 3;
        const NORMAL: u32 = 0;
        const ADAPTIVE: u32 = 3;
        match (words, self.class) {
            (Words::Mutex, _) => {
                let waits_for_itself = matches!(word(self.lock, 16) & TYPE, NORMAL | ADAPTIVE);
                let is_own = || words.owner(self.lock) == this().id();
                word(self.lock, 0) != 0 && (waits_for_itself || !is_own())
            }
            (Words::ReadWrite, class) => {
                // Above the flags: how many read.
                let is_read = word(self.lock, 0) >> 3 != 0;
                words.owner(self.lock) != 0 || class == Class::Write && is_read
            }
            // 1 is free.
            (Words::None, Class::Spin) => word(self.lock, 0) as i32 <= 0,
            (Words::None, _) => false,
        }
    }

    /// Notes the outcome of an attempt that never waits.
    #[inline(always)]
    fn tried(self, result: c_int, words: Words) -> c_int {
        if let Some(thread) = full(self.from) {
            if result == 0 || result == libc::EOWNERDEAD {
                self.record(thread, Action::Acquired, words.attributes(self.lock));
            } else {
                self.record(thread, Action::Failed, result as u32);
            }
        }
        result
    }

    /// Notes that the lock is about to be let go.
    #[inline(always)]
    fn release(self) {
        match attachment::gate() {
            CONTENDED => {
                let thread = this();
                if thread.forget(self.lock as usize) {
                    self.record(thread, Action::Released, 0);
                }
            }
            OFF => {}
            _ => {
                if let Some(thread) = full(self.from) {
                    self.record(thread, Action::Released, 0);
                }
            }
        }
    }

    /// Notes that the lock was made or is about to be destroyed.
    fn life(self, action: Action, words: Words) {
        if let Some(thread) = full(self.from) {
            self.record(thread, action, words.attributes(self.lock));
        }
    }
}

/// Words of a lock that hold its kind and its owner, by their offsets; the layouts of x86-64 glibc,
/// the same from 2.31 to 2.42.
#[derive(Clone, Copy)]
enum Words {
    /// `pthread_mutex_t`: kind at 16, owner at 8.
    Mutex,
    /// `pthread_rwlock_t`: flags at 48, writer at 24.
    ReadWrite,
    /// Nothing is known of it.
    None,
}

impl Words {
    #[inline(always)]
    fn attributes(self, lock: Object) -> u32 {
        match self {
            Words::Mutex => word(lock, 16),
            Words::ReadWrite => word(lock, 48),
            Words::None => 0,
        }
    }

    #[inline(always)]
    fn owner(self, lock: Object) -> u32 {
        match self {
            Words::Mutex => word(lock, 8),
            Words::ReadWrite => word(lock, 24),
            Words::None => 0,
        }
    }
}

/// Reads a word of a lock that the program has just used, so that it is mapped.
#[inline(always)]
fn word(lock: Object, offset: usize) -> u32 {
    // SAFETY: the real function has just worked on this object, which has these words; other
    // threads write them at any time, hence the atomic.
    unsafe {
        let at = lock.byte_add(offset).cast::<std::sync::atomic::AtomicU32>();
        (*at).load(std::sync::atomic::Ordering::Relaxed)
    }
}
