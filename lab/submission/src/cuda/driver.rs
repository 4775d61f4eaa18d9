//! The driver's calls, and what is owned through them: a GPU's context, code, streams and events.

use crate::Error;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{DriverError, result, sys};
use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a call, in the driver's words if it failed.
pub(super) fn check(doing: &'static str, code: sys::CUresult) -> Result<(), Error> {
    code.result().map_err(|error| Error::failed(doing, describe(&error)))
}

/// Calls the driver. cudarc panics where the driver lacks a function, so what an old driver may
/// lack is called through this.
pub(super) fn guarded<T>(
    doing: &'static str,
    call: impl FnOnce() -> Result<T, DriverError>,
) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| Error::failed(doing, describe(&error))),
        Err(_) => Err(Error::failed(doing, "the driver lacks a function that is needed")),
    }
}

fn describe(error: &DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    format!("the driver says {}", name.unwrap_or_else(|_| format!("{:?}", error.0)))
}

/// A GPU and its context.
pub(super) struct Gpu {
    pub name: String,
    /// The newest CUDA that the driver knows: 12020 is 12.2.
    pub version: i32,
    /// Compute capability.
    pub capability: (i32, i32),
    /// True if it can run all blocks of a kernel at once.
    pub cooperative: bool,
    /// Multiprocessors.
    pub processors: u32,
    pub context: sys::CUcontext,
    gpu: sys::CUdevice,
}

// SAFETY: handles of the driver, which any thread may use that has made the context its own.
unsafe impl Send for Gpu {}

impl Gpu {
    /// Opens a GPU and makes its context the calling thread's.
    pub(super) fn open(ordinal: usize) -> Result<Gpu, Error> {
        // SAFETY: it loads the driver, whose constructors are its own affair.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::Unavailable("there is no libcuda.so.1 on this machine".into()));
        }
        let unavailable = |error: Error| Error::Unavailable(error.to_string());
        let count = guarded("starting the driver", || {
            result::init()?;
            result::device::get_count()
        });
        let count = count.map_err(unavailable)?;
        if ordinal as i64 >= i64::from(count) {
            return Err(Error::Unavailable(format!("GPU {ordinal}: the driver has {count}")));
        }
        guarded("opening the GPU", || Gpu::retain(ordinal as i32)).map_err(unavailable)
    }

    fn retain(ordinal: i32) -> Result<Gpu, DriverError> {
        let gpu = result::device::get(ordinal)?;
        // SAFETY: the driver named this GPU just now.
        let attribute = |which| unsafe { result::device::get_attribute(gpu, which) };
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let cooperative = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0;
        let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let mut version = 0;
        // SAFETY: it writes the number.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }.result()?;
        let name = result::device::get_name(gpu)?;
        // SAFETY: as above.
        let context = unsafe { result::primary_ctx::retain(gpu)? };
        let processors = processors.cast_unsigned().max(1);
        let opened = Gpu { name, version, capability, cooperative, processors, context, gpu };
        // SAFETY: it was retained just now.
        unsafe { result::ctx::set_current(context)? };
        Ok(opened)
    }

    /// Makes its context the calling thread's.
    pub(super) fn enter(&self) -> Result<(), Error> {
        // SAFETY: it lives as long as this GPU.
        guarded("entering the context", || unsafe { result::ctx::set_current(self.context) })
    }

    /// The context stays when this GPU is closed: something in it does not end.
    pub(super) fn keep_context(&self) {
        // SAFETY: the driver named this GPU.
        let _ = guarded("keeping the context", || unsafe { result::primary_ctx::retain(self.gpu) });
    }

    /// The interface and the driver with their versions.
    pub(super) fn driver(&self) -> String {
        let cuda = format!("CUDA {}", super::version(self.version));
        let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        match module_version(&text) {
            Some(version) => format!("{cuda}, driver {version}"),
            None => cuda,
        }
    }
}

/// The first word of the kernel module's line that is a version, as in 580.95.05.
fn module_version(text: &str) -> Option<&str> {
    let is_version = |word: &&str| {
        let parts: Vec<&str> = word.split('.').collect();
        let digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        parts.len() > 1 && parts.iter().all(digits)
    };
    text.lines().next()?.split_whitespace().find(is_version)
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: it was retained when the GPU was opened; nothing that was made in it is left.
        let _ = guarded("closing the GPU", || unsafe { result::primary_ctx::release(self.gpu) });
    }
}

/// Loaded code.
pub(super) struct Module(sys::CUmodule);

impl Module {
    /// Loads PTX into the current context.
    pub(super) fn from_ptx(ptx: &str) -> Result<Module, Error> {
        let text = CString::new(ptx).map_err(|error| Error::failed("loading code", error))?;
        Module::from_image(text.as_bytes_with_nul())
    }

    /// Loads linked code, or PTX that ends with a zero, into the current context.
    pub(super) fn from_image(image: &[u8]) -> Result<Module, Error> {
        let start = image.as_ptr().cast::<c_void>();
        // SAFETY: either kind says where it ends.
        guarded("loading code", || unsafe { result::module::load_data(start) }).map(Module)
    }

    /// A kernel of it. Not to be used when the module is gone.
    pub(super) fn function(&self, name: &str) -> Result<sys::CUfunction, Error> {
        let text = CString::new(name).map_err(|error| Error::failed("finding a kernel", error))?;
        // SAFETY: the module is loaded.
        guarded("finding a kernel", || unsafe { result::module::get_function(self.0, text) })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was loaded, and the holder of its kernels has waited for their end.
        let _ = guarded("unloading code", || unsafe { result::module::unload(self.0) });
    }
}

/// A stream that does not wait for the default one.
pub(super) struct Stream(pub sys::CUstream);

impl Stream {
    pub(super) fn new() -> Result<Stream, Error> {
        let kind = result::stream::StreamKind::NonBlocking;
        guarded("making a stream", || result::stream::create(kind)).map(Stream)
    }

    /// Returns true if all of it has ended.
    pub(super) fn has_ended(&self) -> Result<bool, Error> {
        // SAFETY: the stream lives.
        match unsafe { sys::cuStreamQuery(self.0) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check("running on the GPU", code).map(|()| true),
        }
    }

    /// Waits until all of it has ended.
    pub(super) fn drain(&self) -> Result<(), Error> {
        // SAFETY: the stream lives.
        guarded("waiting for the stream", || unsafe { result::stream::synchronize(self.0) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.drain();
        // SAFETY: it was made here, and nothing is in it.
        let _ = guarded("ending a stream", || unsafe { result::stream::destroy(self.0) });
    }
}

/// An event whose waiters sleep.
pub(super) struct Event(sys::CUevent);

impl Event {
    pub(super) fn new() -> Result<Event, Error> {
        let flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
        guarded("making an event", || result::event::create(flags)).map(Event)
    }

    /// Sleeps until all that is in the stream has ended.
    pub(super) fn wait_for(&self, stream: &Stream) -> Result<(), Error> {
        guarded("waiting for the GPU", || {
            // SAFETY: both live.
            unsafe {
                result::event::record(self.0, stream.0)?;
                result::event::synchronize(self.0)
            }
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it was made here, and no thread waits for it.
        let _ = guarded("ending an event", || unsafe { result::event::destroy(self.0) });
    }
}

#[cfg(test)]
mod tests {
    use super::module_version;

    #[test]
    fn version_of_the_kernel_module_is_found_in_both_of_its_forms() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12\nGCC";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release";
        assert_eq!(module_version(closed), Some("535.183.01"));
        assert_eq!(module_version(open), Some("580.95.05"));
        assert_eq!(module_version(""), None);
    }
}
