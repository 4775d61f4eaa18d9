//! `diagnostic_msgs`, which ROS 2's tools show.

use super::Time;
use crate::Message;
use serde::{Deserialize, Serialize};

/// `std_msgs/msg/Header`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Time at which the message was written.
    pub stamp: Time,
    /// Unused here.
    pub frame_id: String,
}

/// `diagnostic_msgs/msg/DiagnosticArray`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosticArray {
    /// Head with the time at which the message was written.
    pub header: Header,
    /// One entry for each thing that is watched.
    pub status: Vec<DiagnosticStatus>,
}

impl Message for DiagnosticArray {
    const TYPE: &'static str = "diagnostic_msgs/msg/DiagnosticArray";
}

/// `diagnostic_msgs/msg/DiagnosticStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosticStatus {
    /// [`OK`](DiagnosticStatus::OK) to [`STALE`](DiagnosticStatus::STALE).
    pub level: u8,
    /// Name of the thing that the status describes.
    pub name: String,
    /// Text of the status.
    pub message: String,
    /// The machine's part.
    pub hardware_id: String,
    /// Details.
    pub values: Vec<KeyValue>,
}

impl DiagnosticStatus {
    /// All is well.
    pub const OK: u8 = 0;
    /// Something should be looked at.
    pub const WARN: u8 = 1;
    /// Something does not work.
    pub const ERROR: u8 = 2;
    /// Nothing has been heard for a while.
    pub const STALE: u8 = 3;
}

/// `diagnostic_msgs/msg/KeyValue`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValue {
    /// Name of the measured value.
    pub key: String,
    /// Its value.
    pub value: String,
}
