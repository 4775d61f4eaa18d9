//! The waiters of all mutexes that stand beside them: those that have waited for too long, and
//! those whose priority matters.
//!
//! A waiter has a *place* of the table, in the list of the bucket that its mutex's address falls
//! into. Whoever lets a mutex go looks whether anybody stands anywhere, which is one word; then
//! at its bucket. A bucket's list is changed by one thread at a time, behind a word of its own
//! that lends priority.
//!
//! ```text
//!   place:  FREE -> TAKEN -> WAITING -> GRANTED -> GONE -> FREE   handed the mutex, by its holder
//!                               |----------------> GONE -> FREE   gave up, or found it free
//! ```
//!
//! `WAITING` is left by one compare-and-swap, so that a waiter that gives up and a holder that
//! hands over agree. A place stays in its list until its waiter has seen what became of it: an
//! earlier holder may still have to give back what it was lent. A place that is gone is taken out
//! by whoever passes next. All zero is the empty table, which is what a forked child finds: the
//! waiters were its parent's.
//! Called by [`crate::mutex`].

use crate::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use crate::futex::{self, Deadline, NotLent};
use crate::kernel;
use crate::mutant::Mutant;

const BUCKETS: usize = if cfg!(loom) { 1 } else { 256 };
const PLACES: usize = if cfg!(loom) { 3 } else { 512 };

/// How long a waiter that lends its priority sleeps before it looks for itself.
pub(crate) const NET_NS: i64 = 1_000_000;

/// At most 2 to the power of this hand-overs go without a call after one that came too early.
const MOST_EARLY: u32 = 10;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// The waiter stands in its list.
pub(crate) const WAITING: u32 = 2;
const GRANTED: u32 = 3;
const GONE: u32 = 4;

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
pub(crate) struct Place {
    /// Number of the next place of the list + 1.
    next: AtomicU32,
    thread: AtomicU32,
    urgency: AtomicU32,
    pub state: AtomicU32,
    /// Id of the thread that this waiter lends its priority to; a word of the kernel's.
    pub lent: AtomicU32,
    /// Id of a thread that will let the mutex go without looking here.
    pub avoided: AtomicU32,
    /// Whether it may be passed over while it is its turn: it does not stand behind a less
    /// urgent owner.
    patient: AtomicU32,
    /// How often it was.
    passed: AtomicU32,
    /// It is the next to be handed the mutex, and is to be awake by then.
    called: AtomicU32,
    mutex: AtomicUsize,
    arrival: AtomicU64,
}

struct Bucket {
    /// Id of the thread that is changing the list; a word of the kernel's.
    inside: AtomicU32,
    /// Number of the first place + 1.
    first: AtomicU32,
    /// How many in a row were called too early.
    early: AtomicU32,
    /// How often whoever is next is not to be called, for that reason.
    silence: AtomicU32,
}

/// The table.
#[repr(C)]
pub struct Table {
    /// How many places are in lists.
    waiting: AtomicU32,
    arrivals: AtomicU64,
    buckets: [Bucket; BUCKETS],
    places: [Place; PLACES],
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
                }
            }
        }

        impl Place {
            $($constant)? fn new() -> Place {
                Place {
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
}

impl Table {
    /// An empty table.
    #[cfg(not(loom))]
    pub const fn new() -> Table {
        Table {
            waiting: AtomicU32::new(0),
            arrivals: AtomicU64::new(0),
            buckets: [const { Bucket::new() }; BUCKETS],
            places: [const { Place::new() }; PLACES],
        }
    }

    /// An empty table.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Table {
        Table {
            waiting: AtomicU32::new(0),
            arrivals: AtomicU64::new(0),
            buckets: core::array::from_fn(|_| Bucket::new()),
            places: core::array::from_fn(|_| Place::new()),
        }
    }

    /// Whether anybody stands in the table.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        // Relaxed: those for whom it matters have a fence before it.
        self.waiting.load(Ordering::Relaxed) == 0
    }

    fn bucket(&self, mutex: usize) -> &Bucket {
        let mixed = (mutex as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.buckets[(mixed >> 32) as usize % BUCKETS]
    }

    /// Goes into a bucket. `None` when this very thread is inside, which a signal handler has
    /// interrupted, or when it is not to be had.
    fn enter(&self, mutex: usize, me: u32) -> Option<Inside<'_>> {
        const ID: u32 = 0x3fff_ffff;
        const FAR_NS: i64 = 1_000_000_000;
        let (bucket, me) = (self.bucket(mutex), kernel::own_id(me));
        let inside = Inside { table: self, bucket, me };
        // Acquire: pairs with the release in `drop`.
        let tried = bucket.inside.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
        match tried {
            Ok(_) => return Some(inside),
            Err(owner) if owner & ID == me => return None,
            Err(_) => {}
        }
        loop {
            match futex::lock_pi(&bucket.inside, me, Deadline::after_ns(FAR_NS)) {
                Ok(()) => {
                    // Acquire: pairs with the release in `drop`; the kernel orders them anyway.
                    let _ = bucket.inside.load(Ordering::Acquire);
                    fence(Ordering::Acquire);
                    return Some(inside);
                }
                Err(NotLent::TimedOut) => {}
                Err(NotLent::Refused) => return None,
            }
        }
    }

    /// Puts a waiter into the list of its mutex, who may be passed over a few times if it is
    /// patient. `None` when the table is full.
    pub(crate) fn stand(&self, mutex: usize, waiter: Waiter, patient: bool) -> Option<&Place> {
        let take = |place: &&Place| {
            place.state.load(Ordering::Relaxed) == FREE
                && place
                    .state
                    .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        };
        let start = waiter.thread as usize % PLACES;
        let place = self.places[start..].iter().chain(&self.places[..start]).find(take)?;
        let Some(inside) = self.enter(mutex, waiter.thread) else {
            place.state.store(FREE, Ordering::Release);
            return None;
        };
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
    pub(crate) fn leave(&self, place: &Place, me: u32) -> bool {
        // Relaxed: nobody but this waiter changes it now.
        let mutex = place.mutex.load(Ordering::Relaxed);
        // Acquire: if the mutex was handed over, with all that its holder did.
        let left = place.state.compare_exchange(WAITING, GONE, Ordering::AcqRel, Ordering::Acquire);
        let was_granted = left.is_err() && !Mutant::HandOverForgotten.is_on();
        self.take_out(place, mutex, me);
        !was_granted
    }

    /// Whether a waiter was handed the mutex; its place is free then.
    pub(crate) fn was_granted(&self, place: &Place, me: u32) -> bool {
        // Acquire: pairs with the release in `hand_over`, with all that the holder did.
        let granted = place.state.load(Ordering::Acquire) == GRANTED;
        if granted {
            self.take_out(place, place.mutex.load(Ordering::Relaxed), me);
        }
        granted
    }

    /// Whether a waiter was [called](Table::hand_over), once for each call.
    pub(crate) fn was_called(place: &Place) -> bool {
        // Relaxed: a hint.
        place.called.load(Ordering::Relaxed) != 0 && place.called.swap(0, Ordering::Relaxed) != 0
    }

    /// Whether a waiter that was called has waited in vain: sections are long here, or processors
    /// few. The next calls wait the longer, the more often that was so.
    pub(crate) fn was_too_early(&self, mutex: usize, early: bool) {
        let bucket = self.bucket(mutex);
        // Relaxed, and another's change may be lost: a hint.
        let often = if early { bucket.early.load(Ordering::Relaxed) + 1 } else { 0 };
        bucket.early.store(often.min(MOST_EARLY), Ordering::Relaxed);
        bucket.silence.store((1 << often.min(MOST_EARLY)) - 1, Ordering::Relaxed);
    }

    fn take_out(&self, place: &Place, mutex: usize, me: u32) {
        place.state.store(GONE, Ordering::Release);
        // Where that is not possible now, somebody else will do it.
        if let Some(inside) = self.enter(mutex, me) {
            inside.sweep();
        }
    }

    /// Whether nobody stands for a mutex, or for another of its bucket.
    #[inline(always)]
    pub(crate) fn has_nobody_for(&self, mutex: usize) -> bool {
        // Relaxed: as in `is_empty`.
        self.is_empty() || self.bucket(mutex).first.load(Ordering::Relaxed) == 0
    }

    /// Chooses who is handed the mutex: the most urgent waiter, of equals the one that came first.
    /// A patient one is passed over [once or twice](quota) before, the last time with a call to be
    /// awake at the next: a thread that must first wake takes as long for that as for a short
    /// section. Tells the holder, by `prepare`, before the waiter is told. Returns the new
    /// holder's id.
    pub(crate) fn hand_over(&self, mutex: usize, me: u32, prepare: impl Fn(u32)) -> Option<u32> {
        let inside = self.enter(mutex, me)?;
        inside.sweep();
        loop {
            let waits = |place: &&Place| {
                place.mutex.load(Ordering::Relaxed) == mutex
                    && place.state.load(Ordering::Relaxed) == WAITING
            };
            let before = |place: &&Place| {
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
            prepare(thread);
            // Release: pairs with the acquire of the waiter.
            let granted = first.state.compare_exchange(
                WAITING,
                GRANTED,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if granted.is_err() {
                // It has given up just now.
                continue;
            }
            // Pairs with the one in `Wait::lend`: either a waiter sees the new owner, or we see
            // what it has lent.
            fence(Ordering::SeqCst);
            futex::wake(&first.state, 1, true);
            inside.give_back(mutex, me, false);
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
        place.lent.store(owner, Ordering::SeqCst);
        // Pairs with the one in `let_go`: either the owner sees what it was lent, or we see that
        // it has let go.
        fence(Ordering::SeqCst);
        let result = match holds() {
            true => futex::lock_pi(&place.lent, waiter.thread, until),
            false => Ok(()),
        };
        self.leave(place, waiter.thread);
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
        if let Some(inside) = self.enter(mutex, me) {
            inside.give_back(mutex, me, unseen);
        }
    }
}

/// How often a waiter is passed over while it is its turn: 4 times for every 3 waiters. Whoever
/// lets the mutex go and comes back at once finds it free then, unless a waiter that was woken is
/// faster, and so about half of all acquisitions need no sleep, however many wait.
fn quota(place: &Place) -> u32 {
    // The models are of the hand-over.
    if cfg!(loom) {
        return 0;
    }
    if place.arrival.load(Ordering::Relaxed).is_multiple_of(3) { 2 } else { 1 }
}

impl Inside<'_> {
    /// The places of the list.
    fn places(&self) -> impl Iterator<Item = &Place> {
        let place = |number: u32| self.table.places.get(number.wrapping_sub(1) as usize);
        let first = place(self.bucket.first.load(Ordering::Relaxed));
        std::iter::successors(first, move |at| place(at.next.load(Ordering::Relaxed))).take(PLACES)
    }

    /// Whether whoever is next is to be called.
    fn may_call(&self) -> bool {
        let silence = self.bucket.silence.load(Ordering::Relaxed);
        self.bucket.silence.store(silence.saturating_sub(1), Ordering::Relaxed);
        silence == 0
    }

    fn link(&self, place: &Place) {
        let number = self.number(place);
        place.next.store(self.bucket.first.load(Ordering::Relaxed), Ordering::Relaxed);
        self.bucket.first.store(number, Ordering::Relaxed);
        // The fences that pair with this one: `Mutex::let_go`, and before `is_empty` there.
        self.table.waiting.fetch_add(1, Ordering::SeqCst);
    }

    fn number(&self, place: &Place) -> u32 {
        let offset = std::ptr::from_ref(place) as usize - self.table.places.as_ptr() as usize;
        (offset / size_of::<Place>()) as u32 + 1
    }

    fn unlink(&self, place: &Place) {
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
        // somebody waits for it.
        let left =
            self.bucket.inside.compare_exchange(self.me, 0, Ordering::Release, Ordering::Relaxed);
        if left.is_err() {
            // Changes nothing: for the load in `enter`.
            self.bucket.inside.fetch_or(0, Ordering::Release);
            futex::unlock_pi(&self.bucket.inside, self.me);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MUTEX: usize = 64;
    const ME: u32 = 1;

    /// How many hand-overs go by until the waiter is called.
    fn silent(table: &Table) -> u32 {
        let may_call = || table.enter(MUTEX, ME).unwrap().may_call();
        (0..).find(|_| may_call()).unwrap()
    }

    #[test]
    fn who_is_passed_over_is_called_once_before_its_turn() {
        let table = Table::new();
        let waiter = |thread| Waiter { thread, urgency: 0 };
        // Arrivals 0 and 1: passed over twice, and once.
        let places = [2, 3].map(|thread| table.stand(MUTEX, waiter(thread), true).unwrap());
        let hand_over = || table.hand_over(MUTEX, ME, |_| ());
        assert_eq!((hand_over(), Table::was_called(places[0])), (None, false));
        assert_eq!((hand_over(), Table::was_called(places[0])), (None, true));
        assert!(!Table::was_called(places[0]) && !Table::was_called(places[1]));
        assert_eq!(hand_over(), Some(2));
        assert_eq!((hand_over(), Table::was_called(places[1])), (None, true));
        assert_eq!(hand_over(), Some(3));
        for (place, thread) in places.into_iter().zip([2, 3]) {
            assert!(table.was_granted(place, thread));
        }
        assert!(table.is_empty());
    }

    #[test]
    fn calls_that_come_too_early_become_rare_until_one_comes_in_time() {
        let table = Table::new();
        assert_eq!(silent(&table), 0);
        for expected in [1, 3, 7, 15] {
            table.was_too_early(MUTEX, true);
            assert_eq!(silent(&table), expected);
        }
        for _ in 0..20 {
            table.was_too_early(MUTEX, true);
        }
        assert_eq!(silent(&table), (1 << MOST_EARLY) - 1);
        table.was_too_early(MUTEX, false);
        assert_eq!(silent(&table), 0);
    }
}
