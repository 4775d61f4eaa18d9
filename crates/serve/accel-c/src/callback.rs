//! Callbacks: their registration and their memory.

use crate::client::{Handle, Inside, enter, put};
use crate::fault::{Fault, OK};
use crate::layout;
use accel::CallbackId;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::time::Duration;

/// `keeptime_callback`: one more than the index in the client, so that zero is none.
type Number = u64;

/// The callback of a number; the client checks it at each use.
pub fn id(number: Number) -> CallbackId {
    CallbackId::from_index(usize::try_from(number).unwrap_or(0).wrapping_sub(1))
}

/// See `keeptime_register` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed; `registration` is null or readable for as
/// many bytes as it says, with strings that end with a zero; `callback` is null or writable.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_register(
    client: *mut Handle,
    registration: *const layout::Registration,
    callback: *mut Number,
) -> c_int {
    let act = |inside: &mut Inside| {
        // SAFETY: promised by the caller.
        unsafe { put(callback, "callback", 0)? };
        // SAFETY: promised by the caller.
        let registration = unsafe { registration_of(registration)? };
        let number = inside.client.register(&registration)?.index() as Number + 1;
        // SAFETY: promised by the caller.
        unsafe { put(callback, "callback", number)? };
        Ok(OK)
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// # Safety
/// As for `keeptime_register`.
unsafe fn registration_of(from: *const layout::Registration) -> Result<accel::Registration, Fault> {
    // SAFETY: promised by the caller.
    let fields = unsafe { layout::read(from)? };
    if fields.reserved != 0 {
        let text = format!("keeptime_registration: reserved is {}, not 0", fields.reserved);
        return Err(Fault::invalid(text));
    }
    let unknown = fields.flags & !(layout::BEST_EFFORT | layout::EXECUTOR);
    if unknown != 0 {
        let text = format!("keeptime_registration: flags {unknown:#x} belong to a newer library");
        return Err(Fault::invalid(text));
    }
    // SAFETY: all three are null or strings, as the caller promises.
    let (service, chain, accelerator) = unsafe {
        (
            text(fields.service, "service")?,
            text(fields.chain, "chain")?,
            text(fields.accelerator, "accelerator")?,
        )
    };
    let service = service.filter(|name| !name.is_empty());
    let service = service.ok_or_else(|| Fault::invalid("service is null or empty"))?;
    let mut registration = accel::Registration::service(service)
        .chain(chain.unwrap_or(service), fields.priority)
        .callback(fields.callback)
        .memory(fields.memory_bytes)
        .exec(Duration::from_nanos(fields.exec_ns))
        .exec_min(Duration::from_nanos(fields.exec_min_ns))
        .period(Duration::from_nanos(fields.period_ns))
        .deadline(Duration::from_nanos(fields.deadline_ns))
        .jitter(Duration::from_nanos(fields.jitter_ns))
        .cpu(Duration::from_nanos(fields.cpu_ns))
        .cpu_min(Duration::from_nanos(fields.cpu_min_ns))
        .position(fields.position)
        .requests(fields.requests.max(1))
        .wait(layout::wait_mode(c_int::try_from(fields.wait_mode).unwrap_or(c_int::MAX))?);
    if fields.flags & layout::EXECUTOR != 0 {
        registration = registration.executor(fields.core, fields.process_priority);
    } else if (fields.core, fields.process_priority) != (0, 0) {
        let text =
            "keeptime_registration: core and process_priority need KEEPTIME_EXECUTOR in flags";
        return Err(Fault::invalid(text));
    }
    if fields.flags & layout::BEST_EFFORT != 0 {
        registration = registration.best_effort();
    }
    if let Some(id) = accelerator {
        registration = registration.accelerator(id);
    }
    Ok(registration)
}

/// # Safety
/// `from` is null or a string that ends with a zero and outlives the result.
unsafe fn text<'a>(from: *const c_char, name: &str) -> Result<Option<&'a str>, Fault> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, so it is a string, as the caller promises.
    let text = unsafe { CStr::from_ptr(from) }.to_str();
    text.map(Some).map_err(|_| Fault::invalid(format!("{name} is not UTF-8")))
}

/// See `keeptime_deregister` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_deregister(client: *mut Handle, callback: Number) -> c_int {
    let act = |inside: &mut Inside| {
        inside.client.deregister(id(callback))?;
        Ok(OK)
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_reprioritise` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_reprioritise(
    client: *mut Handle,
    callback: Number,
    priority: u32,
) -> c_int {
    let act = |inside: &mut Inside| {
        inside.client.reprioritise(id(callback), priority)?;
        Ok(OK)
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_bucket` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed; `bucket` is null or writable.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_bucket(
    client: *mut Handle,
    callback: Number,
    bucket: *mut u32,
) -> c_int {
    let act = |inside: &mut Inside| {
        // SAFETY: promised by the caller.
        unsafe { put(bucket, "bucket", inside.client.bucket(id(callback))?)? };
        Ok(OK)
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_memory` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed; `size` is null or writable.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_memory(
    client: *mut Handle,
    callback: Number,
    size: *mut usize,
) -> *mut c_void {
    let (mut memory, mut bytes) = (null_mut::<c_void>(), 0);
    let act = |inside: &mut Inside| {
        let slice = inside.client.memory(id(callback))?;
        (memory, bytes) = (slice.as_ptr().cast(), slice.len());
        Ok(OK)
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) };
    if !size.is_null() {
        // SAFETY: not null, so it is writable, as the caller promises.
        unsafe { size.write(bytes) };
    }
    memory
}
