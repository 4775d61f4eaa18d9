//! Mutexes that are made inheritance mutexes of the C library's: a thread that waits for one lends
//! the owner its priority, in the kernel, which lets only the owner release it. The C library also
//! lets another thread, and the child of a fork. So a wait asks the kernel for a while at a time,
//! and a mutex that another thread lets go is set free when no thread waits in the kernel any more.
//! Called by the preload library's hooks.

use super::{ELISION, ERROR_CHECKING, INHERITS, Mutex, RECURSIVE, TYPE, Unfit, unfit};
use crate::atomic::{AtomicU32, Ordering};
use crate::futex::{self, Deadline, NotLent};
use crate::kernel;
use crate::mutant::Mutant;

/// Mark of a converted mutex in [`Mutex::spins`], which inheritance mutexes do not use.
const CONVERTED: u32 = u32::from_le_bytes(*b"KTgi");
/// The same, and another thread than its owner has let it go since.
const LET_GO_BY_OTHERS: u32 = u32::from_le_bytes(*b"KTgo");
/// The owner in the word of an inheritance mutex.
const THREAD: u32 = 0x3fff_ffff;
/// Longest time of one call in which the kernel waits for a converted mutex.
const INHERIT_NS: i64 = 20_000_000;
/// Time until another look at a mutex that the kernel cannot wait for, in nanoseconds.
const LOOK_NS: i64 = 1_000_000;

/// Word at which threads wait for a converted mutex, also when its memory may be gone.
pub struct Bell(*const AtomicU32);

impl Bell {
    /// Wakes one of them, after the mutex was let go. One that comes just now looks by itself.
    pub fn ring(self) {
        futex::wake(self.0, 1, true);
    }
}

impl Mutex {
    /// Makes a free mutex an inheritance mutex of the same type, without elision. The caller
    /// knows that no thread is about to take it that has looked at its kind before.
    ///
    /// # Errors
    /// The reason for which it is left as it is; `None` when it is not free now.
    pub fn convert(&self) -> Result<(), Option<Unfit>> {
        self.fitness().map_err(Some)?;
        let kind = self.kind.load(Ordering::Relaxed);
        let is_used = self.word.load(Ordering::Relaxed) | self.users.load(Ordering::Relaxed) != 0;
        if is_used && !Mutant::ConvertedWhileHeld.is_on() {
            return Err(None);
        }
        let converted = kind & !ELISION | INHERITS;
        let changed =
            self.kind.compare_exchange(kind, converted, Ordering::Relaxed, Ordering::Relaxed);
        if changed.is_ok() {
            self.in_kernel.store(0, Ordering::Relaxed);
            self.bell.store(0, Ordering::Relaxed);
            self.spins.store(CONVERTED, Ordering::Relaxed);
        }
        changed.map(|_| ()).map_err(|now| Some(unfit(now)))
    }

    /// Returns true if it was [converted](Mutex::convert).
    pub fn was_converted(&self) -> bool {
        let spins = self.spins.load(Ordering::Relaxed);
        self.is_converted() && (spins == CONVERTED || spins == LET_GO_BY_OTHERS)
    }

    /// Returns true if it was converted, and another thread than its owner has let it go since.
    pub fn is_let_go_by_others(&self) -> bool {
        self.is_converted() && self.spins.load(Ordering::Relaxed) == LET_GO_BY_OTHERS
    }

    /// Lets a converted mutex go that another thread has, or had before a fork, if it is of a type
    /// for which the C library allows that; otherwise does nothing. The kernel lets only the owner
    /// go what threads wait for in it; they look again by themselves ([`Mutex::inherit`]).
    pub fn let_go_for_its_owner(&self, me: u32) -> bool {
        let kind = self.kind.load(Ordering::Relaxed) & TYPE;
        let owner = self.word.load(Ordering::Relaxed) & THREAD;
        if owner == 0 || owner == me || kind == RECURSIVE || kind == ERROR_CHECKING {
            return false;
        }
        if !self.was_converted() {
            return false;
        }
        self.spins.store(LET_GO_BY_OTHERS, Ordering::SeqCst);
        // For those in the kernel the owner still has it: none may be left when it is another's.
        // It takes as long as they wait without looking; one that is in a signal handler is not
        // waited for. In the child of a fork none is.
        let is_here = kernel::is_thread_of_this_process(owner);
        let end = Deadline::after_ns(2 * INHERIT_NS);
        loop {
            let waiting = self.in_kernel.load(Ordering::SeqCst);
            if waiting == 0 || !is_here || end.is_over() {
                break;
            }
            let soon = Deadline::or_before(Some(end), Deadline::after_ns(LOOK_NS));
            let _ = futex::wait(&self.in_kernel, waiting, Some(soon), true);
        }
        let bell = self.bell();
        self.let_others_in();
        bell.ring();
        true
    }

    /// Releases a converted mutex that no thread has, if it is of a type for which the C library
    /// allows that; otherwise does nothing. As there, it has one user less afterwards. The kernel
    /// refuses it for inheritance mutexes.
    pub fn let_go_free(&self) -> bool {
        let kind = self.kind.load(Ordering::Relaxed) & TYPE;
        let is_free = self.word.load(Ordering::Relaxed) == 0;
        if !is_free || kind == RECURSIVE || kind == ERROR_CHECKING || !self.was_converted() {
            return false;
        }
        self.users.store(self.users.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        true
    }

    /// Returns the bell that wakes one of those that wait for a converted mutex and not in the
    /// kernel for its owner.
    pub fn bell(&self) -> Bell {
        Bell(&raw const self.bell)
    }

    /// Waits for a converted mutex for a while, until a deadline at most, and lends the owner this
    /// thread's priority. False when it is not this thread's then; a waiter looks again and
    /// again, since it may be free by now although the kernel does not know that.
    pub fn inherit(&self, me: u32, until: Option<Deadline>) -> bool {
        let until = Deadline::or_before(until, Deadline::after_ns(INHERIT_NS));
        // SeqCst: pairs with `let_go_for_its_owner`. Either we see its mark, or it sees us.
        self.in_kernel.fetch_add(1, Ordering::SeqCst);
        let lent = match self.spins.load(Ordering::SeqCst) {
            CONVERTED => futex::lock_pi(&self.word, me, until),
            _ => Err(NotLent::Refused),
        };
        self.in_kernel.fetch_sub(1, Ordering::SeqCst);
        match lent {
            Ok(()) => {
                if self.kind.load(Ordering::Relaxed) & TYPE == RECURSIVE {
                    self.count.store(1, Ordering::Relaxed);
                }
                self.count_in(me);
                return true;
            }
            Err(NotLent::TimedOut) => return false,
            // The owner is dead or waits for this thread, or the kernel has not got it.
            Err(NotLent::Refused) => {}
        }
        let soon = Deadline::or_before(Some(until), Deadline::after_ns(LOOK_NS));
        let _ = futex::wait(&self.bell, 0, Some(soon), true);
        false
    }

    /// Returns true if it is an error-checking mutex that was [converted](Mutex::convert). The C
    /// library answers an attempt at it by its owner with `EDEADLK`, at any other with `EBUSY`.
    pub fn is_converted_and_checks(&self) -> bool {
        self.kind.load(Ordering::Relaxed) == ERROR_CHECKING | INHERITS && self.was_converted()
    }
}
