//! Identity of this process: its program's path, found out when the process image attaches, so that
//! forked children and signal handlers on small stacks need not.

use record::{NameKind, Side, clock};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

const LONGEST: usize = 1024;

struct Path(UnsafeCell<[MaybeUninit<u8>; LONGEST]>);

// SAFETY: written once, by the thread that attaches, before the length is stored.
unsafe impl Sync for Path {}

static PATH: Path = Path(UnsafeCell::new([MaybeUninit::uninit(); LONGEST]));
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Finds the path out. Only for the thread that attaches.
pub(crate) fn learn_path() {
    // SAFETY: only this thread, once, while the length is 0 and no thread reads.
    let place = unsafe { &mut *PATH.0.get() };
    let found = rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self/exe", place);
    // Release: pairs with the acquire in `path`.
    LENGTH.store(found.map_or(0, |(path, _)| path.len()), Ordering::Release);
}

/// The program's path, `?` where there is no `/proc`.
pub(crate) fn path() -> &'static [u8] {
    match LENGTH.load(Ordering::Acquire) {
        0 => b"?",
        // SAFETY: that many bytes were written, and are not written again.
        length => unsafe { std::slice::from_raw_parts(PATH.0.get().cast::<u8>(), length) },
    }
}

/// Returns true if this process is emulated by Valgrind, as it tells those who ask in its own way:
/// a sequence of instructions that do nothing anywhere else.
pub(crate) fn is_under_valgrind() -> bool {
    const RUNNING_ON_VALGRIND: usize = 0x1001;
    let question = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let mut answer = 0usize;
    // SAFETY: `rdi` is turned by 128 bits in all, and `rbx` exchanged with itself; Valgrind reads the
    // question and writes the answer.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") question.as_ptr(), inout("rdx") answer, options(nostack),
        );
    }
    answer != 0
}

/// The number of the namespace that this process' thread ids are in; 0 where there is no `/proc`.
pub(crate) fn thread_space() -> u32 {
    let mut place = [MaybeUninit::uninit(); 64];
    let found = rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self/ns/pid", &mut place);
    let text = found.map_or(&[] as &[u8], |(text, _)| text);
    // `pid:[4026531836]`
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0u32, |number, digit| number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')))
}

/// Names this process image to the recording.
pub(crate) fn introduce(side: &Side, number: u32) {
    // SAFETY: plain system calls.
    let (own, parent) = unsafe { (libc::getpid() as u64, libc::getppid() as u64) };
    side.add(NameKind::Process, number, clock::now(), own << 32 | parent, path());
}
