//! The structures of the header, and how they are read and written.
//!
//! Each begins with its size. A caller that was compiled against a newer header passes a larger
//! one: it is accepted while the fields that this version does not know are zero. A caller that
//! was compiled against an older header passes a smaller one: it is accepted from the size of the
//! first version on ([`Structure::LEAST`]), and the fields that it does not have are zero.
//!
//! A test compiles the header and compares every size, offset and constant.

use crate::fault::Fault;
use accel::{Request, RequestOutcome, control};
use std::ffi::{c_char, c_int};
use std::mem::{MaybeUninit, size_of};

/// Largest size of a structure of any version; a larger one means that the field was not set.
const LARGEST: usize = 4096;

/// `keeptime_registration`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Registration {
    pub(crate) size: usize,
    pub(crate) service: *const c_char,
    pub(crate) chain: *const c_char,
    pub(crate) accelerator: *const c_char,
    pub(crate) memory_bytes: usize,
    pub(crate) exec_ns: u64,
    pub(crate) callback: u64,
    pub(crate) priority: u32,
    pub(crate) reserved: u32,
    // The first version ends here.
    pub(crate) exec_min_ns: u64,
    pub(crate) period_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) jitter_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) cpu_min_ns: u64,
    pub(crate) position: u32,
    pub(crate) requests: u32,
    pub(crate) core: u32,
    pub(crate) process_priority: u32,
    pub(crate) wait_mode: u32,
    pub(crate) flags: u32,
}

/// `keeptime_request`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RequestFields {
    size: usize,
    arguments: [u64; 4],
    input_offset: usize,
    input_length: usize,
    output_offset: usize,
    output_length: usize,
}

/// `keeptime_outcome`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct OutcomeFields {
    size: usize,
    launch_id: u64,
    status: u32,
    flags: u32,
    submitted_ns: u64,
    arrived_ns: u64,
    started_ns: u64,
    finished_ns: u64,
    busy_ns: u64,
    answered_ns: u64,
}

/// `keeptime_counters`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Counters {
    size: usize,
    counts: [u64; 14],
}

/// `KEEPTIME_BEST_EFFORT`
pub(crate) const BEST_EFFORT: u32 = 1;
/// `KEEPTIME_EXECUTOR`
pub(crate) const EXECUTOR: u32 = 2;
/// `KEEPTIME_OVERRAN`
const OVERRAN: u32 = 1;
/// `KEEPTIME_DEMOTED`
const DEMOTED: u32 = 2;

/// A structure of the header: plain numbers and pointers, with its size first.
///
/// # Safety
/// The type must be `repr(C)`, begin with a `usize`, have no padding and be valid for all bits.
pub unsafe trait Structure: Copy {
    /// Its name in the header.
    const NAME: &'static str;
    /// Its size in the first version.
    const LEAST: usize = size_of::<Self>();
}

// SAFETY: see its definition; 4-byte fields come in pairs, so that there is no padding.
unsafe impl Structure for Registration {
    const NAME: &'static str = "keeptime_registration";
    const LEAST: usize = std::mem::offset_of!(Registration, exec_min_ns);
}
// SAFETY: see its definition.
unsafe impl Structure for RequestFields {
    const NAME: &'static str = "keeptime_request";
}
// SAFETY: see its definition; 4-byte fields come in pairs, so that there is no padding.
unsafe impl Structure for OutcomeFields {
    const NAME: &'static str = "keeptime_outcome";
}
// SAFETY: see its definition.
unsafe impl Structure for Counters {
    const NAME: &'static str = "keeptime_counters";
}

/// Reads the caller's structure.
///
/// # Errors
/// Null, a size that cannot be, and non-zero fields of a later version are the caller's fault.
///
/// # Safety
/// `from` is null or points to as many readable bytes as the structure says it has.
pub unsafe fn read<T: Structure>(from: *const T) -> Result<T, Fault> {
    // SAFETY: promised by the caller.
    let size = unsafe { stated_size(from)? };
    let rest = size_of::<T>()..size;
    // SAFETY: all offsets are below the stated size, which the caller promises to be readable.
    let unknown = rest.clone().find(|&at| unsafe { *from.cast::<u8>().add(at) } != 0);
    if let Some(at) = unknown {
        let name = T::NAME;
        return Err(Fault::invalid(format!("{name}: byte {at} belongs to a newer library")));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: so many bytes are readable, as the caller promises, and there is room for them; the
    // two do not overlap, since `value` is the library's own.
    unsafe { value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.cast(), known) };
    // SAFETY: `T` is valid for all bits, and all of them were written.
    Ok(unsafe { value.assume_init() })
}

/// Checks that the caller's structure can be written; null is fine.
///
/// # Errors
/// As for [`read`].
///
/// # Safety
/// As for [`read`].
pub unsafe fn check_writable<T: Structure>(to: *mut T) -> Result<(), Fault> {
    if to.is_null() {
        return Ok(());
    }
    // SAFETY: promised by the caller.
    unsafe { stated_size(to).map(|_| ()) }
}

/// Writes all fields but the size to the caller's structure, unless it is null.
///
/// # Safety
/// `to` is null, or [`check_writable`] has accepted it and nothing has changed since.
pub unsafe fn write<T: Structure>(to: *mut T, value: &T) {
    const { assert!(T::LEAST == size_of::<T>(), "a caller may have less room") };
    if to.is_null() {
        return;
    }
    let (first, length) = (size_of::<usize>(), size_of::<T>() - size_of::<usize>());
    // SAFETY: the stated size is at least that of `T`, whose first version is this one; the two do
    // not overlap, since `value` is the library's own.
    unsafe {
        let from = (&raw const *value).cast::<u8>().add(first);
        to.cast::<u8>().add(first).copy_from_nonoverlapping(from, length);
    }
}

/// # Safety
/// `from` is null or points to a readable size.
unsafe fn stated_size<T: Structure>(from: *const T) -> Result<usize, Fault> {
    let (name, least) = (T::NAME, T::LEAST);
    if from.is_null() {
        return Err(Fault::invalid(format!("{name}: null pointer")));
    }
    // SAFETY: not null, so it is readable as the caller promises, and begins with the size.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if !(least..=LARGEST).contains(&size) {
        let expected = size_of::<T>();
        let text = format!("{name}: size is {size}, expected sizeof({name}) = {expected}");
        return Err(Fault::invalid(text));
    }
    Ok(size)
}

impl RequestFields {
    /// The request, if its ranges fit into a message.
    ///
    /// # Errors
    /// Names the field that is too large.
    pub fn request(&self) -> Result<Request, Fault> {
        let narrow = |name: &str, value: usize| {
            let text = || format!("keeptime_request: {name} is {value}, expected at most 2^32 - 1");
            u32::try_from(value).map_err(|_| Fault::invalid(text()))
        };
        Ok(Request {
            arguments: self.arguments,
            input_offset: narrow("input_offset", self.input_offset)?,
            input_length: narrow("input_length", self.input_length)?,
            output_offset: narrow("output_offset", self.output_offset)?,
            output_length: narrow("output_length", self.output_length)?,
        })
    }
}

impl OutcomeFields {
    /// The fields of an outcome.
    pub fn new(outcome: &RequestOutcome) -> OutcomeFields {
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        OutcomeFields {
            size: size_of::<OutcomeFields>(),
            launch_id: outcome.launch_id,
            status: outcome.status as u32,
            flags: flag(outcome.overran, OVERRAN) | flag(outcome.demoted, DEMOTED),
            submitted_ns: outcome.submitted_ns,
            arrived_ns: outcome.arrived_ns,
            started_ns: outcome.started_ns,
            finished_ns: outcome.finished_ns,
            busy_ns: outcome.busy_ns,
            answered_ns: outcome.answered_ns,
        }
    }
}

impl Counters {
    /// The server's counters, in the order of the header.
    pub fn new(from: &control::Counters) -> Counters {
        let counts = [
            u64::from(from.sessions),
            from.registrations,
            from.queued,
            from.running,
            from.memory_bytes,
            from.done,
            from.cancelled,
            from.failed,
            from.overruns,
            from.demotions,
            from.opened,
            from.refusals,
            from.evictions,
            from.mutings,
        ];
        Counters { size: size_of::<Counters>(), counts }
    }
}

/// A duration of C: negative means for ever.
pub fn duration(ns: i64) -> Option<std::time::Duration> {
    u64::try_from(ns).ok().map(std::time::Duration::from_nanos)
}

/// A mode of waiting, if `mode` is one.
///
/// # Errors
/// Names the number.
pub fn wait_mode(mode: c_int) -> Result<accel::Wait, Fault> {
    match mode {
        0 => Ok(accel::Wait::Suspend),
        1 => Ok(accel::Wait::Spin),
        other => Err(Fault::invalid(format!(
            "wait mode {other}: expected KEEPTIME_SUSPEND (0) or KEEPTIME_SPIN (1)"
        ))),
    }
}

#[cfg(test)]
mod tests;
