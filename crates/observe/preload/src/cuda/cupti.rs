//! Times at which work really ran on the GPU, as CUPTI tells them, where that library is present
//! and asked for.
//!
//! CUPTI is found at run time, when the program has initialised the driver: the one that the
//! program has loaded itself, or the one that the dynamic linker finds. It fills buffers that are
//! given to it here, and gives them back on a thread of its own, four times a second and at the
//! end; each activity becomes one record. Of CUPTI's structures only the first members are read,
//! whose places have not changed since CUDA 11.

use crate::thread::this;
use crate::{attachment, elf};
use record::{Kind, NameKind, Trouble, clock};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::mem::transmute;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const BUFFER_BYTES: usize = 4 << 20;
const FLUSH_EVERY_MS: u32 = 250;

// CUpti_ActivityKind
const COPY: u32 = 1;
const MEMSET: u32 = 2;
const CONCURRENT_KERNEL: u32 = 10;
/// Flush what is not complete yet, too.
const FORCED: u32 = 1;

type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
type RegisterCallbacks = unsafe extern "C" fn(Requested, Completed) -> u32;
type GetNextRecord = unsafe extern "C" fn(*mut u8, usize, *mut *const u8) -> u32;
type GetTimestamp = unsafe extern "C" fn(*mut u64) -> u32;
type OneNumber = unsafe extern "C" fn(u32) -> u32;

static GET_NEXT_RECORD: AtomicUsize = AtomicUsize::new(0);
static GET_TIMESTAMP: AtomicUsize = AtomicUsize::new(0);
static FLUSH_ALL: AtomicUsize = AtomicUsize::new(0);
/// Both clocks when CUPTI began: ticks, and its own nanoseconds.
static BEGAN: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Begins, if the recording asks for it. Called once the driver is initialised.
pub(super) fn begin() {
    let Some(side) = attachment::side() else { return };
    let first = GET_TIMESTAMP.load(Ordering::Relaxed) == 0;
    if attachment::gpu() && first && this().quietly(start).is_none() {
        side.count(Trouble::Cupti);
    }
}

fn start() -> Option<()> {
    let library = elf::library(b"libcupti.so").or_else(load)?;
    let find = |name: &CStr| library.find(name);
    let register = find(c"cuptiActivityRegisterCallbacks")?;
    let enable = find(c"cuptiActivityEnable")?;
    let next = find(c"cuptiActivityGetNextRecord")?;
    let flush_all = find(c"cuptiActivityFlushAll")?;
    let timestamp = find(c"cuptiGetTimestamp")?;
    GET_NEXT_RECORD.store(next, Ordering::Relaxed);
    GET_TIMESTAMP.store(timestamp, Ordering::Relaxed);
    FLUSH_ALL.store(flush_all, Ordering::Release);
    let (ticks, ns) = both_clocks()?;
    BEGAN[0].store(ticks, Ordering::Relaxed);
    BEGAN[1].store(ns, Ordering::Release);
    // SAFETY: the functions have these signatures, by CUPTI's header; the callbacks stay, since
    // this library is never unloaded.
    unsafe {
        if transmute::<usize, RegisterCallbacks>(register)(give_buffer, take_buffer) != 0 {
            return None;
        }
        let enable = transmute::<usize, OneNumber>(enable);
        for kind in [CONCURRENT_KERNEL, COPY, MEMSET] {
            if enable(kind) != 0 {
                return None;
            }
        }
        if let Some(period) = find(c"cuptiActivityFlushPeriod") {
            transmute::<usize, OneNumber>(period)(FLUSH_EVERY_MS);
        }
    }
    Some(())
}

fn load() -> Option<elf::Library> {
    for name in [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so"] {
        // SAFETY: the names are C strings; loading runs CUPTI's own constructors only.
        let loaded = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if !loaded.is_null() {
            return elf::library(b"libcupti.so");
        }
    }
    None
}

/// Ticks and CUPTI's clock, read together.
fn both_clocks() -> Option<(u64, u64)> {
    let address = GET_TIMESTAMP.load(Ordering::Relaxed);
    if address == 0 {
        return None;
    }
    // SAFETY: `start` stored the address of the function with this signature.
    let timestamp = unsafe { transmute::<usize, GetTimestamp>(address) };
    let mut ns = 0;
    let before = clock::now();
    // SAFETY: the function stores a number.
    let result = unsafe { timestamp(&raw mut ns) };
    let after = clock::now();
    (result == 0).then_some((before + (after - before) / 2, ns))
}

unsafe extern "C" fn give_buffer(buffer: *mut *mut u8, bytes: *mut usize, records: *mut usize) {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: fresh memory; the three places are CUPTI's, for us to fill.
    unsafe {
        let memory = rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            BUFFER_BYTES,
            access,
            MapFlags::PRIVATE,
        );
        *buffer = memory.map_or(std::ptr::null_mut(), |memory| memory.cast());
        *bytes = if (*buffer).is_null() { 0 } else { BUFFER_BYTES };
        *records = 0;
    }
}

unsafe extern "C" fn take_buffer(
    _: *mut c_void,
    _: u32,
    buffer: *mut u8,
    bytes: usize,
    filled: usize,
) {
    if buffer.is_null() {
        return;
    }
    // SAFETY: `start` stored the address of the function with this signature.
    let next =
        unsafe { transmute::<usize, GetNextRecord>(GET_NEXT_RECORD.load(Ordering::Relaxed)) };
    if let Some(clocks) = Clocks::now() {
        let mut activity = std::ptr::null();
        // SAFETY: the buffer is one that CUPTI has filled so far.
        while unsafe { next(buffer, filled, &raw mut activity) } == 0 && !activity.is_null() {
            // SAFETY: CUPTI returns the address of a whole record of the kind that it says.
            unsafe { record(activity, &clocks) };
        }
    }
    // SAFETY: `give_buffer` mapped it, and CUPTI has given it back.
    let _ = unsafe { rustix::mm::munmap(buffer.cast(), bytes) };
}

/// Conversion of CUPTI's time into ticks: the line through the beginning and now.
struct Clocks {
    began: (u64, u64),
    ticks_per_ns: f64,
}

impl Clocks {
    fn now() -> Option<Clocks> {
        let began = (BEGAN[0].load(Ordering::Relaxed), BEGAN[1].load(Ordering::Acquire));
        let now = both_clocks()?;
        let ns = now.1.checked_sub(began.1).filter(|ns| *ns > 0)?;
        let ticks = now.0.checked_sub(began.0)?;
        Some(Clocks { began, ticks_per_ns: ticks as f64 / ns as f64 })
    }

    fn ticks(&self, ns: u64) -> u64 {
        let since = ns as i128 - self.began.1 as i128;
        (self.began.0 as i128 + (since as f64 * self.ticks_per_ns) as i128).max(0) as u64
    }
}

/// # Safety
/// `activity` must be a record of CUPTI's.
unsafe fn record(activity: *const u8, clocks: &Clocks) {
    // SAFETY: all three kinds of records are longer than what is read here.
    let (word, long) = unsafe {
        (
            |offset: usize| activity.add(offset).cast::<u32>().read_unaligned(),
            |offset: usize| activity.add(offset).cast::<u64>().read_unaligned(),
        )
    };
    let (start, end) = (long(16), long(24));
    let (kind, stream, correlation, number) = match word(0) {
        CONCURRENT_KERNEL => {
            let grid = [word(52), word(56), word(60)];
            // SAFETY: a kernel's record has the address of its name here.
            let number = unsafe { name(long(104) as *const c_char, grid) };
            (Kind::GpuKernel, word(48), word(92), number)
        }
        COPY => (Kind::GpuCopy, word(40), word(44), u32::try_from(long(8)).unwrap_or(u32::MAX)),
        MEMSET => (Kind::GpuMemset, word(40), word(44), u32::try_from(long(8)).unwrap_or(u32::MAX)),
        _ => return,
    };
    // CUPTI gives 0 where it does not know the time.
    if start == 0 || end < start {
        if let Some(side) = attachment::side() {
            side.count(Trouble::Cupti);
        }
        return;
    }
    let detail = u64::from(stream) << 32 | u64::from(correlation);
    this().record(clocks.ticks(start), kind, clocks.ticks(end), detail, number);
}

const SLOTS: usize = 4096;
/// Longest name in bytes, with its grid; what is longer is cut.
const NAME_BYTES: usize = 1024;
/// Hashes of the names that have been told; a name's number is its place + 1.
static NAMES: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

/// The number of a kernel's name with its grid, which is told to the recording when it is new; 0 for
/// none. Launches with another grid are other work: they take another time.
///
/// # Safety
/// `name` must be null or a C string.
unsafe fn name(name: *const c_char, grid: [u32; 3]) -> u32 {
    if name.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let mut buffer = [0; NAME_BYTES];
    let text = with_grid(name, grid, &mut buffer);
    let hash = crate::origin::hash(text);
    for step in 0..64 {
        let place = (hash as usize).wrapping_add(step) % SLOTS;
        let told = NAMES[place].compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed);
        match told {
            Ok(_) => {
                if let (Some(side), Some(process)) = (attachment::side(), attachment::enter()) {
                    side.add(NameKind::Text, process, place as u64 + 1, 0, text);
                }
                return place as u32 + 1;
            }
            Err(known) if known == hash => return place as u32 + 1,
            Err(_) => {}
        }
    }
    0
}

/// A kernel's name followed by its grid: `gemm grid 197x6x1`.
fn with_grid<'b>(name: &[u8], [x, y, z]: [u32; 3], buffer: &'b mut [u8; NAME_BYTES]) -> &'b [u8] {
    // A grid in words has at most 40 bytes.
    let name = &name[..name.len().min(NAME_BYTES - 40)];
    let mut rest = &mut buffer[..];
    let written = rest.write_all(name).and_then(|()| write!(rest, " grid {x}x{y}x{z}"));
    let left = rest.len();
    match written {
        Ok(()) => &buffer[..NAME_BYTES - left],
        Err(_) => &[],
    }
}

/// Has CUPTI give back what it still has, when the program ends.
extern "C" fn finish() {
    let flush_all = FLUSH_ALL.load(Ordering::Acquire);
    if flush_all != 0 {
        // SAFETY: `start` stored the address of the function with this signature.
        this().quietly(|| unsafe { transmute::<usize, OneNumber>(flush_all)(FORCED) });
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = finish;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_is_a_part_of_a_kernels_name_however_long_that_is() {
        let mut buffer = [0; NAME_BYTES];
        assert_eq!(with_grid(b"gemm", [197, 6, 1], &mut buffer), b"gemm grid 197x6x1");
        let long = [b'k'; 2 * NAME_BYTES];
        let text = with_grid(&long, [u32::MAX; 3], &mut buffer);
        assert!(text.ends_with(b"k grid 4294967295x4294967295x4294967295"), "{text:?}");
    }
}
