//! Verdicts: problems, with the numbers that show them, and their remedies.
//!
//! Each rule reads the survey's tables or the parts of the explained calls. What a rule says of a
//! lock's whole life (convoys, starvation, unfairness, long holds) comes from the first pass, so
//! its counts are of the whole trace; what needs the chain of causes (priority inversion,
//! preempted holders, a full queue) comes from the explained calls, so its counts are of those.

mod call;
mod lock;

use super::Options;
use super::explain::part::{Explained, Task};
use super::result::Survey;
use serde::Serialize;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Kind of the problem, and the numbers that show it.
    pub evidence: Evidence,
    /// The lock that it is about, as its place in [`Survey::locks`].
    pub lock: Option<u32>,
    /// The longest time that one call or wait lost by it. Verdicts are in the order of this.
    pub severity_ns: u64,
    /// The worst occasion.
    pub worst: Option<Occasion>,
    /// Remedies, the most promising first.
    pub remedies: Vec<Remedy>,
}

/// One occasion on which something went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Occasion {
    /// Begin of the wait, hold or call.
    pub at_ns: u64,
    /// Duration of the wait, hold or call.
    pub duration_ns: u64,
    /// The thread, as its place in [`Survey::threads`].
    pub thread: u32,
    /// Kind of call in which it was; none is outside of every call.
    pub kind: Option<u32>,
    /// The explained call that shows it, if one does, as its place in [`Survey::worst`].
    pub explained: Option<u32>,
}

/// A problem, and the numbers that show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Evidence {
    /// A queue of waiters passes a lock on from one to the next: each waits for all before it,
    /// though none holds it for long.
    LockConvoy {
        /// Waits.
        waits: u64,
        /// Acquisitions.
        acquisitions: u64,
        /// Waiters when half of the waits had begun, at least.
        queue_p50: u64,
        /// Most waiters at once.
        queue_max: u64,
        /// Half of the waits are at most so long.
        wait_p50_ns: u64,
        /// The longest wait.
        wait_max_ns: u64,
        /// Half of the holds are at most so long.
        hold_p50_ns: u64,
        /// The longest hold.
        hold_max_ns: u64,
    },
    /// Readers waited while writers got the lock one after the other.
    ReaderStarvation {
        /// Number of such waits.
        times: u64,
        /// Most writers that got it during one wait.
        most_writers: u64,
        /// Readers' waits altogether.
        waits: u64,
        /// The longest of them.
        wait_max_ns: u64,
    },
    /// A writer waited while readers came and got the lock.
    WriterStarvation {
        /// Number of such waits.
        times: u64,
        /// Most readers that came and got it during one wait.
        most_readers: u64,
        /// Writers' waits altogether.
        waits: u64,
        /// The longest of them.
        wait_max_ns: u64,
    },
    /// The lock is not given to who waited longest.
    UnfairHandOver {
        /// Waits during which who came later got it first.
        overtaken: u64,
        /// Largest number of acquisitions by later threads during one wait.
        most_overtaken: u64,
        /// Acquisitions by the thread that had just released it, while others waited.
        reacquired: u64,
        /// Acquisitions without waiting, while others waited.
        barged: u64,
        /// Half of the waits are at most so long.
        wait_p50_ns: u64,
        /// 99.9 % of the waits are at most so long.
        wait_p99_9_ns: u64,
        /// The longest wait.
        wait_max_ns: u64,
    },
    /// A call waited for a less urgent thread that could not run, since a third one did.
    PriorityInversion {
        /// Explained calls in which it happened.
        calls: u64,
        /// Time in them.
        total_ns: u64,
        /// The waiting thread of the call that lost most.
        waiter: Task,
        /// The thread that had the lock.
        holder: Task,
        /// The thread that ran instead of the holder.
        by: Option<Task>,
    },
    /// A call waited for a thread that had been taken off its processor.
    PreemptedHolder {
        /// Explained calls in which it happened.
        calls: u64,
        /// Time in them.
        total_ns: u64,
        /// The thread that had the lock, in the call that lost most.
        holder: Task,
        /// The thread that ran instead of the holder.
        by: Option<Task>,
    },
    /// More threads want to run than there are processors.
    Oversubscription {
        /// Time in which that was so, in percent of the time that is known.
        percent: u64,
        /// Most threads at once.
        most: u32,
        /// Processors.
        processors: u32,
        /// Time that explained calls were able to run and did not.
        waited_ns: u64,
    },
    /// A lock is held for long while others wait for it, and that is most of their wait.
    LongCriticalSection {
        /// The longest such hold.
        hold_ns: u64,
        /// Half of all holds are at most so long.
        hold_p50_ns: u64,
        /// Threads that waited at its end.
        waiting: u64,
        /// The longest wait for this lock.
        wait_max_ns: u64,
        /// The kind of call that held it; none is outside of every call.
        kind: Option<u32>,
    },
    /// Calls had to wait for room in the device's queue.
    DeviceQueueFull {
        /// Explained calls in which it probably happened.
        calls: u64,
        /// Time in them.
        total_ns: u64,
        /// Most launches outstanding.
        most_outstanding: u32,
        /// True if the scheduler's records say that these calls executed; else they may have been
        /// suspended.
        executing: bool,
    },
    /// Calls that only give work to the device were off the processor, in a system call or a page
    /// fault.
    BlockedElsewhere {
        /// Explained calls in which it happened.
        calls: u64,
        /// Time in them.
        total_ns: u64,
    },
    /// The same launches and copies are made one by one, again and again.
    RepeatedLaunches {
        /// Place in [`Survey::sequences`].
        sequence: u32,
        /// Calls of one repetition.
        length: u64,
        /// Repetitions.
        repeats: u64,
        /// Time in the calls of one repetition.
        launching_ns: u64,
        /// Estimate of the time that a graph would save of it.
        estimated_saving_ns: u64,
        /// Locks taken by one repetition.
        locks: f64,
    },
}

/// A remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Mutexes that lend their waiters' priority to their owner.
    InheritanceMutex,
    /// Mutexes that are given to who waited longest.
    FairMutex,
    /// Read-write locks that let readers and writers in by turns.
    PhaseFairRwLock,
    /// Copies from and to pinned memory, which need no lock while the data moves.
    PinnedMemory,
    /// Smaller copies.
    SmallerCopies,
    /// Launching all at once as a graph.
    CudaGraph,
    /// Fewer threads that use the device or want a processor.
    FewerThreads,
    /// A real-time priority, or a higher one.
    HigherPriority,
    /// Waiting for the device more often, so that less is outstanding.
    FewerOutstandingLaunches,
    /// Memory that is locked and touched beforehand, so that no page fault comes.
    LockedMemory,
}

/// Returns the verdicts, the worst first.
pub fn verdicts(survey: &Survey, explained: &[Explained], options: &Options) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (place, of) in (0u32..).zip(&survey.locks) {
        let about = lock::judge(survey, of, options);
        verdicts.extend(about.map(|verdict| Verdict { lock: Some(place), ..verdict }));
    }
    verdicts.extend(call::judge(survey, explained, options));
    verdicts.sort_by_key(|verdict| (std::cmp::Reverse(verdict.severity_ns), verdict.lock));
    verdicts
}
