//! A driving stack's computation: perception, tracking, prediction, planning and control.
//!
//! Plain functions, and structs where an algorithm keeps state. Each is the real computation, so
//! that its time grows as that of a production stack does: with objects, with how far ahead is
//! planned, with how long ahead is predicted.
//!
//! ```text
//! lidar -> Cloud -> segment -> Detection -> track -> Track -> predict -> Prediction
//!                                                                            v
//!                                world::Command <- control <- Trajectory <- plan
//! ```
#![forbid(unsafe_code)]

pub mod control;
pub mod critical;
pub mod drive;
pub mod lidar;
pub mod map;
pub mod network;
pub mod plan;
pub mod policy;
pub mod predict;
pub mod runs;
pub mod segment;
pub mod stack;
pub mod stays;
pub mod track;
pub mod violation;
pub mod wall;

use std::ops::ControlFlow;

pub use control::{Ego, Follower};
pub use lidar::{Cloud, Lidar};
pub use plan::{Planner, Trajectory};
pub use policy::Policy;
pub use predict::{Prediction, Predictor};
pub use segment::{Detection, Segmenter};
pub use track::{Track, Tracker};
pub use violation::{Cause, Violation, Violations};

/// A computation was told to stop at one of its checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Function that a long computation calls between two pieces of its work; `Break` ends it.
pub type Checkpoint<'a> = &'a mut dyn FnMut() -> ControlFlow<()>;

fn passed(checkpoint: Checkpoint) -> Result<(), Stopped> {
    match checkpoint() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Stopped),
    }
}
