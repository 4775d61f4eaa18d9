//! Responsibility-sensitive safety (RSS): safe distances, and how long a reaction may take.
//!
//! RSS (Shalev-Shwartz, Shammah, Shashua: "On a formal model of safe and scalable self-driving
//! cars", 2017) says how far two road users must stay apart so that neither hits the other if both
//! do what is assumed of them: go on for a response time, then brake. [`Model`] holds these
//! [`Assumptions`]; a [`Preset`] is a published set of them.
//!
//! The same distance, turned round, is a deadline (COLA, section 2.2): with a given gap, how long
//! may the ego vehicle go on before it is too late to react? [`Model::deadline`] answers for one
//! object in closed form, [`Model::frame_deadline`] for all objects of a sensor frame, and
//! [`budget`] says what of it is left for one module.
//!
//! ```
//! use rss::{Across, Along, Direction, Preset, Situation};
//!
//! # fn main() -> Result<(), rss::Error> {
//! let model = Preset::AD_RSS.model().with_horizon(8.0)?;
//! // A pedestrian stands 40 m ahead of a vehicle that drives 10 m/s.
//! let pedestrian = Situation::Lane {
//!     along: Along { direction: Direction::Ahead, gap: 40.0, ego_speed: 10.0, other_speed: 0.0 },
//!     across: Across { gap: 0.0, ego_speed: 0.0, other_speed: 0.0 },
//! };
//! assert!(!model.dangerous(&pedestrian)?);
//! let deadline = model.deadline(&pedestrian)?;
//! assert!((deadline - 1.2103).abs() < 1e-4);
//! # Ok(())
//! # }
//! ```
//!
//! Metres, seconds, metres per second. All functions are pure, allocate nothing, and answer with a
//! number or an [`Error`] whatever they are given.
#![forbid(unsafe_code)]

mod assumptions;
mod budget;
mod deadline;
mod distance;
mod error;
mod situation;

pub use assumptions::{Assumptions, Lateral, Model, Preset};
pub use budget::{Spent, budget};
pub use deadline::FrameDeadline;
pub use error::Error;
pub use situation::{Across, Along, Crossing, Direction, Situation};
