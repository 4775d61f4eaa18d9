//! Decision if a lock is recorded, and if it is guarded, by the address it was taken from.
//!
//! An address is looked up in three places, from fast to slow: a table by page, a list of the
//! libraries that have locked something, and the C library's own search ([`Object::at`]). A
//! library that is met for the first time is also named to the recording, so that callers'
//! addresses can be read later. When libraries have been closed, those that are gone are
//! forgotten, since others may come in their places; one that comes back to its old place needs
//! no second name.

use crate::object::Object;
use crate::{attachment, guarding, thread};
use fnv::FnvHasher;
use record::{NameKind, Side};
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries of [`BY_PAGE`].
pub(crate) const PAGES: usize = 2048;
const ENTRIES: usize = 1024;

/// Lower bits of the entry of a page from which locks are known not to be recorded.
pub(crate) const PASSED: u64 = 2;

/// An answer: locks from there are recorded.
const RECORDED: u64 = 1;
/// An answer: locks from there are guarded.
const GUARDED: u64 = 4;

/// Page number * 8 + [`GUARDED`] + known (2) + [`RECORDED`].
pub(crate) static BY_PAGE: [AtomicU64; PAGES] = [const { AtomicU64::new(0) }; PAGES];
static LIST: [Entry; ENTRIES] = [const { Entry::new() }; ENTRIES];

/// One library.
struct Entry {
    /// [`FREE`], [`BUSY`], or the address after the library's last * 8 + the answer.
    state: AtomicU64,
    start: AtomicU64,
    /// The state before the library was closed.
    before: AtomicU64,
    /// A hash of its path.
    path: AtomicU64,
}

/// Nothing is here, or a library that was closed.
const FREE: u64 = 0;
/// Mark of an entry that a thread is filling. Like [`FREE`], it ends before every address.
const BUSY: u64 = 1;

impl Entry {
    const fn new() -> Entry {
        Entry {
            state: AtomicU64::new(FREE),
            start: AtomicU64::new(0),
            before: AtomicU64::new(0),
            path: AtomicU64::new(0),
        }
    }

    /// Takes a free entry for filling.
    fn take(&self) -> bool {
        // Acquire: pairs with the release of `publish`.
        let taken = self.state.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    fn publish(&self, state: u64) {
        // Release: pairs with the acquire in `in_list`; the start is in place.
        self.state.store(state, Ordering::Release);
    }

    fn is(&self, start: u64, state: u64, path: u64) -> bool {
        self.start.load(Ordering::Relaxed) == start
            && self.before.load(Ordering::Relaxed) == state
            && self.path.load(Ordering::Relaxed) == path
    }
}

/// Returns true if locks taken from this address are recorded.
#[inline(always)]
pub(crate) fn is_recorded(address: usize) -> bool {
    answer(address) & RECORDED != 0
}

/// Returns true if locks taken from this address are guarded.
#[inline(always)]
pub(crate) fn is_guarded(address: usize) -> bool {
    answer(address) & GUARDED != 0
}

#[inline(always)]
fn answer(address: usize) -> u64 {
    let page = (address >> 12) as u64;
    // Relaxed: the entry stands for itself.
    let entry = BY_PAGE[page as usize % PAGES].load(Ordering::Relaxed);
    if entry >> 3 == page && entry & 2 != 0 { entry } else { look_up(address) }
}

/// Forgets the libraries that are no longer loaded.
pub(crate) fn forget_closed() {
    let mut is_any_gone = false;
    for entry in &LIST {
        let state = entry.state.load(Ordering::Acquire);
        if state <= BUSY {
            continue;
        }
        let start = entry.start.load(Ordering::Relaxed);
        let object = Object::at(start as usize);
        if object
            .is_some_and(|object| (object.start as u64, object.end as u64) == (start, state >> 3))
        {
            continue;
        }
        entry.before.store(state, Ordering::Relaxed);
        let freed = entry.state.compare_exchange(state, FREE, Ordering::Release, Ordering::Relaxed);
        is_any_gone |= freed.is_ok();
    }
    if is_any_gone {
        for entry in &BY_PAGE {
            entry.store(0, Ordering::Relaxed);
        }
    }
}

#[cold]
#[inline(never)]
fn look_up(address: usize) -> u64 {
    let Some(answer) = in_list(address as u64).or_else(|| in_objects(address)) else {
        // Code that no library brought: next time there may be another at this page.
        return answer_for(b"");
    };
    let page = (address >> 12) as u64;
    BY_PAGE[page as usize % PAGES].store(page << 3 | 2 | answer, Ordering::Relaxed);
    answer
}

fn in_list(address: u64) -> Option<u64> {
    LIST.iter().find_map(|entry| {
        // Acquire: pairs with the release in `publish`; the start is in place.
        let state = entry.state.load(Ordering::Acquire);
        let start = entry.start.load(Ordering::Relaxed);
        (start <= address && address < state >> 3).then_some(state & (RECORDED | GUARDED))
    })
}

/// The answer for a library's file name.
fn answer_for(file_name: &[u8]) -> u64 {
    let side = attachment::side();
    let names = |list: fn(&Side, &[u8]) -> bool| {
        !file_name.is_empty() && side.is_some_and(|side| list(&side, file_name))
    };
    let recorded = attachment::everywhere() || names(Side::names_library);
    let guarded = guarding::everywhere() || names(Side::names_guarded_library);
    (if recorded { RECORDED } else { 0 }) | (if guarded { GUARDED } else { 0 })
}

/// Asks the C library, and keeps the answer.
fn in_objects(address: usize) -> Option<u64> {
    let side = attachment::side()?;
    let object = Object::at(address)?;
    let answer = answer_for(object.file_name());
    let (start, end) = (object.start as u64, object.end as u64);
    let state = end << 3 | answer;
    let path = hash(object.path());
    if !come_back(start, state, path) {
        remember(start, state, path);
        if let Some(process) = attachment::enter() {
            side.add(NameKind::Module, process, start, end, object.path());
        }
    }
    Some(answer)
}

/// Returns true if this library was here before; then it is again.
fn come_back(start: u64, state: u64, path: u64) -> bool {
    LIST.iter().any(|entry| {
        if !entry.is(start, state, path) || !entry.take() {
            return false;
        }
        let is_it = entry.is(start, state, path);
        entry.publish(if is_it { state } else { FREE });
        is_it
    })
}

/// Keeps a library in an entry that was never used, or else in that of one that is gone. When all
/// are in use it is not kept, and looked up again from the next page.
fn remember(start: u64, state: u64, path: u64) {
    let is_unused = |entry: &&Entry| entry.before.load(Ordering::Relaxed) == 0 && entry.take();
    let place = LIST.iter().find(is_unused).or_else(|| LIST.iter().find(|entry| entry.take()));
    if let Some(entry) = place {
        entry.start.store(start, Ordering::Relaxed);
        entry.before.store(state, Ordering::Relaxed);
        entry.path.store(path, Ordering::Relaxed);
        entry.publish(state);
    }
}

/// FNV-1a in 64 bits: two of a thousand names are the same in one of 10^13 programs.
pub(crate) fn hash(name: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(name);
    hasher.finish()
}

/// Returns the calling thread, if locks that it takes from this address are recorded now.
#[inline(always)]
pub(crate) fn recorder(address: usize) -> Option<&'static thread::Thread> {
    if !attachment::is_on() {
        return None;
    }
    let thread = thread::this();
    (is_recorded(address) && !thread.is_quiet()).then_some(thread)
}
