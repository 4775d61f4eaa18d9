//! Cost of a chunk of a run, from checkpoint to checkpoint, on a simulated core.

use std::collections::{HashMap, VecDeque};

use crate::{Carry, Error, ModuleId, Path};

/// Rule by which the chunks of a virtual run are charged.
pub enum Costs {
    /// The processor time that the code took on this machine, times `factor`: how much slower the
    /// platform is that is simulated; and the time of accelerators that was stated.
    Measured {
        /// The platform's factor.
        factor: f64,
    },
    /// The cost that the function returns for each chunk, in nanoseconds.
    Declared(Box<dyn FnMut(&Chunk) -> u64>),
    /// The costs of a recording: the run is the recorded one to the nanosecond, if its inputs and
    /// settings are.
    Replay(Recording),
    /// The times that another run of the same graph took for the same chunks.
    Observed(Observed),
}

impl Costs {
    /// The same cost for each chunk of a module's code, by its number; 0 for those of no module, and
    /// of the middleware.
    pub fn fixed(ns: Vec<u64>) -> Costs {
        Costs::Declared(Box::new(move |chunk| {
            let module = chunk.module.filter(|_| chunk.carry.is_none());
            module.and_then(|module| ns.get(module.index())).copied().unwrap_or(0)
        }))
    }
}

/// A piece of a run without checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Module of the run; `None` for work ahead.
    pub module: Option<ModuleId>,
    /// The frame that the run is about.
    pub frame: u64,
    /// Path of the run.
    pub path: Path,
    /// True if it is of a piece of a run ([`crate::Cx::divide`]).
    pub piece: bool,
    /// Its number in the run, or in the piece, from 0; of the middleware's, that of the code's next.
    pub index: u32,
    /// Work for a message, if the chunk is the middleware's and not the code's.
    pub carry: Option<Carry>,
    /// Processor time on this machine, in nanoseconds.
    pub cpu_ns: u64,
    /// Time of an accelerator's work that it waited for ([`crate::Cx::accelerated`]).
    pub accelerator_ns: u64,
}

/// Times of a run on the wall clock ([`crate::Stopped::chunks`]), for the virtual clock to charge:
/// then both clocks get the same costs, and their results differ as the clocks do.
///
/// A chunk is the same if it is as far into a run, or a piece, of the same module about the same frame
/// on the same path; of several such, the first is the first. What the other run did not do costs
/// what it takes on this machine, times the factor.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    costs: HashMap<Same, VecDeque<u64>>,
    factor: f64,
    found: u64,
    missing: u64,
}

/// Properties by which two chunks are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Same {
    module: Option<ModuleId>,
    frame: u64,
    path: Path,
    piece: bool,
    index: u32,
    carry: Option<std::mem::Discriminant<Carry>>,
}

impl Same {
    fn of(chunk: &Chunk) -> Same {
        let Chunk { module, frame, path, piece, index, carry, .. } = *chunk;
        Same {
            module,
            frame,
            path,
            piece,
            index,
            carry: carry.map(|it| std::mem::discriminant(&it)),
        }
    }
}

impl Chunk {
    /// Returns its cost on a core that is `factor` times slower than the one that computed it.
    fn cost_ns(&self, factor: f64) -> u64 {
        (self.cpu_ns as f64 * factor).round() as u64 + self.accelerator_ns
    }
}

impl Observed {
    /// The costs of these chunks, on cores `factor` times slower than those that computed them.
    pub fn new(chunks: &[Chunk], factor: f64) -> Observed {
        let mut observed = Observed { factor, ..Observed::default() };
        for chunk in chunks {
            observed.costs.entry(Same::of(chunk)).or_default().push_back(chunk.cost_ns(factor));
        }
        observed
    }

    fn charge(&mut self, chunk: &Chunk) -> u64 {
        match self.costs.get_mut(&Same::of(chunk)).and_then(VecDeque::pop_front) {
            Some(ns) => {
                self.found += 1;
                ns
            }
            None => {
                self.missing += 1;
                chunk.cost_ns(self.factor)
            }
        }
    }
}

/// The costs of all chunks of a run, in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The job that each chunk is of, and its cost in nanoseconds.
    pub chunks: Vec<(u64, u64)>,
}

/// Charges chunks, and records what it charged.
pub(super) struct Meter {
    costs: Costs,
    pub(super) recording: Recording,
}

impl Meter {
    pub(super) fn new(costs: Costs) -> Self {
        Meter { costs, recording: Recording::default() }
    }

    /// Returns the number of chunks that the other run had, and the number of those that it did not
    /// have.
    pub(super) fn observed(&self) -> (u64, u64) {
        match &self.costs {
            Costs::Observed(observed) => (observed.found, observed.missing),
            _ => (0, 0),
        }
    }

    pub(super) fn charge(&mut self, job: u64, chunk: &Chunk) -> Result<u64, Error> {
        let number = self.recording.chunks.len();
        let ns = match &mut self.costs {
            Costs::Measured { factor } => chunk.cost_ns(*factor),
            Costs::Declared(cost) => cost(chunk),
            Costs::Observed(observed) => observed.charge(chunk),
            Costs::Replay(recorded) => match recorded.chunks.get(number) {
                Some(&(recorded, ns)) if recorded == job => ns,
                other => {
                    let recorded = other.map_or(0, |other| other.0);
                    return Err(Error::Diverged { chunk: number, ran: job, recorded });
                }
            },
        };
        self.recording.chunks.push((job, ns));
        Ok(ns)
    }
}
