//! Breakdown of a reaction time: the critical path from a hazard to the command, in parts that sum
//! to the whole (COLA, section 3.1, equation 2).
//!
//! ```text
//!   T0        captured      comes in        starts      ends        starts   publishes = T1
//!   |--- t_confirm ---|-- t_sensor --|- bubble -|- module -|- bubble -|- module -|
//! ```
//!
//! The path is walked backwards from the command: the run that published it, the message that this
//! run read and that knows of the hazard, the run that published that, and so on to a frame that
//! came in from outside. What a run, or a piece of it, had a core for is module time; all else is
//! bubble: waiting for a core, for a timer or another input, being preempted, travelling. What the
//! middleware takes is named within both.

use std::collections::{HashMap, HashSet};

use crate::trace::{Event, Point};
use crate::{ModuleId, SourceId};

/// One run of the critical path: the computation between two messages of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Module of the run.
    pub module: ModuleId,
    /// Its number in the trace.
    pub job: u64,
    /// Time at which the message that it read was published, or came in.
    pub ready_ns: u64,
    /// Time at which it began.
    pub start_ns: u64,
    /// Time at which it published.
    pub published_ns: u64,
    /// Time for which it, or a piece of it, had a core in between. Includes
    /// [`Step::deserialise_ns`] and [`Step::serialise_ns`].
    pub module_ns: u64,
    /// The part of it that made values of the messages that it read.
    pub deserialise_ns: u64,
    /// The part of it that made bytes of what it published until then.
    pub serialise_ns: u64,
    /// Time from `ready_ns` to `start_ns`. Includes [`Step::hop_ns`].
    pub waited_ns: u64,
    /// The part of it until the message was in the mailbox.
    pub hop_ns: u64,
    /// Time for which it had no core in between.
    pub preempted_ns: u64,
}

/// A reaction and what its time is made of. All parts are sums of events of the trace, each counted
/// on its own; [`Reaction::unexplained_ns`] says by how much they miss the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaction {
    /// Time at which the hazard could be seen (T0).
    pub hazard_ns: u64,
    /// Time at which the first command that reacts to it was out (T1).
    pub command_ns: u64,
    /// Time from the hazard until the frame came in: until it was captured, and on its way.
    /// Includes [`Reaction::confirm_ns`].
    pub sensor_ns: u64,
    /// The part of it that passed between the first frame that shows the hazard and the one that
    /// the command is computed from: what a tracker needs to confirm it, and frames that were
    /// dropped.
    pub confirm_ns: u64,
    /// Time for which the runs of the path had a core. Includes the middleware's work, the rest of
    /// [`Reaction::middleware_ns`] is a part of `bubble_ns`.
    pub module_ns: u64,
    /// Time for which they did not: waiting, preempted, or on the way between modules.
    pub bubble_ns: u64,
    /// The frame that the command is computed from.
    pub frame: u64,
    /// Source of the frame.
    pub source: SourceId,
    /// The runs of the path, in the order of time.
    pub steps: Vec<Step>,
}

impl Reaction {
    /// Returns the length of the reaction: T1 - T0.
    pub fn total_ns(&self) -> u64 {
        self.command_ns.saturating_sub(self.hazard_ns)
    }

    /// The middleware's share: making bytes and values of messages, which are parts of `module_ns`,
    /// and their hops, which are parts of `bubble_ns`.
    pub fn middleware_ns(&self) -> u64 {
        let in_middleware = |step: &Step| [step.deserialise_ns, step.serialise_ns, step.hop_ns];
        total(self.steps.iter().flat_map(in_middleware))
    }

    /// Difference between the parts and the whole; 0 unless the trace has lost events.
    pub fn unexplained_ns(&self) -> i64 {
        self.total_ns() as i64 - (self.sensor_ns + self.module_ns + self.bubble_ns) as i64
    }
}

/// A sum that a trace from a file, which may say anything, cannot make overflow.
fn total(times: impl Iterator<Item = u64>) -> u64 {
    times.fold(0, u64::saturating_add)
}

/// A trace, indexed for looking for reactions in it.
pub struct Reactions {
    frames: HashMap<u64, Frame>,
    /// The run that published each message, and the time.
    published: HashMap<u64, (u64, u64)>,
    jobs: HashMap<u64, Run>,
    /// The jobs that are pieces of a run.
    pieces: HashMap<u64, Vec<u64>>,
    /// Time at which a message came into a module's mailbox.
    arrived: HashMap<(u64, ModuleId), u64>,
    actuated: Vec<(u64, u64)>,
}

struct Frame {
    source: SourceId,
    number: u64,
    captured_ns: u64,
    came_ns: u64,
}

#[derive(Default)]
struct Run {
    module: Option<ModuleId>,
    start_ns: u64,
    read: Vec<u64>,
    /// Intervals in which it had a core, from and to.
    served: Vec<(u64, u64)>,
    /// Times for which messages were made values, with their ends.
    deserialised: Vec<(u64, u64)>,
    /// The same of messages that were made bytes.
    serialised: Vec<(u64, u64)>,
}

impl Reactions {
    /// The reactions of the events of a trace, by time; see [`crate::trace::merge`].
    pub fn new(events: &[Event]) -> Self {
        let mut all = Reactions {
            frames: HashMap::new(),
            published: HashMap::new(),
            jobs: HashMap::new(),
            pieces: HashMap::new(),
            arrived: HashMap::new(),
            actuated: Vec::new(),
        };
        for event in events {
            all.note(event);
        }
        all
    }

    fn note(&mut self, event: &Event) {
        let (at_ns, job) = (event.at_ns, event.job);
        match event.point {
            Point::Injected { message, source, frame: number, captured_ns } => {
                self.frames.insert(message, Frame { source, number, captured_ns, came_ns: at_ns });
            }
            Point::Start { module, .. } => {
                let run = self.jobs.entry(job).or_default();
                (run.module, run.start_ns) = (module, at_ns);
            }
            Point::Piece { of, .. } => self.pieces.entry(of).or_default().push(job),
            Point::Read { message } => self.jobs.entry(job).or_default().read.push(message),
            Point::Resumed => {
                self.jobs.entry(job).or_default().served.push((at_ns, u64::MAX));
            }
            Point::Paused => {
                if let Some(last) = self.jobs.entry(job).or_default().served.last_mut() {
                    last.1 = at_ns;
                }
            }
            Point::Published { message, .. } => {
                self.published.insert(message, (job, at_ns));
            }
            Point::Arrived { message, module, .. } => {
                self.arrived.insert((message, module), at_ns);
            }
            Point::Serialised { took_ns, .. } => {
                self.jobs.entry(job).or_default().serialised.push((took_ns, at_ns));
            }
            Point::Deserialised { took_ns, .. } => {
                self.jobs.entry(job).or_default().deserialised.push((took_ns, at_ns));
            }
            Point::Actuated { message } => self.actuated.push((message, at_ns)),
            _ => {}
        }
    }

    /// The first command that was computed from a frame of `source` captured at `hazard_ns` or
    /// later and that `reacts` says reacts (it is asked with the message's number), and the path to
    /// it. `None` if there is none, or the trace has lost its beginning.
    pub fn first(
        &self,
        source: SourceId,
        hazard_ns: u64,
        mut reacts: impl FnMut(u64) -> bool,
    ) -> Option<Reaction> {
        let shows = |frame: &Frame| frame.source == source && frame.captured_ns >= hazard_ns;
        self.actuated.iter().find_map(|&(message, command_ns)| {
            let path = self.path(message, hazard_ns, &shows)?;
            reacts(message).then(|| self.reaction(hazard_ns, command_ns, &path, &shows)).flatten()
        })
    }

    /// The messages from `message` back to a frame that `shows`, newest first. Of what a run read,
    /// what its output belongs to is followed first, and the rest only if that does not lead there.
    fn path(
        &self,
        message: u64,
        hazard_ns: u64,
        shows: &impl Fn(&Frame) -> bool,
    ) -> Option<Vec<u64>> {
        let mut seen = HashSet::new();
        let mut path = vec![(message, 0)];
        while let Some((message, next)) = path.last_mut() {
            if let Some(frame) = self.frames.get(message) {
                if shows(frame) {
                    return Some(path.into_iter().map(|(message, _)| message).collect());
                }
            }
            // A message that was published before the hazard does not know of it.
            let published =
                self.published.get(message).filter(|published| published.1 >= hazard_ns);
            let read = published.and_then(|(job, _)| self.jobs.get(job)?.read.get(*next));
            *next += 1;
            match read {
                Some(&read) if seen.insert(read) => path.push((read, 0)),
                Some(_) => {}
                None => {
                    path.pop();
                }
            }
        }
        None
    }

    fn reaction(
        &self,
        hazard_ns: u64,
        command_ns: u64,
        path: &[u64],
        shows: &impl Fn(&Frame) -> bool,
    ) -> Option<Reaction> {
        let frame = &self.frames[path.last()?];
        let first_ns =
            self.frames.values().filter(|frame| shows(frame)).map(|frame| frame.captured_ns);
        let confirm_ns = frame.captured_ns - first_ns.min()?;
        let mut steps = Vec::new();
        for pair in path.windows(2) {
            let (job, published_ns) = self.published[&pair[0]];
            let ready_ns = match self.frames.get(&pair[1]) {
                Some(frame) => frame.came_ns,
                None => self.published[&pair[1]].1,
            };
            steps.push(self.step(job, (pair[1], ready_ns), published_ns)?);
        }
        steps.reverse();
        Some(Reaction {
            hazard_ns,
            command_ns,
            sensor_ns: frame.came_ns.saturating_sub(hazard_ns),
            confirm_ns,
            module_ns: total(steps.iter().map(|step| step.module_ns)),
            bubble_ns: total(steps.iter().flat_map(|step| [step.waited_ns, step.preempted_ns])),
            frame: frame.number,
            source: frame.source,
            steps,
        })
    }

    /// Returns the intervals in which a run or a piece of it had a core, until it published; in the
    /// order of time, without overlap.
    fn served(&self, job: u64, published_ns: u64) -> Vec<(u64, u64)> {
        let pieces = self.pieces.get(&job).into_iter().flatten();
        let jobs = pieces.chain([&job]).filter_map(|job| self.jobs.get(job));
        let times = jobs.flat_map(|run| &run.served);
        let times = times.map(|&(from_ns, to_ns)| (from_ns, to_ns.min(published_ns)));
        let mut times: Vec<(u64, u64)> =
            times.filter(|(from_ns, to_ns)| from_ns <= to_ns).collect();
        times.sort_unstable();
        times.dedup_by(|next, before| {
            let together = next.0 <= before.1;
            if together {
                before.1 = before.1.max(next.1);
            }
            together
        });
        times
    }

    fn step(&self, job: u64, read: (u64, u64), published_ns: u64) -> Option<Step> {
        let (message, ready_ns) = read;
        let run = &self.jobs[&job];
        let module = run.module?;
        let until = |chunks: &[(u64, u64)]| {
            let chunks = chunks.iter().filter(|(_, at_ns)| *at_ns <= published_ns);
            total(chunks.map(|(took_ns, _)| *took_ns))
        };
        let waited_ns = run.start_ns.saturating_sub(ready_ns);
        let arrived_ns = self.arrived.get(&(message, module)).copied();
        let hop_ns = arrived_ns.map_or(0, |at_ns| at_ns.saturating_sub(ready_ns));
        let served = self.served(job, published_ns);
        let gaps = total(served.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].1)));
        Some(Step {
            module,
            job,
            ready_ns,
            start_ns: run.start_ns,
            published_ns,
            module_ns: total(served.iter().map(|(from_ns, to_ns)| to_ns - from_ns)),
            deserialise_ns: until(&run.deserialised),
            serialise_ns: until(&run.serialised),
            waited_ns,
            hop_ns: hop_ns.min(waited_ns),
            preempted_ns: gaps.saturating_add(served.first()?.0.saturating_sub(run.start_ns)),
        })
    }
}
