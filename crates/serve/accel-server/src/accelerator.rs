//! One accelerator: its device, its buckets, and the lanes between them.
//!
//! A *lane* is a stream of the device with the event of the one request that is on it. A bucket
//! owns one lane at its priority level, so that its requests run one at a time while higher
//! buckets preempt them; the lowest bucket owns several where the system says
//! `concurrent_lowest`. Under `fifo` there is one bucket with one lane, which is what an
//! unmanaged driver's queue does. Under `timeslice` each client process has a bucket with a lane
//! in a context of its own, and the device shares itself among the contexts.

use crate::Error;
use crate::admission::Spread;
use crate::bucket::{Queue, Request};
use crate::holder::Holder;
use crate::meter::Meter;
use device::{ContextId, Device, Event, Level, Observer, OperationOutcome, Status, StreamId};
use realtime::clock::monotonic_ns;
use std::collections::HashMap;
use std::sync::Arc;
use system::ArbitrationPolicy;

/// Lanes that are there for demotions, so that these allocate nothing.
const SPARE_LANES: usize = 4;
/// Requests that the lowest bucket runs at once where it may.
const CONCURRENT_LANES: usize = 8;

pub(crate) struct Lane {
    pub stream: StreamId,
    pub event: Event,
    /// The bucket it serves; it returns there when its request ends.
    pub home: usize,
    pub running: Option<Request>,
    pub overran: bool,
    pub demoted: bool,
    /// A cancellation is under way; the lane takes no new request before it is through.
    pub cancelling: bool,
    pub launched: Launched,
}

/// Circumstances of the launch of a lane's request, for the measurements.
#[derive(Clone, Copy, Default)]
pub(crate) struct Launched {
    pub at_ns: u64,
    /// True if it was launched in the turn of the inbox in which it arrived: it did not have to
    /// wait.
    pub at_once: bool,
    /// The device was idle, and this was the launch of that number.
    alone: Option<u64>,
}

pub(crate) struct Bucket {
    pub queue: Queue,
    /// Lanes without a request.
    pub free: Vec<usize>,
}

pub(crate) struct Accelerator {
    pub id: Arc<str>,
    pub device: Arc<dyn Device>,
    pub policy: ArbitrationPolicy,
    pub buckets: Vec<Bucket>,
    pub lanes: Vec<Lane>,
    /// Lanes that a demotion has taken from their bucket, for the next demotion.
    spare: Vec<usize>,
    /// Lanes whose context is gone, for the next client.
    orphans: Vec<usize>,
    observer: Arc<dyn Observer>,
    context: ContextId,
    levels: u32,
    /// Chain priority to bucket, for the priorities in use; made by admission control.
    spread: Spread,
    pub meter: Arc<Meter>,
    /// Launches so far.
    launches: u64,
    /// Lanes with a request.
    busy: usize,
    /// Bucket and context of each session under `timeslice`.
    clients: HashMap<u64, (usize, ContextId)>,
}

impl Accelerator {
    pub(crate) fn new(
        config: &system::Accelerator,
        policy: ArbitrationPolicy,
        device: Arc<dyn Device>,
        observer: Arc<dyn Observer>,
    ) -> Result<Accelerator, Error> {
        let failed = |reason| Error::Device { id: config.id.clone(), reason };
        let context = device.create_context().map_err(failed)?;
        let mut accelerator = Accelerator {
            id: config.id.as_str().into(),
            device,
            policy,
            buckets: Vec::new(),
            lanes: Vec::new(),
            spare: Vec::new(),
            orphans: Vec::new(),
            observer,
            context,
            levels: if policy == ArbitrationPolicy::Priority { config.buckets } else { 1 },
            spread: Spread::new(),
            meter: Arc::new(Meter::new()),
            launches: 0,
            busy: 0,
            clients: HashMap::new(),
        };
        if policy != ArbitrationPolicy::Timeslice {
            for bucket in 0..accelerator.levels as usize {
                let concurrent = policy == ArbitrationPolicy::Priority
                    && bucket == 0
                    && config.concurrent_lowest;
                let lanes = if concurrent { CONCURRENT_LANES } else { 1 };
                accelerator.buckets.push(Bucket { queue: Queue::new(), free: Vec::new() });
                for _ in 0..lanes {
                    let lane = accelerator.add_lane(context, bucket).map_err(failed)?;
                    accelerator.buckets[bucket].free.push(lane);
                }
            }
        }
        Ok(accelerator)
    }

    /// Creates a lane for a bucket; the caller decides whether it is free.
    fn add_lane(&mut self, context: ContextId, home: usize) -> Result<usize, device::Error> {
        let level = self.level(home);
        let stream = self.device.create_stream(context, level)?;
        if let Some(index) = self.orphans.pop() {
            (self.lanes[index].stream, self.lanes[index].home) = (stream, home);
            return Ok(index);
        }
        let index = self.lanes.len();
        self.lanes.push(Lane {
            stream,
            event: Event::observed(self.observer.clone(), index as u64),
            home,
            running: None,
            overran: false,
            demoted: false,
            cancelling: false,
            launched: Launched::default(),
        });
        // Any lane may come to any bucket, or be spare.
        let lanes = self.lanes.len();
        let make_room = |list: &mut Vec<usize>| list.reserve(lanes.saturating_sub(list.len()));
        self.buckets.iter_mut().for_each(|bucket| make_room(&mut bucket.free));
        make_room(&mut self.spare);
        Ok(index)
    }

    /// Sees to it that there are lanes for the next demotions. For the control thread.
    pub(crate) fn keep_spare_lanes(&mut self) {
        while self.policy == ArbitrationPolicy::Priority && self.spare.len() < SPARE_LANES {
            // Without one, the next demotion tries, and reports the failure.
            let Ok(lane) = self.add_lane(self.context, 0) else { return };
            self.spare.push(lane);
        }
    }

    /// Makes room for this number of waiting requests.
    pub(crate) fn make_room(&mut self, requests: usize) {
        self.buckets.iter_mut().for_each(|bucket| bucket.queue.make_room(requests));
    }

    /// The device's priority level of a bucket: the same number, lowest to lowest.
    fn level(&self, bucket: usize) -> Level {
        let bucket = if self.policy == ArbitrationPolicy::Priority { bucket } else { 0 };
        Level(u8::try_from(bucket).unwrap_or(u8::MAX))
    }

    /// The bucket of a request.
    pub(crate) fn bucket_of(&self, session: u64, chain_priority: u32) -> usize {
        match self.policy {
            ArbitrationPolicy::Fifo => 0,
            ArbitrationPolicy::Timeslice => {
                self.clients.get(&session).map_or(0, |(bucket, _)| *bucket)
            }
            ArbitrationPolicy::Priority => self.bucket_of_priority(chain_priority),
        }
    }

    /// A request may outlive the rank it was sent with, when its chain gets another priority. It
    /// then goes with its neighbour below, or above, so that the map stays monotone.
    fn bucket_of_priority(&self, chain_priority: u32) -> usize {
        let below = self.spread.range(..=chain_priority).next_back();
        let neighbour = below.or_else(|| self.spread.range(chain_priority..).next());
        neighbour.map_or(0, |(_, &bucket)| bucket as usize)
    }

    /// Queues a request in its bucket.
    pub(crate) fn enqueue(&mut self, arrival: u64, request: Request) {
        let bucket = self.bucket_of(request.session.id, request.chain_priority);
        let ordered = self.policy == ArbitrationPolicy::Priority;
        let priority = if ordered { request.chain_priority } else { 0 };
        self.buckets[bucket].queue.push(priority, arrival, request);
    }

    /// A registration of this session comes.
    pub(crate) fn join(&mut self, session: u64) -> Result<(), Error> {
        if self.policy == ArbitrationPolicy::Timeslice && !self.clients.contains_key(&session) {
            self.add_client(session)
                .map_err(|reason| Error::Device { id: self.id.to_string(), reason })?;
        }
        Ok(())
    }

    /// Moves chain priorities to other buckets, and waiting requests along. What is on the device
    /// stays there.
    pub(crate) fn set_spread(&mut self, spread: &Spread) {
        if self.policy != ArbitrationPolicy::Priority || self.spread == *spread {
            return;
        }
        self.spread.clone_from(spread);
        let waiting: Vec<(u64, Request)> =
            self.buckets.iter_mut().flat_map(|bucket| bucket.queue.drain()).collect();
        for (arrival, request) in waiting {
            self.enqueue(arrival, request);
        }
    }

    fn add_client(&mut self, session: u64) -> Result<(), device::Error> {
        let context = self.device.create_context()?;
        let unused = (0..self.buckets.len())
            .find(|bucket| !self.clients.values().any(|(used, _)| used == bucket));
        let bucket = unused.unwrap_or_else(|| {
            self.buckets.push(Bucket { queue: Queue::new(), free: Vec::new() });
            self.buckets.len() - 1
        });
        let lane = self.add_lane(context, bucket)?;
        self.buckets[bucket].free = vec![lane];
        self.clients.insert(session, (bucket, context));
        Ok(())
    }

    /// Forgets a client whose work has ended, under `timeslice`; the caller destroys the context.
    pub(crate) fn remove_client(&mut self, session: u64) -> Option<ContextId> {
        let (bucket, context) = self.clients.remove(&session)?;
        self.orphans.append(&mut self.buckets[bucket].free);
        Some(context)
    }

    /// Returns true if a lane runs a request of this session, or if any lane is cancelling one.
    pub(crate) fn works_for(&self, session: u64) -> bool {
        let of_session = |request: &Request| request.session.id == session;
        self.lanes
            .iter()
            .any(|lane| lane.cancelling || lane.running.as_ref().is_some_and(of_session))
    }

    /// Gives waiting requests to free lanes, the highest bucket first. Requests that the device
    /// refuses go to `refused`. `taken_ns` is the time of this turn of the inbox, in one.
    pub(crate) fn advance(
        &mut self,
        taken_ns: Option<u64>,
        holder: &mut Holder,
        mut refused: impl FnMut(Request),
    ) {
        for bucket in self.buckets.iter_mut().rev() {
            while let Some(&lane) = bucket.free.last() {
                let Some(request) = bucket.queue.pop() else { break };
                let at_ns = monotonic_ns();
                let (stream, event) = (self.lanes[lane].stream, &self.lanes[lane].event);
                if request.locks {
                    holder.begin(at_ns);
                }
                match self.device.launch(stream, request.launch.clone(), event) {
                    Ok(()) => {
                        bucket.free.pop();
                        self.launches += 1;
                        let alone = (self.busy == 0).then_some(self.launches);
                        let at_once = taken_ns == Some(request.arrived_ns);
                        self.busy += 1;
                        self.lanes[lane].launched = Launched { at_ns, at_once, alone };
                        self.lanes[lane].running = Some(request);
                    }
                    Err(_) => {
                        if request.locks {
                            holder.end(at_ns);
                        }
                        refused(request);
                    }
                }
            }
        }
    }

    /// The request of a lane has ended: takes it out and frees the lane.
    pub(crate) fn retire(&mut self, lane: usize) -> Option<Request> {
        let request = self.lanes[lane].running.take();
        self.busy -= usize::from(request.is_some());
        if !self.lanes[lane].cancelling {
            self.release(lane);
        }
        request
    }

    /// Returns the time for which the request of a lane, which ends now, occupied its bucket
    /// without running; None if it did not have the device for itself, or was not done.
    pub(crate) fn overhead_ns(
        &self,
        lane: usize,
        outcome: &OperationOutcome,
        now_ns: u64,
    ) -> Option<u64> {
        let launched = &self.lanes[lane].launched;
        let alone = launched.alone == Some(self.launches) && outcome.status == Status::Done;
        let begin_ns = outcome.started_ns.checked_sub(launched.at_ns).filter(|_| alone)?;
        Some(begin_ns + now_ns.checked_sub(outcome.finished_ns)?)
    }

    /// Returns a lane without a request to where it belongs.
    pub(crate) fn release(&mut self, lane: usize) {
        (self.lanes[lane].overran, self.lanes[lane].cancelling) = (false, false);
        if std::mem::take(&mut self.lanes[lane].demoted) {
            self.spare.push(lane);
        } else {
            let home = self.lanes[lane].home;
            self.buckets[home].free.push(lane);
        }
    }

    /// Moves a running request to the lowest level, and gives its bucket another lane.
    pub(crate) fn demote(&mut self, lane: usize) -> Result<(), device::Error> {
        let home = self.lanes[lane].home;
        if self.policy != ArbitrationPolicy::Priority || home == 0 || self.lanes[lane].demoted {
            return Ok(());
        }
        self.device.set_stream_level(self.lanes[lane].stream, Level(0))?;
        self.lanes[lane].demoted = true;
        let replacement = match self.spare.pop() {
            Some(spare) => {
                self.device.set_stream_level(self.lanes[spare].stream, self.level(home))?;
                self.lanes[spare].home = home;
                spare
            }
            None => self.add_lane(self.context, home)?,
        };
        self.buckets[home].free.push(replacement);
        Ok(())
    }
}
