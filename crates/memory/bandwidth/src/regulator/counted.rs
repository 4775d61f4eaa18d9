//! Events that a budget can be a number of: the kernel's own, and the processor's that move cache
//! lines between a core's last own cache and the memory.

use perf_event_open_sys::bindings as abi;
use serde::Serialize;

/// Events that the kernel itself counts, on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SoftwareEvent {
    /// Faults of pages: for programs that take fresh memory, a page that is zeroed.
    PageFaults,
    /// Page faults that needed no disk.
    MinorFaults,
    /// Page faults that needed the disk.
    MajorFaults,
    /// Changes of thread.
    ContextSwitches,
}

impl SoftwareEvent {
    /// All that there are.
    pub const ALL: [SoftwareEvent; 4] =
        [Self::PageFaults, Self::MinorFaults, Self::MajorFaults, Self::ContextSwitches];

    /// Returns the name that `perf` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::PageFaults => "page-faults",
            Self::MinorFaults => "minor-faults",
            Self::MajorFaults => "major-faults",
            Self::ContextSwitches => "context-switches",
        }
    }

    pub(super) fn config(self) -> u64 {
        u64::from(match self {
            Self::PageFaults => abi::PERF_COUNT_SW_PAGE_FAULTS,
            Self::MinorFaults => abi::PERF_COUNT_SW_PAGE_FAULTS_MIN,
            Self::MajorFaults => abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
            Self::ContextSwitches => abi::PERF_COUNT_SW_CONTEXT_SWITCHES,
        })
    }
}

/// Events that move a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Name of the events.
    pub name: String,
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// The kernel's numbers for their type and for themselves, at most two.
    pub(super) events: Vec<(u32, u64)>,
}

impl Hardware {
    /// The events of this machine's processor: for ARM the architecture's `L2D_CACHE_REFILL` and
    /// `L2D_CACHE_WB` (0x17 as in BWLOCK++, and 0x18), for others the kernel's generic
    /// `cache-misses`: requests that missed the last level of an Intel processor, or the second of
    /// an AMD one; neither has an event of a core for write-backs to the memory.
    pub fn of_this_machine() -> Hardware {
        match cfg!(target_arch = "aarch64") {
            true => Hardware {
                name: "L2D_CACHE_REFILL + L2D_CACHE_WB".into(),
                line_bytes: 64,
                events: [0x17, 0x18].map(|event| (abi::PERF_TYPE_RAW, event)).into(),
            },
            false => Hardware {
                name: "cache-misses".into(),
                line_bytes: 64,
                events: vec![(abi::PERF_TYPE_HARDWARE, abi::PERF_COUNT_HW_CACHE_MISSES.into())],
            },
        }
    }

    /// An event by its number in the processor's manual.
    pub fn raw(event: u64) -> Hardware {
        Hardware {
            name: format!("raw event {event:#x}"),
            line_bytes: 64,
            events: vec![(abi::PERF_TYPE_RAW, event)],
        }
    }
}
