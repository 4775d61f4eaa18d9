//! Ranges of host memory that are pinned, as far as this process pinned them through the driver.
//!
//! A copy from memory that is not pinned is made by the calling thread, which holds locks of the
//! driver meanwhile: a different thing from one that is only queued. Asking the driver would take
//! locks of its own, so the ranges are kept here: a list without locks, of the last ranges that
//! were pinned.

use super::Arguments;
use record::cuda::FUNCTIONS;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const RANGES: usize = 1024;
static STARTS: [AtomicU64; RANGES] = [const { AtomicU64::new(0) }; RANGES];
static ENDS: [AtomicU64; RANGES] = [const { AtomicU64::new(0) }; RANGES];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes memory that was pinned or let go.
///
/// # Safety
/// The call of function `number` with these arguments must have succeeded.
pub(crate) unsafe fn note(number: usize, arguments: &Arguments) {
    let [first, bytes, ..] = *arguments;
    match FUNCTIONS[number].base {
        "cuMemAllocHost" | "cuMemHostAlloc" if first != 0 => {
            // SAFETY: the driver has just stored the address there.
            let start = unsafe { (first as *const u64).read_unaligned() };
            add(start, start.saturating_add(bytes as u64));
        }
        "cuMemHostRegister" => add(first as u64, (first as u64).saturating_add(bytes as u64)),
        "cuMemFreeHost" | "cuMemHostUnregister" => remove(first as u64),
        _ => {}
    }
}

/// Returns true if this address lies in memory that is pinned.
pub(crate) fn contains(address: u64) -> bool {
    let count = COUNT.load(Ordering::Relaxed).min(RANGES);
    STARTS[..count].iter().zip(&ENDS[..count]).any(|(start, end)| {
        start.load(Ordering::Relaxed) <= address && address < end.load(Ordering::Relaxed)
    })
}

fn add(start: u64, end: u64) {
    let free = STARTS.iter().position(|known| {
        known.compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    });
    if let Some(at) = free {
        ENDS[at].store(end, Ordering::Relaxed);
        COUNT.fetch_max(at + 1, Ordering::Relaxed);
    }
}

fn remove(start: u64) {
    if let Some(at) = STARTS.iter().position(|known| known.load(Ordering::Relaxed) == start) {
        ENDS[at].store(0, Ordering::Relaxed);
        STARTS[at].store(0, Ordering::Relaxed);
    }
}
