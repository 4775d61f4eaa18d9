//! The numbers that show each cause.

use crate::explain::part::Task;
use serde::Serialize;

/// A problem, and the numbers that show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Evidence {
    /// A queue of waiters passes a lock on from one to the next: each waits for all before it,
    /// though none holds it for long.
    LockConvoy {
        /// Acquisitions that had to wait.
        waits: u64,
        /// All acquisitions.
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
        /// The longest wait in which writers got it first.
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
        /// The longest wait in which readers came and got it first.
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
        /// The waiting thread of the call that lost most.
        waiter: Task,
        /// The thread that had the lock.
        holder: Task,
        /// The thread that ran instead of the holder.
        by: Option<Task>,
    },
    /// A call waited for a thread that had been taken off its processor.
    PreemptedHolder {
        /// The thread that had the lock, in the call that lost most.
        holder: Task,
        /// The thread that ran instead of the holder.
        by: Option<Task>,
    },
    /// More threads want to run than there are processors.
    Oversubscription {
        /// Time in which that was so, in whole percent of the time that is known.
        percent: u64,
        /// The same time.
        over_ns: u64,
        /// Time of which it is known how many threads wanted to run.
        observed_ns: u64,
        /// Most threads at once.
        most: u32,
        /// Processors.
        processors: u32,
        /// Time that the calls that lost time by it were able to run and did not.
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
        /// Most launches outstanding.
        most_outstanding: u32,
        /// True if the scheduler's records say that these calls executed; else they may have been
        /// suspended.
        executing: bool,
    },
    /// Calls that only give work to the device were off the processor, in a system call or a page
    /// fault.
    BlockedElsewhere {},
    /// Calls waited for a GPU that did other work, or did theirs slower than usual.
    SharedGpu {},
    /// The same launches and copies are made one by one, again and again.
    RepeatedLaunches {
        /// Place in [`crate::Survey::sequences`].
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

impl Evidence {
    /// Distance from the root of a late call, where several causes explain it: the smaller one is
    /// the reason, and the others are how it came about.
    pub(super) fn rank(&self) -> u32 {
        match self {
            Evidence::PriorityInversion { .. } => 0,
            Evidence::PreemptedHolder { .. } => 1,
            Evidence::DeviceQueueFull { .. }
            | Evidence::BlockedElsewhere { .. }
            | Evidence::SharedGpu { .. }
            | Evidence::Oversubscription { .. } => 2,
            Evidence::ReaderStarvation { .. } | Evidence::WriterStarvation { .. } => 3,
            Evidence::UnfairHandOver { .. } => 4,
            Evidence::LockConvoy { .. } => 5,
            Evidence::LongCriticalSection { .. } => 6,
            Evidence::RepeatedLaunches { .. } => 7,
        }
    }
}
