//! What happened, event by event, in rings in memory.

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

/// What the numbers in a trace are called.
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
    /// When, on the executor's clock.
    pub at_ns: u64,
    /// In which run of a module, or piece of work ahead; 0 in none.
    pub job: u64,
    /// What.
    pub point: Point,
}

/// The events of several rings, by time.
pub fn merge(rings: &[Ring]) -> Vec<Event> {
    let mut events: Vec<Event> = rings.iter().flat_map(Ring::events).copied().collect();
    events.sort_by_key(|event| event.at_ns);
    events
}

/// Who a run is on the core that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Its own group's.
    Host,
    /// Another group's (document 002, section 4.3).
    Guest,
    /// Work ahead of time (document 002, section 4.2).
    Ahead,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// With a result.
    Done,
    /// At a checkpoint that said so.
    Cancelled,
    /// With nothing to publish.
    Nothing,
    /// With an error.
    Failed,
}

/// Why a guest was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denial {
    /// The predictor has not seen such an input.
    Unknown,
    /// Its bound is longer than until the hosts' next run.
    Slack,
    /// A violation has suspended guests.
    Suspended,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A message came in by a source.
    Injected {
        /// Its number.
        message: u64,
        /// By which.
        source: SourceId,
        /// Its frame.
        frame: u64,
        /// When it was captured.
        captured_ns: u64,
    },
    /// A message was put into a module's mailbox.
    Arrived {
        /// Which.
        message: u64,
        /// Whose mailbox.
        module: ModuleId,
        /// Whether it was kept; it is not if a newer one had come before.
        kept: bool,
    },
    /// A run began: its input was read, its path chosen.
    Start {
        /// Of which module; `None` for work ahead.
        module: Option<ModuleId>,
        /// Where.
        core: Core,
        /// As what.
        class: Class,
        /// Which path was chosen.
        path: Path,
        /// What the normal path takes here, in the 99th percentile.
        here_ns: u64,
        /// What the modules after this one take.
        downstream_ns: u64,
        /// The frame's deadline.
        deadline_ns: u64,
    },
    /// A piece of a run began, as a job of its own.
    Piece {
        /// Of which run.
        of: u64,
        /// Where.
        core: Core,
        /// As what.
        class: Class,
    },
    /// A piece that was a guest goes on as a host where its run waits: hosts have the core that it was
    /// on.
    Returned {
        /// Where it goes on.
        core: Core,
    },
    /// The run waits for its pieces from now on.
    Divided {
        /// How many.
        pieces: u32,
    },
    /// The run that began read a message; the first that is named is the one that the output
    /// belongs to.
    Read {
        /// Which.
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
        /// Part of how many.
        part: u16,
        /// How many parts.
        of: u16,
    },
    /// The message that the run publishes was made bytes, in a chunk that ended with that.
    Serialised {
        /// Its number.
        message: u64,
        /// How many bytes.
        bytes: u32,
        /// How long that had a core.
        took_ns: u64,
    },
    /// The bytes of a message that the run has read were made a value, in a chunk that ends now.
    Deserialised {
        /// Its number.
        message: u64,
        /// How many bytes.
        bytes: u32,
        /// How long that had a core.
        took_ns: u64,
    },
    /// The message went out of the graph: a command to the actuators.
    Actuated {
        /// Which.
        message: u64,
    },
    /// The run ended.
    End {
        /// How.
        outcome: Outcome,
        /// How long it had a core.
        service_ns: u64,
    },
    /// Work ahead was asked for.
    AheadAsked {
        /// Of which version.
        version: u64,
    },
    /// Work ahead was cancelled, or its result dropped.
    AheadDropped {
        /// Of which version.
        version: u64,
    },
    /// The result of work ahead was used, or not there.
    AheadTaken {
        /// Whether it was there.
        hit: bool,
    },
    /// A guest was let in, or not, to a group.
    Steal {
        /// Whose run.
        module: ModuleId,
        /// To which group.
        group: u16,
        /// Why not; `None` if it was let in.
        denied: Option<Denial>,
    },
    /// A host's run found a guest on the core that it got.
    Overrun {
        /// Of which group.
        group: u16,
        /// By how much the host was delayed.
        delay_ns: u64,
    },
}
