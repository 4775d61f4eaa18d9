//! Trace of a graph: its events, in rings in memory.

mod reaction;
pub mod record;
mod ring;

pub use reaction::{Reaction, Reactions, Step};
pub use ring::Ring;

use crate::{ModuleId, Path, SourceId};

/// A core of an executor: its group, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Core {
    /// The group's number.
    pub group: u16,
    /// The core's number in its group.
    pub index: u16,
}

/// Names of the modules, groups, sources and topics that have numbers in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Modules, by [`ModuleId::index`].
    pub modules: Vec<String>,
    /// Groups, by number.
    pub groups: Vec<String>,
    /// Sources, by [`SourceId::index`].
    pub sources: Vec<String>,
    /// The topics that modules publish on, by the module's number.
    pub topics: Vec<String>,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the event on the executor's clock, in nanoseconds.
    pub at_ns: u64,
    /// Number of the run, piece of a run or work ahead that it belongs to; 0 if it belongs to none.
    pub job: u64,
    /// Kind of the event, with its details.
    pub point: Point,
}

/// The events of several rings, by time.
pub fn merge(rings: &[Ring]) -> Vec<Event> {
    let mut events: Vec<Event> = rings.iter().flat_map(Ring::events).copied().collect();
    events.sort_by_key(|event| event.at_ns);
    events
}

/// Role of a run on the core that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Its own group's.
    Host,
    /// Another group's (COLA, section 4.3).
    Guest,
    /// Work ahead of time (COLA, section 4.2).
    Ahead,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunEnd {
    /// The run ended with a result.
    Done,
    /// The run was cancelled at a checkpoint.
    Cancelled,
    /// The run had nothing to publish.
    Nothing,
    /// The run ended with an error.
    Failed,
}

/// Reason for which a guest was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denial {
    /// The predictor has not seen such an input.
    Unknown,
    /// Its bound is longer than until the hosts' next run.
    Slack,
    /// A violation has suspended guests.
    Suspended,
}

/// Kind of an event, with its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A message came in by a source.
    Injected {
        /// Its number.
        message: u64,
        /// Source of the message.
        source: SourceId,
        /// Its frame.
        frame: u64,
        /// Time at which the frame was captured.
        captured_ns: u64,
    },
    /// A message was put into a module's mailbox.
    Arrived {
        /// Number of the message.
        message: u64,
        /// Module of the mailbox.
        module: ModuleId,
        /// True if it was kept; false if a newer one had come before.
        kept: bool,
    },
    /// A run began: its input was read, its path chosen.
    Start {
        /// Module of the run; `None` for work ahead.
        module: Option<ModuleId>,
        /// Core of the run.
        core: Core,
        /// Role of the run on the core.
        class: Class,
        /// Path that was chosen.
        path: Path,
        /// Time that the normal path is expected to take here, in nanoseconds; 0 if it is not
        /// known.
        here_ns: u64,
        /// Time that the modules after this one are expected to take, in nanoseconds.
        downstream_ns: u64,
        /// The frame's deadline.
        deadline_ns: u64,
    },
    /// A piece of a run began, as a job of its own.
    Piece {
        /// Number of the run that it belongs to.
        of: u64,
        /// Core of the piece.
        core: Core,
        /// Role of the piece on the core.
        class: Class,
    },
    /// A piece that was a guest goes on as a host where its run waits: hosts have the core that it was
    /// on.
    Returned {
        /// Core on which it goes on.
        core: Core,
    },
    /// The run waits for its pieces from now on.
    Divided {
        /// Number of the pieces.
        pieces: u32,
    },
    /// The run that began read a message; the first that is named is the one that the output
    /// belongs to.
    Read {
        /// Number of the message.
        message: u64,
    },
    /// The run has the core from now on.
    Resumed,
    /// The run does not have the core any more, or passes a checkpoint.
    Paused,
    /// A message was published.
    Published {
        /// Its number.
        message: u64,
        /// Its frame.
        frame: u64,
        /// Number of the part, from 1.
        part: u16,
        /// Number of all parts.
        of: u16,
    },
    /// The message that the run publishes was made bytes, in a chunk that ended with that.
    Serialised {
        /// Its number.
        message: u64,
        /// Number of bytes.
        bytes: u32,
        /// Time for which the serialisation had a core, in nanoseconds.
        took_ns: u64,
    },
    /// The bytes of a message that the run has read were made a value, in a chunk that ends now.
    Deserialised {
        /// Its number.
        message: u64,
        /// Number of bytes.
        bytes: u32,
        /// Time for which the deserialisation had a core, in nanoseconds.
        took_ns: u64,
    },
    /// The message went out of the graph: a command to the actuators.
    Actuated {
        /// Number of the message.
        message: u64,
    },
    /// The run ended.
    End {
        /// Outcome of the run.
        outcome: RunEnd,
        /// Time for which it had a core, in nanoseconds.
        service_ns: u64,
    },
    /// Work ahead was asked for.
    AheadAsked {
        /// Version of the work.
        version: u64,
    },
    /// Work ahead was cancelled, or its result dropped.
    AheadDropped {
        /// Version of the work.
        version: u64,
    },
    /// The result of work ahead was used, or not there.
    AheadTaken {
        /// True if the result was there.
        hit: bool,
    },
    /// A guest was let in, or not, to a group.
    Steal {
        /// Module of the guest.
        module: ModuleId,
        /// Group of the core.
        group: u16,
        /// Reason for the refusal; `None` if the guest was let in.
        denied: Option<Denial>,
    },
    /// A host's run found a guest on the core that it got.
    Overrun {
        /// Group of the core.
        group: u16,
        /// Delay of the host, in nanoseconds.
        delay_ns: u64,
    },
}
