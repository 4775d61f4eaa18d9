//! Results of the first pass, as plain data.
//!
//! Times called `at_ns` count from the start of the trace. Durations are in nanoseconds. A
//! `kind`, `thread` or `lock` is a place in [`Survey::kinds`], [`Survey::threads`] or
//! [`Survey::locks`]. Priorities are those of the kernel: 0 to 99 real-time, smaller is more
//! urgent, 120 is nice 0.

use crate::function::{Direction, Functions, Group, Host};
use crate::gpu::Works;
pub use crate::graph::{GraphAdvice, Sequence};
use crate::histogram::{Distribution, Histogram};
use crate::identity::{Family, Identities};
pub use crate::open::{OpenHolder, OpenWait};
use crate::snapshot::Snapshots;
use crate::survey::load::Checkpoint;
use record::clock::Calibration;
use serde::Serialize;
use trace::metadata::Tier;

/// Results for the whole trace.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// Duration from the start of the recording to its end.
    pub duration_ns: u64,
    /// Records in the file.
    pub records: u64,
    /// Tier of the recording around the program.
    pub tier: Tier,
    /// True if only locks that had to be waited for were recorded: then numbers of acquisitions and
    /// holds are those of contended ones, and there are no patterns.
    pub contended_only: bool,
    /// Processors of the machine.
    pub processors: u32,
    /// Records that are missing, and the calls, waits and holds that are unknown because of that.
    pub losses: Losses,
    /// Threads, one for each stream of the trace.
    pub threads: Vec<Thread>,
    /// Kinds of calls, the most frequent first.
    pub kinds: Vec<CallKind>,
    /// Locks, in the order of their names.
    pub locks: Vec<Lock>,
    /// Locks that were destroyed without ever having been waited for, and are not in `locks`.
    pub forgotten: ForgottenLocks,
    /// Work given to the device.
    pub launches: Launches,
    /// Sequences of launches and copies that repeat, the most to be saved first.
    pub sequences: Vec<Sequence>,
    /// Cost of CUDA graphs, and the calls that cannot be part of one.
    pub graph_advice: GraphAdvice,
    /// Number of threads that wanted a processor; only if the scheduler was recorded.
    pub load: Option<Load>,
    /// Work as it ran on the GPU; only where it was recorded.
    pub gpu: Option<Gpu>,
    /// The calls to be explained: by group, the latest first.
    pub worst: Vec<WorstCall>,
    /// Calls that had not returned when the records of their thread ended.
    pub unfinished: Vec<Unfinished>,
    /// Waits that had not ended when the records of their thread did, in the order of the threads.
    pub open_waits: Vec<OpenWait>,
    /// Circles of threads that wait for one another: places in `open_waits`, each one's holder is
    /// the next one, and the last one's is the first.
    pub circles: Vec<Vec<u32>>,
    #[serde(skip)]
    pub(crate) inner: Inner,
}

/// Further data that the second pass needs.
#[derive(Clone, Debug)]
pub(crate) struct Inner {
    pub clock: Calibration,
    pub functions: Functions,
    pub identities: Identities,
    pub snapshots: Snapshots,
    /// The scheduler's state at some times; never none.
    pub checkpoints: Vec<Checkpoint>,
    /// Place in [`Survey::locks`] of each place of the table of locks.
    pub lock_places: Vec<u32>,
    /// Place in [`Survey::kinds`] of each kind.
    pub kind_places: Vec<u32>,
    /// The usual duration of each kind in ticks.
    pub usual: Vec<u64>,
    /// Stream and begin of each of [`Survey::worst`], in ticks.
    pub targets: Vec<Target>,
    /// Durations of each kind in ticks.
    pub durations: Vec<Histogram>,
    /// Work on GPUs, and the usual duration of each in ticks.
    pub works: Works,
    pub usual_work: Vec<u64>,
}

/// One of the worst calls, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub stream: u32,
    pub kind: u32,
    pub enter: u64,
    pub ticks: u64,
    pub depth: u32,
    pub outstanding: u32,
}

/// Records that are missing in the trace, and the results that are unknown because of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Records for which there was no room.
    pub lost: u64,
    /// Records that were overwritten by later ones.
    pub overwritten: u64,
    /// Records that their writer did not finish.
    pub torn: u64,
    /// Records of kinds that this program does not know.
    pub unknown_kinds: u64,
    /// Records of threads that never had room, and are not in any stream.
    pub lost_without_stream: u64,
    /// Calls that reach into a time whose records are missing. They are in no distribution.
    pub unknown_calls: u64,
    /// Waits of which the same is true.
    pub unknown_waits: u64,
    /// Holds of which the same is true.
    pub unknown_holds: u64,
    /// Returns from calls whose begin is missing.
    pub unmatched_exits: u64,
    /// Releases of locks whose acquisition is missing.
    pub unmatched_releases: u64,
}

/// A thread of the program.
#[derive(Clone, Debug, Serialize)]
pub struct Thread {
    /// Number of the process image.
    pub process: u32,
    /// Process id, 0 unknown.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name, empty if it is not known.
    pub name: String,
    /// Priority, as the kernel counts.
    pub priority: Option<u16>,
    /// Its first record.
    pub first_at_ns: u64,
    /// Its last record.
    pub last_at_ns: u64,
    /// Its records in the file.
    pub records: u64,
    /// Calls that it made, those inside of others not counted.
    pub calls: u64,
    /// Time in them.
    pub in_calls_ns: u64,
    /// Time waiting for locks.
    pub waited_ns: u64,
    /// Locks taken.
    pub acquisitions: u64,
    /// Waiting for a processor while able to run; only where the scheduler was recorded.
    pub processor_wait: Option<ProcessorWait>,
    /// Ranges of time of which records are missing: from, to.
    pub unknown_ns: Vec<(u64, u64)>,
}

/// Waiting for a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessorWait {
    /// Altogether.
    pub total_ns: u64,
    /// Number of waits.
    pub times: u64,
    /// The longest time.
    pub longest_ns: u64,
    /// Begin of the longest wait.
    pub longest_at_ns: u64,
}

/// All calls of one function; of a copy, those of one size class.
#[derive(Clone, Debug, Serialize)]
pub struct CallKind {
    /// The function, without version and variant.
    pub function: String,
    /// Group in which it is ranked.
    pub group: Group,
    /// Direction of a copy.
    pub direction: Direction,
    /// Copies: what is known of the host's memory.
    pub host: Host,
    /// Copies: the least and the most bytes of this class.
    pub bytes_class: Option<(u64, u64)>,
    /// Copies: bytes altogether.
    pub bytes: u64,
    /// Calls that returned and whose records are whole.
    pub count: u64,
    /// Calls with a result other than success.
    pub failed: u64,
    /// Calls whose work was captured into a graph.
    pub captured: u64,
    /// Calls that reach into a time whose records are missing.
    pub unknown: u64,
    /// Duration from call to return.
    pub duration: Distribution,
    /// Waiting for locks, of the calls that had to; conditions: waiting for the mutex only.
    pub lock_wait: Distribution,
    /// Locks taken by one call (numbers, not times).
    pub locks_per_call: Distribution,
    /// Locking patterns of these calls.
    pub patterns: Patterns,
}

/// Locks that calls of one kind take, in their order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Patterns {
    /// Calls that took or released a lock.
    pub calls: u64,
    /// Number of distinct patterns.
    pub distinct: u64,
    /// True if `distinct` is a lower bound.
    pub distinct_is_least: bool,
    /// Calls with too many steps for their pattern to be kept.
    pub too_long: u64,
    /// The most frequent patterns, the most frequent first.
    pub most_frequent: Vec<Pattern>,
}

/// One locking pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pattern {
    /// Calls that had it.
    pub count: u64,
    /// Its steps, in order.
    pub steps: Vec<PatternStep>,
}

/// One step of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PatternStep {
    /// The lock; none if it was forgotten.
    pub lock: Option<u32>,
    /// Taken for reading, together with others.
    pub read: bool,
    /// Acquired, else released.
    pub acquired: bool,
    /// Locks that the call holds after this step.
    pub depth: u32,
    /// Median time since the call's begin.
    pub median_ns: u64,
}

/// A lock.
#[derive(Clone, Debug, Serialize)]
pub struct Lock {
    /// `M1`, `R2` and so on: a letter for its family, numbered in the order of first use in a
    /// launch; those that no launch uses come after them, the most taken first.
    pub name: String,
    /// Family of the lock.
    pub family: Family,
    /// Number of the process image.
    pub process: u32,
    /// Its address.
    pub address: u64,
    /// 0 for the first lock at this address, then 1, 2 and so on; when all that were there before
    /// are forgotten, again from 0.
    pub generation: u32,
    /// Time at which it was created, if that was recorded.
    pub created_at_ns: Option<u64>,
    /// Time at which it was destroyed, if that was recorded.
    pub destroyed_at_ns: Option<u64>,
    /// Attributes that it was made with; none if no thread acquired or created it.
    pub attributes: Option<Attributes>,
    /// True if a launch takes it.
    pub in_launches: bool,
    /// Use by readers of a read-write lock.
    pub readers: Use,
    /// Use by writers, and all use of other locks.
    pub others: Use,
    /// Attempts that found it taken and did not wait.
    pub busy: u64,
    /// Waits that ended without it: time-outs and errors.
    pub gave_up: u64,
    /// Waits that ended by their time limit, for a signal or for the lock.
    pub timed_out: u64,
    /// Durations of waits that ended without it. They are not in `wait`.
    pub in_vain: Distribution,
    /// The longest of them.
    pub longest_in_vain: Option<Instance>,
    /// Hand-overs by the guard to a waiter, so that no other thread could come between.
    pub handed_over: u64,
    /// Conditions and semaphores: signals or posts.
    pub signals: u64,
    /// Conditions: from the signal to holding the mutex again. Waiting for the signal is in
    /// `others.wait`.
    pub relock: Distribution,
    /// Waiters at the begin of each wait, this wait included (numbers, not times).
    pub queue: Distribution,
    /// Other threads' acquisitions during one wait (numbers, not times).
    pub got_meanwhile: Distribution,
    /// Waits during which a thread that came later got it first; `others` is the number of such
    /// times.
    pub overtaken: Tally,
    /// Acquisitions by a thread that had just released it while others waited; `others` is how
    /// many waited.
    pub reacquired: Tally,
    /// Readers' waits during which two or more writers got it; `others` is how many.
    pub starved_readers: Tally,
    /// Writers' waits during which two or more readers came and got it without waiting; `others`
    /// is how many.
    pub starved_writers: Tally,
    /// Acquisitions by a thread that did not wait while others did.
    pub barged: u64,
    /// The longest hold during which another thread waited; `others` is the number that waited at
    /// its end.
    pub longest_blocking: Option<Instance>,
    /// Waits whose records are missing in part.
    pub unknown_waits: u64,
    /// Holds whose records are missing in part.
    pub unknown_holds: u64,
    /// Kinds of calls that take it, with how often; none is outside of every call.
    pub kinds: Vec<(Option<u32>, u64)>,
    /// Callers that take it, the most frequent first.
    pub callers: Vec<Caller>,
}

/// Attributes of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Attributes {
    /// The word they are read from.
    pub word: u32,
    /// Mutexes: `normal`, `recursive`, `error-checking` or `adaptive`; read-write locks:
    /// `prefers readers`, `prefers writers (not effective)` or `prefers writers`.
    pub kind: &'static str,
    /// A mutex that lends its waiters' priority to its owner.
    pub inherit: bool,
    /// A mutex with a priority ceiling.
    pub protect: bool,
    /// A mutex that outlives its owner.
    pub robust: bool,
    /// Shared between processes.
    pub shared: bool,
}

impl Lock {
    /// Returns true if it is a mutex that lends its waiters' priority to its owner.
    pub fn inherits(&self) -> bool {
        self.attributes.as_ref().is_some_and(|attributes| attributes.inherit)
    }

    /// Returns true if a guard can change how it is handed on: it is used by one process, and by
    /// its attributes the C library's own way is not asked for.
    pub fn can_be_guarded(&self) -> bool {
        let own = |attributes: &Attributes| {
            !(attributes.inherit || attributes.protect || attributes.robust || attributes.shared)
        };
        matches!(self.family, Family::Mutex | Family::ReadWrite)
            && self.attributes.as_ref().is_some_and(own)
    }
}

/// Use of a lock.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Use {
    /// Number of acquisitions.
    pub acquisitions: u64,
    /// Number of acquisitions after a wait; for a condition, of its waits.
    pub contended: u64,
    /// Waiting for it; of a once control, running it too.
    pub wait: Distribution,
    /// Holding it.
    pub hold: Distribution,
    /// The longest wait.
    pub longest_wait: Option<Instance>,
    /// The longest hold.
    pub longest_hold: Option<Instance>,
}

/// Number of times that an event happened, and the worst of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Number of times.
    pub count: u64,
    /// The time with most others.
    pub worst: Option<Instance>,
    /// The longest time.
    pub longest: Option<Instance>,
}

/// One wait or hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Instance {
    /// Begin of the wait or hold.
    pub at_ns: u64,
    /// Duration of the wait or hold.
    pub duration_ns: u64,
    /// The thread, as its place in the survey's threads.
    pub thread: u32,
    /// Kind of call in which it was; none is outside of every call.
    pub kind: Option<u32>,
    /// Waits: thread id of the owner when it began, 0 unknown.
    pub owner_tid: u32,
    /// See the field that this is in; else how many others got the lock during a wait, or waited
    /// at the end of a hold.
    pub others: u64,
}

/// Code that takes a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Caller {
    /// File of the module that the address is in, if one is.
    pub module: Option<String>,
    /// The address, from the module's begin.
    pub offset: u64,
    /// Number of times; for lists of sixteen or more, an upper bound.
    pub count: u64,
}

/// Locks that are not in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForgottenLocks {
    /// Number of these locks.
    pub locks: u64,
    /// Number of their acquisitions.
    pub acquisitions: u64,
}

/// Work given to the device by calls that succeeded and were not captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Launches {
    /// Kernels launched one by one.
    pub direct: u64,
    /// Launches of graphs.
    pub graphs: u64,
    /// Kernels in them.
    pub kernels_in_graphs: u64,
    /// Copies in them.
    pub copies_in_graphs: u64,
    /// Memory sets in them.
    pub memsets_in_graphs: u64,
    /// Launches of graphs that are not known, since they were made before recording began.
    pub unknown_graphs: u64,
    /// Copies.
    pub copies: u64,
    /// Bytes of these copies.
    pub copied_bytes: u64,
    /// Memory sets.
    pub memsets: u64,
    /// Calls that waited for the device.
    pub syncs: u64,
    /// Calls whose work was captured into a graph.
    pub captured: u64,
}

/// Number of threads that wanted a processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Time of which that is known.
    pub observed_ns: u64,
    /// Time in which more threads wanted a processor than there are.
    pub over_ns: u64,
    /// Most threads that wanted one at the same time.
    pub most: u32,
    /// Time at which that number was reached first.
    pub most_at_ns: u64,
}

/// Work on the GPU.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    /// Kernels.
    pub kernels: Distribution,
    /// Copies.
    pub copies: Distribution,
    /// Memory sets.
    pub memsets: Distribution,
    /// The works, in the order in which they were first seen.
    pub works: Vec<GpuWork>,
}

/// Work on a GPU: launches of one kernel with one grid, copies or memory sets of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuWork {
    /// Number of the process.
    pub process: u32,
    /// Kind of the work.
    pub kind: GpuKind,
    /// Name of the kernel with its grid, if it is known.
    pub name: Option<String>,
    /// Size of a copy or memory set.
    pub bytes: Option<u64>,
    /// Usual duration: the shortest tenth is at most so long.
    pub usual_ns: u64,
    /// Durations.
    pub durations: Distribution,
}

/// Kind of work on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// A memory set.
    Memset,
}

/// A call that took long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorstCall {
    /// Kind of the call.
    pub kind: u32,
    /// The thread, as its place in the survey's threads.
    pub thread: u32,
    /// Begin of the call.
    pub at_ns: u64,
    /// Duration from call to return.
    pub duration_ns: u64,
    /// The median of its kind.
    pub usual_ns: u64,
    /// Time by which it took longer than usual.
    pub lateness_ns: u64,
    /// Waiting for locks in it.
    pub lock_wait_ns: u64,
    /// Locks it took.
    pub locks: u32,
    /// Its place by lateness in its group, from 0; none if it is not among the worst.
    pub rank_by_lateness: Option<u32>,
    /// Its place by duration in its group, from 0; none if it is not among the worst.
    pub rank_by_duration: Option<u32>,
    /// Symbol of the function.
    pub symbol: String,
    /// Handle of the stream, or another one.
    pub handle: u64,
    /// Copies: bytes. Launches: the kernel or graph.
    pub detail: u64,
    /// Name of the kernel, if it is known.
    pub kernel: Option<String>,
    /// Result that it returned: a `CUresult`.
    pub result: u32,
    /// True if its work was captured into a graph.
    pub captured: bool,
    /// Launches since the stream was last known to be empty, for calls that add to a queue.
    pub outstanding: u32,
    /// Calls that it was made in.
    pub depth: u32,
}

/// A call is late if it took so many times as long as usual.
const LATE: u64 = 2;

impl WorstCall {
    /// Returns true if it took much longer than usual.
    pub fn is_late(&self) -> bool {
        self.duration_ns >= LATE * self.usual_ns
    }
}

/// A call that had not returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    /// Kind of the call.
    pub kind: u32,
    /// The thread, as its place in the survey's threads.
    pub thread: u32,
    /// Begin of the call.
    pub at_ns: u64,
    /// Time from its begin to the end of the trace.
    pub until_end_ns: u64,
}
