//! Results as terminal text, JSON and self-contained HTML pages.
//!
//! [`chains::ChainsRun`] is what running a system of chains under several policies gave; the
//! functions of [`chains`] show it: [`chains::document`] to people, [`chains::json`] to machines.
//! [`study::StudyRun`] is how many random systems each analysis accepts.
//! [`graph::GraphRun`] is what running a graph of nodes under several methods gave.
//! [`bandwidth::BandwidthRun`] is what the memory-bandwidth lock is worth on a machine.
//! [`drive::DriveRun`] is how a scenario was driven under several policies.
//! [`transport::TransportRun`] is what a request costs by the way it takes.
//!
//! Each builds a [`document::Document`], which has one renderer for a terminal and one for a page.
//! [`number`] writes numbers as text; [`drawing`], [`theme`] and [`page`] are what charts and pages are
//! made of.
//!
//! ```
//! use report::chains::{self, ChainInfo, ChainResult, ChainsRun, PolicyRun};
//!
//! let brake = |policy: &str, response_ns: &[u64]| PolicyRun {
//!     policy: policy.to_owned(),
//!     chains: vec![ChainResult {
//!         id: "brake".to_owned(),
//!         jobs: response_ns.len() as u64,
//!         response_ns: response_ns.to_vec(),
//!         ..ChainResult::default()
//!     }],
//!     ..PolicyRun::default()
//! };
//! let run = ChainsRun {
//!     system_name: "robot.yaml".to_owned(),
//!     chains: vec![ChainInfo {
//!         id: "brake".to_owned(),
//!         priority: 1,
//!         period_ns: 100_000_000,
//!         deadline_ns: 100_000_000,
//!         ..ChainInfo::default()
//!     }],
//!     policies: vec![brake("priority", &[900_000, 1_100_000]), brake("fifo", &[3_300_000, 900_000])],
//!     ..ChainsRun::default()
//! };
//! assert!(chains::document(&run).conclusion[0].contains("3.0 times"));
//! ```
#![forbid(unsafe_code)]

pub mod analysis;
pub mod bandwidth;
pub mod chains;
pub mod document;
pub mod drawing;
pub mod drive;
mod error;
pub mod flow;
pub mod graph;
pub mod late;
pub mod number;
pub mod page;
pub mod simulation;
pub mod study;
pub mod theme;
pub mod transport;

pub use error::Error;

#[cfg(test)]
#[path = "../tests/whole/mod.rs"]
mod whole;
