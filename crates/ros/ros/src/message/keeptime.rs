//! The package `keeptime_msgs`, `crates/ros/keeptime_msgs` in this repository.

#![allow(missing_docs, reason = "the .msg and .srv files say what each field means")]

use super::Time;
use crate::{Message, Service};
use serde::{Deserialize, Serialize};

/// `msg/Result`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub code: u8,
    pub reason: String,
}

impl Outcome {
    pub const OK: u8 = 0;
    pub const REFUSED: u8 = 1;
    pub const MALFORMED: u8 = 2;
    pub const UNKNOWN: u8 = 3;
    pub const TOO_OLD: u8 = 4;
    pub const EXPIRED: u8 = 5;
    pub const FAILED: u8 = 6;
    pub const UNAVAILABLE: u8 = 7;

    /// The longest reason, in characters.
    const LONGEST_REASON: usize = 250;

    /// An outcome with its reason, or the beginning of a long one.
    pub fn new(code: u8, reason: impl Into<String>) -> Outcome {
        let mut reason = reason.into();
        if let Some((end, _)) = reason.char_indices().nth(Outcome::LONGEST_REASON) {
            reason.truncate(end);
        }
        Outcome { code, reason }
    }
}

/// `msg/AcceleratorStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceleratorStatus {
    pub id: String,
    pub device: String,
    pub buckets: u32,
    pub queued: u32,
    pub running: u32,
    pub registrations: u32,
}

/// `msg/ChainStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainStatus {
    pub name: String,
    pub priority: u32,
    pub standing: u8,
    pub callbacks: u32,
    pub registrations: u32,
    pub period_ns: u64,
    pub deadline_ns: u64,
    pub bound_ns: u64,
    pub requests: u64,
    pub longest_ns: u64,
    pub overruns: u64,
    pub excess: u64,
    pub remote: bool,
    pub remote_requests: u64,
    pub remote_mean_ns: u64,
    pub remote_longest_ns: u64,
    pub remote_expired: u64,
    pub remote_repeated: u64,
    pub note: String,
}

/// `msg/GatewayStatus`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatus {
    pub clients: u32,
    pub registrations: u32,
    pub answered: u64,
    pub refused: u64,
    pub malformed: u64,
    pub leases_ended: u64,
    pub restarts: u32,
}

/// `msg/Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub stamp: Time,
    pub connected: bool,
    pub realtime: bool,
    pub policy: String,
    pub admission: String,
    pub done: u64,
    pub cancelled: u64,
    pub failed: u64,
    pub overruns: u64,
    pub accelerators: Vec<AcceleratorStatus>,
    pub chains: Vec<ChainStatus>,
    pub gateway: GatewayStatus,
}

impl Message for Status {
    const TYPE: &'static str = "keeptime_msgs/msg/Status";
}

/// `srv/RegisterChain`.
pub struct RegisterChain;

impl Service for RegisterChain {
    const TYPE: &'static str = "keeptime_msgs/srv/RegisterChain";
    type Request = RegisterRequest;
    type Response = RegisterResponse;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterRequest {
    pub client: [u8; 16],
    pub sequence: u64,
    pub chain: String,
    pub priority: u32,
    pub service: String,
    pub accelerator: String,
    pub memory_bytes: u64,
    pub callback: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterResponse {
    pub result: Outcome,
    pub registration: u32,
    pub chain: String,
    pub submit_service: String,
    pub bucket: u32,
    pub lease_ns: u64,
    pub in_flight: u32,
}

/// `srv/DeregisterChain`.
pub struct DeregisterChain;

impl Service for DeregisterChain {
    const TYPE: &'static str = "keeptime_msgs/srv/DeregisterChain";
    type Request = DeregisterRequest;
    type Response = DeregisterResponse;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeregisterRequest {
    pub client: [u8; 16],
    pub registration: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeregisterResponse {
    pub result: Outcome,
}

/// `srv/KeepAlive`.
pub struct KeepAlive;

impl Service for KeepAlive {
    const TYPE: &'static str = "keeptime_msgs/srv/KeepAlive";
    type Request = KeepAliveRequest;
    type Response = KeepAliveResponse;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepAliveRequest {
    pub client: [u8; 16],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepAliveResponse {
    pub result: Outcome,
    pub lease_ns: u64,
}

/// `srv/ListChains`.
pub struct ListChains;

impl Service for ListChains {
    const TYPE: &'static str = "keeptime_msgs/srv/ListChains";
    type Request = ListRequest;
    type Response = ListResponse;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    pub remote_only: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListResponse {
    pub result: Outcome,
    pub chains: Vec<ChainStatus>,
}

/// `srv/QueryChain`.
pub struct QueryChain;

impl Service for QueryChain {
    const TYPE: &'static str = "keeptime_msgs/srv/QueryChain";
    type Request = QueryRequest;
    type Response = QueryResponse;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryRequest {
    pub chain: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryResponse {
    pub result: Outcome,
    pub chain: ChainStatus,
}

/// `srv/Submit`.
pub struct Submit;

impl Service for Submit {
    const TYPE: &'static str = "keeptime_msgs/srv/Submit";
    type Request = SubmitRequest;
    type Response = SubmitResponse;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitRequest {
    pub client: [u8; 16],
    pub registration: u32,
    pub sequence: u64,
    pub timeout_ns: u64,
    pub arguments: Vec<u64>,
    #[serde(with = "crate::cdr::bytes")]
    pub input: Vec<u8>,
    pub output_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitResponse {
    pub result: Outcome,
    pub sequence: u64,
    #[serde(with = "crate::cdr::bytes")]
    pub output: Vec<u8>,
    pub waited_ns: u64,
    pub queued_ns: u64,
    pub executed_ns: u64,
    pub repeated: bool,
    pub arrived_ns: u64,
    pub noticed_ns: u64,
    pub returned_ns: u64,
}
