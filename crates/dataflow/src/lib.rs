//! Runs modules that are fed by messages, and spends their time budget where the danger is
//! (COLA).
//!
//! - A [`Graph`] says which [`Module`] reads what, by which [`Wire`], and on which [`Group`] of cores
//!   it runs. A [`Module`] gets a [`Cx`]: its budget, deadlines of objects, checkpoints, parts of
//!   results, work ahead of time.
//! - [`Virtual`] runs it on a virtual clock: the modules' code for real, on simulated cores that are
//!   charged what it took. A simulator of the world steps along. [`Costs::Replay`] repeats a run
//!   to the nanosecond.
//! - [`Wall`] runs the same on threads.
//! - [`Settings`] say which of COLA's mechanisms are on: fast path, work ahead, guests.
//! - [`trace`] says what happened, and [`trace::Reactions`] why a reaction took as long as it did.
//!
//! ```
//! use dataflow::trace::{Event, Reactions};
//! use dataflow::{
//!     Costs, Cx, Graph, Group, Message, Module, ObjectDeadline, Path, Settings, Stop, Virtual,
//! };
//!
//! /// Finds the distances of objects, in metres, and how long a reaction to each may take.
//! struct See;
//!
//! impl Module for See {
//!     type In = Message<Vec<f64>>;
//!     type Out = Vec<f64>;
//!
//!     fn run(&mut self, cx: &mut Cx<Vec<f64>>, scan: &Self::In, _: Path) -> Result<Vec<f64>, Stop> {
//!         let captured_ns = scan.header.captured_ns;
//!         let deadline = |(id, distance): (usize, &f64)| ObjectDeadline {
//!             id: id as u32,
//!             deadline_ns: captured_ns + (distance / 15.0 * 1e9) as u64,
//!         };
//!         cx.set_objects(scan.iter().enumerate().map(deadline).collect());
//!         Ok(scan.to_vec())
//!     }
//! }
//!
//! /// Brakes for objects that are near.
//! struct Plan;
//!
//! impl Module for Plan {
//!     type In = Message<Vec<f64>>;
//!     type Out = bool;
//!
//!     fn run(&mut self, cx: &mut Cx<bool>, objects: &Self::In, _: Path) -> Result<bool, Stop> {
//!         for &distance in objects.iter() {
//!             if distance < 10.0 {
//!                 return Ok(true);
//!             }
//!             cx.go_on()?;
//!         }
//!         Ok(false)
//!     }
//! }
//!
//! let mut graph = Graph::new();
//! let group = graph.group(Group::new("all", 2));
//! let (scans, objects, brakes) = (graph.topic("scans"), graph.topic("objects"), graph.topic("brakes"));
//! let lidar = graph.source("lidar", &scans, None);
//! graph.module("see", group, See, scans.latest(), &objects);
//! graph.module("plan", group, Plan, objects.latest(), &brakes);
//! let output = graph.output(&brakes);
//!
//! let mut clock = Virtual::new(graph, Settings::default(), Costs::fixed(vec![20_000_000, 5_000_000]))?;
//! let mut braking = None;
//! for step in 0..100_u64 {
//!     let (now_ns, distance) = (step * 10_000_000, 30.0 - step as f64 * 0.5);
//!     if step % 10 == 0 {
//!         clock.inject(&lidar, now_ns, now_ns, vec![distance])?;
//!     }
//!     clock.advance_to(now_ns + 10_000_000)?;
//!     braking = braking.or(clock.take(&output).into_iter().find(|brake| **brake));
//! }
//! let braking = braking.expect("it brakes");
//! assert_eq!(braking.header.captured_ns, 500_000_000);
//! assert_eq!(braking.header.deadline_ns, 500_000_000 + 333_333_333);
//!
//! let events: Vec<Event> = clock.trace().events().copied().collect();
//! let reaction = Reactions::new(&events)
//!     .first(lidar.id(), 410_000_000, |message| message == braking.header.id)
//!     .expect("a command that knows of the hazard");
//! assert_eq!(reaction.sensor_ns, 90_000_000);
//! assert_eq!((reaction.module_ns, reaction.bubble_ns), (25_000_000, 0));
//! # Ok::<(), dataflow::Error>(())
//! ```
#![forbid(unsafe_code)]

mod alone;
mod cx;
mod engine;
mod error;
mod estimate;
pub mod graph;
mod input;
mod mailbox;
mod message;
mod middleware;
mod module;
mod settings;
pub mod trace;
mod virtual_clock;
mod wall;

pub use alone::{Alone, alone};
pub use cx::{Checkpoint, Cx, WorkCx};
pub use engine::{GroupStatistics, ModuleStatistics, Statistics};
pub use error::Error;
pub use graph::{
    Cancel, Graph, Group, GroupId, ModuleId, ModuleRef, Output, Source, Topic, Trigger,
};
pub use input::{Input, Wire};
pub use mailbox::MailboxCounts;
pub use message::{Header, Message, NO_DEADLINE, ObjectDeadline, Origin, Part, SourceId};
pub use middleware::Carry;
pub use module::{Load, Module, Path, Stop};
pub use settings::{Judge, Mechanism, Settings, Stealing};
pub use virtual_clock::{Chunk, Costs, Observed, Recording, Virtual};
pub use wall::{Stopped, Wall};
