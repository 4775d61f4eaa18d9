//! Nodes on the ROS 2 graph: topics and services over DDS, with the names, types and headers that
//! ROS 2 gives them, so that any ROS 2 node finds, reads and calls them.
//!
//! [`Context`] is one DDS participant, and starts its threads. [`Context::node`] adds a [`Node`],
//! which makes [`Publisher`]s, [`Subscription`]s, service [`Server`]s and [`Client`]s. Nothing here
//! waits: [`Subscription::take`] returns what has come, and [`Subscription::on_message`] says when
//! it is worth asking again. [`Bell`] turns that into a descriptor that a thread can wait for.
//!
//! ```no_run
//! use ros::{Bell, Context, Message, Options, Qos};
//! use std::sync::Arc;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Text { data: String }
//! impl Message for Text { const TYPE: &'static str = "std_msgs/msg/String"; }
//!
//! let context = Context::new(&Options::default())?;
//! let node = context.node("/", "listener")?;
//! let chatter = node.subscription::<Text>("chatter", Qos::default())?;
//! let bell = Arc::new(Bell::new()?);
//! let ring = Arc::clone(&bell);
//! chatter.on_message(move || ring.ring());
//! loop {
//!     while let Some(sample) = chatter.take()? {
//!         println!("{}", sample.message.data);
//!     }
//!     bell.wait(None)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Data from the network is not trusted: a reader copies at most as many bytes as its
//! [`Qos::max_bytes`] allows, and a message that does not decode is an error of [`take`], not a
//! reason to stop.
//!
//! [`take`]: Subscription::take

#![forbid(unsafe_code)]

mod bell;
pub mod cdr;
mod context;
mod error;
pub mod gateway;
mod graph;
pub mod message;
mod names;
mod node;
mod pace;
mod peers;
mod qos;
pub mod remote;
pub mod security;
mod service;
mod topic;
mod wire;

pub use bell::Bell;
pub use context::{Context, Distribution, Options};
pub use error::Error;
pub use graph::NodeEntry;
pub use names::NodeName;
pub use node::Node;
pub use peers::Neighbours;
pub use qos::{Durability, Qos, Reliability};
pub use service::{Client, Mapping, RequestId, Server, Service};
pub use topic::{Message, Publisher, Sample, Subscription};
