//! Mutexes with bounded bypass, and with inheritance where it matters.
//!
//! A mutex stays the C library's, bit for bit: its word is 0 when it is free, 1 when it is taken,
//! more when a thread may wait. A thread that finds it free takes it, as in the C library, so that
//! the usual case is as fast as there: a running thread that comes back at once overtakes sleepers
//! that the kernel still has to wake. Two kinds of waiters are not overtaken for ever:
//!
//! - One that has waited for longer than the *bound* stands in the [`Table`]. A holder that lets
//!   the mutex go *hands it over*: the word stays as it is, and the owner is a mark until the
//!   waiter has taken it, so that no other thread can come between. Those in the table are served
//!   in the order in which they came; each is passed over once or twice while it is its turn, so
//!   that about half of all acquisitions still need no sleep.
//! - A real-time waiter behind a less urgent owner stands in the table at once, before all others,
//!   most urgent first. And it *lends* that owner its priority while it waits: the kernel's
//!   priority-inheritance futexes need no more than a word with the owner's thread id, and the
//!   word need not be the mutex. The owner gives back what it was lent when it lets the mutex go.
//!   No privilege is needed for that, and when the owner waits for another thread in this way,
//!   the kernel passes the priority on. Among equals it is as among ordinary threads: a strict
//!   order would make a convoy of them.
//!
//! So the longest wait of an ordinary thread is the bound plus at most three critical sections for
//! itself and for each waiter in the table before it, and that of a real-time thread is one
//! critical section for each more urgent waiter, and the one that it found.
//!
//! A waiter that the mutex was handed to may not be able to take it: a signal handler came in
//! between, which may itself wait for a thread that needs the mutex; or the thread has left its
//! wait by a jump, or has ended. So a hand-over has a limit. A thread that wants the mutex after
//! that *takes it back*, and the waiter is passed over until it shows up again; then it has its old
//! rank. To the bound comes that limit, once for each such waiter.
//!
//! Everything keeps working when the C library itself lets the mutex go, inside a wait for a
//! condition, or a caller that is not hooked does: ordinary waiters also sleep on the mutex' own
//! word, and real-time waiters look again every millisecond.
//!
//! A holder that lets go and a waiter that lends both look twice, in this order:
//!
//! ```text
//!   waiter: stands in the table | word not 0? | writes owner's id | still the owner? | sleeps
//!   holder:                       owner = 0, word = 0 | a waiter in the table? gives back
//! ```
//!
//! If the holder sees no waiter, the waiter sees the word free or the owner gone.

mod inherit;
#[cfg(any(loom, test))]
pub mod model;
#[cfg(all(test, not(loom)))]
mod soak;
mod wait;

pub use inherit::Bell;

use crate::atomic::{AtomicU32, Ordering};
use crate::futex::{self, Deadline};
use crate::mutant::Mutant;
use crate::table::{self, Table, Waiter};
use wait::Wait;

/// `pthread_mutex_t` on x86-64; the same in glibc 2.31 to 2.42.
#[repr(C)]
#[derive(Debug)]
pub struct Mutex {
    word: AtomicU32,
    count: AtomicU32,
    owner: AtomicU32,
    users: AtomicU32,
    kind: AtomicU32,
    /// Number of spins of an adaptive mutex, and data for elision: two halves. Of no use to the C
    /// library in an error-checking inheritance mutex.
    spins: AtomicU32,
    /// Link of robust mutexes. In one that was converted: number of threads that wait for it in the
    /// kernel through [`Mutex::inherit`].
    in_kernel: AtomicU32,
    /// Always 0: on which threads sleep that wait for it otherwise. The word itself is the kernel's.
    bell: AtomicU32,
    /// Words that are not used here.
    rest: [AtomicU32; 2],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Mutex>() == 40);

const RECURSIVE: u32 = 1;
const ERROR_CHECKING: u32 = 2;
const TYPE: u32 = 3;
const ROBUST: u32 = 16;
const INHERITS: u32 = 32;
const CEILING: u32 = 64;
const SHARED: u32 = 128;
/// Lock elision, allowed or forbidden; gone in the newest versions.
const ELISION: u32 = 256 | 512;
/// The kind of a mutex that was destroyed.
const DESTROYED: u32 = u32::MAX;

/// Reason for which a mutex is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Unfit {
    /// A robust mutex, which tells the next owner when one died.
    Robust,
    /// An inheritance mutex already.
    Inherits,
    /// A mutex with a priority ceiling.
    Ceiling,
    /// Other processes use it too.
    Shared,
    /// A destroyed mutex, or memory that is no mutex.
    Destroyed,
}

/// Measures for waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockPolicy {
    /// Time in nanoseconds after which a waiter is not overtaken any more.
    pub bound_ns: i64,
    /// True if real-time waiters come first and lend their priority.
    pub inherit: bool,
}

/// Reason for which a thread did not get a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The time is over: `ETIMEDOUT`.
    TimedOut,
    /// The thread has it already: `EDEADLK`.
    Deadlock,
}

/// Way in which a thread got a mutex that was not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Taken {
    /// True if the mutex was handed over to the thread.
    pub handed: bool,
    /// True if the mutex was handed to another thread, which did not take it.
    pub taken_back: bool,
    /// The thread stood in the table.
    pub stood: bool,
    /// True if the wait was longer than the bound.
    pub outlasted: bool,
    /// Number of times that the thread lent its priority.
    pub lent: u32,
}

impl Mutex {
    /// A free mutex of the ordinary kind.
    #[cfg(any(loom, test))]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Mutex {
        Mutex::of_kind(0)
    }

    /// A free mutex of this kind, in the C library's numbers.
    pub fn of_kind(kind: u32) -> Mutex {
        let zero = || AtomicU32::new(0);
        Mutex {
            word: zero(),
            count: zero(),
            owner: zero(),
            users: zero(),
            kind: AtomicU32::new(kind),
            spins: zero(),
            in_kernel: zero(),
            bell: zero(),
            rest: [zero(), zero()],
        }
    }

    /// The mutex at this address.
    ///
    /// # Safety
    /// It must be a `pthread_mutex_t`, and stay one for as long as the reference is used.
    #[inline(always)]
    pub unsafe fn at<'a>(address: *mut core::ffi::c_void) -> &'a Mutex {
        // SAFETY: the caller's promise; all of it is atomics.
        unsafe { &*address.cast::<Mutex>() }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Checks that this is a mutex that can be guarded.
    #[inline(always)]
    pub fn fitness(&self) -> Result<(), Unfit> {
        // Relaxed: it does not change while the mutex is in use, except to `INHERITS`.
        fitness_of(self.kind.load(Ordering::Relaxed))
    }

    /// Returns true if it was made an inheritance mutex, by us or by the program.
    #[inline(always)]
    pub fn is_converted(&self) -> bool {
        self.kind.load(Ordering::Relaxed) & INHERITS != 0
    }

    /// Returns true if a thread has it.
    pub fn is_taken(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Returns true if all words are those of an ordinary or recursive mutex that a thread has
    /// taken once, for which no thread waits.
    pub fn is_taken_once_by(&self, me: u32) -> bool {
        let count = u32::from(self.kind.load(Ordering::Relaxed) & TYPE == RECURSIVE);
        self.words() == [1, count, me, 1]
    }

    /// Returns true if all words are those of a mutex that no thread has.
    pub fn is_free(&self) -> bool {
        self.words() == [0; 4]
    }

    fn words(&self) -> [u32; 4] {
        [&self.word, &self.count, &self.owner, &self.users].map(|word| word.load(Ordering::Relaxed))
    }

    /// The id of the thread that has it, 0 for none.
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }

    /// A free inheritance mutex of the ordinary type.
    pub fn inheriting() -> Mutex {
        Mutex::of_kind(INHERITS)
    }

    /// Takes a mutex as the C library does, if it is an ordinary or recursive one and that is
    /// possible at once; otherwise does nothing. Saves the way there.
    #[inline(always)]
    pub fn lock_now(&self, me: u32) -> bool {
        let kind = self.kind.load(Ordering::Relaxed);
        if kind == RECURSIVE && self.owner.load(Ordering::Relaxed) == me {
            let count = self.count.load(Ordering::Relaxed);
            // The C library says when that is too often.
            if count != u32::MAX {
                self.count.store(count + 1, Ordering::Relaxed);
            }
            return count != u32::MAX;
        }
        // Acquire: pairs with the release of the thread that let it go.
        let (from, to) = (Ordering::Acquire, Ordering::Relaxed);
        if kind > RECURSIVE || self.word.compare_exchange(0, 1, from, to).is_err() {
            return false;
        }
        if kind == RECURSIVE {
            self.count.store(1, Ordering::Relaxed);
        }
        self.count_in(me);
        true
    }

    /// Lets a mutex go as the C library does, if it is an ordinary one, or a recursive one that
    /// this thread has; otherwise does nothing. The caller calls [`Mutex::let_go`] after that.
    #[inline(always)]
    pub fn unlock_now(&self, me: u32) -> bool {
        let kind = self.kind.load(Ordering::Relaxed);
        if kind > RECURSIVE {
            return false;
        }
        if kind == RECURSIVE {
            if self.owner.load(Ordering::Relaxed) != me {
                return false;
            }
            let count = self.count.load(Ordering::Relaxed).wrapping_sub(1);
            self.count.store(count, Ordering::Relaxed);
            if count != 0 {
                return true;
            }
        }
        self.let_others_in();
        true
    }

    /// A thread has it now.
    #[inline(always)]
    fn count_in(&self, me: u32) {
        self.owner.store(me, Ordering::Relaxed);
        self.users.store(self.users.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Frees the mutex. Afterwards its memory may be gone.
    #[inline(always)]
    fn let_others_in(&self) {
        self.owner.store(0, Ordering::Relaxed);
        self.users.store(self.users.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        // Release: pairs with the acquire of the thread that takes it next; all of it, as in the C
        // library, for `Mutex::let_go`.
        if self.word.swap(0, Ordering::AcqRel) > 1 {
            futex::wake(&self.word, 1, true);
        }
    }

    /// Waits for a mutex that was not free. For mutexes that are [fit](Mutex::fitness).
    ///
    /// # Errors
    /// [`Failure`].
    pub fn lock(
        &self,
        table: &Table,
        me: Waiter,
        until: Option<Deadline>,
        policy: LockPolicy,
    ) -> Result<Taken, Failure> {
        let kind = self.kind.load(Ordering::Relaxed) & TYPE;
        if kind == ERROR_CHECKING && self.owner.load(Ordering::Relaxed) == me.thread {
            return Err(Failure::Deadlock);
        }
        let waiter = Waiter { urgency: if policy.inherit { me.urgency } else { 0 }, ..me };
        let limit = Deadline::after_ns(policy.bound_ns);
        let mut wait = Wait { mutex: self, table, waiter, until, taken: Taken::default() };
        if !(self.is_handed_over() && wait.take_back()) {
            let place = if wait.is_behind_less_urgent() { wait.stand(false) } else { None };
            let place = if place.is_some() { place } else { wait.overtaken(limit)? };
            if let Some(place) = place {
                wait.standing(place)?;
            }
        }
        if wait.taken.handed || wait.taken.taken_back {
            self.belongs_to(me.thread);
        } else {
            self.count_in(me.thread);
        }
        if kind == RECURSIVE {
            self.count.store(1, Ordering::Relaxed);
        }
        Ok(wait.taken)
    }

    /// Takes a mutex that was handed to a thread that did not take it within the limit. For
    /// attempts that have failed.
    pub fn try_take_back(&self, table: &Table, me: impl FnOnce() -> u32) -> bool {
        if self.fitness().is_err() || !self.is_handed_over() {
            return false;
        }
        let me = me();
        let taken = table.take_back(self.address(), me, &self.owner);
        if taken {
            self.belongs_to(me);
        }
        taken
    }

    /// Returns true if it was handed over, and the next owner has not taken it yet.
    fn is_handed_over(&self) -> bool {
        table::is_mark(self.owner.load(Ordering::Relaxed))
    }

    /// A thread has it that is counted in already.
    fn belongs_to(&self, me: u32) {
        // Release: who sees this owner also sees that it was put aside. Pairs with `Wait::owner`.
        self.owner.store(me, Ordering::Release);
    }

    /// Takes the mutex if it is free, and marks it as waited for.
    fn try_take(&self) -> bool {
        // Acquire: pairs with the release of the thread that let it go.
        self.word.swap(2, Ordering::AcqRel) == 0
    }

    /// Hands the mutex to the waiter whose turn it is, if a waiter stands in the table; `None`
    /// when the caller is to let it go itself, and to call [`Mutex::let_go`] after that.
    #[inline(always)]
    pub fn hand_over(&self, table: &Table, me: impl FnOnce() -> u32) -> Option<u32> {
        if table.has_nobody_for(self.address()) {
            None
        } else {
            self.hand_over_to_first(table, me())
        }
    }

    #[cold]
    #[inline(never)]
    fn hand_over_to_first(&self, table: &Table, me: u32) -> Option<u32> {
        self.fitness().ok()?;
        let kind = self.kind.load(Ordering::Relaxed) & TYPE;
        // Also an ordinary mutex that another thread than its owner lets go.
        if self.owner.load(Ordering::Relaxed) != me
            || kind == RECURSIVE && self.count.load(Ordering::Relaxed) != 1
        {
            return None;
        }
        let next = table.hand_over(self.address(), me, |mark| {
            // A thread that looks at the word now must find that another one may wait. And no
            // thread has it yet: a handler of the next one may want it, too.
            self.word.swap(2, Ordering::Relaxed);
            self.owner.store(mark, Ordering::Relaxed);
        });
        if next.is_none() {
            // The one that was chosen may have given up after all.
            self.owner.store(me, Ordering::Relaxed);
        }
        if Mutant::FreedAfterHandOver.is_on() && next.is_some() {
            self.word.store(0, Ordering::Release);
        }
        next
    }

    /// Does what remains to be done after the C library has let a mutex at this address go.
    #[inline(always)]
    pub fn let_go(address: usize, table: &Table, me: impl FnOnce() -> u32) {
        // Pairs with the fence in `Wait::stand`: either we see the waiter, or it sees the mutex
        // free. The C library's exchange is such a fence on this processor.
        #[cfg(not(loom))]
        crate::atomic::compiler_fence(Ordering::SeqCst);
        #[cfg(loom)]
        crate::atomic::fence(Ordering::SeqCst);
        if !table.has_nobody_for(address) && !Mutant::NoSecondLook.is_on() {
            Mutex::give_back(address, table, me(), false);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_back(address: usize, table: &Table, me: u32, unseen: bool) {
        table.give_back(address, me, unseen);
    }

    /// Prepares the mutex before the C library lets it go where no code of the guard runs after it:
    /// inside a wait for a condition.
    #[inline(always)]
    pub fn will_let_go(&self, table: &Table, me: impl FnOnce() -> u32) {
        if !table.has_nobody_for(self.address()) {
            Mutex::give_back(self.address(), table, me(), true);
        }
    }
}

/// Checks that a mutex of this kind, the word that the C library keeps, can be guarded.
///
/// # Errors
/// The reason for which it cannot.
#[inline(always)]
pub fn fitness_of(kind: u32) -> Result<(), Unfit> {
    if kind & !(TYPE | ELISION) == 0 { Ok(()) } else { Err(unfit(kind)) }
}

fn unfit(kind: u32) -> Unfit {
    match kind {
        DESTROYED => Unfit::Destroyed,
        kind if kind & ROBUST != 0 => Unfit::Robust,
        kind if kind & INHERITS != 0 => Unfit::Inherits,
        kind if kind & CEILING != 0 => Unfit::Ceiling,
        kind if kind & SHARED != 0 => Unfit::Shared,
        _ => Unfit::Destroyed,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::futex::Clock;

    /// The C library's mutex of a kind.
    fn real_mutex(kind: u32) -> Box<Mutex> {
        assert_eq!(size_of::<libc::pthread_mutex_t>(), size_of::<Mutex>());
        Box::new(Mutex::of_kind(kind))
    }

    fn bytes(mutex: &Mutex) -> [u8; 40] {
        // SAFETY: as large, without padding, and no other thread knows it.
        unsafe { std::ptr::from_ref(mutex).cast::<[u8; 40]>().read() }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no C library")]
    fn short_ways_leave_the_words_as_the_c_library_does() {
        type Call = unsafe extern "C" fn(*mut libc::pthread_mutex_t) -> i32;
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        // A second thread: alone in its process, the C library goes other ways.
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let second = std::thread::spawn(move || stopped.recv());
        for (kind, depth) in [(0, 1), (RECURSIVE, 3)] {
            let (ours, theirs) = (real_mutex(kind), real_mutex(kind));
            let call = |function: Call| {
                // SAFETY: a mutex of the C library's, as the first assertion says.
                unsafe { function(std::ptr::from_ref(&*theirs).cast_mut().cast()) == 0 }
            };
            for _ in 0..depth {
                assert_eq!(ours.lock_now(me), call(libc::pthread_mutex_lock));
                assert_eq!(bytes(&ours), bytes(&theirs), "kind {kind}");
            }
            assert!(ours.is_taken());
            for _ in 0..depth {
                assert_eq!(ours.unlock_now(me), call(libc::pthread_mutex_unlock));
                assert_eq!(bytes(&ours), bytes(&theirs), "kind {kind}");
            }
            assert!(ours.is_free());
        }
        drop(stop);
        let _ = second.join();
    }

    #[test]
    fn short_ways_leave_to_the_c_library_what_is_not_simple() {
        for kind in [ERROR_CHECKING, 3, RECURSIVE | INHERITS, ROBUST, SHARED, DESTROYED] {
            let mutex = Mutex::of_kind(kind);
            assert!(!mutex.lock_now(1) && !mutex.unlock_now(1), "kind {kind}");
            assert!(mutex.is_free());
        }
        let recursive = Mutex::of_kind(RECURSIVE);
        assert!(recursive.lock_now(1) && !recursive.unlock_now(2) && !recursive.lock_now(2));
        recursive.count.store(u32::MAX, Ordering::Relaxed);
        assert!(!recursive.lock_now(1), "it was taken too often");
    }

    #[test]
    fn clocks_of_both_kinds_are_compared_by_what_is_left() {
        let near = Deadline { clock: Clock::Realtime, at_ns: futex::now(Clock::Realtime) + 1000 };
        let far = Deadline::after_ns(1_000_000_000);
        assert_eq!(Deadline::or_before(Some(near), far), near);
        let never = Deadline { clock: Clock::Realtime, at_ns: i64::MAX };
        assert_eq!(Deadline::or_before(Some(never), far), far);
        assert_eq!(Deadline::or_before(None, far), far);
    }
}
