//! The parts of Keeptime, and what each of them needs of a machine.

use clap::ValueEnum;

use crate::Subject;

/// A part of Keeptime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Product {
    /// Late calls: keeptime run and report
    #[value(alias = "report")]
    Run,
    /// Guarded locks: keeptime run --guard
    Guard,
    /// Shared accelerators: keeptime serve
    Serve,
    /// Regulated cores: keeptime regulate
    Regulate,
    /// The ROS 2 graph: keeptime remote, and servers with a section ros
    Remote,
    /// The laboratory: keeptime-lab
    Lab,
}

/// Importance of a facility for a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Weight {
    /// The part cannot work without it.
    Required,
    /// The part works with limits.
    Wanted,
    /// One option or kind of accelerator needs it.
    #[default]
    Extra,
}

/// One need of a part.
pub(crate) struct Need {
    pub subject: Subject,
    pub weight: Weight,
    /// Consequence of the facility's absence.
    pub without: &'static str,
}

const fn need(subject: Subject, weight: Weight, without: &'static str) -> Need {
    Need { subject, weight, without }
}

const POLLED: &str = "Its queries take locks of the driver, which calls of programs wait for.";
const PAUSED: &str = "Times include what interrupts, the kernel and the hypervisor take.";
const VIRTUAL: &str = "Bounds hold only while the hypervisor takes no core away.";
const RESIDENT: &str = "A thread that touches a page which was swapped out waits for a disk.";

const RUN: &[Need] = &[
    need(Subject::PreloadLibrary, Weight::Required, "Programs cannot be recorded."),
    need(
        Subject::SchedulerEvents,
        Weight::Wanted,
        "Threads that ran instead, and wake-ups, are not recorded.",
    ),
    need(
        Subject::PerfEvents,
        Weight::Wanted,
        "Without root, the times at which threads ran are not recorded.",
    ),
    need(Subject::Clock, Weight::Wanted, "Each record costs more time than it should."),
    need(Subject::CudaDriver, Weight::Wanted, "No CUDA call can be recorded here: locks can."),
    need(Subject::Cupti, Weight::Extra, "run --gpu cannot record when work ran on the GPU."),
    need(Subject::GpuPollers, Weight::Wanted, POLLED),
];

const GUARD: &[Need] = &[
    need(Subject::PreloadLibrary, Weight::Required, "Locks of programs cannot be guarded."),
    need(Subject::KernelFeatures, Weight::Required, "Waiting threads cannot lend their priority."),
    need(
        Subject::RealTimePriority,
        Weight::Wanted,
        "Waits are bounded, but there is no real-time thread to lend priority.",
    ),
    need(Subject::GpuPollers, Weight::Wanted, POLLED),
];

const SERVE: &[Need] = &[
    need(Subject::KernelFeatures, Weight::Required, "Clients cannot share memory with a server."),
    need(Subject::SocketFolder, Weight::Required, "The server has no place for its socket."),
    need(
        Subject::RealTimePriority,
        Weight::Wanted,
        "Any ordinary thread may delay an urgent request: bounds do not hold.",
    ),
    need(Subject::GroupBudget, Weight::Wanted, "Real-time threads stop when it is spent."),
    need(Subject::MemoryLock, Weight::Wanted, RESIDENT),
    need(Subject::LockedPages, Weight::Wanted, "A thread waits while its page is moved."),
    need(Subject::Cores, Weight::Wanted, "Server, accelerator and clients share one core."),
    need(Subject::Throttling, Weight::Wanted, ""),
    need(Subject::Pauses, Weight::Wanted, PAUSED),
    need(Subject::Hypervisor, Weight::Wanted, VIRTUAL),
    need(Subject::Software, Weight::Wanted, "Accelerators of kind cpu cannot be served."),
    need(Subject::CudaDevices, Weight::Extra, "Accelerators of kind cuda cannot be served."),
    need(Subject::Vulkan, Weight::Extra, "Accelerators of kind vulkan cannot be served."),
    need(Subject::Onnx, Weight::Extra, "Accelerators of kind onnx cannot be served."),
    need(Subject::GpuPollers, Weight::Wanted, POLLED),
];

const REGULATE: &[Need] = &[
    need(Subject::KernelFeatures, Weight::Required, "Holders cannot share the lock's memory."),
    need(Subject::SocketFolder, Weight::Required, "The regulator has no place for its socket."),
    need(Subject::RealTimePriority, Weight::Required, "No thread can stop a best-effort core."),
    need(
        Subject::Cores,
        Weight::Required,
        "Holders of the lock need a core besides the regulated.",
    ),
    need(
        Subject::BandwidthCounters,
        Weight::Wanted,
        "Budgets are shares of time or page faults, not bytes.",
    ),
    need(Subject::MemoryLock, Weight::Wanted, RESIDENT),
    need(Subject::ThrottleFair, Weight::Extra, "--fair auto works in user space."),
    need(Subject::ControlGroups, Weight::Extra, "--manage takes processes, no control groups."),
];

const REMOTE: &[Need] = &[
    need(Subject::Ros, Weight::Required, "There is no access to the ROS 2 graph."),
    need(
        Subject::Multicast,
        Weight::Wanted,
        "Other machines have to be named: remote --peer ADDRESS, or ros: peers.",
    ),
    need(Subject::DdsSecurity, Weight::Extra, "Graphs that are secured by an enclave are refused."),
];

const LAB: &[Need] = &[
    need(Subject::Laboratory, Weight::Required, "Experiments cannot be run."),
    need(Subject::PreloadLibrary, Weight::Wanted, "Experiments with recorded programs fail."),
    need(Subject::RealTimePriority, Weight::Wanted, "Results of ordinary threads have a mark."),
    need(Subject::MemoryLock, Weight::Wanted, RESIDENT),
    need(Subject::Cores, Weight::Wanted, "Executors of several cores share one core."),
    need(Subject::Throttling, Weight::Wanted, ""),
    need(Subject::Pauses, Weight::Wanted, PAUSED),
    need(Subject::Hypervisor, Weight::Wanted, "Measured times are those of this virtual machine."),
    need(Subject::CudaDriver, Weight::Extra, "bench submission and preempt skip CUDA."),
    need(Subject::Nvml, Weight::Extra, "nvidia-smi cannot show a GPU's clocks beside a result."),
    need(Subject::Vulkan, Weight::Extra, "bench submission skips Vulkan."),
    need(Subject::Onnx, Weight::Extra, "bench submission skips ONNX Runtime."),
    need(Subject::Sumo, Weight::Extra, "Scenarios with traffic of SUMO are refused."),
    need(Subject::GpuPollers, Weight::Wanted, POLLED),
];

impl Product {
    /// All parts, in the order of the output.
    pub(crate) const ALL: [Product; 6] = [
        Product::Run,
        Product::Guard,
        Product::Serve,
        Product::Regulate,
        Product::Remote,
        Product::Lab,
    ];

    /// Name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Heading of the part.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Product::Run => "Late calls: keeptime run, keeptime report",
            Product::Guard => "Guarded locks: keeptime run --guard",
            Product::Serve => "Shared accelerators: keeptime serve",
            Product::Regulate => "Regulated cores: keeptime regulate",
            Product::Remote => "ROS 2 graph: keeptime remote, serve with a section ros",
            Product::Lab => "Laboratory: keeptime-lab",
        }
    }

    /// Facilities that it needs.
    pub(crate) fn needs(self) -> &'static [Need] {
        match self {
            Product::Run => RUN,
            Product::Guard => GUARD,
            Product::Serve => SERVE,
            Product::Regulate => REGULATE,
            Product::Remote => REMOTE,
            Product::Lab => LAB,
        }
    }
}
