//! One client's session as the dispatcher sees it.

use crate::meter::{Pace, Tally};
use accel::session::{SLOTS, SessionMemory};
use shm::completion::{Completion, Opening};
use shm::{Consumer, Doorbell, PeerSlice, Rights};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The part of a session that requests on their way hold on to.
pub(crate) struct Session {
    pub id: u64,
    pub pid: i32,
    pub uid: u32,
    memory: SessionMemory,
    rights: Rights,
    dead: AtomicBool,
}

impl Session {
    pub(crate) fn new(id: u64, pid: i32, uid: u32, memory: SessionMemory) -> Session {
        Session { id, pid, uid, memory, rights: Rights::new(SLOTS), dead: AtomicBool::new(false) }
    }

    /// Opens a slot for a request; None when the client names one that is in use or none.
    pub(crate) fn open(&self, slot: u16) -> Option<Opening> {
        self.rights.open(usize::from(slot))
    }

    /// Answers a request, unless it has an answer or the session has ended: a client whose
    /// session the server ends learns that from its socket, not from a made-up outcome.
    pub(crate) fn answer(&self, slot: u16, opening: Opening, outcome: &Completion) {
        if self.is_dead() {
            return;
        }
        let Some(right) = self.rights.take(opening) else { return };
        if let Some(cell) = self.memory.completion(usize::from(slot)) {
            cell.complete(right, outcome);
        }
    }

    /// The client is gone: nothing of it is worth doing any more.
    pub(crate) fn bury(&self) {
        // Relaxed: set and read under the dispatcher's lock, except for hints.
        self.dead.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }
}

/// A registration: who may launch what, on which data, how urgently.
pub(crate) struct Registration {
    pub accelerator: usize,
    pub kernel: device::KernelId,
    /// Leading arguments that the service fixes; the request gives the others.
    pub fixed_arguments: Vec<u64>,
    pub chain: Arc<str>,
    pub chain_priority: u32,
    /// Declared execution time.
    pub budget_ns: Option<u64>,
    /// True if the service asks for the bandwidth lock.
    pub locks: bool,
    /// Check of the rate of requests against the declaration; None if no rate is declared.
    pub pace: Option<Pace>,
    /// True if the log has a line about requests that come more often than declared.
    pub told_excess: bool,
    /// Counts of the chain's requests.
    pub tally: Arc<Tally>,
    pub memory: PeerSlice,
}

/// The part of a session that only the dispatcher touches, under its lock.
pub(crate) struct Entry {
    pub session: Arc<Session>,
    pub memory: SessionMemory,
    pub consumer: Consumer,
    pub registrations: Vec<Option<Registration>>,
    pub owed: OwedRings,
    /// The dispatcher takes nothing more of it; the control thread ends it.
    pub evicted: bool,
    pub doorbell: Arc<Doorbell>,
}

impl Entry {
    /// The highest chain priority of its registrations; None without any.
    pub(crate) fn criticality(&self) -> Option<u32> {
        self.registrations.iter().flatten().map(|registration| registration.chain_priority).max()
    }
}

/// Rings that are still to come for messages that were taken already: a client that rings once for
/// each message never pays for a ring.
#[derive(Default)]
pub(crate) struct OwedRings(u32);

impl OwedRings {
    /// Accounts for a turn in which `taken` messages were taken. Returns true if it was in vain.
    pub(crate) fn turn(&mut self, taken: u32) -> bool {
        let nothing = taken == 0 && self.0 == 0;
        // One ring brought this turn about; rings that come together count once, so that at most
        // a ring full can be owed.
        self.0 = (self.0 + taken).saturating_sub(1).min(SLOTS as u32);
        nothing
    }
}

/// Limit of the rate at which the clients of one user may ring for nothing.
///
/// A ring without a message, or with one that is refused, costs the dispatcher time that
/// belongs to others. Each costs one token; tokens come back at a fixed rate; a client of a user
/// without tokens is not listened to for a while. All sessions of a user share the tokens, so that
/// many sessions may not do more than one.
#[derive(Clone, Copy)]
pub(crate) struct Allowance {
    tokens: u32,
    refilled_ns: u64,
}

impl Allowance {
    /// A ring for nothing takes the inbox some microseconds: all of these together are a fraction
    /// of a millisecond.
    const MOST: u32 = 100;
    const REFILL_NS: u64 = 1_000_000;
    /// Time for which a client is not listened to. Some tokens come back meanwhile.
    pub(crate) const MUTE_NS: u64 = 20_000_000;

    pub(crate) fn new(now_ns: u64) -> Allowance {
        Allowance { tokens: Allowance::MOST, refilled_ns: now_ns }
    }

    /// Takes `count` tokens; false when there are not enough.
    pub(crate) fn spend(&mut self, count: u32, now_ns: u64) -> bool {
        self.refill(now_ns);
        let enough = self.tokens >= count;
        self.tokens = self.tokens.saturating_sub(count);
        enough
    }

    /// Returns true if all tokens have come back: then it is as good as a new one.
    pub(crate) fn is_full(&mut self, now_ns: u64) -> bool {
        self.refill(now_ns);
        self.tokens == Allowance::MOST
    }

    fn refill(&mut self, now_ns: u64) {
        let earned = now_ns.saturating_sub(self.refilled_ns) / Allowance::REFILL_NS;
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(u32::MAX);
            self.tokens = self.tokens.saturating_add(earned).min(Allowance::MOST);
            self.refilled_ns = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_for_messages_that_were_taken_ahead_cost_nothing() {
        let mut owed = OwedRings::default();
        for _ in 0..10_000 {
            assert!(!owed.turn(32));
            for _ in 1..32 {
                assert!(!owed.turn(0));
            }
        }
        assert!(owed.turn(0), "a ring for nothing");
    }

    #[test]
    fn allowance_runs_out_and_comes_back() {
        let mut allowance = Allowance::new(0);
        assert!(allowance.spend(Allowance::MOST, 0));
        assert!(!allowance.spend(1, 0));
        assert!(!allowance.spend(1, Allowance::REFILL_NS - 1));
        assert!(!allowance.is_full(Allowance::MUTE_NS));
        assert!(allowance.spend(20, Allowance::MUTE_NS));
        assert!(!allowance.spend(1, Allowance::MUTE_NS));
        assert!(allowance.is_full(1000 * Allowance::MUTE_NS));
    }
}
