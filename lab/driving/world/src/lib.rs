//! Roads, traffic and hazards: a deterministic simulator of driving.
//!
//! A [`Scenario`] says what is there and what happens; a [`World`] lets it happen, one [`STEP`] at
//! a time, under the [`Command`]s of the driver of the ego vehicle.
//!
//! ```
//! use world::{Reference, World, suite};
//! let mut world = World::new(&suite::normal(0))?;
//! let mut driver = Reference::new(1.5);
//! while !world.ended() && world.collisions().is_empty() {
//!     let command = driver.drive(&world);
//!     world.step(&command);
//! }
//! assert!(world.collisions().is_empty());
//! # Ok::<(), world::scenario::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod body;
pub mod collision;
pub mod critical;
pub mod ego;
pub mod geometry;
pub mod line;
pub mod opendrive;
pub mod random;
pub mod reference;
pub mod road;
pub mod route;
pub mod scenario;
pub mod sight;
pub mod suite;
pub mod sumo;
pub mod table1;
mod text;
mod traffic;
mod world;

pub use body::{Body, Command, Kind};
pub use collision::{Collision, Side};
pub use critical::{Critical, Limit, critical};
pub use ego::Ego;
pub use geometry::{Pose, Rectangle};
pub use line::{Line, Offset};
pub use reference::Reference;
pub use road::{Lane, LaneId, Road, RoadError};
pub use route::Route;
pub use scenario::Scenario;
pub use world::{Hazard, STEP, World};
