//! Task of one run of a measured program, and the words that the program in C takes.

use serde::{Deserialize, Serialize};

/// Kind of the locks that threads take. The numbers are those of `contend.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A single mutex.
    #[default]
    Mutex = 0,
    /// Two mutexes, one inside the other; every other acquisition takes only the inner one.
    Nested = 1,
    /// A read-write lock.
    Rwlock = 2,
    /// Concurrency Kit's phase-fair lock.
    Ck = 3,
}

/// Quantity that is measured of the locks. The numbers are those of `contend.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Calls {
    /// Waits, by the clock.
    #[default]
    Waits = 0,
    /// Processor time of each call.
    ProcessorTime = 1,
    /// Time of calls on uncontended locks.
    FreeLocks = 2,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub kind: Kind,
    /// True if the program makes its mutexes inheritance mutexes.
    pub inherit: bool,
    pub threads: u32,
    /// SCHED_FIFO priority, 0 for none: of all threads, or of the launching one only.
    pub fifo: u8,
    /// True if the first thread launches.
    pub launch: bool,
    /// True if each thread stays on a core of its own.
    pub pin: bool,
    pub section_ns: u64,
    pub think_ns: u64,
    /// Reads of 100 sections of a read-write lock.
    pub reads: u32,
    pub calls: Calls,
    pub warm_up_ms: u64,
    pub measured_ms: u64,
}

impl Shape {
    /// The words of the program's command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let numbers = [
            ("lock", self.kind as u64),
            ("inherit", self.inherit.into()),
            ("threads", self.threads.into()),
            ("fifo", self.fifo.into()),
            ("launch", self.launch.into()),
            ("pin", self.pin.into()),
            ("section_ns", self.section_ns),
            ("think_ns", self.think_ns),
            ("reads", self.reads.into()),
            ("calls", self.calls as u64),
            ("warm_up_ms", self.warm_up_ms),
            ("measured_ms", self.measured_ms),
        ];
        numbers.iter().map(|(name, number)| format!("{name}={number}")).collect()
    }
}
