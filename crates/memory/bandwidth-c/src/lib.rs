//! libkeeptime_bandwidth: the memory-bandwidth lock as three C functions.
//! `include/keeptime_bandwidth.h` is their documentation.
//!
//! The functions are exported under their names only outside of this crate's unit tests, whose
//! process they must not change.

use bandwidth::handshake::Refusal;
use bandwidth::{Error, Hold, default_socket};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// See `keeptime_bandwidth_open` in the header.
///
/// # Safety
/// `socket` is null or a string that ends with a zero; `lock` is null, or writable and holds null
/// or a lock of an earlier call that no other thread uses.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_bandwidth_open(
    socket: *const c_char,
    lock: *mut *mut Hold,
) -> c_int {
    if lock.is_null() {
        return -libc::EINVAL;
    }
    let attach = || {
        if socket.is_null() {
            return Hold::attach(&default_socket());
        }
        // SAFETY: not null, so it is a string, as the caller promises.
        let path = unsafe { CStr::from_ptr(socket) };
        Hold::attach(Path::new(OsStr::from_bytes(path.to_bytes())))
    };
    match catch_unwind(AssertUnwindSafe(attach)) {
        Ok(Ok(hold)) => {
            // SAFETY: writable, as the caller promises.
            let old = unsafe { lock.replace(Box::into_raw(Box::new(hold))) };
            if !old.is_null() {
                // SAFETY: it came from the line above in an earlier call, and no code uses it.
                drop(unsafe { Box::from_raw(old) });
            }
            0
        }
        Ok(Err(error)) => -number(&error),
        // A bug of this library must not unwind into C.
        Err(_) => -libc::ENOTRECOVERABLE,
    }
}

/// See `keeptime_bandwidth_acquire` in the header.
///
/// # Safety
/// `lock` is null or a lock that was opened and not replaced.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_bandwidth_acquire(lock: *const Hold) {
    // SAFETY: promised by the caller.
    if let Some(hold) = unsafe { lock.as_ref() } {
        if let Some(ceiling) = hold.ceiling() {
            // If the kernel refuses the ceiling, there is nothing to restore, and restoring does
            // nothing.
            ceiling.raise();
        }
        hold.acquire();
    }
}

/// See `keeptime_bandwidth_release` in the header.
///
/// # Safety
/// `lock` is null or a lock that was opened and not replaced.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_bandwidth_release(lock: *const Hold) {
    // SAFETY: promised by the caller.
    if let Some(hold) = unsafe { lock.as_ref() } {
        hold.release();
        if let Some(ceiling) = hold.ceiling() {
            ceiling.restore();
        }
    }
}

/// The error number that C gets.
fn number(error: &Error) -> c_int {
    match error {
        Error::NoRegulator { errno, .. } | Error::System { errno, .. } => errno.raw_os_error(),
        Error::Refused(Refusal::NotAllowed) => libc::EACCES,
        Error::Refused(Refusal::Full) => libc::EUSERS,
        Error::Refused(Refusal::Pace) => libc::EAGAIN,
        Error::Refused(Refusal::Resources) => libc::ENOMEM,
        // The rest is what no regulator of this version does, or what attaching never says.
        _ => libc::EPROTO,
    }
}
