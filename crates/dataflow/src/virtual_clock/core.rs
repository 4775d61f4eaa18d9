//! A simulated core: the runs that are on it, and what the topmost of them does.
//!
//! ```text
//!   stack: hosts, the last one has the core        twin: a guest, which has it while the stack
//!          (and a guest at the bottom, if guests         is empty
//!          are cooperative)
//! ```

use std::any::Any;

use crate::Part;
use crate::cx::{Piece, Run};
use crate::engine::{Ended, Rank};
use crate::middleware::{Carry, Sent};
use crate::trace::Core;
use crate::virtual_clock::coroutine::Execution;
use crate::{ModuleId, Path};

/// A run on a core.
pub(super) struct Running {
    pub(super) job: u64,
    pub(super) rank: Rank,
    pub(super) execution: Execution,
    pub(super) stage: Stage,
    /// Cost of its next chunk beside the code: the switch of a guest.
    pub(super) extra_ns: u64,
    pub(super) service_ns: u64,
    pub(super) chunks: u32,
    /// The core was lent since the last chunk.
    pub(super) lent: bool,
    /// Time at which its present or last chunk began.
    pub(super) chunk_ns: u64,
    pub(super) module: Option<ModuleId>,
    pub(super) frame: u64,
    pub(super) path: Path,
    pub(super) piece: bool,
    /// Results of its pieces, until its next chunk begins.
    pub(super) given: Option<Given>,
}

/// Results of the pieces of a run, in their order.
pub(super) type Given = Vec<Option<Box<dyn Any + Send>>>;

/// State of a run on a core.
pub(super) enum Stage {
    /// Between two chunks.
    Boundary,
    /// Computing a chunk that ends at `end_ns`, with event `event`.
    Busy { end_ns: u64, event: u64, then: Then },
    /// Without the core, in a chunk of which this much is left.
    Preempted { left_ns: u64, then: Then },
    /// Divided, until all its pieces have ended.
    Divided,
}

/// Action at the end of a chunk.
pub(super) enum Then {
    Checkpoint,
    Publish {
        sent: Sent,
        part: Part,
        run: Run,
    },
    /// A message was deserialised in the chunk.
    Deserialised {
        message: u64,
        bytes: u32,
        took_ns: u64,
    },
    Divide(Vec<Piece>),
    Ended(Ended),
}

impl Then {
    /// Returns the work of the chunk, if it was the middleware's.
    pub(super) fn carry(&self) -> Option<Carry> {
        match self {
            Then::Deserialised { bytes, .. } => Some(Carry::Deserialise { bytes: *bytes }),
            Then::Publish { sent, .. } => sent.carry(),
            Then::Ended(Ended::Module { ran: Ok(sent), .. }) => sent.carry(),
            _ => None,
        }
    }

    /// Notes the cost of the chunk, if it was the middleware's.
    pub(super) fn charge(&mut self, cost_ns: u64) {
        match self {
            Then::Deserialised { took_ns, .. } => *took_ns = cost_ns,
            Then::Publish { sent, .. } | Then::Ended(Ended::Module { ran: Ok(sent), .. }) => {
                sent.charge(cost_ns);
            }
            _ => {}
        }
    }
}

/// One of a core's two places for runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    Stack,
    Twin,
}

pub(super) struct CoreState {
    pub(super) id: Core,
    pub(super) stack: Vec<Running>,
    pub(super) twin: Option<Running>,
    /// Times at which the last chunk of a cooperative guest began and ended here.
    pub(super) guest_ns: (u64, u64),
}

impl CoreState {
    pub(super) fn lane(&mut self, lane: Lane) -> Option<&mut Running> {
        match lane {
            Lane::Stack => self.stack.last_mut(),
            Lane::Twin => self.twin.as_mut(),
        }
    }

    pub(super) fn remove(&mut self, lane: Lane) -> Option<Running> {
        match lane {
            Lane::Stack => self.stack.pop(),
            Lane::Twin => self.twin.take(),
        }
    }

    /// Returns true if the stack's topmost run is between two chunks.
    pub(super) fn at_boundary(&self) -> bool {
        self.stack.last().is_some_and(|top| matches!(top.stage, Stage::Boundary))
    }

    /// The job of the stack's topmost run, if it waits for its pieces.
    pub(super) fn divided(&self) -> Option<u64> {
        let top = self.stack.last().filter(|top| matches!(top.stage, Stage::Divided))?;
        Some(top.job)
    }

    /// Returns true if the twin's run has the core.
    pub(super) fn twin_is_busy(&self) -> bool {
        self.twin.as_ref().is_some_and(|twin| matches!(twin.stage, Stage::Busy { .. }))
    }
}
