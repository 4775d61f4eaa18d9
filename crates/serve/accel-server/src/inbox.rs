//! The inbox: the thread that sleeps on all doorbells and takes requests from the rings.
//!
//! Doorbells are watched edge-triggered, so that each ring is one wake-up and nothing has to be
//! read from the doorbell. Of the sessions that have rung, the one with the most critical chain
//! comes first, and after each of them the thread looks who has rung meanwhile: nobody waits for
//! more than one ring of a less critical client. A client whose user rings for nothing too often is
//! not listened to for a while: its doorbell does not even wake the thread. Its ring is looked at
//! afterwards, so that nothing is lost. A session that is to be ended is not listened to at all any
//! more: the control thread, which ends it, runs below, and until then it could ring as it likes.

use crate::Error;
use crate::dispatch::{Dispatcher, Drained};
use crate::session::Allowance;
use realtime::clock::monotonic_ns;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use shm::Doorbell;
use std::sync::Arc;

/// The token of the doorbell that ends the thread; sessions count from 1.
const STOP: u64 = 0;

/// Events of a session's doorbell: each ring once.
const RINGS: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ET);

/// The set of doorbells, shared with the control thread, which adds and removes.
pub(crate) struct Inbox {
    epoll: OwnedFd,
    stop: Doorbell,
}

impl Inbox {
    pub(crate) fn new() -> Result<Inbox, Error> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        let inbox = Inbox { epoll, stop: Doorbell::new()? };
        inbox.add(STOP, inbox.stop.as_fd())?;
        Ok(inbox)
    }

    /// Listens to a session's doorbell.
    pub(crate) fn add(&self, session: u64, doorbell: BorrowedFd<'_>) -> Result<(), Error> {
        let data = epoll::EventData::new_u64(session);
        epoll::add(&self.epoll, doorbell, data, RINGS).map_err(Error::system("epoll_ctl"))
    }

    /// Listens to a session's doorbell for these events only, if the session is still there.
    fn listen(&self, engine: &Dispatcher, session: u64, events: epoll::EventFlags) {
        if let Some(doorbell) = engine.doorbell(session) {
            // The thread that took it out of the set meanwhile ends the session.
            let data = epoll::EventData::new_u64(session);
            let _ = epoll::modify(&self.epoll, doorbell.as_fd(), data, events);
        }
    }

    /// Stops listening to a session's doorbell.
    pub(crate) fn remove(&self, doorbell: BorrowedFd<'_>) {
        // It is gone from the set either way.
        let _ = epoll::delete(&self.epoll, doorbell);
    }

    pub(crate) fn stop(&self) {
        self.stop.ring();
    }

    /// The thread: takes requests until it is stopped.
    pub(crate) fn run(&self, engine: &Arc<Dispatcher>) {
        let mut events = Vec::with_capacity(64);
        let mut turn = Turn::new();
        loop {
            events.clear();
            let timeout = turn.timeout();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // The set itself cannot fail while it exists.
                Err(_) => return,
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    session => turn.rang(session),
                }
            }
            turn.hear_again(monotonic_ns(), |session| self.listen(engine, session, RINGS));
            if let Some(session) = turn.take(engine) {
                self.listen(engine, session, epoll::EventFlags::empty());
            }
        }
    }
}

/// Sessions for which there is room from the start, so that this thread does not allocate.
const SESSIONS: usize = 1024;

/// The sessions that wait for their turn.
struct Turn {
    /// Sessions that have rung, the first one longest ago.
    ready: Vec<u64>,
    /// Sessions that are not listened to, and until when.
    muted: Vec<(u64, u64)>,
}

impl Turn {
    fn new() -> Turn {
        Turn { ready: Vec::with_capacity(SESSIONS), muted: Vec::with_capacity(SESSIONS) }
    }

    fn rang(&mut self, session: u64) {
        let muted = self.muted.iter().any(|(id, _)| *id == session);
        if !muted && !self.ready.contains(&session) {
            self.ready.push(session);
        }
    }

    /// Returns the time to sleep: zero while rings are ready, else until the next muted session.
    fn timeout(&self) -> Option<Timespec> {
        if !self.ready.is_empty() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let next = self.muted.iter().map(|(_, until)| *until).min()?;
        let wait_ns = next.saturating_sub(monotonic_ns()).min(Allowance::MUTE_NS);
        Some(Timespec { tv_sec: 0, tv_nsec: wait_ns as i64 })
    }

    /// Calls `listen` for each session that is listened to again. Their rings are ready: nobody
    /// knows who rang meanwhile.
    fn hear_again(&mut self, now_ns: u64, mut listen: impl FnMut(u64)) {
        let Turn { ready, muted } = self;
        muted.retain(|&(session, until_ns)| {
            let over = until_ns <= now_ns;
            if over {
                listen(session);
                ready.push(session);
            }
            !over
        });
    }

    /// One turn for the most critical of the ready sessions. Returns a session that is not listened
    /// to from now on.
    fn take(&mut self, engine: &Dispatcher) -> Option<u64> {
        let next = match self.ready.len() {
            0 => return None,
            1 => 0,
            _ => engine.most_critical(&self.ready),
        };
        let session = self.ready.remove(next);
        match engine.drain(session) {
            Drained::Empty => {}
            Drained::Gone => return Some(session),
            Drained::More => self.ready.push(session),
            Drained::Mute => {
                engine.count_muting();
                self.muted.push((session, monotonic_ns() + Allowance::MUTE_NS));
                return Some(session);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Entry, OwedRings, Registration, Session};
    use accel::session::{SEGMENT_BYTES, SessionMemory};
    use shm::{Consumer, Mapping, PeerSlice};

    fn session(id: u64, priorities: &[u32]) -> Entry {
        let memory = SessionMemory::initialise(Mapping::anonymous(SEGMENT_BYTES).unwrap());
        let registration = |&chain_priority: &u32| {
            Some(Registration {
                accelerator: 0,
                kernel: device::KernelId(0),
                fixed_arguments: Vec::new(),
                chain: "".into(),
                chain_priority,
                budget_ns: None,
                locks: false,
                pace: None,
                told_excess: false,
                tally: Arc::default(),
                memory: PeerSlice::empty(),
            })
        };
        Entry {
            session: Arc::new(Session::new(id, 1, 0, memory.clone())),
            memory,
            consumer: Consumer::default(),
            registrations: priorities.iter().map(registration).collect(),
            owed: OwedRings::default(),
            evicted: false,
            doorbell: Arc::new(Doorbell::new().unwrap()),
        }
    }

    #[test]
    fn most_critical_ring_comes_first_and_one_in_a_turn() {
        let engine = Dispatcher::new(system::Overrun::Count).unwrap();
        for (id, priorities) in [(1, &[0][..]), (2, &[]), (3, &[5, 99]), (4, &[99, 1])] {
            engine.add_session(session(id, priorities));
        }
        let mut turn = Turn::new();
        (1..=4).for_each(|id| turn.rang(id));
        let mut order = Vec::new();
        while !turn.ready.is_empty() {
            let before = turn.ready.clone();
            turn.take(&engine);
            assert_eq!(before.len(), turn.ready.len() + 1);
            order.extend(before.into_iter().filter(|id| !turn.ready.contains(id)));
        }
        assert_eq!(order, [3, 4, 1, 2]);
    }

    /// Returns the number of doorbells that wake the thread now.
    fn woken_by(inbox: &Inbox) -> usize {
        let mut events = Vec::with_capacity(8);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spare = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&inbox.epoll, spare, Some(&at_once)).unwrap();
        events.len()
    }

    #[test]
    fn muted_doorbell_wakes_nobody_until_it_is_heard_again() {
        let (inbox, engine) =
            (Inbox::new().unwrap(), Dispatcher::new(system::Overrun::Count).unwrap());
        let (muted, other) = (session(1, &[]), session(2, &[]));
        let doorbells = [muted.doorbell.clone(), other.doorbell.clone()];
        for (id, entry) in [(1, muted), (2, other)] {
            inbox.add(id, entry.doorbell.as_fd()).unwrap();
            engine.add_session(entry);
        }
        let ring = || doorbells.iter().for_each(|doorbell| doorbell.ring());
        ring();
        assert_eq!(woken_by(&inbox), 2);
        inbox.listen(&engine, 1, epoll::EventFlags::empty());
        ring();
        assert_eq!(woken_by(&inbox), 1, "the muted one wakes the thread");
        inbox.listen(&engine, 1, RINGS);
        assert_eq!(woken_by(&inbox), 1, "what was rung meanwhile is lost");
        ring();
        assert_eq!(woken_by(&inbox), 2);
    }

    #[test]
    fn session_that_is_to_be_ended_wakes_nobody_any_more() {
        let (inbox, engine) =
            (Inbox::new().unwrap(), Dispatcher::new(system::Overrun::Count).unwrap());
        let entry = session(1, &[]);
        let (doorbell, memory) = (entry.doorbell.clone(), entry.memory.clone());
        inbox.add(1, doorbell.as_fd()).unwrap();
        engine.add_session(entry);
        assert!(shm::Producer::default().push(memory.ring(), &[u64::MAX; 8]).unwrap());
        let mut turn = Turn::new();
        turn.rang(1);
        assert_eq!(turn.take(&engine), Some(1));
        inbox.listen(&engine, 1, epoll::EventFlags::empty());
        doorbell.ring();
        assert_eq!(woken_by(&inbox), 0);
        assert!(turn.timeout().is_none(), "it is heard again");
        assert_eq!(engine.counters().evictions, 1);
    }

    #[test]
    fn rings_for_nothing_mute_a_session_for_a_while() {
        let engine = Dispatcher::new(system::Overrun::Count).unwrap();
        engine.add_session(session(1, &[]));
        let mut turn = Turn::new();
        let mut turns = 0;
        let muted = loop {
            turn.rang(1);
            turns += 1;
            if let Some(session) = turn.take(&engine) {
                break session;
            }
            assert!(turns < 1_000_000);
        };
        assert_eq!(muted, 1);
        turn.rang(1);
        assert_eq!(turn.take(&engine), None);
        assert!(turn.ready.is_empty(), "a muted session has a turn");
        let mut heard = Vec::new();
        turn.hear_again(0, |session| heard.push(session));
        assert!(heard.is_empty());
        turn.hear_again(u64::MAX, |session| heard.push(session));
        assert_eq!((heard, turn.ready), (vec![1], vec![1]));
    }
}
