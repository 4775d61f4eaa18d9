//! What this process is: its program's path, found out when the process image attaches, so that
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
pub fn learn_path() {
    // SAFETY: only this thread, once, while the length is 0 and nobody reads.
    let place = unsafe { &mut *PATH.0.get() };
    let found = rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self/exe", place);
    // Release: pairs with the acquire in `path`.
    LENGTH.store(found.map_or(0, |(path, _)| path.len()), Ordering::Release);
}

/// The program's path, `?` where there is no `/proc`.
pub fn path() -> &'static [u8] {
    match LENGTH.load(Ordering::Acquire) {
        0 => b"?",
        // SAFETY: that many bytes were written, and are not written again.
        length => unsafe { std::slice::from_raw_parts(PATH.0.get().cast::<u8>(), length) },
    }
}

/// Names this process image to the recording.
pub fn introduce(side: &Side, number: u32) {
    let own = rustix::process::getpid().as_raw_nonzero().get() as u64;
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u64);
    side.add(NameKind::Process, number, clock::now(), own << 32 | parent, path());
}
