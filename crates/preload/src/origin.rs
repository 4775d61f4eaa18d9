//! Whether a lock is recorded, by the address it was taken from.
//!
//! An address is looked up in three places, from fast to slow: a table by page, a list of the
//! code mappings seen so far, and `/proc/self/maps`, which is read once for each library that
//! locks anything. A library that is met for the first time is also named to the recording, so
//! that callers' addresses can be read later. When a library is closed, all is forgotten, since
//! another one may come in its place.

use crate::{attachment, elf, thread};
use record::NameKind;
use rustix::fs::{Mode, OFlags};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const PAGES: usize = 2048;
const MAPPINGS: usize = 2048;

/// Page number * 4 + known (2) + recorded (1).
static BY_PAGE: [AtomicU64; PAGES] = [const { AtomicU64::new(0) }; PAGES];
static STARTS: [AtomicU64; MAPPINGS] = [const { AtomicU64::new(0) }; MAPPINGS];
/// End * 2 + recorded; stored last, so that it is 0 until the entry is whole.
static ENDS: [AtomicU64; MAPPINGS] = [const { AtomicU64::new(0) }; MAPPINGS];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether locks taken from this address are recorded.
#[inline(always)]
pub fn is_recorded(address: usize) -> bool {
    let page = (address >> 12) as u64;
    // Relaxed: the entry stands for itself.
    let entry = BY_PAGE[page as usize % PAGES].load(Ordering::Relaxed);
    if entry >> 2 == page && entry & 2 != 0 { entry & 1 != 0 } else { look_up(address) }
}

/// Forgets everything: a library is about to go.
pub fn forget() {
    COUNT.store(0, Ordering::Relaxed);
    for end in &ENDS {
        end.store(0, Ordering::Relaxed);
    }
    for entry in &BY_PAGE {
        entry.store(0, Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
fn look_up(address: usize) -> bool {
    let recorded = in_list(address as u64).unwrap_or_else(|| in_maps(address as u64));
    let page = (address >> 12) as u64;
    let entry = page << 2 | 2 | u64::from(recorded);
    BY_PAGE[page as usize % PAGES].store(entry, Ordering::Relaxed);
    recorded
}

fn in_list(address: u64) -> Option<bool> {
    let count = COUNT.load(Ordering::Relaxed).min(MAPPINGS);
    STARTS[..count].iter().zip(&ENDS[..count]).find_map(|(start, end)| {
        // Acquire: pairs with the release in `remember`; the start is in place.
        let end = end.load(Ordering::Acquire);
        let start = start.load(Ordering::Relaxed);
        (start <= address && address < end >> 1).then_some(end & 1 != 0)
    })
}

fn remember(start: u64, end: u64, recorded: bool) {
    let at = COUNT.fetch_add(1, Ordering::Relaxed);
    if at < MAPPINGS {
        STARTS[at].store(start, Ordering::Relaxed);
        ENDS[at].store(end << 1 | u64::from(recorded), Ordering::Release);
    } else {
        COUNT.store(MAPPINGS, Ordering::Relaxed);
    }
}

/// Reads the process's mappings until the one with the address is found.
fn in_maps(address: u64) -> bool {
    let Some(side) = attachment::side() else { return false };
    let everywhere = attachment::everywhere();
    let mut recorded = everywhere;
    each_mapping(&mut |mapping| {
        if !(mapping.start..mapping.end).contains(&address) {
            return false;
        }
        recorded = everywhere || side.names_library(elf::file_name(mapping.file));
        if let Some(process) = attachment::enter() {
            side.add(NameKind::Module, process, mapping.start, mapping.end, mapping.file);
        }
        remember(mapping.start, mapping.end, recorded);
        true
    });
    recorded
}

struct Mapping<'a> {
    start: u64,
    end: u64,
    file: &'a [u8],
}

/// Visits the mappings until `visit` returns true. System calls only, and a page of the stack.
fn each_mapping(visit: &mut dyn FnMut(&Mapping<'_>) -> bool) {
    let Ok(maps) = rustix::fs::open(c"/proc/self/maps", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    else {
        return;
    };
    let mut buffer = [0u8; 4096];
    let mut filled = 0;
    while let Ok(got @ 1..) = rustix::io::read(&maps, &mut buffer[filled..]) {
        filled += got;
        let mut begin = 0;
        while let Some(length) = buffer[begin..filled].iter().position(|byte| *byte == b'\n') {
            let line = &buffer[begin..begin + length];
            if parse(line).is_some_and(|mapping| visit(&mapping)) {
                return;
            }
            begin += length + 1;
        }
        buffer.copy_within(begin..filled, 0);
        filled -= begin;
        if filled == buffer.len() {
            // A line longer than the buffer: its beginning is enough for none of ours.
            filled = 0;
        }
    }
}

/// `start-end rights offset device inode      path`
fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let range = fields.next()?;
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let rest = fields.nth(4).unwrap_or(b"");
    let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
    Some(Mapping {
        start: hexadecimal(&range[..dash])?,
        end: hexadecimal(&range[dash + 1..])?,
        file: &rest[spaces..],
    })
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = (*digit as char).to_digit(16)?;
        value.checked_mul(16)?.checked_add(u64::from(digit))
    })
}

/// Whether locks taken from this address are recorded now, by this thread, and how.
#[inline(always)]
pub fn recorder(address: usize) -> Option<&'static thread::Thread> {
    if !attachment::is_on() {
        return None;
    }
    let thread = thread::this();
    (is_recorded(address) && !thread.is_quiet()).then_some(thread)
}
