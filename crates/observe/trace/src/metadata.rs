//! Metadata of a trace, beside its records. Stored as JSON at the end of the file.

use record::clock::{Calibration, Reading};
use serde::{Deserialize, Serialize};

/// About the whole trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// End of the program.
    pub outcome: ProgramEnd,
    /// Readings of both clocks when recording began and ended.
    pub clock: Clock,
    /// Tier of the recording around the program.
    pub tier: Tier,
    /// Reasons why the tier was not higher, one sentence for each tier that could not be had.
    pub tier_reasons: Vec<String>,
    /// True if the futex calls of the program were recorded.
    pub futex: bool,
    /// Settings of the recording inside the program.
    pub settings: Settings,
    /// Settings and counts of the guard of its locks, if they were guarded.
    #[serde(default)]
    pub guard: Option<Guard>,
    /// The machine.
    pub machine: Machine,
    /// Every process image that attached, in the order of their numbers.
    pub processes: Vec<Process>,
    /// Libraries that were mapped in a process.
    pub modules: Vec<Module>,
    /// Names of kernels, by process and handle.
    pub kernels: Vec<Kernel>,
    /// Texts that records refer to by number, by process.
    pub texts: Vec<Text>,
    /// Symbols of the driver's functions, by the number that records use.
    pub functions: Vec<String>,
    /// Names of threads of the whole machine, by thread id.
    pub tasks: Vec<Task>,
    /// Troubles that did not stop the recording.
    pub troubles: Vec<TroubleCount>,
    /// Records of threads that never had a chunk.
    pub lost_without_chunk: LostRange,
    /// The drives, if the trace is of dataflow graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
}

/// A scenario that was driven by dataflow graphs, under one policy after another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Name of the scenario.
    pub scenario: String,
    /// Description of the stack whose graph drove.
    pub stack: String,
    /// The drives, by the process number of their streams.
    pub drives: Vec<FlowDrive>,
}

/// A graph that drove, and what the numbers in its records are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowDrive {
    /// Under which policy.
    pub policy: String,
    /// Its modules.
    pub modules: Vec<String>,
    /// Its groups of cores.
    pub groups: Vec<String>,
    /// Its sources.
    pub sources: Vec<String>,
    /// The topics that modules publish on.
    pub topics: Vec<String>,
    /// The source whose frames commands are computed from.
    pub frames: u16,
    /// Time for which it drove, in nanoseconds.
    pub driven_ns: u64,
    /// Time at which the hazard could be seen, and the number of the message that reacted to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaction: Option<(u64, u64)>,
}

/// End of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnd {
    /// The end is not known.
    #[default]
    Unknown,
    /// The program exited with this status.
    Exited(i32),
    /// The program was killed by this signal.
    Killed(i32),
}

/// Two readings of the clocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// `tsc`, the time-stamp counter; `monotonic`; or `simulated`, of a simulated drive.
    pub source: String,
    /// True if the processor says that the counter runs evenly, also when cores sleep.
    pub even: bool,
    /// Ticks and nanoseconds at the start.
    pub start: (u64, u64),
    /// Ticks and nanoseconds at the end.
    pub end: (u64, u64),
    /// Ticks between the two readings of the counter around that of the clock, the larger one.
    pub spread: u64,
}

impl Clock {
    /// Returns the calibration from ticks to nanoseconds; `None` if the readings make no clock.
    pub fn calibration(&self) -> Option<Calibration> {
        let reading = |(ticks, ns)| Reading { ticks, ns, spread: 0 };
        Calibration::between(reading(self.start), reading(self.end))
    }
}

/// Tiers of the recording around the program, from less to more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Nothing: only what the preload library sees.
    #[default]
    Preload,
    /// Times at which the program's own threads were on a processor. Needs no privilege.
    Switches,
    /// Every switch and wake-up of the machine, with the thread that ran instead. Needs root.
    Scheduler,
}

/// Settings of the recording inside the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Only locks that were waited for.
    pub contended_only: bool,
    /// Locks taken from everywhere.
    pub all_locks: bool,
    /// Work on the GPU, through CUPTI.
    pub gpu: bool,
    /// True if a full memory drops its oldest records, and not the newest.
    pub keep_last: bool,
    /// Libraries whose locks were recorded.
    pub libraries: Vec<String>,
    /// Memory for the program's records.
    pub memory_bytes: u64,
}

/// Settings and counts of the guard of the program's locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// Treatment of the waiters of a mutex: `none`, `inherit`, `fair` or `fair+inherit`.
    pub mutexes: String,
    /// True if read-write locks were made phase-fair.
    pub phase_fair: bool,
    /// True if holders of phase-fair locks were boosted.
    pub boost: bool,
    /// Time in nanoseconds after which a waiter was not overtaken any more.
    pub bound_ns: u64,
    /// True if locks of all libraries were guarded.
    pub everywhere: bool,
    /// Libraries whose locks were guarded.
    pub libraries: Vec<String>,
    /// Counts, by name.
    pub counts: GuardCounts,
}

/// Counts of a guarded program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardCounts {
    /// Mutexes that were made inheritance mutexes.
    pub mutexes_converted: u64,
    /// Uses of mutexes that were left alone: robust.
    pub mutexes_robust: u64,
    /// Uses of mutexes that were left alone: with inheritance already.
    pub mutexes_inheriting: u64,
    /// Uses of mutexes that were left alone: with a ceiling.
    pub mutexes_ceiling: u64,
    /// Uses of mutexes that were left alone: used by several processes.
    pub mutexes_shared: u64,
    /// Uses of mutexes that were left alone: destroyed.
    pub mutexes_destroyed: u64,
    /// Uses of mutexes that were left alone: in use when they were to be converted.
    pub mutexes_busy: u64,
    /// Uses of mutexes that were left alone: never initialised by a call, so that other users are
    /// unknown.
    pub mutexes_of_unknown_users: u64,
    /// Waits that ended with a hand-over.
    pub handed_over: u64,
    /// Waits that outlasted the bound.
    pub outlasted_bound: u64,
    /// Waits in which the owner was lent a real-time priority.
    pub lent: u64,
    /// Waits for which there was no place in the table.
    pub table_full: u64,
    /// Read-write locks that were made phase-fair.
    pub rwlocks_converted: u64,
    /// Uses of read-write locks that were left alone: used by several processes.
    pub rwlocks_shared: u64,
    /// Uses of read-write locks that were left alone: in use at the first encounter.
    pub rwlocks_busy: u64,
    /// Processes that were not guarded, since their lock functions are not the C library's own.
    pub intercepted: u64,
    /// Read-write locks that got the C library's order, since readers waited too long for writers
    /// that wait.
    #[serde(skip_serializing_if = "is_zero")]
    pub rwlocks_readers_first: u64,
    /// Mutexes that were handed to a thread that did not take them in time, and taken back.
    #[serde(skip_serializing_if = "is_zero")]
    pub taken_back: u64,
    /// Mutexes that were made inheritance mutexes, and that another thread than their owner let go.
    #[serde(skip_serializing_if = "is_zero")]
    pub mutexes_let_go_by_others: u64,
}

/// Counts that older readers do not know are written only where there is something to say.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processors that were on line.
    pub processors: u32,
    /// The processor's own name.
    pub processor: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the GPU's kernel driver, if there is one.
    pub gpu_driver: Option<String>,
    /// The GPUs, if work on them was recorded and NVML told of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
}

/// A GPU when the recording ended, and its users meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Its number in NVML.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Processes that used it, recorded ones among them.
    pub users: Vec<GpuUser>,
    /// Reasons for which its clocks were lowered when the recording ended.
    pub slowed: Vec<String>,
}

/// A process that used a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuUser {
    /// Process id.
    pub pid: u32,
    /// Name of its program, if it could be seen.
    pub name: Option<String>,
    /// Mean share of the time in which its kernels ran, in percent, by NVML's samples. None if
    /// there are no samples.
    pub percent: Option<u64>,
}

/// A process image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number in the records.
    pub number: u32,
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub parent: u32,
    /// Time at which it attached, in ticks.
    pub started: u64,
    /// Its program.
    pub program: String,
}

/// A mapped file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Process number.
    pub process: u32,
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// The file.
    pub file: String,
}

/// A kernel's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Process number.
    pub process: u32,
    /// Function handle.
    pub handle: u64,
    /// Name.
    pub name: String,
}

/// A text with a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// Process number.
    pub process: u32,
    /// The number.
    pub number: u64,
    /// The text.
    pub text: String,
}

/// A thread's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Thread id.
    pub thread: u32,
    /// Process id, 0 when it is not known.
    pub pid: u32,
    /// Name.
    pub name: String,
}

/// A trouble and how often it was met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TroubleCount {
    /// Description of the trouble.
    pub trouble: String,
    /// Number of times.
    pub count: u64,
}

/// Records that were lost, between two points in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LostRange {
    /// Number of records; 0 is none.
    pub count: u64,
    /// Ticks of the first.
    pub first: u64,
    /// Ticks of the last.
    pub last: u64,
}
