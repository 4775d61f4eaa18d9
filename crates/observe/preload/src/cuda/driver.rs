//! Addresses of the driver's functions.
//!
//! They are found when the driver is first needed, by reading its symbol table, and kept in two
//! tables: by number, and sorted by address, to recognise what `cuGetProcAddress` gives out. What
//! the driver lacks, or all while it is not loaded, is what the program would call without this
//! library: the next definition after the hook. Some programs bring stand-ins that load the
//! driver when they are first called.
//!
//! The thread that needs the tables first makes them; of two that do so at once one wins, and none
//! waits. When the driver was loaded or closed since, they are made anew; the old ones stay where
//! they are, since others may be reading them.

use super::{Arguments, COUNT, Hook};
use crate::elf::{self, Library};
use record::cuda::FUNCTIONS;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

struct Tables {
    /// Address to which the driver was loaded; 0 if it was not.
    driver: usize,
    by_number: [usize; COUNT],
    /// Address and number, sorted; those that the driver lacks come first, with address 0.
    by_address: [(usize, u16); COUNT],
    others: [usize; OTHERS.len()],
}

static TABLES: AtomicPtr<Tables> = AtomicPtr::new(std::ptr::null_mut());

/// Functions that only this library calls.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Other {
    GraphGetNodes,
    GraphNodeGetType,
    GraphChildGraphNodeGetGraph,
    StreamIsCapturing,
    StreamIsCapturingPerThread,
    FuncGetName,
    KernelGetName,
    CtxGetCurrent,
    CtxSetCurrent,
    DevicePrimaryCtxGetState,
    StreamGetCtx,
    StreamQuery,
    EventCreate,
    EventDestroy,
    EventQuery,
    EventRecord,
    EventRecordPerThread,
    ThreadExchangeStreamCaptureMode,
}

const OTHERS: [&CStr; 18] = [
    c"cuGraphGetNodes",
    c"cuGraphNodeGetType",
    c"cuGraphChildGraphNodeGetGraph",
    c"cuStreamIsCapturing",
    c"cuStreamIsCapturing_ptsz",
    c"cuFuncGetName",
    c"cuKernelGetName",
    c"cuCtxGetCurrent",
    c"cuCtxSetCurrent",
    c"cuDevicePrimaryCtxGetState",
    c"cuStreamGetCtx",
    c"cuStreamQuery",
    c"cuEventCreate",
    c"cuEventDestroy_v2",
    c"cuEventQuery",
    c"cuEventRecord",
    c"cuEventRecord_ptsz",
    c"cuThreadExchangeStreamCaptureMode",
];

/// The tables, when there is a driver.
#[inline(always)]
fn tables() -> Option<&'static Tables> {
    // Acquire: pairs with the release in `find`.
    // SAFETY: what was published there is never written or unmapped.
    match unsafe { TABLES.load(Ordering::Acquire).as_ref() } {
        Some(tables) => Some(tables),
        None => find(),
    }
}

/// The loaded driver.
pub(crate) fn library() -> Option<Library> {
    elf::library(b"libcuda.so")
}

#[cold]
fn find() -> Option<&'static Tables> {
    let bytes = size_of::<Tables>();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: fresh private memory, all zero, which is a valid value of the tables; this library
    // does not use the heap. It is aligned to a page.
    let made = unsafe {
        let memory =
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE);
        memory.ok()?.cast::<Tables>()
    };
    // SAFETY: no other thread knows the memory yet.
    let is_any = unsafe { (*made).fill() };
    // Release: pairs with the acquire in `tables`.
    let null = std::ptr::null_mut();
    let won =
        is_any && TABLES.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if !won {
        // SAFETY: no other thread has seen it.
        let _ = unsafe { rustix::mm::munmap(made.cast(), bytes) };
    }
    // SAFETY: as in `tables`.
    unsafe { TABLES.load(Ordering::Acquire).as_ref() }
}

impl Tables {
    /// Finds everything; false when nothing was found.
    fn fill(&mut self) -> bool {
        if let Some(driver) = library() {
            self.driver = driver.base();
            self.complete(&driver);
            for (number, address) in self.by_number.iter().enumerate() {
                self.by_address[number] = (*address, number as u16);
            }
            self.by_address.sort_unstable();
        }
        elf::each_next(&mut |library| self.complete(library));
        self.by_number.iter().any(|address| *address != 0)
    }

    /// Takes from a library what is still missing.
    fn complete(&mut self, library: &Library) {
        for (address, function) in self.by_number.iter_mut().zip(FUNCTIONS) {
            if *address == 0 {
                let found = with_name(function.symbol, |name| library.find(name));
                *address = found.flatten().unwrap_or(0);
            }
        }
        for (address, name) in self.others.iter_mut().zip(OTHERS) {
            if *address == 0 {
                *address = library.find(name).unwrap_or(0);
            }
        }
    }
}

/// Lends a symbol as a C string.
fn with_name<T>(symbol: &str, take: impl FnOnce(&CStr) -> T) -> Option<T> {
    let mut name = [0u8; 128];
    name.get_mut(..symbol.len())?.copy_from_slice(symbol.as_bytes());
    CStr::from_bytes_until_nul(&name).ok().map(take)
}

/// Puts the tables aside when the driver was loaded or closed since they were made; false when
/// they are as they should be.
pub(crate) fn refresh() -> bool {
    let seen = TABLES.load(Ordering::Acquire);
    // SAFETY: as in `tables`.
    let Some(tables) = (unsafe { seen.as_ref() }) else { return false };
    if library().map_or(0, |driver| driver.base()) == tables.driver {
        return false;
    }
    let null = std::ptr::null_mut();
    let _ = TABLES.compare_exchange(seen, null, Ordering::AcqRel, Ordering::Acquire);
    true
}

/// The function behind hook `number`.
#[inline(always)]
pub(crate) fn function(number: usize) -> Option<Hook> {
    match tables()?.by_number[number] {
        0 => None,
        // SAFETY: the driver's function of a name in the table; see `Hook`.
        address => Some(unsafe { std::mem::transmute::<usize, Hook>(address) }),
    }
}

/// The address of a function that only this library calls.
pub(crate) fn other(which: Other) -> Option<usize> {
    tables().map(|tables| tables.others[which as usize]).filter(|address| *address != 0)
}

/// The number of the driver's function at this address. Where several names share it, the one
/// that is `asked` for, or has it as its base.
pub(crate) fn number(address: usize, asked: &[u8]) -> Option<usize> {
    let table = &tables()?.by_address;
    if address == 0 {
        return None;
    }
    let first = table.partition_point(|(known, _)| *known < address);
    let same = table[first..].iter().take_while(|(known, _)| *known == address);
    let rank = |number: &usize| {
        let function = &FUNCTIONS[*number];
        let exact = function.symbol.as_bytes() == asked;
        u8::from(!exact) + u8::from(!exact && function.base.as_bytes() != asked)
    };
    same.map(|(_, number)| usize::from(*number)).min_by_key(rank)
}

/// Calls a function of the driver.
///
/// # Safety
/// The function must be the one that the arguments were meant for.
#[inline(always)]
pub(crate) unsafe fn invoke(function: Hook, a: &Arguments) -> usize {
    // SAFETY: the caller's promise; words beyond the function's own arguments are not looked at.
    unsafe {
        function(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13],
            a[14], a[15],
        )
    }
}
