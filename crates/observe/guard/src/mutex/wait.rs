//! The wait for a mutex that was not free: as in the C library until the bound, then in the table.
//! Called by [`Mutex::lock`].

use super::{Failure, Mutex, Taken};
use crate::atomic::{Ordering, fence};
use crate::futex::{self, Deadline, NotLent, Woken};
use crate::kernel::urgency_of;
use crate::mutant::Mutant;
use crate::table::{NET_NS, OFFER_NS, Table, WAITING, Waiter, WaiterPlace};

/// Time for which a waiter that is next stays awake.
const AWAKE_NS: i64 = 500_000;
/// Within which time a thread comes back at once.
const BACK_NS: i64 = 5_000;

/// A wait for a mutex.
pub(super) struct Wait<'a> {
    pub(super) mutex: &'a Mutex,
    pub(super) table: &'a Table,
    pub(super) waiter: Waiter,
    pub(super) until: Option<Deadline>,
    pub(super) taken: Taken,
}

impl<'a> Wait<'a> {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| cfg!(loom) || until.is_over())
    }

    /// Waits as the C library does until the bound is over; then returns a place in the table.
    /// `None`: it has the mutex.
    pub(super) fn overtaken(
        &mut self,
        limit: Deadline,
    ) -> Result<Option<&'a WaiterPlace>, Failure> {
        loop {
            if self.mutex.try_take() {
                return Ok(None);
            }
            // By then the owner may be another one, and less urgent, or one that does not come.
            let look_ns = if self.waiter.urgency == 0 { OFFER_NS } else { NET_NS };
            let soon = Deadline::or_before(Some(limit), Deadline::after_ns(look_ns));
            let sleep_until = Deadline::or_before(self.until, soon);
            if futex::wait(&self.mutex.word, 2, Some(sleep_until), true) == Woken::Maybe {
                continue;
            }
            if self.take_back() {
                return Ok(None);
            }
            if self.is_over() {
                // Not without a last look: a wake-up that came now was this thread's alone.
                return if self.mutex.try_take() { Ok(None) } else { Err(Failure::TimedOut) };
            }
            let is_behind = self.is_behind_less_urgent();
            self.taken.outlasted = cfg!(loom) || limit.is_over();
            if !is_behind && !self.taken.outlasted {
                continue;
            }
            match self.stand(!is_behind) {
                Some(place) => return Ok(Some(place)),
                // The table is full: on as before.
                None => return self.wait_as_ever().map(|()| None),
            }
        }
    }

    /// Waits as the C library does.
    fn wait_as_ever(&mut self) -> Result<(), Failure> {
        loop {
            if self.mutex.try_take() {
                return Ok(());
            }
            if futex::wait(&self.mutex.word, 2, self.until_late(), true) == Woken::TimedOut {
                if self.take_back() || self.mutex.try_take() {
                    return Ok(());
                }
                if self.is_over() {
                    return Err(Failure::TimedOut);
                }
            }
        }
    }

    /// Takes the mutex back from a thread that did not take it in time.
    pub(super) fn take_back(&mut self) -> bool {
        let (mutex, me) = (self.mutex, self.waiter.thread);
        self.taken.taken_back = self.table.take_back(mutex.address(), me, &mutex.owner);
        self.taken.taken_back
    }

    /// Returns the time of the next check for a mutex that can be taken back.
    fn until_late(&self) -> Option<Deadline> {
        match self.until {
            // Instead of that, the models wake those who are to look.
            until if cfg!(loom) => until,
            until => Some(Deadline::or_before(until, Deadline::after_ns(OFFER_NS))),
        }
    }

    /// Returns true if this is a real-time thread, and the owner is less urgent.
    pub(super) fn is_behind_less_urgent(&self) -> bool {
        self.waiter.urgency > 0 && {
            let owner = self.owner();
            owner != 0 && urgency_of(owner) < self.waiter.urgency
        }
    }

    /// The thread that has the mutex, or to which it was handed.
    fn owner(&self) -> u32 {
        let owner = self.mutex.owner.load(Ordering::Acquire);
        self.table.marked(owner).unwrap_or(owner)
    }

    pub(super) fn stand(&mut self, patient: bool) -> Option<&'a WaiterPlace> {
        let place = self.table.stand(self.mutex.address(), self.waiter, patient);
        self.taken.stood = place.is_some();
        // Pairs with the one in `Mutex::let_go`.
        fence(Ordering::SeqCst);
        place
    }

    /// Waits in the table.
    pub(super) fn standing(&mut self, place: &WaiterPlace) -> Result<(), Failure> {
        // An owner that the kernel would not lend to.
        let mut refused = 0;
        // True if it may be time to look for a thread that does not take the mutex.
        let mut late = false;
        let waits_long = self.waiter.urgency == 0;
        loop {
            if self.table.accept(place, self.waiter.thread) {
                self.taken.handed = true;
                return Ok(());
            }
            if Table::was_put_aside(place) {
                if !self.table.stand_again(place, self.waiter.thread) {
                    return self.wait_as_ever();
                }
                // Pairs with the one in `Mutex::let_go`.
                fence(Ordering::SeqCst);
            }
            // No other thread can hand it over when this thread has it.
            let is_late = late && (waits_long || self.mutex.is_handed_over());
            if self.mutex.try_take() || is_late && self.take_back() {
                self.table.leave(place, self.waiter.thread);
                return Ok(());
            }
            late = true;
            if self.is_over() {
                if self.table.leave(place, self.waiter.thread) {
                    return if self.mutex.try_take() { Ok(()) } else { Err(Failure::TimedOut) };
                }
                self.taken.handed = true;
                return Ok(());
            }
            if self.waiter.urgency == 0 {
                if Table::was_called(place) {
                    self.stay_awake(place);
                    continue;
                }
                let words = [(&self.mutex.word, 2), (&place.state, WAITING)];
                let woken = futex::wait_either(words, self.until_late(), NET_NS);
                late = cfg!(loom) || woken == Woken::TimedOut;
                continue;
            }
            let owner = self.owner();
            // The owner is this thread when the mutex was handed over just now.
            let is_lendable = ![0, refused, self.waiter.thread].contains(&owner)
                && owner != place.avoided.load(Ordering::SeqCst)
                && urgency_of(owner) < self.waiter.urgency;
            if !is_lendable {
                let words = [(&self.mutex.word, 2), (&place.state, WAITING)];
                futex::wait_either(words, self.until_net(), NET_NS);
                place.avoided.store(0, Ordering::Relaxed);
                continue;
            }
            if self.lend(place, owner) == Err(NotLent::Refused) {
                refused = owner;
            }
        }
    }

    /// Looks, without sleeping, until it is handed the mutex or no thread takes it; for as long as
    /// a short section takes. Does not itself come before a thread that comes back at once.
    fn stay_awake(&self, place: &WaiterPlace) {
        let end = Deadline::or_before(self.until, Deadline::after_ns(AWAKE_NS));
        let mut free_until: Option<Deadline> = None;
        let mut early = false;
        while place.state.load(Ordering::Relaxed) == WAITING && !early {
            if self.mutex.word.load(Ordering::Relaxed) != 0 {
                free_until = None;
            } else if free_until.get_or_insert_with(|| Deadline::after_ns(BACK_NS)).is_over() {
                break;
            }
            core::hint::spin_loop();
            early = end.is_over();
        }
        self.table.was_too_early(self.mutex.address(), early);
    }

    /// Returns the time of the next look, also if nothing woke this thread. The models do without.
    fn until_net(&self) -> Option<Deadline> {
        match self.until {
            until if cfg!(loom) => until,
            until => Some(Deadline::or_before(until, Deadline::after_ns(NET_NS))),
        }
    }

    /// Lends this thread's priority to the owner until it gives it back, or for a while.
    fn lend(&mut self, place: &WaiterPlace, owner: u32) -> Result<(), NotLent> {
        // It may be the owner again, after it has put us aside.
        let is_owner = || {
            self.owner() == owner && !Table::was_put_aside(place)
                || Mutant::OwnerNotLookedAtAgain.is_on()
        };
        let limit = Deadline::or_before(self.until, Deadline::after_ns(NET_NS));
        let lent = self.table.lend_from(place, self.waiter.thread, owner, limit, is_owner);
        self.taken.lent += u32::from(lent.is_some());
        lent.unwrap_or(Ok(()))
    }
}
