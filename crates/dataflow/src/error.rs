//! Errors of a graph, of its use, and of a recording.

/// Reason for which a graph is not run, or not run on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A group without cores.
    #[error("group {group:?} has no core")]
    NoCore {
        /// Its name.
        group: String,
    },
    /// A module of a group that another graph has.
    #[error("module {module:?}: its group or a topic of its wires belongs to another graph")]
    Foreign {
        /// Its name.
        module: String,
    },
    /// A trigger that never fires.
    #[error("module {module:?}: its trigger needs {need} active wires, it has {active}")]
    Trigger {
        /// Its name.
        module: String,
        /// Number of active wires that the trigger needs.
        need: usize,
        /// Number of active wires that the module has.
        active: usize,
    },
    /// A timer without a period.
    #[error("module {module:?}: its timer has a period of 0")]
    Period {
        /// Its name.
        module: String,
    },
    /// Modules that feed each other on active wires.
    #[error("module {module:?} feeds itself, by active wires through {through}; make one passive")]
    Cycle {
        /// Its name.
        module: String,
        /// The names of the modules in between.
        through: String,
    },
    /// Something was to happen before the present.
    #[error("{what} at {at_ns} ns, expected {now_ns} ns or later")]
    Past {
        /// Thing that was to happen.
        what: &'static str,
        /// Time at which it was to happen.
        at_ns: u64,
        /// The present.
        now_ns: u64,
    },
    /// A frame whose topic's messages go as bytes has no form as bytes.
    #[error("a frame of source {from:?}: {said}")]
    Serialise {
        /// The source's name.
        from: String,
        /// Error text of the serialiser.
        said: String,
    },
    /// A run differs from its recording.
    #[error("chunk {chunk} of the run is of job {ran}, but of job {recorded} in the recording")]
    Diverged {
        /// Its number, from 0.
        chunk: usize,
        /// Job that the chunk is of.
        ran: u64,
        /// Job that it is of in the recording; 0 if the recording has ended.
        recorded: u64,
    },
    /// Cores that would be faster than the machine's.
    #[error("cores {factor} times slower than the machine's, expected 1 or more")]
    Factor {
        /// Factor by which they would be slower.
        factor: f64,
    },
    /// The machine refused something to a worker.
    #[error("worker of group {group:?}: {source}")]
    Worker {
        /// The group's name.
        group: String,
        /// Error of the call that was refused.
        source: realtime::Error,
    },
    /// A thread could not be started.
    #[error("starting a worker: {0}")]
    Thread(#[from] std::io::Error),
}
