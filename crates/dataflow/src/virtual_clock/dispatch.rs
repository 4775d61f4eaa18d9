//! Assignment of simulated cores to runs: hosts by their deadlines, then guests.

use realtime::clock::thread_cpu_ns;

use crate::engine::{Rank, Start};
use crate::trace::Point;
use crate::virtual_clock::core::{CoreState, Lane, Running, Stage, Then};
use crate::virtual_clock::coroutine::{Answer, Ask, Did, Execution};
use crate::virtual_clock::costs::Chunk;
use crate::virtual_clock::{Event, Virtual};
use crate::{Checkpoint, Error, Mechanism};

impl Virtual {
    /// Gives the cores to what is ready now.
    pub(super) fn dispatch(&mut self) -> Result<(), Error> {
        self.rejoin();
        for core in 0..self.cores.len() {
            self.offer_own_pieces(core);
        }
        for core in self.by_preference() {
            self.offer_hosts(core);
        }
        for core in 0..self.cores.len() {
            self.bring_home(core);
        }
        for core in 0..self.cores.len() {
            if self.cores[core].at_boundary() {
                self.run_chunk(core, Lane::Stack)?;
            }
        }
        for core in 0..self.cores.len() {
            self.offer_guests(core);
            if self.cores[core].at_boundary() {
                self.run_chunk(core, Lane::Stack)?;
            }
            self.turn_to_twin(core)?;
        }
        Ok(())
    }

    /// Runs whose pieces have all ended go on.
    fn rejoin(&mut self) {
        let (now_ns, engine) = (self.now_ns, &mut self.engine);
        for core in &mut self.cores {
            for running in core.stack.last_mut().into_iter().chain(&mut core.twin) {
                if matches!(running.stage, Stage::Divided) {
                    if let Some(given) = engine.joined(now_ns, running.job) {
                        (running.stage, running.given) = (Stage::Boundary, Some(given));
                    }
                }
            }
        }
    }

    /// The core on which a run waits for its pieces does one of them.
    fn offer_own_pieces(&mut self, core: usize) {
        let state = &self.cores[core];
        let (id, Some(job)) = (state.id, state.divided()) else { return };
        if let Some(start) = self.engine.pick_own_piece(self.now_ns, id, job, &mut self.ring) {
            let running = self.begin(start);
            self.cores[core].stack.push(running);
        }
    }

    /// The cores: those without any run first, then those whose guest can be preempted.
    fn by_preference(&self) -> Vec<usize> {
        let mut cores: Vec<usize> = (0..self.cores.len()).collect();
        cores.sort_by_key(|&core| {
            let core = &self.cores[core];
            (!core.stack.is_empty(), core.twin.is_some())
        });
        cores
    }

    /// The guest whose core hosts have does its piece where the run waits, if nothing is done there.
    fn bring_home(&mut self, core: usize) {
        let now_ns = self.now_ns;
        let state = &self.cores[core];
        let Some(guest) = state.twin.as_ref().filter(|_| !state.stack.is_empty()) else { return };
        let Some((run, id)) = self.engine.home_of(guest.job) else { return };
        let waits = |core: &CoreState| core.id == id && core.divided() == Some(run);
        let Some(home) = self.cores.iter().position(waits) else { return };
        let Some(mut piece) = self.cores[core].twin.take() else { return };
        let job = piece.job;
        piece.rank = self.engine.come_home(now_ns, job, &mut self.ring);
        // The way home is as long as the way there.
        piece.extra_ns += self.engine.settings.switch_ns;
        match std::mem::replace(&mut piece.stage, Stage::Boundary) {
            Stage::Preempted { left_ns, then } => {
                let left_ns = left_ns + std::mem::take(&mut piece.extra_ns);
                self.cores[home].stack.push(piece);
                self.ring.write(now_ns, job, Point::Resumed);
                self.busy(home, Lane::Stack, left_ns, then);
            }
            _ => self.cores[home].stack.push(piece),
        }
    }

    fn offer_hosts(&mut self, core: usize) {
        let state = &self.cores[core];
        if !state.stack.is_empty() && !state.at_boundary() && state.divided().is_none() {
            return;
        }
        let (id, than) = (state.id, state.stack.last().map(|top| top.rank));
        let Some(start) = self.engine.pick_host(self.now_ns, id, than, &mut self.ring) else {
            return;
        };
        self.count_overrun(core, start.rank);
        let running = self.begin(start);
        self.preempt_twin(core);
        self.cores[core].stack.push(running);
    }

    /// A host's run begins on a core: is a guest of another group there, or has it just waited for
    /// one's chunk to end?
    fn count_overrun(&mut self, core: usize, host: Rank) {
        let (now_ns, state) = (self.now_ns, &self.cores[core]);
        let ready_ns = if let Rank::Host(key) = host { key.ready_ns } else { now_ns };
        let delay_ns = match state.guest_ns {
            (began_ns, ended_ns) if ended_ns == now_ns => now_ns - ready_ns.max(began_ns),
            _ => 0,
        };
        let twin = state.twin.as_ref().filter(|_| state.stack.is_empty());
        let there = state.stack.last().or(twin).is_some_and(|top| self.engine.is_guest(top.job));
        if there || delay_ns > 0 {
            self.engine.overrun(now_ns, state.id, delay_ns, &mut self.ring);
        }
    }

    fn offer_guests(&mut self, core: usize) {
        let state = &self.cores[core];
        if !state.stack.is_empty() || state.twin.is_some() {
            return;
        }
        let Some(start) = self.engine.pick_guest(self.now_ns, state.id, &mut self.ring) else {
            return;
        };
        let cooperative = self.engine.settings.stealing.is_some_and(|stealing| {
            stealing.mechanism == Mechanism::Cooperative && start.rank == Rank::Guest
        });
        let running = self.begin(start);
        let state = &mut self.cores[core];
        if cooperative {
            state.stack.push(running);
        } else {
            state.twin = Some(running);
        }
    }

    fn begin(&mut self, start: Start) -> Running {
        let (module, frame, path) = self.engine.about(start.job);
        let switch_ns = self.engine.settings.switch_ns;
        Running {
            job: start.job,
            rank: start.rank,
            execution: Execution::new(start.body, &mut self.stacks),
            stage: Stage::Boundary,
            extra_ns: if start.rank == Rank::Guest { switch_ns } else { 0 },
            service_ns: 0,
            chunks: 0,
            lent: false,
            chunk_ns: self.now_ns,
            module,
            frame,
            path,
            piece: self.engine.is_piece(start.job),
            given: None,
        }
    }

    /// Takes the core from the guest that has it, in the middle of its chunk.
    fn preempt_twin(&mut self, core: usize) {
        let now_ns = self.now_ns;
        let Some(twin) = &mut self.cores[core].twin else { return };
        twin.lent = true;
        twin.stage = match std::mem::replace(&mut twin.stage, Stage::Boundary) {
            Stage::Busy { end_ns, then, .. } => {
                self.ring.write(now_ns, twin.job, Point::Paused);
                Stage::Preempted { left_ns: end_ns - now_ns, then }
            }
            other => other,
        };
    }

    /// The guest has the core if no host has.
    fn turn_to_twin(&mut self, core: usize) -> Result<(), Error> {
        let now_ns = self.now_ns;
        let state = &mut self.cores[core];
        if !state.stack.is_empty() || state.twin_is_busy() {
            return Ok(());
        }
        let Some(twin) = &mut state.twin else { return Ok(()) };
        if matches!(twin.stage, Stage::Divided) {
            return Ok(());
        }
        match std::mem::replace(&mut twin.stage, Stage::Boundary) {
            Stage::Preempted { left_ns, then } => {
                self.ring.write(now_ns, twin.job, Point::Resumed);
                self.busy(core, Lane::Twin, left_ns, then);
                Ok(())
            }
            _ => self.run_chunk(core, Lane::Twin),
        }
    }

    /// Runs the code of a run's next chunk, and keeps the core for its cost.
    fn run_chunk(&mut self, core: usize, lane: Lane) -> Result<(), Error> {
        let now_ns = self.now_ns;
        let Virtual { engine, cores, ring, meter, .. } = self;
        let running = cores[core].lane(lane).expect("there is a run on this lane");
        let job = running.job;
        ring.write(now_ns, job, Point::Resumed);
        let checkpoint = match (engine.unwanted(now_ns, job), std::mem::take(&mut running.lent)) {
            (true, _) => Checkpoint::Cancel,
            (false, true) => Checkpoint::Yielded,
            (false, false) => Checkpoint::Go,
        };
        let mut answer = match running.given.take() {
            Some(given) => Answer::Given { now_ns, given },
            None => Answer::Go { now_ns, checkpoint },
        };
        let (mut cpu_ns, mut accelerator_ns) = (0, 0);
        let mut then = loop {
            let before_ns = thread_cpu_ns();
            let did = running.execution.resume(answer);
            cpu_ns += thread_cpu_ns() - before_ns;
            answer = match did {
                Did::Ended(ended) => break Then::Ended(ended),
                Did::Asked(Ask::Checkpoint) => break Then::Checkpoint,
                Did::Asked(Ask::Publish { sent, part, run }) => {
                    break Then::Publish { sent, part, run };
                }
                Did::Asked(Ask::Deserialised { message, bytes }) => {
                    break Then::Deserialised { message, bytes, took_ns: 0 };
                }
                Did::Asked(Ask::Divide(pieces)) => break Then::Divide(pieces),
                Did::Asked(Ask::Take { key, version }) => {
                    Answer::Taken(engine.take_ahead(now_ns, job, key, version, ring))
                }
                Did::Asked(Ask::Ahead { key, version, work }) => {
                    engine.ask_ahead_of(now_ns, job, key, version, work, ring);
                    Answer::Taken(None)
                }
                Did::Asked(Ask::Accelerated { ns }) => {
                    accelerator_ns += ns;
                    Answer::Taken(None)
                }
                Did::Asked(Ask::Drop { key }) => {
                    engine.drop_ahead(now_ns, key, ring);
                    Answer::Taken(None)
                }
            };
        };
        let Running { module, frame, path, piece, chunks: index, .. } = *running;
        let carry = then.carry();
        let chunk = Chunk { module, frame, path, piece, index, carry, cpu_ns, accelerator_ns };
        let cost_ns = meter.charge(job, &chunk)?;
        then.charge(cost_ns);
        let cost_ns = cost_ns + std::mem::take(&mut running.extra_ns);
        running.chunks += u32::from(carry.is_none());
        running.service_ns += cost_ns;
        running.chunk_ns = now_ns;
        self.busy(core, lane, cost_ns, then);
        Ok(())
    }

    fn busy(&mut self, core: usize, lane: Lane, ns: u64, then: Then) {
        let end_ns = self.now_ns + ns;
        let event = self.schedule(end_ns, Event::Chunk { core, lane });
        let running = CoreState::lane(&mut self.cores[core], lane).expect("there is a run");
        running.stage = Stage::Busy { end_ns, event, then };
    }
}
