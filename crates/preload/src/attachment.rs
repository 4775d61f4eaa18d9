//! The recording's memory, as this process sees it.
//!
//! A process image attaches once, in the library's constructor or when the first record is to be
//! made, whichever comes first. A forked child has the mapping already; it only needs a number of
//! its own. That it is a child it learns from [`IMAGE`], a page that the kernel fills with zeros
//! in a forked child, whichever way it was forked, without any system call here.

use record::attach::{Invitation, VARIABLE, knock};
use record::{Flags, NameKind, Side, Trouble, clock};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use shm::log::{AREA_CHUNKS, CHUNK_BYTES, Log};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// A page of its own, so that the kernel can wipe it.
#[repr(C, align(4096))]
struct Page {
    /// Number of this process image; 0 before it is known, and in a child that has just begun.
    process: AtomicU32,
    rest: [u8; 4092],
}

static IMAGE: Page = Page { process: AtomicU32::new(0), rest: [0; 4092] };

/// Whether there is a recording, and of what: the one word that every hook looks at.
static GATE: AtomicU8 = AtomicU8::new(UNTRIED);
/// Nothing is recorded.
pub const OFF: u8 = 0;
/// Locks that were waited for.
pub const CONTENDED: u8 = 1;
/// All locks.
pub const FULL: u8 = 2;
/// Nobody has tried to attach yet.
pub const UNTRIED: u8 = 3;
const TRYING: u8 = 4;

static EVERYWHERE: AtomicBool = AtomicBool::new(false);
static GPU: AtomicBool = AtomicBool::new(false);

struct Memory(UnsafeCell<MaybeUninit<(Log, Side)>>);

// SAFETY: written once, before the gate opens, and only read afterwards.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new(MaybeUninit::uninit()));

/// The number of this process image, 0 while it has none.
#[inline(always)]
pub fn process() -> u32 {
    // Acquire: pairs with the release in `enter`; the memory is in place.
    IMAGE.process.load(Ordering::Acquire)
}

/// The log. Only for those who have a process number.
#[inline(always)]
pub fn log() -> &'static Log {
    // SAFETY: callers have a process number, which is given after the memory was written.
    unsafe { &(*MEMORY.0.get()).assume_init_ref().0 }
}

/// The side area, when there is a recording.
pub fn side() -> Option<Side> {
    if !is_on() {
        return None;
    }
    // SAFETY: the memory was written before the gate opened, which was acquired.
    Some(unsafe { (*MEMORY.0.get()).assume_init_ref().1 })
}

/// What is recorded: [`OFF`], [`CONTENDED`] or [`FULL`], or [`UNTRIED`].
#[inline(always)]
pub fn gate() -> u8 {
    // Acquire: pairs with the release in `attach`.
    GATE.load(Ordering::Acquire)
}

/// Whether there is a recording; finds out if nobody has tried yet.
#[inline(always)]
pub fn is_on() -> bool {
    match gate() {
        CONTENDED | FULL => true,
        UNTRIED => attach(),
        _ => false,
    }
}

/// Whether locks are recorded wherever they are taken from.
#[inline(always)]
pub fn everywhere() -> bool {
    EVERYWHERE.load(Ordering::Relaxed)
}

/// Whether work on the GPU is recorded.
pub fn gpu() -> bool {
    GPU.load(Ordering::Relaxed)
}

/// Gives this process image its number; `None` when there is no recording.
#[cold]
pub fn enter() -> Option<u32> {
    let side = side()?;
    let known = process();
    if known != 0 {
        return Some(known);
    }
    let number = side.enter_process();
    // Release: pairs with the acquire in `process`. Of two threads that enter at once, one wins.
    let won =
        IMAGE.process.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
    if let Err(other) = won {
        return Some(other);
    }
    name_process(&side, number);
    Some(number)
}

#[cold]
#[inline(never)]
fn attach() -> bool {
    let tried =
        GATE.compare_exchange(UNTRIED, TRYING, Ordering::AcqRel, Ordering::Acquire);
    if tried.is_err() {
        // Somebody is at it; what happens meanwhile is not recorded.
        return false;
    }
    let memory = environment(VARIABLE.as_bytes()).and_then(Invitation::parse).and_then(map);
    let Some((log, side, flags)) = memory else {
        GATE.store(OFF, Ordering::Release);
        return false;
    };
    // SAFETY: only the thread that moved the gate from UNTRIED comes here, and nobody reads
    // before it opens.
    unsafe { (*MEMORY.0.get()).write((log, side)) };
    // SAFETY: the page is this library's own and holds nothing that a child needs.
    let wiped = unsafe {
        let page = std::ptr::from_ref(&IMAGE).cast_mut().cast();
        rustix::mm::madvise(page, 4096, Advice::LinuxWipeOnFork)
    };
    if wiped.is_err() {
        // Children would write into their parent's place: rather no recording.
        side.count(Trouble::NotAttached);
        GATE.store(OFF, Ordering::Release);
        return false;
    }
    EVERYWHERE.store(flags.all_locks(), Ordering::Relaxed);
    GPU.store(flags.gpu(), Ordering::Relaxed);
    if crate::real::some_missing() {
        side.count(Trouble::FunctionMissing);
    }
    // Release: pairs with the acquire in `gate`.
    let gate = if flags.contended_only() { CONTENDED } else { FULL };
    GATE.store(gate, Ordering::Release);
    true
}

fn map(invitation: Invitation) -> Option<(Log, Side, Flags)> {
    let (memory, size) = knock(&invitation)?;
    if size < (AREA_CHUNKS as usize + 1) * CHUNK_BYTES {
        return None;
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing. It stays
    // until the process image ends; the descriptor is closed here.
    let base = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), size, access, MapFlags::SHARED, &memory, 0).ok()?
    };
    // SAFETY: the mapping has more chunks than the area, and stays.
    let side = unsafe { Side::over(base.cast()) };
    let flags = side.flags(size)?;
    // SAFETY: as above; mappings begin at a page.
    let log = unsafe { Log::over(base.cast(), size, flags.keep())? };
    Some((log, side, flags))
}

/// The value of an environment variable.
fn environment(name: &[u8]) -> Option<&'static [u8]> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the environment is a list of C strings that ends with a null pointer; a program
    // that changes it at this moment, in another thread, does so before its own main only in
    // constructors, and then getenv is as unsafe.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let text = std::ffi::CStr::from_ptr(*at).to_bytes();
            if let Some(value) = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            at = at.add(1);
        }
    }
    None
}

fn name_process(side: &Side, number: u32) {
    let mut path = [MaybeUninit::<u8>::uninit(); 1024];
    let program = match rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self/exe", &mut path) {
        Ok((program, _)) => &*program,
        Err(_) => b"?".as_slice(),
    };
    let own = rustix::process::getpid().as_raw_nonzero().get() as u64;
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u64);
    side.add(NameKind::Process, number, clock::now(), own << 32 | parent, program);
}

/// Runs when the library is loaded: after the constructors of the program's other libraries, as
/// the order of preloading has it.
extern "C" fn construct() {
    if is_on() {
        enter();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;
