//! A Vulkan device behind the device contract.
//!
//! - [`devices`] lists what Vulkan finds on this machine; [`start`] starts a device on one of it.
//!   Vulkan is loaded at run time: without its loader or a driver both say so.
//! - The kernels are those of the software accelerator, with the same names, arguments, checks and
//!   memory. They are written in WGSL (`shaders/`) and translated when the device starts. `reduce`
//!   needs double precision and is not offered by a device without it.
//! - [`Module`] adds kernels of one's own, as WGSL or SPIR-V.
//!
//! In words: each unit of [`device::hosted`] is a thread with command buffers of its own, recorded
//! once for each kernel and again only when its buffers change. A block is one dispatch: the unit
//! copies its slice of the client's memory into staging buffers that the device can reach, submits,
//! waits for a timeline semaphore, and copies the result back. Large launches are many blocks, so
//! that more urgent work gets in between. Where the device has several compute queues, upper levels
//! get the one with the higher priority, and with the default units one unit is kept for them.
//!
//! What goes wrong ends the launch: memory that the device cannot hold with
//! [`device::FailureCode::Memory`], the loss of the device with [`device::FailureCode::Kernel`].
//! A lost device stays lost: all later launches fail with that code, too, until it is started anew.
//!
//! Limits:
//! - Client memory is copied; importing it (`VK_EXT_external_memory_host`) is a later step.
//! - A kernel that does not end keeps its unit, and the end of the device waiting, until the driver
//!   gives the device up as lost. Software drivers never do.
//! - The threads of the driver itself do not get the policy of the device's threads.
//! - A block of `matmul` copies the second matrix as a whole, which has to fit one binding.
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
mod calibration;
mod config;
mod error;
mod gpu;
mod kernel;
mod library;
mod shader;
mod staging;
mod worker;

pub use backend::{Vulkan, VulkanDevice, start};
pub use calibration::Calibration;
pub use config::{Config, Groups, Module, Select, Source};
pub use error::Error;
pub use library::{Found, Kind, devices};
