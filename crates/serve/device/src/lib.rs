//! Accelerators behind one contract.
//!
//! - [`Device`] is the contract: contexts, streams with priority levels, asynchronous launches
//!   and copies, cancellation. What crosses it are [`Launch`]es in and [`OperationOutcome`]s out.
//! - [`Event`] is how work reports its end: by a query, by a wait, or to an [`Observer`].
//! - [`hosted::Hosted`] keeps the contract for a [`hosted::Backend`], which need only run one
//!   block after the other: levels, preemption at block boundaries, cancellation, a copy engine.
//! - [`software::SoftwareDevice`] is one on processor cores, with real [`kernels`].
//! - [`conformance`] checks any device against the contract.
//!
//! ```
//! use device::{Device, Event, Launch, Level, Status, software};
//! use shm::memory::PeerSlice;
//!
//! let device = software::SoftwareDevice::on_cores(software::Config::default())?;
//! let context = device.create_context()?;
//! let stream = device.create_stream(context, Level(0))?;
//!
//! let input = PeerSlice::anonymous(2 * 3 * 4).unwrap();
//! input.write_f32(0, &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]).unwrap();
//! let output = PeerSlice::anonymous(3 * 4).unwrap();
//!
//! let kernel = device.kernel("vecadd").unwrap();
//! let mut launch = Launch::new(kernel, [3, 0, 0, 0]);
//! (launch.input, launch.output) = (input, output.clone());
//! let event = Event::new();
//! device.launch(stream, launch, &event)?;
//! assert_eq!(event.wait().status, Status::Done);
//!
//! let mut sum = [0.0; 3];
//! output.read_f32(0, &mut sum).unwrap();
//! assert_eq!(sum, [11.0, 22.0, 33.0]);
//! # Ok::<(), device::Error>(())
//! ```
#![forbid(unsafe_code)]

mod check;
pub mod conformance;
mod contract;
mod error;
mod event;
pub mod hosted;
pub mod kernels;
pub mod software;

pub use contract::{
    ContextId, Device, FailureCode, KernelId, KernelInfo, Launch, Level, Observer,
    OperationOutcome, Preemption, Properties, Statistics, Status, StreamId,
};
pub use error::Error;
pub use event::Event;
