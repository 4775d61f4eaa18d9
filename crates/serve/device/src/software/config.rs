//! Configuration of a software accelerator.

use crate::hosted::Sharing;
use realtime::thread::Scheduling;
use realtime::work::Calibration;

/// Configuration of a [`super::SoftwareDevice`]. The default has six levels, one compute thread on
/// whatever core is free, and the ordinary scheduling policy.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of levels, at least one.
    pub levels: u8,
    /// One compute thread (a unit) for each entry, kept on that core; if empty, one that may run
    /// anywhere.
    pub cores: Vec<usize>,
    /// Scheduling of the device's threads. When it is refused they run with the normal one, and
    /// [`crate::Statistics::realtime`] tells.
    pub policy: Scheduling,
    /// Rule by which work gets the units.
    pub sharing: Sharing,
    /// The core of the copy engine's thread, if it is to have one. With a real-time policy it
    /// should not be the core of a unit, or copies and cancellations wait for its kernels.
    pub copy_core: Option<usize>,
    /// Speed of this machine, for the `busy` kernel; if not given, measured at the start (200 ms).
    pub calibration: Option<Calibration>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            levels: 6,
            cores: Vec::new(),
            policy: Scheduling::Normal,
            sharing: Sharing::Levels,
            copy_core: None,
            calibration: None,
        }
    }
}
