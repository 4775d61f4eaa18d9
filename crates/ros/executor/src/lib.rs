//! Runs the callbacks of chains: timers, messages, services and ends of accelerator requests.
//!
//! An [`Executor`] is one thread or several, each with its cores and its real-time priority. It
//! chooses among its callbacks by an [`ExecutorPolicy`]: [`ExecutorPolicy::ChainAware`] runs the most urgent one
//! that is ready, by the [`priorities`] of their chains; [`ExecutorPolicy::Ros2`] is what ROS 2 does if
//! nobody says otherwise, and is there to be compared with. Callbacks are not preempted by other
//! callbacks of the same thread.
//!
//! Messages come by an [`Input`], which hides what carries them. [`Topic`] and [`Queue`] carry
//! them inside one process, a [mailbox](Executor::mailbox) between processes, and `DdsInput` (with
//! the feature `dds`) those of ROS 2. A callback gets a [`Context`], through which it uses
//! accelerators: it waits for a request, or goes on and waits later, or sends it by a
//! [`Continuation`], which is a callback with a priority of its own.
//!
//! ```
//! use executor::{Executor, Period, ExecutorPolicy, Settings, Thread, Topic};
//! use realtime::clock::monotonic_ns;
//! use std::sync::{Arc, Mutex};
//!
//! let mut executor = Executor::new(ExecutorPolicy::ChainAware, vec![Thread::default()])?;
//! let (images, seen) = (Arc::new(Topic::new()), Arc::new(Mutex::new(Vec::new())));
//! let (period, publisher) = (Period::new(monotonic_ns(), 1_000_000), images.clone());
//! executor.timer(Settings::new("camera", 1), period, move |_, release| {
//!     publisher.publish(&release.number);
//! });
//! let log = seen.clone();
//! executor.subscription(Settings::new("detect", 2), images.subscribe(1), move |context, image| {
//!     log.lock().unwrap().push(image);
//!     // A late timer leaves releases out.
//!     if image >= 2 {
//!         context.stop();
//!     }
//! });
//! let report = executor.run(u64::MAX)?;
//! assert!(seen.lock().unwrap().last() >= Some(&2));
//! assert_eq!(report.callbacks[1].name, "detect");
//! # Ok::<(), executor::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bell;
mod callback;
mod context;
mod continuation;
#[cfg(feature = "dds")]
mod dds;
mod error;
mod executor;
mod input;
mod mail;
mod order;
mod priority;
mod stats;
mod timer;

pub use bell::Bell;
pub use callback::Settings;
pub use context::Context;
pub use continuation::{Continuation, Ended};
#[cfg(feature = "dds")]
pub use dds::DdsInput;
pub use error::Error;
pub use executor::{Exclusion, Executor, Group, Stop, Thread};
pub use input::{Arrived, Input, Queue, Topic};
pub use mail::Sender;
pub use order::{ExecutorPolicy, Kind};
pub use priority::priorities;
pub use stats::{CallbackReport, Report, Sample};
pub use timer::{Period, Release};
