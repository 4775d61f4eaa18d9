//! The driver: whether it is there, what it finds, and calls that do not panic.

use cudarc::driver::{DriverError, result, sys};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A GPU as the driver lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Number that [`crate::Config::ordinal`] takes.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// Compute capability, as in (9, 0).
    pub capability: (u32, u32),
}

/// All GPUs.
///
/// # Errors
/// There is no driver, or it does not start.
pub fn devices() -> Result<Vec<Found>, String> {
    init()?;
    let count = guarded(result::device::get_count)?;
    (0..count).map(found).collect()
}

/// One GPU.
///
/// # Errors
/// There is none of that number, or what the driver says.
pub(crate) fn device(ordinal: usize) -> Result<Found, String> {
    init()?;
    let count = guarded(result::device::get_count)?;
    if ordinal as i64 >= i64::from(count) {
        return Err(format!("GPU {ordinal}: the driver has {count} GPUs"));
    }
    found(ordinal as i32)
}

fn found(ordinal: i32) -> Result<Found, String> {
    guarded(|| {
        use sys::CUdevice_attribute as Attribute;
        let gpu = result::device::get(ordinal)?;
        // SAFETY: the driver named this GPU just now.
        let attribute = |which| unsafe { result::device::get_attribute(gpu, which) };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Found {
            ordinal: ordinal as usize,
            name: result::device::get_name(gpu)?,
            // SAFETY: as above.
            memory: unsafe { result::device::total_mem(gpu)? } as u64,
            capability: (major as u32, minor as u32),
        })
    })
}

/// Returns the number of thread blocks of `threads` threads that run at once.
///
/// # Errors
/// The driver's error.
pub(crate) fn resident_blocks(gpu: sys::CUdevice, threads: u32) -> Result<u64, String> {
    use sys::CUdevice_attribute as Attribute;
    guarded(|| {
        // SAFETY: the driver named this GPU.
        let attribute = |which| unsafe { result::device::get_attribute(gpu, which) };
        let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let most = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
        let each = most as u32 / threads;
        Ok(u64::from(processors as u32).max(1) * u64::from(each).max(1))
    })
}

fn init() -> Result<(), String> {
    // SAFETY: it loads the driver, whose constructors are its own affair.
    if !unsafe { sys::is_culib_present() } {
        return Err("there is no libcuda.so.1 on this machine".into());
    }
    guarded(result::init)
}

/// Calls the driver. cudarc panics where the driver lacks a function.
///
/// # Errors
/// The driver's error.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, DriverError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| describe(&error)),
        Err(_) => Err("the driver lacks a function that is needed".into()),
    }
}

/// An error in the driver's words.
pub(crate) fn describe(error: &DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    format!("the driver says {}", name.unwrap_or_else(|_| format!("{:?}", error.0)))
}
