//! The recording's memory, as this process sees it.
//!
//! A process image attaches once, in the library's constructor or when the first record is to be
//! made, whichever comes first. A forked child has the mapping already; it only needs a number of
//! its own. That it is a child it learns from [`IMAGE`], a page that the kernel fills with zeros
//! in a forked child, whichever way it was forked, without any system call here.

use crate::elf::Library;
use crate::{bandwidth, guarding, hook, program, real, thread};
use realtime::clock::Reader;
use record::attach::{Invitation, VARIABLE, knock};
use record::guard::GuardCount;
use record::{Flags, Side, Trouble};
use rustix::fd::OwnedFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};
use shm::log::{self, AREA_CHUNKS, CHUNK_BYTES, Log, Process};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// A page of its own, so that the kernel can wipe it.
#[repr(C, align(4096))]
struct Page {
    /// Number of this process image; 0 before it is known, and in a child that has just begun.
    process: AtomicU32,
    /// Number of the memory that this process alone has, or shares with others; 0 as above.
    memory: AtomicU32,
    /// Number of the namespace that its thread ids are in; 0 before it is known.
    space: AtomicU32,
    /// Number of its threads that look for memory of the log.
    inside: AtomicU32,
    rest: [u8; 4080],
}

static IMAGE: Page = Page {
    process: AtomicU32::new(0),
    memory: AtomicU32::new(0),
    space: AtomicU32::new(0),
    inside: AtomicU32::new(0),
    rest: [0; 4080],
};

/// State of the recording and of the guard of locks: the one word that every hook looks at.
pub(crate) static GATE: AtomicU8 = AtomicU8::new(UNTRIED);
/// Nothing is recorded.
pub(crate) const OFF: u8 = 0;
/// Locks that were waited for.
pub(crate) const CONTENDED: u8 = 1;
/// All locks.
pub(crate) const FULL: u8 = 2;
/// State before the first attempt to attach.
pub(crate) const UNTRIED: u8 = 3;
const TRYING: u8 = 4;
/// Added to the gate while locks are guarded.
pub(crate) const GUARDED: u8 = 8;
/// Added to the gate while mutexes are looked at before each use.
pub(crate) const CONVERTING: u8 = 16;
/// Mark in place of the guard in the gate when it has ended: locks that the guard took over stay
/// its own.
const ENDED: u8 = 32;
const NOT_RECORDING: u8 = GUARDED | CONVERTING | ENDED;

static EVERYWHERE: AtomicBool = AtomicBool::new(false);
static GPU: AtomicBool = AtomicBool::new(false);
static ATTACHED: AtomicBool = AtomicBool::new(false);
static PREPARED: AtomicBool = AtomicBool::new(false);
static SUSPENDED: AtomicBool = AtomicBool::new(false);
/// 1 while some of the recording's memory is not mapped.
static UNMAPPED: AtomicU32 = AtomicU32::new(0);
/// Number of bytes of memory that are put in place before the accelerator is used.
const PREPARED_BYTES: usize = 1 << 30;

struct Memory(UnsafeCell<MaybeUninit<(Log, Side)>>);

// SAFETY: written once, before the gate opens, and only read afterwards.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new(MaybeUninit::uninit()));

/// The number of this process image, 0 while it has none.
#[inline(always)]
pub(crate) fn process() -> u32 {
    // Acquire: pairs with the release in `enter`; the memory is in place.
    IMAGE.process.load(Ordering::Acquire)
}

/// The log. Only for those who have a process number.
#[inline(always)]
pub(crate) fn log() -> &'static Log {
    // SAFETY: callers have a process number, which is given after the memory was written.
    unsafe { &(*MEMORY.0.get()).assume_init_ref().0 }
}

/// The side area, when this process is attached.
pub(crate) fn side() -> Option<Side> {
    if !is_on() && !is_guarded() && !bandwidth::is_on() {
        return None;
    }
    // SAFETY: the memory was written before the gate opened, which was acquired; and before the
    // lock was wanted, likewise.
    Some(unsafe { (*MEMORY.0.get()).assume_init_ref().1 })
}

/// Returns the state of the recording: [`OFF`], [`CONTENDED`] or [`FULL`], or [`UNTRIED`].
#[inline(always)]
pub(crate) fn gate() -> u8 {
    // Acquire: pairs with the release in `attach`.
    GATE.load(Ordering::Acquire) & !NOT_RECORDING
}

/// Returns true if locks are guarded; attaches if that was not tried yet.
#[inline(always)]
pub(crate) fn is_guarded() -> bool {
    match GATE.load(Ordering::Acquire) {
        UNTRIED => {
            attach();
            GATE.load(Ordering::Acquire) & GUARDED != 0
        }
        gate => gate & GUARDED != 0,
    }
}

/// Returns true if there is a recording; attaches if that was not tried yet.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    match gate() {
        CONTENDED | FULL => true,
        UNTRIED => attach(),
        _ => false,
    }
}

/// Returns true if this process ever attached, even if it is not recorded or guarded any more.
#[inline(always)]
pub(crate) fn is_attached() -> bool {
    ATTACHED.load(Ordering::Relaxed)
}

/// Returns true if the program has restricted its system calls, or is about to.
pub(crate) fn is_suspended() -> bool {
    SUSPENDED.load(Ordering::Relaxed)
}

/// Returns true if locks are recorded wherever they are taken from.
#[inline(always)]
pub(crate) fn everywhere() -> bool {
    EVERYWHERE.load(Ordering::Relaxed)
}

/// Returns true if work on the GPU is recorded.
pub(crate) fn gpu() -> bool {
    GPU.load(Ordering::Relaxed)
}

/// Puts memory in place for the records of a process that is about to use an accelerator. Where
/// faults of a page are slow, in virtual machines above all, recording would make launches late.
#[cold]
pub(crate) fn prepare() {
    if is_on() && !PREPARED.swap(true, Ordering::Relaxed) {
        log().prepare(PREPARED_BYTES);
    }
}

/// Makes a call that counts all memory of the process, without that of the recording that it does not
/// use. What is not there meanwhile is mapped again, and is not locked.
pub(crate) fn without_unused<T>(call: impl FnOnce() -> T) -> T {
    let is_mapped = is_on() || is_guarded() || bandwidth::is_on();
    if !is_mapped {
        return call();
    }
    // SAFETY: the memory was written before the gate opened.
    let log = unsafe { &(*MEMORY.0.get()).assume_init_ref().0 };
    let result = log.without_unused(process(), call);
    if PREPARED.load(Ordering::Relaxed) {
        log.prepare(PREPARED_BYTES);
    }
    result
}

/// Gives this process image its number; `None` when there is no recording.
#[cold]
pub(crate) fn enter() -> Option<u32> {
    let side = side()?;
    let known = process();
    if known != 0 {
        return Some(known);
    }
    // Relaxed: who does not know it yet does without.
    IMAGE.space.store(program::thread_space(), Ordering::Relaxed);
    let number = side.enter_process();
    // Release: pairs with the acquire in `process`. Of two threads that enter at once, one wins.
    let won = IMAGE.process.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
    if let Err(other) = won {
        return Some(other);
    }
    program::introduce(&side, number);
    Some(number)
}

/// The number of this process' memory: another one in a forked child, the same in processes that
/// share it.
pub(crate) fn memory() -> u32 {
    /// Set in numbers of the recording, so that they are no threads' ids.
    const RECORDED: u32 = 1 << 31;
    let known = IMAGE.memory.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let number = enter().map_or_else(guarding::thread, |number| number | RECORDED);
    let won = IMAGE.memory.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    won.map_or_else(|other| other, |_| number)
}

#[cold]
#[inline(never)]
fn attach() -> bool {
    let Some(variable) = environment(VARIABLE.as_bytes()) else { return false };
    let tried = GATE.compare_exchange(UNTRIED, TRYING, Ordering::AcqRel, Ordering::Acquire);
    if tried.is_err() {
        // Another thread attaches now; events until it is done are not recorded.
        return false;
    }
    read_clocks_by_kernel();
    let invitation = variable.and_then(|text| Invitation::parse(value(text)));
    let gate = invitation.and_then(map).map_or(OFF, |(log, side, flags)| open(log, side, flags));
    // Release: pairs with the acquire in `gate`.
    GATE.store(gate, Ordering::Release);
    gate & !NOT_RECORDING != OFF
}

/// Has clocks read by the kernel's own function from now on: the C library's name may have been
/// taken by another library, which counts time in its own way, or locks and allocates.
fn read_clocks_by_kernel() {
    let function = Library::of_kernel().and_then(|kernel| kernel.find(c"__vdso_clock_gettime"));
    if let Some(address) = function {
        // SAFETY: the kernel's function of this name is like `clock_gettime`, and stays.
        unsafe { realtime::clock::read_by(std::mem::transmute::<usize, Reader>(address)) };
    }
}

/// Puts the recording in place; returns what is recorded.
fn open(log: Log, side: Side, flags: Flags) -> u8 {
    // SAFETY: only the thread that moved the gate from UNTRIED comes here, and no thread reads
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
        return OFF;
    }
    ATTACHED.store(true, Ordering::Relaxed);
    EVERYWHERE.store(flags.all_locks(), Ordering::Relaxed);
    GPU.store(flags.gpu(), Ordering::Relaxed);
    program::learn_path();
    if program::is_under_valgrind() {
        leave_to_valgrind(&side);
        return OFF;
    }
    real::prepare();
    if real::some_missing() {
        side.count(Trouble::FunctionMissing);
    }
    bandwidth::begin(&side);
    let guarded = match guarding::begin(&side) {
        Some(begun) if begun.converts => GUARDED | CONVERTING,
        Some(_) => GUARDED,
        None => 0,
    };
    let recorded = match flags {
        flags if flags.nothing() => OFF,
        flags if flags.contended_only() => CONTENDED,
        _ => FULL,
    };
    recorded | guarded
}

/// Under Valgrind times mean nothing, its tools keep account of locks themselves and take atomics for
/// races: such a process is counted, and left alone.
fn leave_to_valgrind(side: &Side) {
    program::introduce(side, side.enter_process());
    side.count(Trouble::Valgrind);
    if side.guard().0.any() {
        side.count_guard(GuardCount::Intercepted);
    }
}

fn map(invitation: Invitation) -> Option<(Log, Side, Flags)> {
    let (memory, size) = knock(&invitation)?;
    if size < (AREA_CHUNKS as usize + 1) * CHUNK_BYTES {
        return None;
    }
    let base = if is_affordable(size) { map_bytes(&memory, size) } else { None };
    let Some(base) = base else {
        count_not_attached(&memory, size);
        return None;
    };
    // SAFETY: the mapping was just made. Core dumps have no use for the recording.
    let _ = unsafe { rustix::mm::madvise(base, size, Advice::LinuxDontDump) };
    // SAFETY: the mapping has more chunks than the area, and stays.
    let side = unsafe { Side::over(base.cast()) };
    let flags = side.flags(size)?;
    // SAFETY: as above; mappings begin at a page.
    let log = unsafe { Log::over(base.cast(), size, flags.keep())? };
    let gate = log::Gate { inside: &IMAGE.inside, shut: &UNMAPPED };
    let space = || IMAGE.space.load(Ordering::Relaxed);
    Some((log.of_process(Process { space, is_dead: thread::is_dead, gate }), side, flags))
}

fn map_bytes(memory: &OwnedFd, size: usize) -> Option<*mut std::ffi::c_void> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing. Without
    // the caller's doing it stays until the process image ends.
    unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), size, access, MapFlags::SHARED, memory, 0).ok()
    }
}

/// Returns true if a mapping of this size leaves the program the address space that it has without:
/// where that is limited, the mapping may take a sixteenth.
fn is_affordable(size: usize) -> bool {
    getrlimit(Resource::As).current.is_none_or(|limit| size as u64 <= limit / 16)
}

/// Counts in the recording a process that cannot have the whole of it.
fn count_not_attached(memory: &OwnedFd, size: usize) {
    let area = AREA_CHUNKS as usize * CHUNK_BYTES;
    if let Some(base) = map_bytes(memory, area) {
        // SAFETY: the mapping is as large as the area, and goes only after its last use.
        let side = unsafe { Side::over(base.cast()) };
        if side.flags(size).is_some() {
            side.count(Trouble::NotAttached);
        }
        // SAFETY: as above.
        let _ = unsafe { rustix::mm::munmap(base, area) };
    }
}

static IS_CAREFUL: AtomicBool = AtomicBool::new(false);

/// The program has given up to gain privileges, as a program that restricts its system calls does
/// before, perhaps unnoticed: from now on the guard makes no system call that the C library's locks
/// do not make.
pub(crate) fn be_careful() {
    IS_CAREFUL.store(true, Ordering::Relaxed);
    guard::restrict(true);
}

/// State that [`suspend`] found.
pub(crate) struct Suspended {
    gate: u8,
    held: bool,
    /// The invitation in the environment, and its first byte.
    invitation: Option<(*mut u8, u8)>,
}

/// Ends the recording of this process and of all that it will start, without a system call: the
/// gate closes, and the invitation in its environment becomes invalid.
pub(crate) fn suspend() -> Suspended {
    SUSPENDED.store(true, Ordering::Relaxed);
    // Each thread may restrict itself.
    let ended = |gate: u8| if gate & (GUARDED | ENDED) != 0 { ENDED } else { OFF };
    let gate = GATE.load(Ordering::Acquire);
    let gate = match GATE.compare_exchange(gate, ended(gate), Ordering::AcqRel, Ordering::Acquire) {
        Ok(gate) => gate,
        // Another thread does the same, or attaches just now.
        Err(now) => GATE.swap(ended(now), Ordering::AcqRel),
    };
    guard::restrict(true);
    let invitation = environment(VARIABLE.as_bytes()).flatten().map(|text| value(text).as_ptr());
    let invitation = invitation.map(|at| {
        let at = at.cast_mut();
        // SAFETY: the first byte of the variable's value, or the zero after it; the environment
        // can be written. No code has a reference to it.
        let byte = unsafe { at.read_volatile() };
        if byte != 0 {
            // SAFETY: as above.
            unsafe { at.write_volatile(b'-') };
        }
        (at, byte)
    });
    Suspended { gate, held: bandwidth::suspend(), invitation }
}

impl Suspended {
    /// The recording goes on after all.
    pub(crate) fn resume(self) {
        if let Some((at, byte)) = self.invitation {
            // SAFETY: as in `suspend`.
            unsafe { at.write_volatile(byte) };
        }
        guard::restrict(IS_CAREFUL.load(Ordering::Relaxed));
        SUSPENDED.store(false, Ordering::Relaxed);
        GATE.store(self.gate, Ordering::Release);
        if self.held {
            bandwidth::resume();
        }
    }

    /// The recording has ended for this process.
    pub(crate) fn end(self) {
        if self.held {
            bandwidth::end();
        }
        if matches!(self.gate & !NOT_RECORDING, CONTENDED | FULL) {
            // SAFETY: the memory was written before the gate opened.
            unsafe { (*MEMORY.0.get()).assume_init_ref().1.count(Trouble::NotAttached) };
        }
    }
}

/// The environment variable of this name, as `name=value`. The outer `None` is the answer while
/// there is no environment yet: memory allocators lock before the C library has been set up.
fn environment(name: &[u8]) -> Option<Option<&'static CStr>> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the environment is a list of C strings that ends with a null pointer; a program
    // that changes it at this moment, in another thread, does so before its own main only in
    // constructors, and then getenv is as unsafe.
    unsafe {
        let mut at = environ;
        if at.is_null() {
            return None;
        }
        while !(*at).is_null() {
            let text = CStr::from_ptr(*at);
            if text.to_bytes().strip_prefix(name).is_some_and(|rest| rest.starts_with(b"=")) {
                return Some(Some(text));
            }
            at = at.add(1);
        }
    }
    Some(None)
}

/// The part after the equals sign.
fn value(text: &CStr) -> &[u8] {
    let text = text.to_bytes();
    let name = text.iter().position(|byte| *byte == b'=').map_or(text.len(), |at| at + 1);
    &text[name..]
}

/// Runs when the library is loaded: after the constructors of the program's other libraries, as
/// the order of preloading has it.
extern "C" fn construct() {
    real::prepare();
    hook::exec::prepare();
    if is_on() || is_guarded() || bandwidth::is_on() {
        enter();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;
