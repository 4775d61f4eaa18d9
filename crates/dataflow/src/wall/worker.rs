//! A thread that runs modules: a core's worker, or its twin.

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use realtime::clock::thread_cpu_ns;
use realtime::mutex::CeilingGuard;
use realtime::thread::{Scheduling, pin, set_name, set_nice, set_policy};

use crate::cx::{Host, Piece, Run, Work};
use crate::engine::{Body, Ended, Rank, Start, run_module};
use crate::middleware::{Carry, Sent};
use crate::trace::{Core, Point, Ring};
use crate::wall::charge::Charge;
use crate::wall::{CoreState, Left, Locked, Shared};
use crate::{Checkpoint, Chunk, Error, Mechanism, Part, WorkCx};

/// One of a core's two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Worker,
    Twin,
}

pub(super) struct Worker {
    shared: Arc<Shared>,
    number: usize,
    core: Core,
    lane: Lane,
    /// A twin's priority while it has the lock: above those of all that could keep it from a core.
    ceiling: Option<u8>,
    ring: Ring,
    /// Chunks that are kept, each with when it was over, ns.
    chunks: Vec<(u64, Chunk)>,
    /// Start and end of the worker's last run of a guest.
    guest_ns: (u64, u64),
}

/// Highest `SCHED_FIFO` priority.
const HIGHEST: u8 = 99;
/// The nice value of a worker that may not have its real-time priority.
const FIRST: i32 = -20;

/// Rights that the system refused to a thread, or the error for which it cannot run at all.
type Told = Result<Vec<String>, Error>;

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        number: usize,
        core: Core,
        lane: Lane,
        ring: Ring,
    ) -> Self {
        // Enough for a drive of some seconds: no thread waits while the list moves.
        let chunks = Vec::with_capacity(if shared.keeps { 1 << 14 } else { 0 });
        Worker { shared, number, core, lane, ceiling: None, ring, chunks, guest_ns: (0, 0) }
    }

    pub(super) fn start(self, tell: Sender<Told>) -> Result<JoinHandle<Left>, Error> {
        Ok(std::thread::Builder::new().spawn(move || self.run(tell))?)
    }

    fn run(mut self, tell: Sender<Told>) -> Left {
        let told = self.set_up();
        let well = told.is_ok();
        // The thread that started this one waits for this, and for the sender to go.
        let _ = tell.send(told);
        drop(tell);
        if well {
            self.work();
        }
        Left { ring: self.ring, chunks: self.chunks }
    }

    fn set_up(&mut self) -> Told {
        let mut locked = self.shared.locked.lock();
        let group = locked.engine.groups[usize::from(self.core.group)].group.clone();
        let place = locked.cores[self.number].place(self.lane);
        (place.thread, place.number) = (Some(std::thread::current()), realtime::thread::id());
        let priorities = locked.engine.groups.iter().filter_map(|group| group.group.priority);
        let highest = priorities.max().filter(|_| self.lane == Lane::Twin);
        drop(locked);
        let ceiling = highest.map(|highest| highest.saturating_add(1).min(HIGHEST));
        // A priority that is refused once is not asked for at each lock.
        self.ceiling = ceiling.filter(|ceiling| set_policy(Scheduling::Fifo(*ceiling)).is_ok());
        let lane = if self.lane == Lane::Worker { "" } else { "~" };
        set_name(&format!("{}-{}{lane}", group.name, self.core.index));
        if let Some(&machine_core) = group.pin.get(usize::from(self.core.index)) {
            pin(&[machine_core])
                .map_err(|source| Error::Worker { group: group.name.clone(), source })?;
        }
        let refused = match (self.lane, group.priority) {
            (Lane::Worker, Some(priority)) => {
                set_policy(Scheduling::Fifo(priority)).err().map(|error| match set_nice(FIRST) {
                    Ok(()) => format!("{error}; it has the nice value {FIRST} instead"),
                    Err(nice) => format!("{error}; {nice}"),
                })
            }
            (Lane::Worker, None) => None,
            // Not SCHED_IDLE: such a thread can be kept from the core by any thread while it has
            // the lock, and lends no priority from ordinary threads that wait for it.
            (Lane::Twin, _) => set_policy(Scheduling::Normal).err().map(|error| error.to_string()),
        };
        Ok(refused.into_iter().map(|refused| format!("group {}: {refused}", group.name)).collect())
    }

    fn work(&mut self) {
        let shared = self.shared.clone();
        while !shared.stopping() {
            let mut locked = shared.locked.lock_at(self.ceiling);
            let now_ns = shared.now_ns();
            // It may not have been woken.
            locked.cores[self.number].place(self.lane).parked = false;
            let start = match self.lane {
                Lane::Worker => self.pick(&mut locked, now_ns),
                Lane::Twin => self.pick_for_twin(&mut locked, now_ns),
            };
            let place = &mut locked.cores[self.number];
            match (start, self.lane) {
                (Some(start), _) => {
                    drop(locked);
                    self.execute(start);
                    continue;
                }
                (None, Lane::Worker) => {
                    place.worker.parked = true;
                    place.twin.wake();
                }
                (None, Lane::Twin) => place.twin.parked = true,
            }
            drop(locked);
            std::thread::park();
        }
    }

    fn pick(&mut self, locked: &mut Locked, now_ns: u64) -> Option<Start> {
        let Locked { engine, cores, .. } = locked;
        if let Some(start) = engine.pick_host(now_ns, self.core, None, &mut self.ring) {
            let guest = cores[self.number].guest.is_some();
            let ready_ns = if let Rank::Host(key) = start.rank { key.ready_ns } else { now_ns };
            let (began_ns, ended_ns) = std::mem::take(&mut self.guest_ns);
            let delay_ns = ended_ns.saturating_sub(ready_ns.max(began_ns));
            if guest || delay_ns > 0 {
                engine.overrun(now_ns, self.core, delay_ns, &mut self.ring);
            }
            locked.send_home(now_ns, self.number, &mut self.ring);
            return Some(start);
        }
        let cooperative = |stealing: crate::Stealing| stealing.mechanism == Mechanism::Cooperative;
        let steals = engine.settings.stealing.is_some_and(cooperative);
        steals.then(|| engine.steal(now_ns, self.core, &mut self.ring)).flatten()
    }

    fn pick_for_twin(&mut self, locked: &mut Locked, now_ns: u64) -> Option<Start> {
        let Locked { engine, cores, .. } = locked;
        let CoreState { worker, divided, .. } = &cores[self.number];
        if !worker.parked || *divided || engine.groups[usize::from(self.core.group)].waits() {
            return None;
        }
        let twin = |stealing: crate::Stealing| stealing.mechanism == Mechanism::Twin;
        let steals = engine.settings.stealing.is_some_and(twin);
        let start = match steals {
            true => engine.pick_guest(now_ns, self.core, &mut self.ring),
            false => engine.pick_ahead(now_ns, self.core, &mut self.ring),
        }?;
        cores[self.number].guest = (start.rank == Rank::Guest).then_some(start.job);
        Some(start)
    }

    /// Runs what was picked, to its end.
    fn execute(&mut self, start: Start) {
        let (shared, job, lane) = (self.shared.clone(), start.job, self.lane);
        let (began_ns, cpu_ns) = (shared.now_ns(), thread_cpu_ns());
        self.ring.write(began_ns, job, Point::Resumed);
        let (rank, next) =
            (start.rank, shared.keeps.then(|| shared.first_chunk(job, self.ceiling)));
        let charge = Charge::begin(shared.factor, next.is_some());
        let mut host =
            WallHost { shared: &shared, worker: self, job, rank, lent_ns: 0, charge, next };
        let mut ended = match start.body {
            Body::Module { module, input, path, run, mail } => {
                run_module(&mut host, (module, input), run, path, mail)
            }
            Body::Work(work) => Ended::Work(work(&mut WorkCx { host: &mut host })),
        };
        let sent = match &mut ended {
            Ended::Module { ran: Ok(sent), .. } => Some(sent),
            _ => None,
        };
        host.chunk_ends(sent.as_ref().and_then(|sent| sent.carry()));
        if let Some(sent) = sent {
            sent.out_at(shared.now_ns());
        }
        let (lent_ns, guest) = (host.lent_ns, host.rank == Rank::Guest);
        let mut locked = shared.locked.lock_at(self.ceiling);
        let now_ns = shared.now_ns();
        // A worker has its core all the time, also while it waits for an accelerator; a twin has
        // it when no other thread wants it.
        let service_ns = match lane {
            Lane::Worker => now_ns - began_ns - lent_ns,
            Lane::Twin => thread_cpu_ns() - cpu_ns,
        };
        if guest && lane == Lane::Worker {
            self.guest_ns = (began_ns + lent_ns, now_ns);
        }
        self.ring.write(now_ns, job, Point::Paused);
        locked.engine.finish(now_ns, job, ended, service_ns, &mut self.ring);
        let mut away = false;
        if lane == Lane::Twin {
            let place = &mut locked.cores[self.number];
            (place.guest, away) = (None, std::mem::take(&mut place.away));
        }
        let own = locked.pinned(self.core);
        locked.settle(now_ns, &mut self.ring);
        drop(locked);
        // Without the lock: on its own core a host may be busy.
        if away {
            if let Some(own) = own {
                // It was there before.
                let _ = pin(&[own]);
            }
        }
    }
}

struct WallHost<'a> {
    shared: &'a Shared,
    worker: &'a mut Worker,
    job: u64,
    rank: Rank,
    /// Time for which more urgent runs had the core.
    lent_ns: u64,
    charge: Charge,
    /// The chunk that the run is in, if those are kept.
    next: Option<Chunk>,
}

impl<'a> WallHost<'a> {
    fn lock(&self) -> CeilingGuard<'a, Locked> {
        self.shared.locked.lock_at(self.worker.ceiling)
    }

    /// The chunk is over, which was for `carry`, if it was the middleware's.
    fn chunk_ends(&mut self, carry: Option<Carry>) {
        let cpu_ns = self.charge.end();
        if let Some(next) = &mut self.next {
            let chunk = Chunk { carry, cpu_ns, ..*next };
            self.worker.chunks.push((self.shared.now_ns(), chunk));
            next.index += u32::from(carry.is_none());
            next.accelerator_ns = 0;
        }
    }

    /// Runs what is more urgent; returns whether the run goes on.
    fn pass(&mut self) -> Checkpoint {
        let mut locked = self.lock();
        if locked.engine.unwanted(self.shared.now_ns(), self.job) {
            return Checkpoint::Cancel;
        }
        if self.worker.lane == Lane::Twin {
            return Checkpoint::Go;
        }
        let (core, now_ns) = (self.worker.core, self.shared.now_ns());
        let (than, ring) = (Some(self.rank), &mut self.worker.ring);
        let Some(start) = locked.engine.pick_host(now_ns, core, than, ring) else {
            return Checkpoint::Go;
        };
        if let (Rank::Guest, Rank::Host(key)) = (self.rank, start.rank) {
            locked.engine.overrun(now_ns, core, now_ns - key.ready_ns, ring);
        }
        drop(locked);
        self.worker.ring.write(now_ns, self.job, Point::Paused);
        self.worker.execute(start);
        let end_ns = self.shared.now_ns();
        self.lent_ns += end_ns - now_ns;
        self.worker.ring.write(end_ns, self.job, Point::Resumed);
        match self.lock().engine.unwanted(end_ns, self.job) {
            true => Checkpoint::Cancel,
            false => Checkpoint::Yielded,
        }
    }
}

impl Host for WallHost<'_> {
    fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    fn checkpoint(&mut self) -> Checkpoint {
        self.chunk_ends(None);
        let answer = self.pass();
        self.charge.resume();
        answer
    }

    fn publish(&mut self, mut sent: Sent, part: Part, run: &Run) {
        self.chunk_ends(sent.carry());
        sent.out_at(self.shared.now_ns());
        let mut locked = self.lock();
        let now_ns = self.shared.now_ns();
        locked.engine.publish(now_ns, self.job, sent, part, run, &mut self.worker.ring);
        locked.settle(now_ns, &mut self.worker.ring);
        drop(locked);
        self.charge.resume();
    }

    fn code_ends(&mut self) {
        self.chunk_ends(None);
        self.charge.resume();
    }

    fn deserialised(&mut self, message: u64, bytes: u32, began_ns: u64) {
        self.chunk_ends(Some(Carry::Deserialise { bytes }));
        let now_ns = self.shared.now_ns();
        let took_ns = now_ns.saturating_sub(began_ns);
        let point = Point::Deserialised { message, bytes, took_ns };
        self.worker.ring.write(now_ns, self.job, point);
        self.charge.resume();
    }

    fn ahead(&mut self, key: &'static str, version: u64, work: Work) {
        self.charge.pause();
        let mut locked = self.lock();
        let now_ns = self.shared.now_ns();
        let ring = &mut self.worker.ring;
        locked.engine.ask_ahead_of(now_ns, self.job, key, version, work, ring);
        locked.settle(now_ns, ring);
        drop(locked);
        self.charge.resume();
    }

    fn take(&mut self, key: &'static str, version: u64) -> Option<Box<dyn Any + Send>> {
        self.charge.pause();
        let mut locked = self.lock();
        let now_ns = self.shared.now_ns();
        let taken = locked.engine.take_ahead(now_ns, self.job, key, version, &mut self.worker.ring);
        drop(locked);
        self.charge.resume();
        taken
    }

    fn accelerated(&mut self, ns: u64) {
        // The thread has waited for it already.
        if let Some(next) = &mut self.next {
            next.accelerator_ns += ns;
        }
    }

    fn divide(&mut self, pieces: Vec<Piece>) -> Vec<Option<Box<dyn Any + Send>>> {
        self.chunk_ends(None);
        let (shared, core, began_ns) = (self.shared, self.worker.core, self.shared.now_ns());
        let mut locked = self.lock();
        locked.engine.divide(began_ns, self.job, self.rank, pieces, &mut self.worker.ring);
        self.worker.ring.write(began_ns, self.job, Point::Paused);
        locked.wake();
        let given = loop {
            let (now_ns, ring) = (shared.now_ns(), &mut self.worker.ring);
            if let Some(given) = locked.engine.joined(now_ns, self.job) {
                break given;
            }
            let own = locked.engine.pick_own_piece(now_ns, core, self.job, ring);
            let start = own.or_else(|| match self.worker.lane {
                Lane::Worker => locked.engine.pick_host(now_ns, core, Some(self.rank), ring),
                Lane::Twin => None,
            });
            match start {
                Some(start) => {
                    drop(locked);
                    self.worker.execute(start);
                    if self.worker.lane == Lane::Twin {
                        let mut locked = self.lock();
                        let guest = (self.rank == Rank::Guest).then_some(self.job);
                        locked.cores[self.worker.number].guest = guest;
                    }
                }
                None => {
                    locked.cores[self.worker.number].park(self.worker.lane);
                    if self.worker.lane == Lane::Worker {
                        // Guests that do its pieces and do not get on.
                        for core in 0..locked.cores.len() {
                            locked.send_home(now_ns, core, &mut self.worker.ring);
                        }
                    }
                    drop(locked);
                    std::thread::park();
                }
            }
            locked = self.lock();
            locked.cores[self.worker.number].unpark(self.worker.lane);
        };
        let end_ns = shared.now_ns();
        self.lent_ns += end_ns - began_ns;
        self.worker.ring.write(end_ns, self.job, Point::Resumed);
        drop(locked);
        self.charge.resume();
        given
    }

    fn drop_ahead(&mut self, key: &'static str) {
        self.charge.pause();
        let mut locked = self.lock();
        let now_ns = self.shared.now_ns();
        locked.engine.drop_ahead(now_ns, key, &mut self.worker.ring);
        drop(locked);
        self.charge.resume();
    }
}
