//! The client as C holds it, and the functions of the connection.
//!
//! A [`Handle`] is a client behind a door that lets one thread in at a time: the flag `busy` is
//! set on entry and cleared on exit. A second thread is turned away with `KEEPTIME_BUSY`, so
//! that a program that breaks the rule for threads gets an error and not a corrupt ring.

use crate::fault::{self, Code, Fault, Last, OK};
use crate::layout::{self, Counters};
use accel::ServerUser;
use std::cell::UnsafeCell;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// `keeptime_client`
pub struct Handle {
    busy: AtomicBool,
    /// Touched only by the thread that has set `busy`.
    inside: UnsafeCell<Inside>,
}

/// Content of a handle.
pub struct Inside {
    pub(crate) client: accel::Client,
    /// Tells the tickets of this client from those of others.
    pub(crate) number: u64,
    last: Last,
    /// A panic was caught: the client's state is unknown.
    broken: bool,
}

/// Clears the flag also when the visit ends early.
struct Visit<'a>(&'a AtomicBool);

impl Handle {
    fn new(client: accel::Client) -> Handle {
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only uniqueness counts.
        let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let inside = Inside { client, number, last: Last::default(), broken: false };
        Handle { busy: AtomicBool::new(false), inside: UnsafeCell::new(inside) }
    }

    /// Enters, unless another thread is inside.
    fn visit(&self) -> Option<Visit<'_>> {
        // Acquire: pairs with the release at the end of the visit before.
        (!self.busy.swap(true, Ordering::Acquire)).then(|| Visit(&self.busy))
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire of the next visit.
        self.0.store(false, Ordering::Release);
    }
}

/// Runs `act` inside the client, keeps its fault, and returns its number.
///
/// # Safety
/// `handle` is null or a client that was not closed.
pub unsafe fn enter(
    handle: *const Handle,
    act: impl FnOnce(&mut Inside) -> Result<c_int, Fault>,
) -> c_int {
    // SAFETY: promised by the caller.
    let Some(handle) = (unsafe { handle.as_ref() }) else {
        return fault::keep_for_thread(&Fault::invalid("the client is a null pointer"));
    };
    let Some(_visit) = handle.visit() else {
        let text = "another thread is inside this client";
        return fault::keep_for_thread(&Fault::new(Code::Busy, text));
    };
    // SAFETY: only the thread that has set `busy` gets here, and not twice, since nothing that
    // `act` calls calls back; `_visit` clears the flag after this reference is gone.
    let inside = unsafe { &mut *handle.inside.get() };
    let result = match inside.broken {
        true => Err(broken()),
        false => catch_unwind(AssertUnwindSafe(|| act(inside))).unwrap_or_else(|_| {
            inside.broken = true;
            Err(broken())
        }),
    };
    result.unwrap_or_else(|fault| {
        inside.last.keep(&fault);
        fault::keep_for_thread(&fault)
    })
}

fn broken() -> Fault {
    Fault::new(Code::Internal, "the library panicked in this client; it can only be closed")
}

/// Runs `act`, which needs no client, and returns its number.
fn guard(act: impl FnOnce() -> Result<c_int, Fault>) -> c_int {
    let panicked = |_| Err(Fault::new(Code::Internal, "the library panicked"));
    let result = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(panicked);
    result.unwrap_or_else(|fault| fault::keep_for_thread(&fault))
}

/// See `keeptime_version` in the header.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn keeptime_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// See `keeptime_connect` in the header.
///
/// # Safety
/// `socket_path` is null or a string that ends with a zero; `client` is null or writable.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_connect(
    socket_path: *const c_char,
    client: *mut *mut Handle,
) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { connect(socket_path, ServerUser::RootOrOwn, client) }
}

/// See `keeptime_connect_to` in the header.
///
/// # Safety
/// The same requirements as [`keeptime_connect`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_connect_to(
    socket_path: *const c_char,
    user: u32,
    client: *mut *mut Handle,
) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { connect(socket_path, ServerUser::RootOr(user), client) }
}

/// # Safety
/// The same requirements as [`keeptime_connect`].
unsafe fn connect(socket_path: *const c_char, user: ServerUser, client: *mut *mut Handle) -> c_int {
    guard(|| {
        // SAFETY: promised by the caller.
        unsafe { put(client, "client", null_mut())? };
        let path = if socket_path.is_null() {
            accel::default_socket()
        } else {
            // SAFETY: not null, so it is a string, as the caller promises.
            let path = unsafe { CStr::from_ptr(socket_path) };
            PathBuf::from(OsStr::from_bytes(path.to_bytes()))
        };
        let handle = Box::new(Handle::new(accel::Client::connect_to(path, user)?));
        // SAFETY: as above.
        unsafe { put(client, "client", Box::into_raw(handle))? };
        Ok(OK)
    })
}

/// See `keeptime_close` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed, with no thread inside.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_close(client: *mut Handle) {
    if client.is_null() {
        return;
    }
    guard(|| {
        // SAFETY: it came from the box in `keeptime_connect`, and is closed once.
        drop(unsafe { Box::from_raw(client) });
        Ok(OK)
    });
}

/// See `keeptime_reconnect` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_reconnect(client: *mut Handle, patience_ns: i64) -> c_int {
    let patience = layout::duration(patience_ns).unwrap_or(Duration::from_nanos(u64::MAX));
    let act = |inside: &mut Inside| {
        inside.client.reconnect(patience)?;
        Ok(OK)
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_set_wait` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_set_wait(client: *mut Handle, mode: c_int) -> c_int {
    let act = |inside: &mut Inside| {
        inside.client.set_wait(layout::wait_mode(mode)?);
        Ok(OK)
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_status` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed; `counters` is null or writable for as many
/// bytes as it says.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_status(client: *mut Handle, counters: *mut Counters) -> c_int {
    let act = |inside: &mut Inside| {
        if counters.is_null() {
            return Err(Fault::invalid("counters is a null pointer"));
        }
        // SAFETY: promised by the caller.
        unsafe { layout::check_writable(counters)? };
        let counts = Counters::new(&inside.client.status()?);
        // SAFETY: accepted above.
        unsafe { layout::write(counters, &counts) };
        Ok(OK)
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_last_error` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_last_error(client: *const Handle) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { last(client, Last::text) }.unwrap_or_else(fault::thread_text)
}

/// See `keeptime_last_refusal` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_last_refusal(client: *const Handle) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { last(client, Last::refusal) }.unwrap_or_else(fault::thread_refusal)
}

/// Asks the client's last error; None without a client, or when another thread is inside.
///
/// # Safety
/// `client` is null or a client that was not closed.
unsafe fn last<T>(client: *const Handle, ask: impl FnOnce(&Last) -> T) -> Option<T> {
    // SAFETY: promised by the caller.
    let handle = unsafe { client.as_ref() }?;
    let _visit = handle.visit()?;
    // SAFETY: as in `enter`.
    Some(ask(unsafe { &(*handle.inside.get()).last }))
}

/// Stores a result where the caller wants it.
///
/// # Errors
/// Null is the caller's fault.
///
/// # Safety
/// `to` is null or writable.
pub unsafe fn put<T>(to: *mut T, name: &str, value: T) -> Result<(), Fault> {
    if to.is_null() {
        return Err(Fault::invalid(format!("{name} is a null pointer")));
    }
    // SAFETY: not null, so it is writable, as the caller promises.
    unsafe { to.write(value) };
    Ok(())
}
