//! The server as a holder of the memory-bandwidth lock: it has the lock exactly while at least one
//! request is on a device whose service asks for it.
//!
//! ```text
//!   accelerator `advance` -> begin -> the device        dispatch `completed` -> end
//!                              |                                                 |
//!                              '----- the regulator's page: held, or not <-------'
//!   kt-holder: finds the regulator, gives its hold to the dispatcher, notices when it is gone
//! ```
//!
//! Requests are counted under the dispatcher's lock, where they begin and end anyway: of those that
//! are on the devices the first takes the lock, the last gives it back. That costs a few writes to
//! the page, and one system call if the regulator sleeps; nothing is allocated, no thread is waited
//! for. Whatever ends a request, the device has an event for it: also when it failed, was cancelled
//! because its client died, or was lost with the device. If the server dies, the regulator is told
//! by the kernel.
//!
//! Without a regulator requests go on as if no service had asked for it, and are counted. A
//! thread of its own ([`crate::seeker`]) finds the regulator.

use bandwidth::Hold;

/// State of the lock, as the dispatcher knows it.
#[derive(Default)]
pub(crate) struct Holder {
    hold: Option<Hold>,
    /// Time since which the lock is held; None when it is not.
    since_ns: Option<u64>,
    held: LockCounts,
}

/// Counts of requests that ask for the lock and of its acquisitions, and its total time held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockCounts {
    /// Requests on the devices that it is to be held for.
    pub running: u64,
    /// Requests given to a device with a regulator.
    pub locked: u64,
    /// Requests given to a device without.
    pub unlocked: u64,
    /// Requests that were on a device when the regulator went away.
    pub interrupted: u64,
    pub acquisitions: u64,
    /// Total time for which the lock was held, up to the last release.
    pub held_ns: u64,
}

impl Holder {
    /// A request is about to be given to a device.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.held.running += 1;
        match self.hold {
            Some(_) => self.held.locked += 1,
            None => self.held.unlocked += 1,
        }
        if self.held.running == 1 {
            self.take(now_ns);
        }
    }

    /// A request that has begun is not on its device any more.
    pub(crate) fn end(&mut self, now_ns: u64) {
        self.held.running = self.held.running.saturating_sub(1);
        if self.held.running == 0 {
            self.give_back(now_ns);
        }
    }

    /// Sets the hold from now on. The caller drops the one that it replaces.
    pub(crate) fn attach(&mut self, hold: Hold, now_ns: u64) -> Option<Hold> {
        self.give_back(now_ns);
        let replaced = self.hold.replace(hold);
        if self.held.running > 0 {
            self.take(now_ns);
        }
        replaced
    }

    /// Removes the hold from now on.
    pub(crate) fn detach(&mut self, now_ns: u64) -> Option<Hold> {
        if self.hold.is_some() {
            self.held.interrupted += self.held.running;
        }
        self.give_back(now_ns);
        self.hold.take()
    }

    pub(crate) fn held(&self) -> LockCounts {
        self.held
    }

    fn take(&mut self, now_ns: u64) {
        if self.hold.as_ref().is_some_and(Hold::acquire) {
            self.since_ns = Some(now_ns);
            self.held.acquisitions += 1;
        }
    }

    fn give_back(&mut self, now_ns: u64) {
        if let (Some(hold), Some(since_ns)) = (&self.hold, self.since_ns.take()) {
            hold.release();
            self.held.held_ns += now_ns.saturating_sub(since_ns);
        }
    }
}
