//! What a chunk of a run, from checkpoint to checkpoint, costs on a simulated core.

use crate::{Carry, Error, ModuleId, Path};

/// Where the costs of a virtual run come from.
pub enum Costs {
    /// The processor time that the code took on this machine, times `factor`: how much slower the
    /// platform is that is simulated; and the time of accelerators that was stated.
    Measured {
        /// The platform's factor.
        factor: f64,
    },
    /// What the function says of each chunk, in nanoseconds.
    Declared(Box<dyn FnMut(&Chunk) -> u64>),
    /// What a recording says: the run is the recorded one to the nanosecond, if its inputs and
    /// settings are.
    Replay(Recording),
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
    /// Whose; `None` for work ahead.
    pub module: Option<ModuleId>,
    /// The frame that the run is about.
    pub frame: u64,
    /// On which path.
    pub path: Path,
    /// Whether it is of a piece of a run ([`crate::Cx::divide`]).
    pub piece: bool,
    /// Its number in the run, or in the piece, from 0; of the middleware's, that of the code's next.
    pub index: u32,
    /// What it does for a message, if it is the middleware's and not the code's.
    pub carry: Option<Carry>,
    /// What it took on this machine's processor.
    pub cpu_ns: u64,
    /// For how much of an accelerator's work it waited ([`crate::Cx::accelerated`]).
    pub accelerator_ns: u64,
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

    pub(super) fn charge(&mut self, job: u64, chunk: &Chunk) -> Result<u64, Error> {
        let number = self.recording.chunks.len();
        let ns = match &mut self.costs {
            Costs::Measured { factor } => {
                (chunk.cpu_ns as f64 * *factor).round() as u64 + chunk.accelerator_ns
            }
            Costs::Declared(cost) => cost(chunk),
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
