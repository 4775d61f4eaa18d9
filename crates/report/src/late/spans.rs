//! Activity of a thread over time, from its own records: calls, in them waits for locks, and the
//! locks that it holds.
//!
//! A [`Follower`] takes the records of one thread in their order and says what each of them
//! changes. Calls and waits are a stack; holds need not nest, so each gets a lane of its own while
//! it lasts. Where records are missing, whatever is open is forgotten, since it may have ended.
//! The export for Perfetto and the timeline of the page are made from this.

pub(super) mod function;
pub(super) mod spans_lock;

use late::Family;
use record::{Action, Class, Kind, Record};
use spans_lock::Key;
use trace::Block;
use trace::metadata::LostRange;

/// Calls and waits that may be open at once; more mean that their ends are missing.
const MOST_OPEN: usize = 64;
/// Locks that may be held at once.
const MOST_HELD: usize = 256;

/// A thread at one moment.
#[derive(Debug)]
pub(super) struct Follower {
    process: u32,
    /// True if only locks that had to be waited for were recorded.
    contended_only: bool,
    open: Vec<Open>,
    held: Vec<Hold>,
}

/// A call or a wait that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Call(Call),
    Wait(Wait),
}

/// A call of the driver. Times are ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub since: u64,
    /// Number of the function.
    pub function: u32,
    /// Handle of the stream, or another one.
    pub subject: u64,
    /// Bytes, kernel or graph: see [`function::Detail`].
    pub detail: u64,
}

/// A wait for a lock or a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub since: u64,
    pub lock: Key,
    pub class: Class,
    /// Thread id of the owner when it began, 0 unknown.
    pub owner: u32,
    /// Conditions: the mutex that is given up meanwhile.
    pub mutex: Option<Key>,
    had_mutex: bool,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub since: u64,
    pub lock: Key,
    pub read: bool,
    /// Lane, which no other lock that the thread holds at the same time has.
    pub lane: u32,
    depth: u32,
}

/// Way in which a call, a wait or a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A call returned.
    Returned { result: u32, captured: bool },
    /// A wait got what it was for.
    Got,
    /// A wait ended without, with this error.
    Failed(u32),
    /// Its end is missing.
    Missing,
}

/// Change by a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    CallBegins(Call),
    /// The innermost of what is open ends; so many calls and waits are around it.
    CallEnds(Call, u32, End),
    WaitBegins(Wait),
    WaitEnds(Wait, u32, End),
    HoldBegins(Hold),
    HoldEnds(Hold, End),
    /// A lock is let go, or a semaphore posted.
    Released(Key),
    /// Threads that wait for a condition are told to go on.
    Signalled(Key),
    /// The address means another lock from now on, or none.
    Renamed(Key),
    /// A return from a call whose begin is missing.
    Unmatched,
}

/// Records that are missing, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub from: u64,
    pub to: u64,
    pub count: u64,
}

impl Gap {
    /// Records that are missing before a block, if the stream was followed up to `reached`.
    pub(super) fn before(block: &Block, reached: u64) -> Option<Gap> {
        let (count, to) = (block.missing_before, block.first.max(reached));
        (count > 0).then_some(Gap { from: reached, to, count })
    }

    /// Records that are missing after a block, before `next`, when the following one begins.
    pub(super) fn after(block: &Block, reached: u64, next: Option<u64>) -> Option<Gap> {
        let LostRange { count, first, last } = block.lost;
        let from = first.max(reached);
        let to = last.min(next.unwrap_or(u64::MAX)).max(from);
        (count > 0).then_some(Gap { from, to, count })
    }
}

impl Follower {
    pub(super) fn new(process: u32, contended_only: bool) -> Follower {
        Follower { process, contended_only, open: Vec::new(), held: Vec::new() }
    }

    /// Calls and waits that are open, the innermost last.
    pub(super) fn open(&self) -> &[Open] {
        &self.open
    }

    /// The locks that are held.
    pub(super) fn held(&self) -> &[Hold] {
        &self.held
    }

    /// The innermost call.
    pub(super) fn call(&self) -> Option<&Call> {
        self.open.iter().rev().find_map(|open| match open {
            Open::Call(call) => Some(call),
            Open::Wait(_) => None,
        })
    }

    /// Adds what a record changes to `changes`, in the order in which it happens.
    pub(super) fn apply(&mut self, record: &Record, changes: &mut Vec<Change>) {
        let Record { time: since, subject, detail, number, kind } = *record;
        match kind {
            Kind::Enter => {
                if self.open.len() >= MOST_OPEN {
                    self.close_to(0, changes);
                }
                let call = Call { since, function: number, subject, detail };
                self.open.push(Open::Call(call));
                changes.push(Change::CallBegins(call));
            }
            Kind::Exit => {
                self.exit(End::Returned { result: number, captured: detail == 1 }, changes)
            }
            Kind::Lock(class, action) => self.lock(record, class, action, changes),
            _ => {}
        }
    }

    /// Records are missing: all that is open may have ended.
    pub(super) fn forget(&mut self, changes: &mut Vec<Change>) {
        self.close_to(0, changes);
        changes.extend(self.held.drain(..).map(|hold| Change::HoldEnds(hold, End::Missing)));
    }

    /// Ends what is above a place of the stack, whose ends are missing.
    fn close_to(&mut self, place: usize, changes: &mut Vec<Change>) {
        while self.open.len() > place {
            self.close(End::Missing, changes);
        }
    }

    /// Ends the innermost of what is open.
    fn close(&mut self, end: End, changes: &mut Vec<Change>) {
        let open = self.open.pop();
        let depth = self.open.len() as u32;
        changes.extend(open.map(|open| match open {
            Open::Call(call) => Change::CallEnds(call, depth, end),
            Open::Wait(wait) => Change::WaitEnds(wait, depth, end),
        }));
    }

    fn exit(&mut self, end: End, changes: &mut Vec<Change>) {
        match self.open.iter().rposition(|open| matches!(open, Open::Call(_))) {
            Some(at) => {
                self.close_to(at + 1, changes);
                self.close(end, changes);
            }
            None => changes.push(Change::Unmatched),
        }
    }

    fn lock(&mut self, record: &Record, class: Class, action: Action, changes: &mut Vec<Change>) {
        let family = Family::of(class);
        let lock = (self.process, family, record.subject);
        match action {
            Action::Created | Action::Destroyed => changes.push(Change::Renamed(lock)),
            // Its release was recorded just before.
            Action::HandedOver => {}
            Action::Waiting => self.waits(record, class, lock, changes),
            Action::Acquired if class == Class::Condition => self.returns(record, lock, changes),
            Action::Acquired => {
                self.wait_ends(lock, End::Got, changes);
                if family.held() {
                    self.takes(record.time, lock, class == Class::Read, changes);
                }
            }
            Action::Failed => {
                self.wait_ends(lock, End::Failed(record.number), changes);
            }
            Action::Released if family.held() => self.releases(lock, false, changes),
            Action::Signalled if family == Family::Condition => {
                changes.push(Change::Signalled(lock));
            }
            // Posting a semaphore lets in who waits for it, as releasing a lock does.
            Action::Released | Action::Signalled => changes.push(Change::Released(lock)),
        }
    }

    fn waits(&mut self, record: &Record, class: Class, lock: Key, changes: &mut Vec<Change>) {
        if let Some(at) = self.open.iter().position(|open| matches!(open, Open::Wait(_))) {
            self.close_to(at, changes);
        }
        let (mut mutex, mut had_mutex) = (None, false);
        if class == Class::Condition {
            let of = (self.process, Family::Mutex, record.detail);
            had_mutex = self.held.iter().any(|hold| hold.lock == of);
            self.releases(of, true, changes);
            mutex = Some(of);
        }
        let (since, owner) = (record.time, record.number);
        let wait = Wait { since, lock, class, owner, mutex, had_mutex };
        self.open.push(Open::Wait(wait));
        changes.push(Change::WaitBegins(wait));
    }

    /// Ends the wait for a lock, if there is one.
    fn wait_ends(&mut self, lock: Key, end: End, changes: &mut Vec<Change>) -> Option<Wait> {
        let is = |open: &Open| matches!(open, Open::Wait(wait) if wait.lock == lock);
        let at = self.open.iter().rposition(is)?;
        self.close_to(at + 1, changes);
        let Open::Wait(wait) = self.open[at] else { return None };
        self.close(end, changes);
        Some(wait)
    }

    /// A wait for a condition is over: its mutex is held again.
    fn returns(&mut self, record: &Record, lock: Key, changes: &mut Vec<Change>) {
        let end = if record.number == 0 { End::Got } else { End::Failed(record.number) };
        let wait = self.wait_ends(lock, end, changes);
        // If only contended acquisitions are recorded, the release of a mutex that was taken
        // without waiting is not, so it must not be taken for held.
        if !self.contended_only || wait.is_some_and(|wait| wait.had_mutex) {
            let mutex = (self.process, Family::Mutex, record.detail);
            self.takes(record.time, mutex, false, changes);
        }
    }

    fn takes(&mut self, since: u64, lock: Key, read: bool, changes: &mut Vec<Change>) {
        if let Some(hold) = self.held.iter_mut().rev().find(|hold| hold.lock == lock) {
            hold.depth += 1;
            return;
        }
        if self.held.len() >= MOST_HELD {
            return;
        }
        let used = |lane: &u32| self.held.iter().any(|hold| hold.lane == *lane);
        let lane = (0..MOST_HELD as u32).find(|lane| !used(lane)).unwrap_or(0);
        let hold = Hold { since, lock, read, lane, depth: 1 };
        self.held.push(hold);
        changes.push(Change::HoldBegins(hold));
    }

    fn releases(&mut self, lock: Key, altogether: bool, changes: &mut Vec<Change>) {
        if let Some(at) = self.held.iter().rposition(|hold| hold.lock == lock) {
            self.held[at].depth -= 1;
            if self.held[at].depth > 0 && !altogether {
                return;
            }
            changes.push(Change::HoldEnds(self.held.remove(at), End::Got));
        }
        changes.push(Change::Released(lock));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUTEX: u64 = 0x10;
    const OTHER: u64 = 0x20;
    const CONDITION: u64 = 0x30;

    fn record(time: u64, kind: Kind, subject: u64, detail: u64) -> Record {
        Record { time, subject, detail, number: 0, kind }
    }

    fn mutex(time: u64, action: Action, address: u64) -> Record {
        record(time, Kind::Lock(Class::Mutex, action), address, 0)
    }

    fn followed(contended_only: bool, records: &[Record]) -> (Follower, Vec<String>) {
        let mut follower = Follower::new(1, contended_only);
        let mut changes = Vec::new();
        records.iter().for_each(|record| follower.apply(record, &mut changes));
        (follower, changes.iter().map(shown).collect())
    }

    fn shown(change: &Change) -> String {
        let address = |lock: &Key| format!("{:#x}", lock.2);
        match change {
            Change::CallBegins(call) => format!("call {}", call.since),
            Change::CallEnds(call, depth, end) => format!("{end:?} {} in {depth}", call.since),
            Change::WaitBegins(wait) => format!("wait {}", address(&wait.lock)),
            Change::WaitEnds(wait, depth, end) => {
                format!("{end:?} {} in {depth}", address(&wait.lock))
            }
            Change::HoldBegins(hold) => format!("hold {} in {}", address(&hold.lock), hold.lane),
            Change::HoldEnds(hold, end) => format!("{end:?} held {}", address(&hold.lock)),
            Change::Released(lock) => format!("released {}", address(lock)),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn holds_that_do_not_nest_have_lanes_of_their_own() {
        let (_, changes) = followed(
            false,
            &[
                record(1, Kind::Enter, 0, 0),
                mutex(2, Action::Waiting, MUTEX),
                mutex(3, Action::Acquired, MUTEX),
                mutex(4, Action::Acquired, OTHER),
                mutex(5, Action::Released, MUTEX),
                mutex(6, Action::Acquired, MUTEX),
                record(7, Kind::Exit, 0, 0),
            ],
        );
        let wanted = [
            "call 1",
            "wait 0x10",
            "Got 0x10 in 1",
            "hold 0x10 in 0",
            "hold 0x20 in 1",
            "Got held 0x10",
            "released 0x10",
            "hold 0x10 in 0",
            "Returned { result: 0, captured: false } 1 in 0",
        ];
        assert_eq!(changes, wanted);
    }

    #[test]
    fn recursive_lock_is_held_until_it_was_released_as_often() {
        let [taken, again] = [1, 2].map(|time| mutex(time, Action::Acquired, MUTEX));
        let [first, last] = [3, 4].map(|time| mutex(time, Action::Released, MUTEX));
        let (_, changes) = followed(false, &[taken, again, first, last]);
        assert_eq!(changes, ["hold 0x10 in 0", "Got held 0x10", "released 0x10"]);
    }

    #[test]
    fn waiting_for_a_condition_gives_its_mutex_up() {
        let wait = |action| record(5, Kind::Lock(Class::Condition, action), CONDITION, MUTEX);
        let records =
            [mutex(1, Action::Acquired, MUTEX), wait(Action::Waiting), wait(Action::Acquired)];
        let (follower, changes) = followed(false, &records);
        let given_up = ["Got held 0x10", "released 0x10", "wait 0x30", "Got 0x30 in 0"];
        assert_eq!(changes[1..], [&given_up[..], &["hold 0x10 in 0"]].concat());
        assert_eq!(follower.held().len(), 1);
        // Nothing says that the mutex will be released, where it was taken without waiting.
        let (follower, _) = followed(true, &records[1..]);
        assert_eq!(follower.held(), []);
    }

    #[test]
    fn what_is_open_where_records_are_missing_has_no_end() {
        let records = [
            record(1, Kind::Enter, 0, 0),
            mutex(2, Action::Acquired, OTHER),
            mutex(3, Action::Waiting, MUTEX),
        ];
        let (mut follower, _) = followed(false, &records);
        let mut changes = Vec::new();
        follower.forget(&mut changes);
        follower.apply(&record(9, Kind::Exit, 0, 0), &mut changes);
        let changes: Vec<String> = changes.iter().map(shown).collect();
        let wanted = ["Missing 0x10 in 1", "Missing 1 in 0", "Missing held 0x20", "Unmatched"];
        assert_eq!(changes, wanted);
        assert!(follower.call().is_none() && follower.open().is_empty());
    }

    #[test]
    fn return_ends_a_wait_whose_end_is_missing() {
        let records = [
            record(1, Kind::Enter, 0, 0),
            mutex(2, Action::Waiting, MUTEX),
            record(3, Kind::Exit, 0, 1),
        ];
        let (_, changes) = followed(false, &records);
        let wanted = ["Missing 0x10 in 1", "Returned { result: 0, captured: true } 1 in 0"];
        assert_eq!(changes[2..], wanted);
    }
}
