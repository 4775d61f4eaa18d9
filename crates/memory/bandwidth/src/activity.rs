//! Table of a program's streams. It shows which of them have work, so that the program holds the
//! lock exactly while at least one has.
//!
//! A stream that was ever submitted to has a *place*. Its word says how many submissions are on
//! their way, and which was the last to get there:
//!
//! ```text
//!            63                    16 15          0
//!   word    |  last: a ticket, or 0  |    calls    |     active: not 0, and then one hold is its
//! ```
//!
//! - [`Activity::begin`], before the driver is called: `calls` + 1. If that makes the place active,
//!   the lock was taken before; so it is held before there can be work.
//! - [`Activity::end`], after the driver took the work: a ticket is drawn, `last` becomes it, `calls`
//!   - 1. A ticket drawn before the call would be older than waits that began before the work.
//! - [`Activity::complete`]: the thread that saw a stream empty gives the newest ticket from
//!   *before* it asked ([`Activity::now`]). Submissions with such tickets had returned by then, so
//!   they are what was seen to end. If `last` is one of them it becomes 0; what came later keeps
//!   it.
//!
//! Two threads that are the first to use a stream may each give it a place: both count. The thread
//! that makes a word 0 gives the hold back. Places of streams without work are given to others;
//! since tickets only grow, a completion that comes late for the old stream changes nothing for the
//! new one.
//!
//! Everything here is lock-free, allocates nothing, and may be called by any thread; all zero is
//! the empty table. A thread that ends between `begin` and `end` leaves its place active for ever.
//! Called by the preload library. Modelled in `tests/activity_loom.rs`.

pub mod events;

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::mutant::Mutant;

/// Largest number of streams that can be known at the same time.
pub const PLACES: usize = if cfg!(loom) { 4 } else { 1024 };
/// Number of places in which a stream may be.
const PROBES: usize = if cfg!(loom) { 4 } else { 32 };
/// Largest number of attempts to find a place if it changes hands under a caller.
const TRIES: usize = 64;

/// Lock that is held while a place is active; in tests, a counter in its place.
pub trait Holding {
    /// Takes it once more.
    fn acquire(&self);
    /// Gives it back once.
    fn release(&self);
}

/// Key that distinguishes a stream from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

const DEFAULT: u64 = 1 << 63;
const THREAD: u64 = 1 << 62;
const ORPHAN: u64 = DEFAULT | THREAD;

/// Kind of stream that a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// A stream that the program made: its handle.
    Made(u64),
    /// The default stream of a context.
    Default,
    /// A thread's own default stream, which only that thread can name.
    Thread,
    /// A stream that the program has destroyed.
    Destroyed,
}

impl Key {
    /// A stream that the program made, by its handle, which is an address.
    pub fn made(handle: u64) -> Key {
        Key(handle & !ORPHAN)
    }

    /// The default stream of the context of this number.
    pub fn default_of(context: u8) -> Key {
        Key(DEFAULT | u64::from(context))
    }

    /// A thread's own default stream, by numbers of the context and of the thread.
    pub fn thread_of(context: u8, thread: u32) -> Key {
        Key(THREAD | u64::from(context) << 32 | u64::from(thread))
    }

    /// Returns the kind of stream that this key names.
    pub fn stream(self) -> Stream {
        match self.0 & ORPHAN {
            0 => Stream::Made(self.0),
            DEFAULT => Stream::Default,
            THREAD => Stream::Thread,
            _ => Stream::Destroyed,
        }
    }
}

/// The place of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPlace(u16);

/// A point in the order of submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The moment after all submissions.
    pub const END: Moment = Moment(u64::MAX);
}

const CALLS: u64 = 0xffff;
/// `calls` of a place that is about to belong to another stream.
const CHANGING: u64 = CALLS;
const LAST_SHIFT: u32 = 16;

/// Set in `asked` while a thread asks the driver about the stream; the rest counts those who
/// forbid it.
const ASKED: u32 = 1 << 31;

/// A line of the cache each.
#[repr(C, align(64))]
struct Slot {
    word: AtomicU64,
    /// 0 if there is no stream here.
    key: AtomicU64,
    /// Handle of the stream's context.
    context: AtomicU64,
    /// An event of our own, its context, and which submissions it was recorded after; 0 for none.
    event: AtomicU64,
    event_context: AtomicU64,
    event_after: AtomicU64,
    asked: AtomicU32,
}

/// The streams of a process.
pub struct Activity {
    ticket: AtomicU64,
    /// A bit for each place that may be active.
    marks: [AtomicU64; PLACES.div_ceil(64)],
    slots: [Slot; PLACES],
}

macro_rules! constructors {
    ($($function:tt)*) => {
        impl Slot {
            $($function)* new() -> Slot {
                Slot {
                    word: AtomicU64::new(0),
                    key: AtomicU64::new(0),
                    context: AtomicU64::new(0),
                    event: AtomicU64::new(0),
                    event_context: AtomicU64::new(0),
                    event_after: AtomicU64::new(0),
                    asked: AtomicU32::new(0),
                }
            }
        }
    };
}

#[cfg(not(loom))]
constructors!(const fn);
#[cfg(loom)]
constructors!(fn);

impl Activity {
    /// Creates the table without streams.
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Activity {
        Activity {
            ticket: AtomicU64::new(0),
            marks: [const { AtomicU64::new(0) }; PLACES.div_ceil(64)],
            slots: [const { Slot::new() }; PLACES],
        }
    }

    /// Creates the table without streams.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Activity {
        Activity {
            ticket: AtomicU64::new(0),
            marks: std::array::from_fn(|_| AtomicU64::new(0)),
            slots: std::array::from_fn(|_| Slot::new()),
        }
    }

    fn slot(&self, place: StreamPlace) -> &Slot {
        &self.slots[usize::from(place.0) % PLACES]
    }

    /// The newest ticket. To be read before the driver is asked.
    #[inline]
    pub fn now(&self) -> Moment {
        // SeqCst: after all submissions whose tickets are drawn.
        Moment(self.ticket.load(Ordering::SeqCst))
    }

    /// Returns a moment as [`Activity::now`] does, but a different one to each caller.
    pub fn mark(&self) -> Moment {
        Moment(self.ticket.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn probes(key: Key) -> impl Iterator<Item = StreamPlace> {
        // Handles differ little in their lower bits: the upper bits of the product do.
        let start = (key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
        (0..PROBES).map(move |step| StreamPlace((start.wrapping_add(step) % PLACES) as u16))
    }

    /// The first place of a stream, if it has one that no thread takes from it just now. Wait-free.
    #[inline]
    pub fn find(&self, key: Key) -> Option<StreamPlace> {
        Self::probes(key).find(|place| {
            let slot = self.slot(*place);
            // Acquire: pairs with the release in `claim`.
            slot.key.load(Ordering::Acquire) == key.0
                && slot.word.load(Ordering::Relaxed) != CHANGING
        })
    }

    /// Finds a stream as [`Activity::find`] does, and returns also the newest ticket from before
    /// the look: submissions of another stream that gets the place from now on are newer.
    #[inline]
    pub fn find_at(&self, key: Key) -> Option<(StreamPlace, Moment)> {
        let before = self.now();
        let place = self.find(key)?;
        Some((place, if Mutant::MomentReadLate.is_on() { self.now() } else { before }))
    }

    /// All places with a stream of this context.
    pub fn find_in(&self, context: u64) -> impl Iterator<Item = StreamPlace> {
        let all = (0..PLACES).map(|at| StreamPlace(at as u16));
        all.filter(move |place| self.key(*place).is_some() && self.context(*place) == context)
    }

    /// The stream at a place.
    pub fn key(&self, place: StreamPlace) -> Option<Key> {
        let key = self.slot(place).key.load(Ordering::Acquire);
        (key != 0).then_some(Key(key))
    }

    /// The context of the stream at a place.
    pub fn context(&self, place: StreamPlace) -> u64 {
        self.slot(place).context.load(Ordering::Relaxed)
    }

    /// Returns true if the stream at a place has work, or gets some just now.
    pub fn is_active(&self, place: StreamPlace) -> bool {
        let word = self.slot(place).word.load(Ordering::SeqCst);
        word != 0 && word != CHANGING
    }

    /// Returns true if the stream at a place has work, and no submission is on its way.
    pub fn is_submitted(&self, place: StreamPlace) -> bool {
        let word = self.slot(place).word.load(Ordering::SeqCst);
        word != 0 && word & CALLS == 0
    }

    /// Gives a stream a place that no stream with work has; none when there is none.
    #[cold]
    fn claim(&self, key: Key, context: u64) -> Option<StreamPlace> {
        let is_free = |place: &StreamPlace| self.key(*place).is_none();
        let is_idle = |place: &StreamPlace| self.slot(*place).word.load(Ordering::Relaxed) == 0;
        let is_open = |place: &StreamPlace| self.slot(*place).asked.load(Ordering::Relaxed) == 0;
        let all = || Self::probes(key).filter(is_idle).filter(is_open);
        let place = all().find(is_free).or_else(|| all().next())?;
        let slot = self.slot(place);
        let (yes, no) = (Ordering::SeqCst, Ordering::Relaxed);
        if slot.word.compare_exchange(0, CHANGING, yes, no).is_err() {
            return Some(place);
        }
        // A thread that forbids it either sees it change, or is seen here; pairs with the fence in
        // `forbid`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release in `allow`; what was done meanwhile comes before.
        let is_open = slot.asked.load(Ordering::Acquire) == 0 || Mutant::TakenForbidden.is_on();
        if is_open {
            slot.context.store(context, Ordering::Relaxed);
            slot.event_after.store(0, Ordering::Relaxed);
            // Release: pairs with the acquire of those who find it.
            slot.key.store(key.0, Ordering::Release);
        }
        slot.word.store(0, Ordering::Release);
        Some(place)
    }

    /// A submission to a stream begins; the driver has not been called yet. `context` is asked
    /// for when the stream has no place yet. None when there is no place for it.
    #[inline]
    pub fn begin(
        &self,
        key: Key,
        context: impl Fn() -> u64,
        hold: &impl Holding,
    ) -> Option<StreamPlace> {
        for _ in 0..TRIES {
            let Some(place) = self.find(key) else {
                self.claim(key, context())?;
                continue;
            };
            let Some(is_first) = self.enter(place, hold) else { continue };
            // From here on the place stays whose it is.
            if self.key(place) == Some(key) {
                if is_first {
                    self.mark_active(place);
                }
                return Some(place);
            }
            self.leave(place, hold);
        }
        None
    }

    /// `calls` + 1; whether the place was inactive. None when it changes hands.
    #[inline]
    fn enter(&self, place: StreamPlace, hold: &impl Holding) -> Option<bool> {
        let slot = self.slot(place);
        let mut word = slot.word.load(Ordering::Relaxed);
        let mut has_taken = false;
        let entered = loop {
            if word & CALLS >= CHANGING - 1 {
                break None;
            }
            if word == 0 && !has_taken && !Mutant::TakenAfterwards.is_on() {
                hold.acquire();
                has_taken = true;
            }
            // SeqCst: the thread that clears the mark of the place sees this, or this thread sees
            // the mark cleared.
            let (yes, no) = (Ordering::SeqCst, Ordering::Relaxed);
            match slot.word.compare_exchange(word, word + 1, yes, no) {
                Ok(_) => break Some(word == 0),
                Err(now) => word = now,
            }
        };
        match entered {
            Some(true) if !has_taken => hold.acquire(),
            Some(true) => {}
            // Another thread has made it active, and holds for it.
            _ if has_taken => hold.release(),
            _ => {}
        }
        entered
    }

    #[inline]
    fn mark_active(&self, place: StreamPlace) {
        let (marks, bit) = self.bit(place);
        if marks.load(Ordering::SeqCst) & bit == 0 {
            marks.fetch_or(bit, Ordering::SeqCst);
        }
    }

    fn bit(&self, place: StreamPlace) -> (&AtomicU64, u64) {
        let at = usize::from(place.0) % PLACES;
        (&self.marks[at / 64], 1 << (at % 64))
    }

    /// The driver has taken the work.
    #[inline]
    pub fn end(&self, place: StreamPlace, hold: &impl Holding) {
        self.end_at(place, self.mark(), hold);
    }

    /// The driver had taken the work when its ticket was drawn ([`Activity::mark`]).
    #[inline]
    pub fn end_at(&self, place: StreamPlace, ticket: Moment, hold: &impl Holding) {
        self.change(place, hold, |word| {
            let last = (word >> LAST_SHIFT).max(ticket.0);
            last << LAST_SHIFT | (word & CALLS).saturating_sub(1)
        });
    }

    /// The driver has not taken the work, or has done it already.
    #[inline]
    pub fn leave(&self, place: StreamPlace, hold: &impl Holding) {
        self.change(place, hold, |word| word & !CALLS | (word & CALLS).saturating_sub(1));
    }

    /// Records that the stream was seen empty by a thread that had read `before` first.
    #[inline]
    pub fn complete(&self, place: StreamPlace, before: Moment, hold: &impl Holding) {
        self.change(place, hold, |word| {
            let ended = word >> LAST_SHIFT <= before.0 || Mutant::AllCompleted.is_on();
            if ended { word & CALLS } else { word }
        });
    }

    /// Changes the word of an active place, and gives its hold back if it is inactive then.
    #[inline]
    fn change(&self, place: StreamPlace, hold: &impl Holding, to: impl Fn(u64) -> u64) {
        let slot = self.slot(place);
        let mut word = slot.word.load(Ordering::Relaxed);
        loop {
            let next = to(word);
            if next == word || word == CHANGING {
                return;
            }
            // SeqCst: what a thread did before is seen by a thread that sees the new word.
            let (yes, no) = (Ordering::SeqCst, Ordering::Relaxed);
            match slot.word.compare_exchange(word, next, yes, no) {
                Ok(_) if next == 0 => return hold.release(),
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Calls for each place that may be active. Any thread.
    pub fn each_place(&self, mut each: impl FnMut(StreamPlace)) {
        for at in 0..PLACES {
            let place = StreamPlace(at as u16);
            let (marks, bit) = self.bit(place);
            if marks.load(Ordering::SeqCst) & bit != 0 {
                each(place);
            }
        }
    }

    /// Calls for each place that is active; returns how many there are. One thread at a time.
    pub fn each_active(&self, mut each: impl FnMut(StreamPlace)) -> usize {
        let mut active = 0;
        for at in 0..PLACES {
            let place = StreamPlace(at as u16);
            let (marks, bit) = self.bit(place);
            if marks.load(Ordering::SeqCst) & bit == 0 {
                continue;
            }
            // First the mark, then the word: the thread that makes it active now sets the mark
            // again.
            marks.fetch_and(!bit, Ordering::SeqCst);
            if self.is_active(place) {
                marks.fetch_or(bit, Ordering::SeqCst);
                active += 1;
                each(place);
            }
        }
        active
    }

    /// Gives the name of a stream that is about to be destroyed up; its work goes on. The place
    /// must be forbidden to others.
    pub fn orphan(&self, place: StreamPlace) {
        self.slot(place).key.store(ORPHAN | u64::from(place.0), Ordering::Release);
    }

    /// The stream was not destroyed after all.
    pub fn adopt(&self, place: StreamPlace, key: Key) {
        self.slot(place).key.store(key.0, Ordering::Release);
    }

    /// Begins to ask the driver about the stream at a place; false when that is forbidden. One
    /// thread at a time.
    pub fn ask(&self, place: StreamPlace) -> bool {
        let asked = &self.slot(place).asked;
        // SeqCst: who forbids it later sees that it goes on.
        asked.compare_exchange(0, ASKED, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// The driver has answered.
    pub fn answered(&self, place: StreamPlace) {
        // Release: pairs with the acquire in `is_asked`.
        self.slot(place).asked.fetch_and(!ASKED, Ordering::Release);
    }

    /// Forbids questions to the driver about the stream from here on, and gives the place to no
    /// other stream; a thread that has begun to take the place may go on
    /// ([`Activity::is_changing`]).
    pub fn forbid(&self, place: StreamPlace) {
        self.slot(place).asked.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Returns true if the place is about to be given to another stream.
    pub fn is_changing(&self, place: StreamPlace) -> bool {
        // Acquire: when it has changed, the new key is seen.
        self.slot(place).word.load(Ordering::Acquire) == CHANGING
    }

    /// Ends what [`Activity::forbid`] began; nothing if nothing is forbidden.
    pub fn allow(&self, place: StreamPlace) {
        let asked = &self.slot(place).asked;
        let mut seen = asked.load(Ordering::Relaxed);
        while seen & !ASKED != 0 {
            let (yes, no) = (Ordering::Release, Ordering::Relaxed);
            match asked.compare_exchange(seen, seen - 1, yes, no) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Returns true while a thread asks the driver about the stream at this place.
    pub fn is_asked(&self, place: StreamPlace) -> bool {
        self.slot(place).asked.load(Ordering::Acquire) & ASKED != 0
    }

    /// The event of our own at a place, if it has one for this context.
    pub fn event(&self, place: StreamPlace, context: u64) -> Option<u64> {
        let slot = self.slot(place);
        let event = slot.event.load(Ordering::Relaxed);
        (event != 0 && slot.event_context.load(Ordering::Relaxed) == context).then_some(event)
    }

    /// Gives a place an event of our own; returns the one that it had.
    pub fn set_event(&self, place: StreamPlace, event: u64, context: u64) -> u64 {
        let slot = self.slot(place);
        slot.event_context.store(context, Ordering::Relaxed);
        slot.event.swap(event, Ordering::Relaxed)
    }

    /// The event of our own has been recorded after submissions up to this moment.
    pub fn recorded(&self, place: StreamPlace, after: Moment) {
        // Release: pairs with the acquire in `pending`; the driver has the event by then.
        self.slot(place).event_after.store(after.0, Ordering::Release);
    }

    /// The event of our own that tells when submissions up to a moment have ended.
    pub fn pending(&self, place: StreamPlace) -> Option<(u64, Moment)> {
        let slot = self.slot(place);
        let after = slot.event_after.load(Ordering::Acquire);
        let event = slot.event.load(Ordering::Relaxed);
        (after != 0 && event != 0).then_some((event, Moment(after)))
    }
}
