//! Errors of the use of Vulkan.

use ash::vk;

/// Reason why Vulkan could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The loader (`libvulkan.so.1`) is not installed or cannot be loaded.
    #[error("no Vulkan loader: {0}")]
    Loader(String),
    /// The loader found no driver, or none that works.
    #[error("no Vulkan driver: {0}")]
    Driver(String),
    /// The loader is older than Vulkan 1.2.
    #[error("the Vulkan loader knows version {major}.{minor}, needed is 1.2")]
    OldLoader {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The device that was asked for does not exist.
    #[error("no Vulkan device {wanted}; there are: {found}")]
    NoDevice {
        /// Device that was asked for.
        wanted: String,
        /// The devices that there are.
        found: String,
    },
    /// The device lacks what is needed.
    #[error("the Vulkan device {name} lacks {missing}")]
    Lacks {
        /// Name of the device.
        name: String,
        /// Missing properties.
        missing: String,
    },
    /// A kernel module cannot be used.
    #[error("module {name} ({description}): {reason}")]
    Module {
        /// Name of the module.
        name: String,
        /// Description that it gives of itself.
        description: String,
        /// Fault of the module.
        reason: String,
    },
    /// A call of Vulkan failed.
    #[error("{call}: {result}")]
    Call {
        /// Name of the called function.
        call: &'static str,
        /// Result that it returned.
        result: vk::Result,
    },
    /// The device worked, but a trial launch failed.
    #[error("a trial launch failed: {0:?}")]
    Trial(device::FailureCode),
}

impl Error {
    /// Makes the error of a failed call, in a `map_err`.
    pub(crate) fn of(call: &'static str) -> impl FnOnce(vk::Result) -> Error {
        move |result| Error::Call { call, result }
    }
}

impl From<Error> for device::Error {
    fn from(error: Error) -> device::Error {
        device::Error::Start(error.to_string())
    }
}
