//! The dispatcher: from a message in a client's ring to a launch, and from the device's event to
//! the client's completion.
//!
//! ```text
//!  inbox thread:   ring -> take -> check -> bucket -> advance -> device.launch
//!  device thread:  event -> completed -> retire -> advance -> device.launch -> answer
//!  control thread: register, deregister, forget (a dead client)
//! ```
//!
//! All state is behind one inheritance mutex that is held for microseconds: by threads that run
//! above the device's compute threads, and by the control thread, which runs below and inherits
//! the priority of the threads that wait for it. Clients are answered after it is released: an
//! answer may cost a system call. The next launch comes before the answer, so that the device does
//! not wait for it.
//!
//! The inbox's and the device's threads neither allocate nor free memory: an allocator may have to
//! ask the kernel for memory, which has one lock for all threads of the process; while the control
//! thread makes a client's memory present, or a lower thread was preempted with the lock, a thread
//! of any priority waits for it. So lists have room for all that can be in them before anything can
//! be, reports are put into words by the control thread, and what a client leaves is kept until
//! only the control thread has it (`control/remains.rs`).
//!
//! Lock order: dispatcher, then device. The device calls back without its own lock.

mod answer;
mod intake;
mod notice;
mod trouble;

use crate::accelerator::Accelerator;
use crate::admission::Spread;
use crate::bucket::Request;
use crate::holder::{Holder, LockCounts};
use crate::meter::Meter;
use crate::placement::Crowd;
use crate::session::{Allowance, Entry, Registration};
use accel::control::{Code, Counters, Packet};
use accel::request::Status;
use accel::session::SLOTS;
use answer::{Answer, Ended, publish};
use bandwidth::Hold;
use device::{ContextId, OperationOutcome};
pub(crate) use notice::{Notice, Reason};
use realtime::clock::monotonic_ns;
use realtime::mutex::PiMutex;
use shm::Doorbell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use system::Overrun;

/// Notices that wait to be printed; more are counted only.
const MAX_NOTICES: usize = 64;

/// The dispatcher, shared by all threads of the server.
pub(crate) struct Dispatcher {
    state: PiMutex<State>,
    /// Empty lists of answers, one for each thread that may answer.
    lists: PiMutex<Vec<Vec<Answer>>>,
    overrun: Overrun,
    /// Wakes the control thread: there are notices, evictions, dead sessions that came to rest, or
    /// memory of a client that was lost.
    pub control: Arc<Doorbell>,
    /// Refused connections and registrations. Not behind the lock: a client may be refused as
    /// often as it likes.
    refusals: AtomicU64,
}

struct State {
    accelerators: Vec<Accelerator>,
    sessions: HashMap<u64, Entry>,
    /// Allowances by user.
    allowances: HashMap<u32, Allowance>,
    arrivals: u64,
    counters: Counters,
    /// Notices, with the session that they are about.
    notices: Vec<(u64, Notice)>,
    evictions: Vec<(u64, Reason)>,
    holder: Holder,
}

/// Notices to be printed, and sessions to be ended with the reasons.
pub(crate) type News = (Vec<(u64, Notice)>, Vec<(u64, Reason)>);

/// Answers for which a list has room: what one ring full of messages can need.
const ANSWERS: usize = 4 * SLOTS;

/// Next step of the inbox for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// Listen on.
    Empty,
    /// More messages may be there.
    More,
    /// Do not listen for a while.
    Mute,
    /// The session is gone.
    Gone,
}

/// Present work of an accelerator, and its measurements.
pub(crate) struct Load {
    pub queued: u32,
    pub running: u32,
    pub meter: Arc<Meter>,
    pub device: String,
}

/// A dead session's work that is still on a device.
pub(crate) struct Remains {
    lanes: Vec<(usize, usize, device::StreamId)>,
}

impl Dispatcher {
    pub(crate) fn new(overrun: Overrun) -> Result<Dispatcher, shm::Error> {
        let kind = Counters::KIND;
        let counters = Counters { kind, ..zerocopy::FromZeros::new_zeroed() };
        let state = State {
            accelerators: Vec::new(),
            sessions: HashMap::new(),
            allowances: HashMap::new(),
            arrivals: 0,
            counters,
            notices: Vec::with_capacity(MAX_NOTICES),
            evictions: Vec::new(),
            holder: Holder::default(),
        };
        let control = Arc::new(Doorbell::new()?);
        let refusals = AtomicU64::new(0);
        let state = PiMutex::new(state);
        let engine = Dispatcher { state, lists: PiMutex::default(), overrun, control, refusals };
        // The inbox and the control thread.
        engine.add_lists(2);
        Ok(engine)
    }

    fn add_lists(&self, threads: usize) {
        let mut lists = self.lists.lock();
        lists.extend((0..threads).map(|_| Vec::with_capacity(ANSWERS)));
    }

    /// Adds an accelerator. Before the first session.
    pub(crate) fn add_accelerator(&self, mut accelerator: Accelerator) {
        let properties = accelerator.device.properties();
        self.add_lists(usize::from(properties.units) + usize::from(properties.copy_engines));
        if self.overrun == Overrun::Demote {
            accelerator.keep_spare_lanes();
        }
        self.state.lock().accelerators.push(accelerator);
    }

    /// Adds a session; its doorbell may be rung from now on.
    pub(crate) fn add_session(&self, entry: Entry) {
        let mut state = self.state.lock();
        let now_ns = monotonic_ns();
        state.allowances.retain(|_, allowance| !allowance.is_full(now_ns));
        state.counters.opened += 1;
        state.sessions.insert(entry.session.id, entry);
        // From here on each session may have an allowance, be evicted, and fill its slots.
        let State { sessions, allowances, evictions, accelerators, .. } = &mut *state;
        allowances.reserve(sessions.len());
        evictions.reserve(sessions.len());
        accelerators.iter_mut().for_each(|each| each.make_room(sessions.len() * SLOTS));
    }

    /// Adds a registration to a session, with the buckets that go with it, and returns its number
    /// and bucket.
    pub(crate) fn register(
        &self,
        session: u64,
        registration: Registration,
        spreads: &[Spread],
    ) -> Result<(u32, u32), (Code, String)> {
        let mut state = self.state.lock();
        let State { sessions, accelerators, .. } = &mut *state;
        let gone = || (Code::Violation, "the session is closed".to_string());
        let requests = sessions.len() * SLOTS;
        let entry = sessions.get_mut(&session).ok_or_else(gone)?;
        let owner = registration.accelerator;
        let priority = registration.chain_priority;
        accelerators[owner].join(session).map_err(|error| (Code::Device, error.to_string()))?;
        accelerators[owner].make_room(requests);
        set_spreads(accelerators, spreads);
        let free = entry.registrations.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            entry.registrations.push(None);
            entry.registrations.len() - 1
        });
        entry.registrations[number] = Some(registration);
        Ok((number as u32, accelerators[owner].bucket_of(session, priority) as u32))
    }

    /// Returns the registrations on each accelerator, as one chain sees them.
    pub(crate) fn crowds(&self, chain: &str) -> Vec<Crowd> {
        let state = self.state.lock();
        let mut crowds = vec![Crowd::default(); state.accelerators.len()];
        let entries = state.sessions.values();
        for registration in entries.flat_map(|entry| entry.registrations.iter().flatten()) {
            let Some(crowd) = crowds.get_mut(registration.accelerator) else { continue };
            let share = registration.pace.as_ref().zip(registration.budget_ns);
            let share_ppm = share.map_or(0, |(pace, budget)| pace.share_ppm(budget));
            crowd.share_ppm = crowd.share_ppm.saturating_add(share_ppm);
            crowd.registrations += 1;
            crowd.of_the_chain |= *registration.chain == *chain;
        }
        crowds
    }

    /// Ends a registration and cancels its waiting requests. Returns it: a running request may
    /// still use its memory, and count in its tally.
    pub(crate) fn deregister(&self, session: u64, number: u32) -> Option<Registration> {
        self.answering(|state, answers| {
            let State { sessions, accelerators, counters, .. } = state;
            let entry = sessions.get_mut(&session)?;
            let registration = entry.registrations.get_mut(number as usize)?.take()?;
            for bucket in &mut accelerators[registration.accelerator].buckets {
                let of_registration =
                    |r: &Request| r.session.id == session && r.registration == number;
                let cancelled = |r: Request| answers.push(r.answer(Status::Cancelled as u32, None));
                bucket.queue.remove(of_registration, cancelled);
            }
            counters.cancelled += answers.len() as u64;
            Some(registration)
        })
        .0
    }

    /// Runs `act` under the lock, and publishes the answers that it gives when the lock is
    /// released. Returns the time of the last one, too, or 0.
    fn answering<T>(&self, act: impl FnOnce(&mut State, &mut Vec<Answer>) -> T) -> (T, u64) {
        let mut answers = self.lists.lock().pop().unwrap_or_default();
        let result = act(&mut self.state.lock(), &mut answers);
        let answered_ns = publish(&mut answers);
        self.lists.lock().push(answers);
        (result, answered_ns)
    }

    /// Gives registrations another chain priority, for requests that arrive from now on, with the
    /// buckets that go with it.
    pub(crate) fn reprioritise(
        &self,
        registrations: &[(u64, u32)],
        chain_priority: u32,
        spreads: &[Spread],
    ) {
        let mut state = self.state.lock();
        for &(session, number) in registrations {
            let entry = state.sessions.get_mut(&session);
            let registration =
                entry.and_then(|entry| entry.registrations.get_mut(number as usize)?.as_mut());
            if let Some(registration) = registration {
                registration.chain_priority = chain_priority;
            }
        }
        set_spreads(&mut state.accelerators, spreads);
    }

    /// The bucket of a registration now.
    pub(crate) fn bucket(&self, session: u64, number: u32) -> Option<u32> {
        let state = self.state.lock();
        let entry = state.sessions.get(&session)?;
        let registration = entry.registrations.get(number as usize)?.as_ref()?;
        let accelerator = &state.accelerators[registration.accelerator];
        Some(accelerator.bucket_of(session, registration.chain_priority) as u32)
    }

    /// Moves chain priorities to other buckets.
    pub(crate) fn set_spreads(&self, spreads: &[Spread]) {
        set_spreads(&mut self.state.lock().accelerators, spreads);
    }

    /// Forgets a session whose client is gone: its waiting requests are dropped, its running ones
    /// are cancelled where the device can. Returns it: running requests still use it.
    pub(crate) fn forget(&self, session: u64) -> Option<Entry> {
        let (remains, entry) = self.state.lock().forget(session);
        // Outside the lock: a device may complete what it cancels at once, on this thread.
        for (accelerator, _, stream) in &remains.lanes {
            let device = self.state.lock().accelerators[*accelerator].device.clone();
            let _ = device.cancel(*stream);
        }
        self.answering(|state, answers| state.resume(&remains, answers));
        entry
    }

    /// Returns true if no device works for a forgotten session any more. If so, its contexts are
    /// gone too.
    pub(crate) fn at_rest(&self, session: u64) -> bool {
        let contexts: Vec<(Arc<dyn device::Device>, ContextId)> = {
            let mut state = self.state.lock();
            if state.accelerators.iter().any(|accelerator| accelerator.works_for(session)) {
                return false;
            }
            let remove = |accelerator: &mut Accelerator| {
                let context = accelerator.remove_client(session)?;
                Some((accelerator.device.clone(), context))
            };
            state.accelerators.iter_mut().filter_map(remove).collect()
        };
        for (device, context) in contexts {
            let _ = device.destroy_context(context);
        }
        true
    }

    /// Returns the place of the session with the most critical chain; of several, the first.
    pub(crate) fn most_critical(&self, sessions: &[u64]) -> usize {
        let state = self.state.lock();
        let criticality = |id: &u64| state.sessions.get(id).and_then(Entry::criticality);
        let places = sessions.iter().enumerate().rev();
        places.max_by_key(|(_, id)| criticality(id)).map_or(0, |(place, _)| place)
    }

    /// Takes the waiting messages of a session from its ring, at most a ring full.
    pub(crate) fn drain(&self, session: u64) -> Drained {
        let now_ns = monotonic_ns();
        let ((drained, news), _) = self.answering(|state, answers| {
            let drained = state.drain(session, now_ns, answers);
            (drained, drained == Drained::Gone || !state.notices.is_empty())
        });
        if news {
            self.control.ring();
        }
        drained
    }

    /// The doorbell of a session that is open.
    pub(crate) fn doorbell(&self, session: u64) -> Option<Arc<Doorbell>> {
        Some(self.state.lock().sessions.get(&session)?.doorbell.clone())
    }

    /// The device's event: a request has ended.
    pub(crate) fn completed(&self, accelerator: usize, lane: usize, outcome: &OperationOutcome) {
        let (ended, answered_ns) = self.answering(|state, answers| {
            let now_ns = monotonic_ns();
            // None: the server has let go of its devices, which end what they still had.
            let owner = state.accelerators.get_mut(accelerator)?;
            let overran = outcome.overrun || owner.lanes[lane].overran;
            let demoted = owner.lanes[lane].demoted;
            let ended = Ended::of(owner, lane, outcome, now_ns);
            let request = owner.retire(lane)?;
            request.tally.ended(outcome.finished_ns.saturating_sub(request.arrived_ns), overran);
            if let device::Status::Failed(code) = outcome.status {
                state.broke_down(accelerator, &request, code);
            }
            state.advance(accelerator, None, answers);
            if request.locks {
                // After the next one has begun, so that the lock is not free in between.
                state.holder.end(now_ns);
            }
            let status = state.count(outcome.status);
            let flags = if overran { Status::OVERRUN } else { 0 }
                | if demoted { Status::DEMOTED } else { 0 };
            let buried = request.session.is_dead();
            answers.push(request.answer(status as u32 | flags, Some(outcome)));
            let news = buried || !state.notices.is_empty() || !state.evictions.is_empty();
            Some((ended, news))
        });
        let Some((ended, news)) = ended else { return };
        ended.measure(answered_ns);
        if news {
            self.control.ring();
        }
    }

    /// The device's word that a running request exceeds its declared execution time.
    pub(crate) fn overran(&self, accelerator: usize, lane: usize) {
        let action = self.overrun;
        self.answering(|state, answers| state.overran(accelerator, lane, action, answers));
        self.control.ring();
    }

    /// Attaches to a regulator: the lock is held from now on while it is to be held.
    pub(crate) fn attach(&self, hold: Hold) {
        let replaced = self.state.lock().holder.attach(hold, monotonic_ns());
        // Outside the lock: it unmaps memory.
        drop(replaced);
    }

    /// The regulator is gone, or the server ends.
    pub(crate) fn detach(&self) {
        let hold = self.state.lock().holder.detach(monotonic_ns());
        drop(hold);
    }

    /// Returns the counts of the bandwidth lock.
    pub(crate) fn held(&self) -> LockCounts {
        self.state.lock().holder.held()
    }

    /// Takes the notices to be printed, and the sessions to be ended with the reasons.
    pub(crate) fn take_news(&self) -> News {
        let mut state = self.state.lock();
        if self.overrun == Overrun::Demote {
            state.accelerators.iter_mut().for_each(Accelerator::keep_spare_lanes);
        }
        // Drained: their room stays for those who may not allocate.
        (state.notices.drain(..).collect(), state.evictions.drain(..).collect())
    }

    /// Counts a client that is not listened to.
    pub(crate) fn count_muting(&self) {
        self.state.lock().counters.mutings += 1;
    }

    /// Counts a refused connection or registration.
    pub(crate) fn count_refusal(&self) {
        // Relaxed: a number for people.
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters, with what is true now filled in; `memory_bytes` is the caller's.
    pub(crate) fn counters(&self) -> Counters {
        let state = self.state.lock();
        let mut counters = state.counters;
        counters.sessions = state.sessions.len() as u32;
        counters.refusals = self.refusals.load(Ordering::Relaxed);
        let in_force = |entry: &Entry| entry.registrations.iter().flatten().count() as u64;
        counters.registrations = state.sessions.values().map(in_force).sum();
        let queued = |a: &Accelerator| a.buckets.iter().map(|b| b.queue.len() as u64).sum::<u64>();
        counters.queued = state.accelerators.iter().map(queued).sum();
        let running =
            |a: &Accelerator| a.lanes.iter().filter(|l| l.running.is_some()).count() as u64;
        counters.running = state.accelerators.iter().map(running).sum();
        counters
    }

    /// Returns the present work of one accelerator, and its measurements.
    pub(crate) fn load(&self, accelerator: usize) -> Option<Load> {
        let state = self.state.lock();
        let owner = state.accelerators.get(accelerator)?;
        let queued: usize = owner.buckets.iter().map(|bucket| bucket.queue.len()).sum();
        let running = owner.lanes.iter().filter(|lane| lane.running.is_some()).count();
        Some(Load {
            queued: queued as u32,
            running: running as u32,
            meter: owner.meter.clone(),
            device: owner.device.properties().name.clone(),
        })
    }

    /// The accelerators' ids and devices.
    pub(crate) fn devices(&self) -> Vec<(String, Arc<dyn device::Device>)> {
        let state = self.state.lock();
        state.accelerators.iter().map(|a| (a.id.to_string(), a.device.clone())).collect()
    }

    /// Lets go of the devices, so that they can end. After the last session.
    pub(crate) fn clear(&self) {
        let accelerators = std::mem::take(&mut self.state.lock().accelerators);
        // Outside the lock: an ending device completes what it still has.
        drop(accelerators);
        self.detach();
    }
}

impl State {
    /// Moves waiting requests onto free lanes; what the device refuses is answered.
    fn advance(&mut self, accelerator: usize, taken_ns: Option<u64>, answers: &mut Vec<Answer>) {
        let State { accelerators, holder, counters, .. } = self;
        accelerators[accelerator].advance(taken_ns, holder, |refused| {
            counters.failed += 1;
            answers.push(refused.answer(Status::DeviceFailed as u32, None));
        });
    }

    fn count(&mut self, status: device::Status) -> Status {
        let (counter, status) = match status {
            device::Status::Done => (&mut self.counters.done, Status::Done),
            device::Status::Cancelled => (&mut self.counters.cancelled, Status::Cancelled),
            device::Status::Failed(code) if trouble::is_lost(code) => {
                (&mut self.counters.failed, Status::DeviceLost)
            }
            device::Status::Failed(_) => (&mut self.counters.failed, Status::DeviceFailed),
        };
        *counter += 1;
        status
    }

    fn notice(&mut self, session: u64, notice: Notice) {
        if self.notices.len() < MAX_NOTICES {
            self.notices.push((session, notice));
        }
    }

    fn forget(&mut self, id: u64) -> (Remains, Option<Entry>) {
        let mut remains = Remains { lanes: Vec::new() };
        let Some(entry) = self.sessions.remove(&id) else { return (remains, None) };
        entry.session.bury();
        self.drop_waiting(id);
        for (index, accelerator) in self.accelerators.iter_mut().enumerate() {
            for (number, lane) in accelerator.lanes.iter_mut().enumerate() {
                if lane.running.as_ref().is_some_and(|request| request.session.id == id) {
                    lane.cancelling = true;
                    remains.lanes.push((index, number, lane.stream));
                }
            }
        }
        (remains, Some(entry))
    }

    /// Drops the waiting requests of a session that is not served any more, without an answer.
    fn drop_waiting(&mut self, id: u64) {
        let State { accelerators, counters, .. } = self;
        for bucket in accelerators.iter_mut().flat_map(|each| &mut each.buckets) {
            let of_session = |request: &Request| request.session.id == id;
            bucket.queue.remove(of_session, |_| counters.cancelled += 1);
        }
    }

    /// Lets lanes work on after the cancellation of what `forget` found.
    fn resume(&mut self, remains: &Remains, answers: &mut Vec<Answer>) {
        for &(accelerator, lane, _) in &remains.lanes {
            let Some(owner) = self.accelerators.get_mut(accelerator) else { continue };
            if owner.lanes[lane].running.is_none() {
                owner.release(lane);
            } else {
                owner.lanes[lane].cancelling = false;
            }
            self.advance(accelerator, None, answers);
        }
    }
}

fn set_spreads(accelerators: &mut [Accelerator], spreads: &[Spread]) {
    for (accelerator, spread) in accelerators.iter_mut().zip(spreads) {
        accelerator.set_spread(spread);
    }
}
