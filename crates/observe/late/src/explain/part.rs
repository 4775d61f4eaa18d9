//! Results of the second pass: the parts of a call, as plain data.

use crate::identity::Family;
use serde::Serialize;

/// One of the worst calls, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The call, as its place in [`crate::Survey::worst`].
    pub worst: u32,
    /// Duration from call to return, in ticks: the sum of the ticks of all parts, exactly.
    pub duration_ticks: u64,
    /// The same in nanoseconds: the sum of the nanoseconds of all parts, exactly.
    pub duration_ns: u64,
    /// First in the order of time; then, without a begin, what was added up since the call has
    /// too many parts, the longest first.
    pub parts: Vec<Part>,
    /// The parts by what they are.
    pub sums: Sums,
}

/// A time that a call spent with one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Begin of the part, from the call's begin; none if several parts were added up.
    pub from_ns: Option<u64>,
    /// Duration of the part.
    pub duration_ns: u64,
    /// The same in ticks.
    pub ticks: u64,
    /// Number of parts that were added up; 1 for a single part.
    pub times: u64,
    /// Cause of the part.
    pub cause: Cause,
}

/// A thread of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Task {
    /// Thread id; 0 is an idle processor.
    pub tid: u32,
    /// Its name, empty if it is not known.
    pub name: String,
    /// Its place in [`crate::Survey::threads`], if it is one of the program's.
    pub thread: Option<u32>,
    /// Its priority, as the kernel counts, when it was last on a processor; else as it said.
    pub priority: Option<u16>,
}

/// Cause of a part of a call's time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Cause {
    /// The thread executed on a processor.
    Executing,
    /// The thread waited for a lock that another thread had.
    Lock {
        /// The lock, as its place in [`crate::Survey::locks`].
        lock: u32,
        /// True if the call waited for the mutex of a condition that had been signalled.
        after_signal: bool,
        /// Holder of the lock, and, as long as a holder waited for another lock, the holder of that
        /// one: each holder has the lock that the one before waits for.
        holders: Vec<Holder>,
        /// Most readers that had the lock at the same time.
        readers: u32,
    },
    /// The lock that it waited for was free: it or another waiter was about to get it.
    HandOver {
        /// The lock.
        lock: u32,
        /// True if the call waited for the mutex of a condition that had been signalled.
        after_signal: bool,
        /// The thread that got the lock next, if it was another one.
        to: Option<Task>,
        /// True if the lock was certainly free. If only contended acquisitions are recorded,
        /// another thread may have taken it without waiting.
        certain: bool,
    },
    /// The thread had been woken, and waited for a processor.
    WokenLate {
        /// The lock that it waited for, if it did.
        lock: Option<u32>,
        /// The thread on the processor; thread 0 means that the processor was idle and woke up.
        behind: Option<Task>,
    },
    /// The thread could have run on, but another thread ran on its processor.
    Preempted {
        /// The thread that ran instead.
        by: Option<Task>,
    },
    /// The thread waited for a signal of another one: a condition, semaphore, barrier, or a once
    /// control that another thread ran.
    Signal {
        /// Place of that object in [`crate::Survey::locks`].
        lock: u32,
        /// Family of that object.
        family: Family,
    },
    /// The thread was off the processor in a system call or a page fault, and waited for no known
    /// lock.
    Blocked,
    /// The thread executed longer than usual, or gave up the processor again and again, while so
    /// many launches were outstanding that the device's queue was probably full.
    QueueFull {
        /// Launches since the stream was last known to be empty.
        outstanding: u32,
    },
    /// The thread waited for the GPU: it spun, or slept in the driver.
    Gpu {
        /// State of the GPU meanwhile.
        state: GpuState,
        /// The work that ran, as its place in [`crate::result::Gpu::works`].
        work: Option<u32>,
    },
    /// Nothing tells.
    Unexplained {
        /// Reason why the part is not explained.
        reason: Reason,
    },
}

/// State of the GPU while a thread waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuState {
    /// Work of the process ran, for no longer than usual.
    OwnWork,
    /// Work of the process ran for longer than it usually does: the GPU was shared with another
    /// process, or ran at lower clocks.
    LongerThanUsual,
    /// No work of the process ran, between two pieces of it: the GPU's own steps.
    Between,
    /// No work of the process ran, although some was to come: the GPU was not given to it.
    NotGiven,
    /// All work of the process was over.
    Over,
    /// All work of the process was over, and the GPU told of it late.
    ToldLate,
    /// The work on the GPU was not recorded.
    NotRecorded,
}

/// Reason why a part is not explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The thread executed or was suspended: there are no records of the scheduler.
    NoScheduler,
    /// The same as `NoScheduler`, and so many launches were outstanding that the device's queue may
    /// have been full.
    QueueMayBeFull,
    /// Records are missing.
    Lost,
}

/// A thread that has a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Holder {
    /// The lock.
    pub lock: u32,
    /// The thread; of several readers the one that has had the lock longest.
    pub task: Task,
    /// The kind of call that it was in; none is outside of every call, or unknown.
    pub call: Option<u32>,
    /// True if it had the lock for reading.
    pub read: bool,
    /// True if that is known from the lock's own word when the wait began, and not from a record of
    /// the holder; it may then have let the lock go earlier.
    pub assumed: bool,
    /// State of the holder meanwhile.
    pub state: HolderState,
}

/// State of a holder while another thread waited for its lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum HolderState {
    /// The holder was on a processor.
    Executing,
    /// The holder could have run, but another thread ran on its processor.
    Preempted {
        /// The thread that ran instead.
        by: Option<Task>,
    },
    /// The holder had been woken, and waited for a processor.
    WokenLate {
        /// The thread that was on the processor; thread 0: none.
        behind: Option<Task>,
    },
    /// The holder waited for another lock, which the next holder had.
    WaitsForLock,
    /// The holder waited for another lock, which was free.
    HandOver {
        /// The lock that it waited for.
        lock: u32,
    },
    /// The holder waited for a signal.
    Signal {
        /// The condition, semaphore, barrier or once control.
        lock: u32,
    },
    /// The holder was in a system call or a page fault.
    Blocked,
    /// The holder waited for one of the locks before, or more holders come after it than are
    /// followed.
    NotFollowed,
    /// Its records, or those of the scheduler, are missing here.
    Lost,
    /// The records do not tell the state.
    NotKnown,
}

/// The parts of a call by what they are, in nanoseconds. Their sum is its duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Time on a processor.
    pub executing_ns: u64,
    /// Time of waiting for a lock that another thread had.
    pub lock_ns: u64,
    /// Part of the time above in which the holder did not execute: preempted, woken late, blocked,
    /// or waiting itself.
    pub lock_holder_off_ns: u64,
    /// Waiting for a lock that was free.
    pub hand_over_ns: u64,
    /// Woken, and waiting for a processor.
    pub woken_late_ns: u64,
    /// Able to run on, and waiting for a processor.
    pub preempted_ns: u64,
    /// Waiting for a signal.
    pub signal_ns: u64,
    /// Time in a system call or a page fault.
    pub blocked_ns: u64,
    /// Probably waiting for room in the device's queue.
    pub queue_full_ns: u64,
    /// Waiting for the GPU.
    pub gpu_ns: u64,
    /// Part of the time above in which the GPU did not do the process's work, or took longer than
    /// usual for it.
    pub gpu_beyond_ns: u64,
    /// Time that no record explains.
    pub unexplained_ns: u64,
}

impl Sums {
    /// Adds a part.
    pub(crate) fn add(&mut self, part: &Part) {
        let ns = part.duration_ns;
        let sum = match &part.cause {
            Cause::Executing => &mut self.executing_ns,
            Cause::Lock { holders, .. } => {
                if holders.iter().any(|holder| holder.state.is_off()) {
                    self.lock_holder_off_ns += ns;
                }
                &mut self.lock_ns
            }
            Cause::HandOver { .. } => &mut self.hand_over_ns,
            Cause::WokenLate { .. } => &mut self.woken_late_ns,
            Cause::Preempted { .. } => &mut self.preempted_ns,
            Cause::Signal { .. } => &mut self.signal_ns,
            Cause::Blocked => &mut self.blocked_ns,
            Cause::QueueFull { .. } => &mut self.queue_full_ns,
            Cause::Gpu { state, .. } => {
                if state.is_beyond() {
                    self.gpu_beyond_ns += ns;
                }
                &mut self.gpu_ns
            }
            Cause::Unexplained { .. } => &mut self.unexplained_ns,
        };
        *sum += ns;
    }

    /// The sum of all but `lock_holder_off_ns`, which is inside of `lock_ns`, and `gpu_beyond_ns`,
    /// which is inside of `gpu_ns`.
    pub fn total_ns(&self) -> u64 {
        self.executing_ns
            + self.lock_ns
            + self.hand_over_ns
            + self.woken_late_ns
            + self.preempted_ns
            + self.signal_ns
            + self.blocked_ns
            + self.queue_full_ns
            + self.gpu_ns
            + self.unexplained_ns
    }
}

impl GpuState {
    /// Returns true if the GPU took longer than it usually does.
    pub fn is_beyond(self) -> bool {
        matches!(self, GpuState::LongerThanUsual | GpuState::NotGiven | GpuState::ToldLate)
    }
}

impl HolderState {
    /// Returns true if it is known that the holder did not execute.
    pub fn is_off(&self) -> bool {
        use HolderState::{Executing, Lost, NotFollowed, NotKnown};
        !matches!(self, Executing | Lost | NotKnown | NotFollowed)
    }
}
