//! The waiters of all mutexes that stand beside them: those that have waited for too long, and
//! those whose priority matters.
//!
//! A waiter has a *place* of the table, in the list of the bucket that its mutex's address falls
//! into. A thread that releases a mutex looks whether a waiter stands anywhere, which is one word;
//! then at its bucket. A bucket's list is changed by one thread at a time, behind a word of its own
//! that lends priority.
//!
//! ```text
//!   place:  FREE -> TAKEN -> WAITING -> OFFERED -> GONE -> FREE   handed the mutex, by its holder
//!                               |          |-----> ASIDE -> WAITING   did not take it in time
//!                               |----------------> GONE -> FREE   gave up, or found it free
//! ```
//!
//! `WAITING` and `OFFERED` are left by one compare-and-swap each, so that a waiter that gives up
//! and a holder that hands over agree, and the waiter that takes what it is handed and another
//! one that [takes it back](Table::take_back): the mutex is whose step succeeds. A waiter does not
//! take it in time when it is in a signal handler that came in between, perhaps for something that
//! a thread does that needs the mutex, or when it has left its wait by a jump or by its end. Then
//! it is *put aside*, out of its list, until it shows up again. While it is handed over the mutex
//! has a [mark](mark_of) of the place as its owner, which says that the hand-over is of this very
//! mutex, and not of one that was there before.
//!
//! A place stays in its list until its waiter has seen what became of it: an earlier holder may
//! still have to give back what it was lent. A place that is gone is taken out by a thread that
//! passes next. Signals are blocked while a list is changed, so that no handler keeps others from
//! it. All zero is the empty table, which is what a forked child finds: the waiters were its
//! parent's. Called by [`crate::mutex`].

use crate::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use crate::futex::{self, Clock, Deadline, NotLent};
use crate::kernel;
use crate::mutant::Mutant;

const BUCKETS: usize = if cfg!(loom) { 1 } else { 256 };
const PLACES: usize = if cfg!(loom) { 3 } else { 512 };

/// Time for which a waiter that lends its priority sleeps before it looks for itself, in
/// nanoseconds.
pub(crate) const NET_NS: i64 = 1_000_000;

/// Time for which a mutex that was handed over is its new owner's alone, before that one has taken
/// it, in nanoseconds.
pub(crate) const OFFER_NS: i64 = 20_000_000;

/// The same after one that was not taken in time: several threads may be held up at once.
const NEXT_OFFER_NS: i64 = 1_000_000;

/// At most 2 to the power of this number of hand-overs go without a call after one that came too
/// early.
const MOST_EARLY: u32 = 10;

/// Mark of an owner that is a place and not a thread. Larger than any thread's id.
const MARK: u32 = 1 << 31;

/// The owner of a mutex that was handed to the waiter in a place of this number.
fn mark_of(number: u32) -> u32 {
    MARK | number
}

/// Returns true if a mutex' owner is such a mark.
pub(crate) fn is_mark(owner: u32) -> bool {
    owner & MARK != 0
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// The waiter stands in its list.
pub(crate) const WAITING: u32 = 2;
/// The waiter was handed the mutex, and has not taken it yet.
const OFFERED: u32 = 3;
const GONE: u32 = 4;
/// The waiter did not take the mutex in time, and stands in no list.
const ASIDE: u32 = 5;

/// A thread that wants a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its id, as the kernel numbers it in this process' namespace.
    pub thread: u32,
    /// 0 for an ordinary thread, 1 to 99 for a real-time priority, 100 for a thread with a
    /// deadline.
    pub urgency: u32,
}

/// A waiter's place.
pub(crate) struct WaiterPlace {
    /// Number of the next place of the list + 1.
    next: AtomicU32,
    thread: AtomicU32,
    urgency: AtomicU32,
    pub state: AtomicU32,
    /// Id of the thread that this waiter lends its priority to; a word of the kernel's.
    pub lent: AtomicU32,
    /// Id of a thread that will let the mutex go without looking here.
    pub avoided: AtomicU32,
    /// True if it may be passed over while it is its turn: it does not stand behind a less urgent
    /// owner.
    patient: AtomicU32,
    /// Number of times that it was passed over.
    passed: AtomicU32,
    /// True if it is the next to be handed the mutex, and is to be awake by then.
    called: AtomicU32,
    mutex: AtomicUsize,
    arrival: AtomicU64,
    /// Time on the monotonic clock until which the mutex that it was handed is its own.
    offered_until_ns: AtomicU64,
}

struct Bucket {
    /// Id of the thread that is changing the list; a word of the kernel's.
    inside: AtomicU32,
    /// Number of the first place + 1.
    first: AtomicU32,
    /// Number of waiters in a row that were called too early.
    early: AtomicU32,
    /// Number of times that the next waiter is not to be called, for that reason.
    silence: AtomicU32,
    /// 1 when the last mutex that was handed over was not taken in time.
    refused: AtomicU32,
}

/// The table.
#[repr(C)]
pub struct Table {
    /// Number of places that are in lists.
    waiting: AtomicU32,
    /// Number of their waiters that lend their priority just now.
    lenders: AtomicU32,
    arrivals: AtomicU64,
    buckets: [Bucket; BUCKETS],
    places: [WaiterPlace; PLACES],
}

/// Constructors, which are constant except for loom's atomics.
macro_rules! constructors {
    ($($constant:ident)?) => {
        impl Bucket {
            $($constant)? fn new() -> Bucket {
                Bucket {
                    inside: AtomicU32::new(0),
                    first: AtomicU32::new(0),
                    early: AtomicU32::new(0),
                    silence: AtomicU32::new(0),
                    refused: AtomicU32::new(0),
                }
            }
        }

        impl WaiterPlace {
            $($constant)? fn new() -> WaiterPlace {
                WaiterPlace {
                    next: AtomicU32::new(0),
                    thread: AtomicU32::new(0),
                    urgency: AtomicU32::new(0),
                    state: AtomicU32::new(FREE),
                    lent: AtomicU32::new(0),
                    avoided: AtomicU32::new(0),
                    patient: AtomicU32::new(0),
                    passed: AtomicU32::new(0),
                    called: AtomicU32::new(0),
                    mutex: AtomicUsize::new(0),
                    arrival: AtomicU64::new(0),
                    offered_until_ns: AtomicU64::new(0),
                }
            }
        }
    };
}
#[cfg(not(loom))]
constructors!(const);
#[cfg(loom)]
constructors!();

#[cfg(not(loom))]
impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

/// The right to change a bucket's list.
struct Inside<'t> {
    table: &'t Table,
    bucket: &'t Bucket,
    me: u32,
    /// The signals that were blocked before.
    signals: kernel::Signals,
}

impl Table {
    /// An empty table.
    #[cfg(not(loom))]
    pub const fn new() -> Table {
        Table {
            waiting: AtomicU32::new(0),
            lenders: AtomicU32::new(0),
            arrivals: AtomicU64::new(0),
            buckets: [const { Bucket::new() }; BUCKETS],
            places: [const { WaiterPlace::new() }; PLACES],
        }
    }

    /// An empty table.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Table {
        Table {
            waiting: AtomicU32::new(0),
            lenders: AtomicU32::new(0),
            arrivals: AtomicU64::new(0),
            buckets: core::array::from_fn(|_| Bucket::new()),
            places: core::array::from_fn(|_| WaiterPlace::new()),
        }
    }

    /// Returns true if no thread stands in the table.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        // Relaxed: those for whom it matters have a fence before it.
        self.waiting.load(Ordering::Relaxed) == 0
    }

    fn bucket(&self, mutex: usize) -> &Bucket {
        let mixed = (mutex as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.buckets[(mixed >> 32) as usize % BUCKETS]
    }

    /// Goes into a bucket, with all signals blocked. `None` when it is not to be had: the kernel
    /// has no such futexes.
    fn enter(&self, mutex: usize, me: u32) -> Option<Inside<'_>> {
        const ID: u32 = 0x3fff_ffff;
        const FAR_NS: i64 = 1_000_000_000;
        let (bucket, me) = (self.bucket(mutex), kernel::own_id(me));
        let signals = kernel::block_signals();
        // Acquire: pairs with the release in `drop`.
        let tried = bucket.inside.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
        let entered = match tried {
            Ok(_) => true,
            Err(owner) if owner & ID == me => false,
            Err(_) => loop {
                match futex::lock_pi(&bucket.inside, me, Deadline::after_ns(FAR_NS)) {
                    Ok(()) => {
                        // Acquire: pairs with the release in `drop`; the kernel orders them anyway.
                        let _ = bucket.inside.load(Ordering::Acquire);
                        fence(Ordering::Acquire);
                        break true;
                    }
                    Err(NotLent::TimedOut) => {}
                    Err(NotLent::Refused) => break false,
                }
            },
        };
        if !entered {
            kernel::restore_signals(signals);
            return None;
        }
        Some(Inside { table: self, bucket, me, signals })
    }

    /// Puts a waiter into the list of its mutex, who may be passed over a few times if it is
    /// patient. `None` when the table is full.
    pub(crate) fn stand(
        &self,
        mutex: usize,
        waiter: Waiter,
        patient: bool,
    ) -> Option<&WaiterPlace> {
        let inside = self.enter(mutex, waiter.thread)?;
        let start = waiter.thread as usize % PLACES;
        let mut places = self.places[start..].iter().chain(&self.places[..start]);
        let place = places.find(|place| place.take(FREE)).or_else(|| {
            self.places.iter().find(|place| place.is_abandoned() && place.take(ASIDE))
        })?;
        // Relaxed: the list is behind the bucket's word.
        place.thread.store(waiter.thread, Ordering::Relaxed);
        place.urgency.store(waiter.urgency, Ordering::Relaxed);
        place.mutex.store(mutex, Ordering::Relaxed);
        place.lent.store(0, Ordering::Relaxed);
        place.avoided.store(0, Ordering::Relaxed);
        place.patient.store(patient.into(), Ordering::Relaxed);
        place.passed.store(0, Ordering::Relaxed);
        place.called.store(0, Ordering::Relaxed);
        let arrival = self.arrivals.fetch_add(1, Ordering::Relaxed);
        place.arrival.store(arrival, Ordering::Relaxed);
        place.state.store(WAITING, Ordering::Relaxed);
        inside.link(place);
        Some(place)
    }

    /// Takes a waiter out that has found the mutex free, or has given up. False when it was
    /// handed the mutex in the meantime; its place is free in both cases.
    pub(crate) fn leave(&self, place: &WaiterPlace, me: u32) -> bool {
        // Relaxed: only this waiter changes it now.
        let mutex = place.mutex.load(Ordering::Relaxed);
        if place.go(WAITING, GONE) {
            self.take_out(mutex, me);
            return true;
        }
        if Mutant::HandOverForgotten.is_on() && place.go(OFFERED, GONE) {
            self.take_out(mutex, me);
            return true;
        }
        if self.accept(place, me) {
            return false;
        }
        // It was put aside, and stands nowhere.
        self.give_back(mutex, me, false);
        place.state.store(FREE, Ordering::Release);
        true
    }

    /// Takes the mutex that a waiter was handed; its place is free then. False when it was not, or
    /// did not take it in time.
    pub(crate) fn accept(&self, place: &WaiterPlace, me: u32) -> bool {
        let mutex = place.mutex.load(Ordering::Relaxed);
        let accepted = if Mutant::TakenBackUnseen.is_on() {
            place.state.load(Ordering::Acquire) == OFFERED && {
                place.state.store(GONE, Ordering::Release);
                true
            }
        } else {
            place.state.load(Ordering::Relaxed) == OFFERED && place.go(OFFERED, GONE)
        };
        if accepted {
            self.bucket(mutex).refused.store(0, Ordering::Relaxed);
            self.take_out(mutex, me);
        }
        accepted
    }

    /// Takes a mutex back that was handed to a waiter that did not take it in time, or that the
    /// calling thread has interrupted. The mutex is the calling thread's then, as if it was handed
    /// to that one. `owner` is the mutex' own word.
    pub(crate) fn take_back(&self, mutex: usize, me: u32, owner: &AtomicU32) -> bool {
        if self.has_nothing_for_waiters_of(mutex) || !futex::have_limits() {
            return false;
        }
        let Some(inside) = self.enter(mutex, me) else { return false };
        let is_over = |place: &WaiterPlace| {
            let until_ns = place.offered_until_ns.load(Ordering::Relaxed);
            let is_late = cfg!(loom) || futex::now(Clock::Monotonic) as u64 >= until_ns;
            let is_mine = place.thread.load(Ordering::Relaxed) == me;
            (is_late || is_mine) && !Mutant::NeverTakenBack.is_on()
        };
        let Some(place) = inside.offered(mutex).filter(|place| is_over(place)) else {
            return false;
        };
        // Another mutex may have come to its address, when the waiter had left its wait.
        let is_this = owner.load(Ordering::Relaxed) == mark_of(inside.number(place));
        // It may take it just now.
        if !place.go(OFFERED, ASIDE) {
            return false;
        }
        inside.unlink(place);
        inside.bucket.refused.store(1, Ordering::Relaxed);
        is_this
    }

    /// The thread whose place a mutex' owner is a mark of.
    pub(crate) fn marked(&self, owner: u32) -> Option<u32> {
        let number = owner.checked_sub(MARK)?;
        self.places.get(number.wrapping_sub(1) as usize).map(|at| at.thread.load(Ordering::Relaxed))
    }

    /// Saves the way into a bucket without waiters. Not in the models: loom forgets who has
    /// loaded a word when the thread loads it that changes it next.
    fn has_nothing_for_waiters_of(&self, mutex: usize) -> bool {
        !cfg!(loom) && self.has_nobody_for(mutex)
    }

    /// Puts a waiter that was put aside into its list again, at its old rank, and gives back what
    /// others have lent to it. False when that is not possible; its place is free then.
    pub(crate) fn stand_again(&self, place: &WaiterPlace, me: u32) -> bool {
        let mutex = place.mutex.load(Ordering::Relaxed);
        let Some(inside) = self.enter(mutex, me) else {
            place.state.store(FREE, Ordering::Release);
            return false;
        };
        inside.give_back(mutex, me, false);
        place.state.store(WAITING, Ordering::Relaxed);
        inside.link(place);
        true
    }

    /// Returns true if a waiter was put aside.
    pub(crate) fn was_put_aside(place: &WaiterPlace) -> bool {
        place.state.load(Ordering::Relaxed) == ASIDE
    }

    /// Returns true if a waiter was [called](Table::hand_over), once for each call.
    pub(crate) fn was_called(place: &WaiterPlace) -> bool {
        // Relaxed: a hint.
        place.called.load(Ordering::Relaxed) != 0 && place.called.swap(0, Ordering::Relaxed) != 0
    }

    /// Notes the outcome of a call; `early` if the waiter that was called has waited in vain:
    /// sections are long here, or processors few. The next calls wait the longer, the more often
    /// that was so.
    pub(crate) fn was_too_early(&self, mutex: usize, early: bool) {
        let bucket = self.bucket(mutex);
        // Relaxed, and another's change may be lost: a hint.
        let often = if early { bucket.early.load(Ordering::Relaxed) + 1 } else { 0 };
        bucket.early.store(often.min(MOST_EARLY), Ordering::Relaxed);
        bucket.silence.store((1 << often.min(MOST_EARLY)) - 1, Ordering::Relaxed);
    }

    /// Takes those out that are gone.
    fn take_out(&self, mutex: usize, me: u32) {
        // If that is not possible now, another thread will do it.
        if let Some(inside) = self.enter(mutex, me) {
            inside.sweep();
        }
    }

    /// Returns true if no thread stands for a mutex, or for another of its bucket.
    #[inline(always)]
    pub(crate) fn has_nobody_for(&self, mutex: usize) -> bool {
        // Relaxed: as in `is_empty`.
        self.is_empty() || self.bucket(mutex).first.load(Ordering::Relaxed) == 0
    }

    /// Chooses who is handed the mutex: the most urgent waiter, of equals the one that came first.
    /// A patient one is passed over [once or twice](quota) before, the last time with a call to be
    /// awake at the next: a thread that must first wake takes as long for that as for a short
    /// section. Tells the holder, by `prepare`, before the waiter is told, and with the place's
    /// mark. Returns the id of the thread that may now take the mutex.
    pub(crate) fn hand_over(&self, mutex: usize, me: u32, prepare: impl Fn(u32)) -> Option<u32> {
        let inside = self.enter(mutex, me)?;
        inside.sweep();
        loop {
            let waits = |place: &&WaiterPlace| {
                place.mutex.load(Ordering::Relaxed) == mutex
                    && place.state.load(Ordering::Relaxed) == WAITING
            };
            let before = |place: &&WaiterPlace| {
                let urgency = place.urgency.load(Ordering::Relaxed);
                (u32::MAX - urgency, place.arrival.load(Ordering::Relaxed))
            };
            let first = inside.places().filter(waits).min_by_key(before)?;
            let passed = first.passed.load(Ordering::Relaxed);
            if first.patient.load(Ordering::Relaxed) != 0 && passed < quota(first) {
                first.passed.store(passed + 1, Ordering::Relaxed);
                if passed + 1 == quota(first) && inside.may_call() {
                    first.called.store(1, Ordering::Relaxed);
                    futex::wake(&first.state, 1, true);
                }
                return None;
            }
            let thread = first.thread.load(Ordering::Relaxed);
            prepare(mark_of(inside.number(first)));
            first.offered_until_ns.store(inside.end_of_an_offer(), Ordering::Relaxed);
            if !first.go(WAITING, OFFERED) {
                // It has given up just now.
                continue;
            }
            // Pairs with the one in `lend_from`: either a waiter sees the new owner, or we see
            // what it has lent.
            fence(Ordering::SeqCst);
            futex::wake(&first.state, 1, true);
            inside.give_back(mutex, me, false);
            // In the models the limit is over at once: now all others may look.
            #[cfg(loom)]
            if futex::have_limits() {
                inside.places().for_each(|place| futex::wake(&place.state, 1, true));
            }
            return Some(thread);
        }
    }

    /// Lends a waiter's priority to the owner of any lock, by the lock's address, while `holds`
    /// says that there is a reason to, until a point in time at the latest. The owner calls
    /// [`Table::let_go`] after it has let the lock go.
    pub(crate) fn lend(
        &self,
        lock: usize,
        waiter: Waiter,
        owner: u32,
        until: Deadline,
        holds: impl Fn() -> bool,
    ) -> Result<(), NotLent> {
        let place = self.stand(lock, waiter, false).ok_or(NotLent::Refused)?;
        let result = self.lend_from(place, waiter.thread, owner, until, holds);
        self.leave(place, waiter.thread);
        result.unwrap_or(Ok(()))
    }

    /// The same from a place where the waiter stands. `None` if nothing was to be lent.
    pub(crate) fn lend_from(
        &self,
        place: &WaiterPlace,
        me: u32,
        owner: u32,
        until: Deadline,
        holds: impl Fn() -> bool,
    ) -> Option<Result<(), NotLent>> {
        self.lenders.fetch_add(1, Ordering::SeqCst);
        place.lent.store(owner, Ordering::SeqCst);
        // Pairs with the one in `let_go`: either the owner sees what it was lent, or we see that
        // it has let go.
        fence(Ordering::SeqCst);
        let result = holds().then(|| futex::lock_pi(&place.lent, me, until));
        self.lenders.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Gives back what was [lent](Table::lend) for a lock that this thread has let go.
    #[inline(always)]
    pub fn let_go(&self, lock: usize, me: impl FnOnce() -> u32) {
        fence(Ordering::SeqCst);
        if !self.has_nobody_for(lock) {
            self.give_back(lock, me(), false);
        }
    }

    /// Gives back what waiters for a mutex have lent to this thread, which has let it go, or is
    /// about to without looking here (`unseen`). They wake, and look for themselves.
    pub(crate) fn give_back(&self, mutex: usize, me: u32, unseen: bool) {
        // Relaxed: there was a fence before, as for `is_empty`.
        if !unseen && self.lenders.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(inside) = self.enter(mutex, me) {
            inside.give_back(mutex, me, unseen);
        }
    }
}

/// Returns the number of times that a waiter is passed over while it is its turn: 4 times for every
/// 3 waiters. A thread that releases the mutex and comes back at once finds it free then, unless a
/// waiter that was woken is faster, and so about half of all acquisitions need no sleep, however
/// many wait.
fn quota(place: &WaiterPlace) -> u32 {
    // The models are of the hand-over.
    if cfg!(loom) {
        return 0;
    }
    if place.arrival.load(Ordering::Relaxed) % 3 == 0 { 2 } else { 1 }
}

impl WaiterPlace {
    /// Changes the state from one value to another; orders everything done before and after it.
    fn go(&self, from: u32, to: u32) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.state.compare_exchange(from, to, success, failure).is_ok()
    }

    /// Takes a place that has this state.
    fn take(&self, from: u32) -> bool {
        self.state.load(Ordering::Relaxed) == from && self.go(from, TAKEN)
    }

    /// Returns true if its waiter was put aside, and has ended since.
    fn is_abandoned(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ASIDE
            && kernel::has_ended(self.thread.load(Ordering::Relaxed))
    }
}

impl Inside<'_> {
    /// The place whose waiter was handed a mutex and has not taken it yet.
    fn offered(&self, mutex: usize) -> Option<&WaiterPlace> {
        self.places().find(|place| {
            place.mutex.load(Ordering::Relaxed) == mutex
                // Acquire: with the mutex' owner, which is its mark.
                && place.state.load(Ordering::Acquire) == OFFERED
        })
    }

    /// Returns the time until which a mutex that is handed over now is its new owner's alone.
    fn end_of_an_offer(&self) -> u64 {
        let was_refused = self.bucket.refused.load(Ordering::Relaxed) != 0;
        let limit_ns = if was_refused { NEXT_OFFER_NS } else { OFFER_NS };
        (futex::now(Clock::Monotonic) + limit_ns) as u64
    }

    /// The places of the list.
    fn places(&self) -> impl Iterator<Item = &WaiterPlace> {
        let place = |number: u32| self.table.places.get(number.wrapping_sub(1) as usize);
        let first = place(self.bucket.first.load(Ordering::Relaxed));
        std::iter::successors(first, move |at| place(at.next.load(Ordering::Relaxed))).take(PLACES)
    }

    /// Returns true if the next waiter is to be called.
    fn may_call(&self) -> bool {
        let silence = self.bucket.silence.load(Ordering::Relaxed);
        self.bucket.silence.store(silence.saturating_sub(1), Ordering::Relaxed);
        silence == 0
    }

    fn link(&self, place: &WaiterPlace) {
        let number = self.number(place);
        place.next.store(self.bucket.first.load(Ordering::Relaxed), Ordering::Relaxed);
        self.bucket.first.store(number, Ordering::Relaxed);
        // The fences that pair with this one: `Mutex::let_go`, and before `is_empty` there.
        self.table.waiting.fetch_add(1, Ordering::SeqCst);
    }

    fn number(&self, place: &WaiterPlace) -> u32 {
        let offset = std::ptr::from_ref(place) as usize - self.table.places.as_ptr() as usize;
        (offset / size_of::<WaiterPlace>()) as u32 + 1
    }

    fn unlink(&self, place: &WaiterPlace) {
        let (number, next) = (self.number(place), place.next.load(Ordering::Relaxed));
        if self.bucket.first.load(Ordering::Relaxed) == number {
            self.bucket.first.store(next, Ordering::Relaxed);
        } else {
            let before = self.places().find(|at| at.next.load(Ordering::Relaxed) == number);
            let Some(before) = before else { return };
            before.next.store(next, Ordering::Relaxed);
        }
        self.table.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes out those that are gone.
    fn sweep(&self) {
        while let Some(gone) =
            self.places().find(|place| place.state.load(Ordering::Acquire) == GONE)
        {
            self.unlink(gone);
            gone.lent.store(0, Ordering::Relaxed);
            gone.state.store(FREE, Ordering::Release);
        }
    }

    fn give_back(&self, mutex: usize, me: u32, unseen: bool) {
        for place in self.places() {
            if place.mutex.load(Ordering::Relaxed) == mutex {
                if unseen {
                    place.avoided.store(me, Ordering::SeqCst);
                }
                futex::unlock_pi(&place.lent, me);
            }
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // A model that fails unwinds, and must not go on.
        #[cfg(loom)]
        if std::thread::panicking() {
            return;
        }
        // Release: pairs with the acquires in `enter`. The kernel has marked the word when
        // a thread waits for it.
        let left =
            self.bucket.inside.compare_exchange(self.me, 0, Ordering::Release, Ordering::Relaxed);
        if left.is_err() {
            // Changes nothing: for the load in `enter`.
            self.bucket.inside.fetch_or(0, Ordering::Release);
            futex::unlock_pi(&self.bucket.inside, self.me);
        }
        kernel::restore_signals(self.signals);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
