//! The program's own events, and the information that they give about its streams.
//!
//! An event that was recorded in a stream, and is seen to have happened, tells that all earlier
//! work of the stream has ended: if it is still the recording that was meant. So a recording that
//! is under way has a word of its own, and a wait counts only if the event's word is the same
//! before and after it. Events that others can record as well, or that two threads record at the
//! same time, tell nothing.
//!
//! ```text
//!   word:  NONE -> RECORDING | moment -> DONE | place | moment -> RECORDING ...
//!                      '--- a second thread ---> SHARED, until the event is destroyed
//! ```
//!
//! Lock-free, any thread; all zero is the empty table.

use super::{Moment, StreamPlace};
use crate::atomic::{AtomicU64, Ordering};

const ENTRIES: usize = if cfg!(loom) { 2 } else { 4096 };
const PROBES: usize = if cfg!(loom) { 2 } else { 16 };

const NONE: u64 = 0;
const RECORDING: u64 = 1 << 62;
const DONE: u64 = 2 << 62;
const SHARED: u64 = 3 << 62;
const KIND: u64 = 3 << 62;
const PLACE_SHIFT: u32 = 48;
const MOMENT: u64 = (1 << PLACE_SHIFT) - 1;

struct Entry {
    /// 0 if there is no event here.
    handle: AtomicU64,
    word: AtomicU64,
}

/// The events of a process.
pub struct Events {
    entries: [Entry; ENTRIES],
}

/// A recording under way.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    entry: u16,
    word: u64,
}

/// A recording that a thread is about to wait for.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    entry: u16,
    handle: u64,
    word: u64,
}

impl Seen {
    /// Returns the work that has ended once the event has happened: that of the stream at this
    /// place, up to this moment.
    pub fn tells(&self) -> (StreamPlace, Moment) {
        (StreamPlace((self.word >> PLACE_SHIFT & 0x3fff) as u16), Moment(self.word & MOMENT))
    }
}

impl Events {
    /// Creates the table without events.
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Events {
        let entries =
            [const { Entry { handle: AtomicU64::new(0), word: AtomicU64::new(NONE) } }; ENTRIES];
        Events { entries }
    }

    /// Creates the table without events.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Events {
        let entry = || Entry { handle: AtomicU64::new(0), word: AtomicU64::new(NONE) };
        Events { entries: std::array::from_fn(|_| entry()) }
    }

    fn probes(handle: u64) -> impl Iterator<Item = usize> {
        let start = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
        (0..PROBES).map(move |step| start.wrapping_add(step) % ENTRIES)
    }

    fn find(&self, handle: u64) -> Option<usize> {
        // Acquire: pairs with the release in `find_or_add`.
        Self::probes(handle).find(|at| self.entries[*at].handle.load(Ordering::Acquire) == handle)
    }

    fn find_or_add(&self, handle: u64) -> Option<usize> {
        self.find(handle).or_else(|| {
            Self::probes(handle).find(|at| {
                let entry = &self.entries[*at].handle;
                let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
                match entry.compare_exchange(0, handle, yes, no) {
                    Ok(_) => true,
                    Err(other) => other == handle,
                }
            })
        })
    }

    /// The program is about to record an event. `moment` must be one that no other recording has
    /// ([`super::Activity::mark`]). None when the event tells nothing.
    pub fn begin(&self, handle: u64, moment: Moment) -> Option<Recording> {
        let entry = self.find_or_add(handle)?;
        let word = &self.entries[entry].word;
        let mut seen = word.load(Ordering::SeqCst);
        loop {
            let next = match seen & KIND {
                NONE | DONE => RECORDING | moment.0 & MOMENT,
                _ => SHARED,
            };
            match word.compare_exchange(seen, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) if next == SHARED => return None,
                Ok(_) => return Some(Recording { entry: entry as u16, word: next }),
                Err(now) => seen = now,
            }
        }
    }

    /// The driver has recorded it, in the stream at this place; None if it has not, or the stream
    /// has none.
    pub fn end(&self, recording: Recording, place: Option<StreamPlace>) {
        let next = place.map_or(NONE, |place| {
            DONE | u64::from(place.0) << PLACE_SHIFT | recording.word & MOMENT
        });
        let word = &self.entries[usize::from(recording.entry) % ENTRIES].word;
        let (yes, no) = (Ordering::SeqCst, Ordering::Relaxed);
        // If the word has changed, another thread has recorded the event too.
        let _ = word.compare_exchange(recording.word, next, yes, no);
    }

    /// Returns the recording that an event stands for, before a thread waits for the event.
    pub fn see(&self, handle: u64) -> Option<Seen> {
        let entry = self.find(handle)?;
        let word = self.entries[entry].word.load(Ordering::SeqCst);
        (word & KIND == DONE).then_some(Seen { entry: entry as u16, handle, word })
    }

    /// Returns true if the event still stands for the same recording, after it was waited for.
    pub fn is_same(&self, seen: &Seen) -> bool {
        let entry = &self.entries[usize::from(seen.entry) % ENTRIES];
        entry.word.load(Ordering::SeqCst) == seen.word
            && entry.handle.load(Ordering::SeqCst) == seen.handle
    }

    /// Marks the event as shared: other processes record it as well, so it tells nothing from here
    /// on.
    pub fn share(&self, handle: u64) {
        if let Some(entry) = self.find_or_add(handle) {
            self.entries[entry].word.store(SHARED, Ordering::SeqCst);
        }
    }

    /// The event is about to be destroyed.
    pub fn forget(&self, handle: u64) {
        for at in Self::probes(handle) {
            let entry = &self.entries[at];
            if entry.handle.load(Ordering::Acquire) == handle {
                entry.word.store(NONE, Ordering::SeqCst);
                entry.handle.store(0, Ordering::Release);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const EVENT: u64 = 0x7f00_1234_5000;
    const PLACE: StreamPlace = StreamPlace(7);

    #[test]
    fn event_tells_what_its_last_recording_came_after() {
        let events = Events::new();
        assert!(events.see(EVENT).is_none());
        for moment in [5, 9] {
            let recording = events.begin(EVENT, Moment(moment)).unwrap();
            assert!(events.see(EVENT).is_none(), "while it is being recorded");
            events.end(recording, Some(PLACE));
            let seen = events.see(EVENT).unwrap();
            assert_eq!(seen.tells(), (PLACE, Moment(moment)));
            assert!(events.is_same(&seen));
        }
    }

    #[test]
    fn wait_for_an_event_that_is_recorded_anew_tells_nothing() {
        let events = Events::new();
        events.end(events.begin(EVENT, Moment(1)).unwrap(), Some(PLACE));
        let seen = events.see(EVENT).unwrap();
        let again = events.begin(EVENT, Moment(2)).unwrap();
        assert!(!events.is_same(&seen));
        events.end(again, Some(PLACE));
        assert!(!events.is_same(&seen));
        events.forget(EVENT);
        assert!(!events.is_same(&seen) && events.see(EVENT).is_none());
    }

    #[test]
    fn event_of_two_threads_tells_nothing_any_more() {
        let events = Events::new();
        let first = events.begin(EVENT, Moment(1)).unwrap();
        assert!(events.begin(EVENT, Moment(2)).is_none());
        events.end(first, Some(PLACE));
        assert!(events.see(EVENT).is_none());
        assert!(events.begin(EVENT, Moment(3)).is_none());
        events.forget(EVENT);
        assert!(events.begin(EVENT, Moment(4)).is_some());
    }

    #[test]
    fn recording_that_failed_and_a_full_table_tell_nothing() {
        let events = Events::new();
        events.end(events.begin(EVENT, Moment(1)).unwrap(), None);
        assert!(events.see(EVENT).is_none());
        let refused = (1..=2 * ENTRIES as u64).filter(|event| {
            let recording = events.begin(event * 64, Moment(*event));
            recording.map(|recording| events.end(recording, Some(PLACE))).is_none()
        });
        assert!(refused.count() >= ENTRIES);
    }
}
