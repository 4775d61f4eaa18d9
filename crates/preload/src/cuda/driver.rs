//! Where the driver's functions are.
//!
//! They are found when the driver is first needed, by reading its symbol table, and kept in two
//! tables: by number, and sorted by address, to recognise what `cuGetProcAddress` gives out.

use super::{Arguments, COUNT, Hook};
use crate::elf;
use record::cuda::FUNCTIONS;
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

struct Tables {
    by_number: [usize; COUNT],
    /// Address and number, sorted; those that the driver lacks come first, with address 0.
    by_address: [(usize, u16); COUNT],
    others: [usize; OTHERS.len()],
}

struct Shared(UnsafeCell<Tables>);

// SAFETY: written by the one thread that moves `STATE` to FINDING, read only after KNOWN.
unsafe impl Sync for Shared {}

static TABLES: Shared = Shared(UnsafeCell::new(Tables {
    by_number: [0; COUNT],
    by_address: [(0, 0); COUNT],
    others: [0; OTHERS.len()],
}));

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const FINDING: u8 = 1;
const KNOWN: u8 = 2;

/// Functions that only this library calls.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Other {
    GraphGetNodes,
    GraphNodeGetType,
    GraphChildGraphNodeGetGraph,
    StreamIsCapturing,
    StreamIsCapturingPerThread,
    FuncGetName,
    KernelGetName,
}

const OTHERS: [&CStr; 7] = [
    c"cuGraphGetNodes",
    c"cuGraphNodeGetType",
    c"cuGraphChildGraphNodeGetGraph",
    c"cuStreamIsCapturing",
    c"cuStreamIsCapturing_ptsz",
    c"cuFuncGetName",
    c"cuKernelGetName",
];

/// The tables, when the driver is loaded.
fn tables() -> Option<&'static Tables> {
    // Acquire: pairs with the release in `find`.
    if STATE.load(Ordering::Acquire) != KNOWN && !find() {
        return None;
    }
    // SAFETY: once KNOWN, nobody writes.
    Some(unsafe { &*TABLES.0.get() })
}

#[cold]
fn find() -> bool {
    let Some(library) = elf::library(b"libcuda.so") else { return false };
    let begun = STATE.compare_exchange(UNKNOWN, FINDING, Ordering::Acquire, Ordering::Acquire);
    match begun {
        Ok(_) => {}
        // Another thread is at it, which takes microseconds; nothing it does can block.
        Err(_) => {
            while STATE.load(Ordering::Acquire) != KNOWN {
                std::hint::spin_loop();
            }
            return true;
        }
    }
    // SAFETY: only the thread that moved the state to FINDING comes here.
    let tables = unsafe { &mut *TABLES.0.get() };
    let mut name = [0u8; 128];
    for (number, function) in FUNCTIONS.iter().enumerate() {
        let symbol = function.symbol.as_bytes();
        name[..symbol.len()].copy_from_slice(symbol);
        name[symbol.len()] = 0;
        let found = CStr::from_bytes_until_nul(&name).ok().and_then(|name| library.find(name));
        tables.by_number[number] = found.unwrap_or(0);
        tables.by_address[number] = (found.unwrap_or(0), number as u16);
    }
    for (name, address) in OTHERS.iter().zip(&mut tables.others) {
        *address = library.find(name).unwrap_or(0);
    }
    tables.by_address.sort_unstable();
    STATE.store(KNOWN, Ordering::Release);
    true
}

/// The driver's function of this number.
#[inline(always)]
pub fn function(number: usize) -> Option<Hook> {
    let address = tables()?.by_number[number];
    // SAFETY: the driver's function of a name in the table; see `Hook`.
    (address != 0).then(|| unsafe { std::mem::transmute::<usize, Hook>(address) })
}

/// The address of a function that only this library calls.
pub fn other(which: Other) -> Option<usize> {
    tables().map(|tables| tables.others[which as usize]).filter(|address| *address != 0)
}

/// The number of the driver's function at this address. Where several names share it, the one
/// that is `asked` for, or has it as its base.
pub fn number(address: usize, asked: &[u8]) -> Option<usize> {
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
pub unsafe fn invoke(function: Hook, a: &Arguments) -> usize {
    // SAFETY: the caller's promise; words beyond the function's own arguments are not looked at.
    unsafe {
        function(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13],
            a[14], a[15],
        )
    }
}
