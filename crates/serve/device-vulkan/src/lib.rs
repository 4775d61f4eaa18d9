//! A Vulkan device behind the device contract.
//!
//! - [`devices`] lists what Vulkan finds on this machine; [`start`] starts a device on one of it.
//!   Vulkan is loaded at run time: without its loader or a driver both say so.
//! - The kernels are those of the software accelerator, with the same names, arguments, checks and
//!   memory. They are written in WGSL (`shaders/`) and translated when the device starts. `reduce`
//!   needs double precision and is not offered by a device without it.
//! - [`Module`] adds kernels of one's own, as WGSL or SPIR-V.
//! - [`raw`] is what all of this stands on, for programs that speak Vulkan themselves.
//!
//! In words: each unit of [`device::hosted`] is a thread with command buffers of its own, recorded
//! once for each kernel and again only when its buffers change. A block is one dispatch: the unit
//! binds its slice of the client's memory, submits, and waits for a timeline semaphore. The device
//! reaches that memory itself where it can: a mapping is imported when it is seen first, and kept
//! until a context goes and it has no other holder ([`Config::import`], [`Vulkan::client_memory`]).
//! Otherwise the unit copies the slice into staging buffers, and the result back. Large launches
//! are many blocks, so that more urgent work gets in between. Where the device has several compute queues, upper levels
//! get the one with the higher priority, and with the default units one unit is kept for them.
//!
//! A failure ends the launch: memory that the device cannot hold with
//! [`device::FailureCode::Memory`], the loss of the device with [`device::FailureCode::Kernel`]. A
//! lost device stays lost: all later launches fail with that code, too, until it is started anew.
//!
//! Limits:
//! - The first launch with a mapping waits until it is imported. Results of `reduce` and
//!   `histogram` are put together by the unit: their inputs alone are reached without a copy.
//! - Memory that a launch still uses when its context goes stays imported until the next one goes.
//! - A kernel that does not end keeps its unit, and the end of the device waiting, until the driver
//!   gives the device up as lost. Software drivers never do.
//! - The threads of the driver itself do not get the policy of the device's threads.
//! - A block of `matmul` sees the second matrix as a whole, which has to fit one binding, and
//!   copies it if its part of the input does not.
//! - Queue priorities are those within the process; other processes' queues are served as the
//!   driver sees fit (`VK_KHR_global_priority` is not asked for).
//!
//! ```no_run
//! use device::Device;
//! for found in device_vulkan::devices()? {
//!     println!("{}: {} ({})", found.index, found.name, found.driver);
//! }
//! let device = device_vulkan::start(device_vulkan::Config::default())?;
//! println!("{:?}", device.properties());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
mod binding;
mod block;
mod calibration;
mod config;
mod error;
mod gpu;
mod imports;
mod kernel;
mod library;
mod logical;
mod memory;
pub mod raw;
mod shader;
mod spirv;
mod staging;
mod worker;

pub use backend::{ClientMemory, Vulkan, VulkanDevice, start};
pub use calibration::Calibration;
pub use config::{Config, Groups, Module, Select, Source};
pub use error::Error;
pub use library::{Found, Kind, devices};
