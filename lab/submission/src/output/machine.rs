//! The machine that a study ran on.

use crate::measure::Seat;
use realtime::machine;
use serde::Serialize;
use std::time::SystemTime;

/// The machine that a study ran on, and what it granted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// The processor's model.
    pub processor: String,
    /// Number of cores that are switched on.
    pub cores: usize,
    /// True if a hypervisor is below.
    pub is_virtual: bool,
    /// The release of the kernel.
    pub kernel: String,
    /// Source of the kernel's clocks.
    pub clock_source: Option<String>,
    /// The core that the measuring thread was kept on.
    pub core: Option<usize>,
    /// The `SCHED_FIFO` priority that it got; the ordinary policy if there is none.
    pub priority: Option<u8>,
    /// Date of the study, as text.
    pub date: String,
    /// The command that made it.
    pub command: String,
    /// Notes on the validity of the results.
    pub marks: Vec<String>,
}

impl Machine {
    /// Description of this machine now; and of what the measuring thread got.
    pub fn this(seat: &Seat) -> Machine {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Machine {
            host: host.trim().to_owned(),
            processor: machine::core_model(),
            cores: machine::online_cores().len(),
            is_virtual: machine::is_virtual(),
            kernel: machine::kernel_release(),
            clock_source: machine::clocksource(),
            core: seat.core,
            priority: seat.priority,
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            command: terminal::command_line::this_command(),
            marks: Vec::new(),
        }
    }
}
