//! The messages of ROS 2 that Keeptime sends and understands. Fields stand in the order of the
//! `.msg` and `.srv` files, which say what they mean.

pub mod diagnostic;
pub mod keeptime;

use serde::{Deserialize, Serialize};

/// `builtin_interfaces/msg/Time`: since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Time {
    /// Whole seconds.
    pub sec: i32,
    /// The rest.
    pub nanosec: u32,
}

impl Time {
    /// The clock of the machine now.
    pub fn now() -> Time {
        let now = std::time::SystemTime::now();
        let since = now.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
        let sec = i32::try_from(since.as_secs()).unwrap_or(i32::MAX);
        Time { sec, nanosec: since.subsec_nanos() }
    }
}
