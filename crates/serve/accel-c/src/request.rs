//! Requests and their tickets.

use crate::callback::id;
use crate::client::{Handle, Inside, enter, put};
use crate::fault::{Fault, OK, PENDING, TOO_LATE};
use crate::layout::{self, OutcomeFields, RequestFields};
use accel::RequestOutcome;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::time::Duration;

/// `keeptime_ticket`
pub struct Ticket {
    /// The number of its client; never changes.
    client: u64,
    /// Touched only inside that client.
    ticket: accel::Ticket,
}

/// See `keeptime_run` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed; `request` and `outcome` are null or as
/// large as they say.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_run(
    client: *mut Handle,
    callback: u64,
    request: *const RequestFields,
    outcome: *mut OutcomeFields,
) -> c_int {
    let act = |inside: &mut Inside| {
        // SAFETY: promised by the caller.
        let request = unsafe { layout::read(request)?.request()? };
        // SAFETY: promised by the caller.
        unsafe { layout::check_writable(outcome)? };
        let mut ticket = inside.client.submit(id(callback), &request)?;
        let done = inside.client.wait(&mut ticket, None)?;
        // SAFETY: accepted above.
        unsafe { report(outcome, done) }
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_submit` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed; `request` is null or as large as it says;
/// `ticket` is null or writable.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_submit(
    client: *mut Handle,
    callback: u64,
    request: *const RequestFields,
    ticket: *mut *mut Ticket,
) -> c_int {
    let act = |inside: &mut Inside| {
        // SAFETY: promised by the caller.
        unsafe { put(ticket, "ticket", null_mut())? };
        // SAFETY: promised by the caller.
        let request = unsafe { layout::read(request)?.request()? };
        let submitted = inside.client.submit(id(callback), &request)?;
        let boxed = Box::new(Ticket { client: inside.number, ticket: submitted });
        // SAFETY: promised by the caller.
        unsafe { put(ticket, "ticket", Box::into_raw(boxed))? };
        Ok(OK)
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_poll` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed; `ticket` is null or was not freed;
/// `outcome` is null or as large as it says.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_poll(
    client: *mut Handle,
    ticket: *mut Ticket,
    outcome: *mut OutcomeFields,
) -> c_int {
    let act = |inside: &mut Inside| {
        // SAFETY: promised by the caller.
        let ticket = unsafe { owned(inside, ticket)? };
        // SAFETY: promised by the caller.
        unsafe { layout::check_writable(outcome)? };
        match inside.client.poll(ticket)? {
            None => Ok(PENDING),
            // SAFETY: accepted above.
            Some(done) => unsafe { report(outcome, done) },
        }
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_wait` in the header.
///
/// # Safety
/// As for [`keeptime_poll`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_wait(
    client: *mut Handle,
    ticket: *mut Ticket,
    timeout_ns: i64,
    outcome: *mut OutcomeFields,
) -> c_int {
    let timeout: Option<Duration> = layout::duration(timeout_ns);
    let act = |inside: &mut Inside| {
        // SAFETY: promised by the caller.
        let ticket = unsafe { owned(inside, ticket)? };
        // SAFETY: promised by the caller.
        unsafe { layout::check_writable(outcome)? };
        let done = inside.client.wait(ticket, timeout)?;
        // SAFETY: accepted above.
        unsafe { report(outcome, done) }
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_cancel` in the header.
///
/// # Safety
/// `client` is null or a client that was not closed; `ticket` is null or was not freed.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_cancel(client: *mut Handle, ticket: *mut Ticket) -> c_int {
    let act = |inside: &mut Inside| {
        // SAFETY: promised by the caller.
        let ticket = unsafe { owned(inside, ticket)? };
        let cancelled = inside.client.cancel(ticket)?;
        Ok(if cancelled { OK } else { TOO_LATE })
    };
    // SAFETY: promised by the caller.
    unsafe { enter(client, act) }
}

/// See `keeptime_ticket_free` in the header.
///
/// # Safety
/// `ticket` is null or was not freed, and no thread is using it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn keeptime_ticket_free(ticket: *mut Ticket) {
    if ticket.is_null() {
        return;
    }
    // SAFETY: it came from the box in `keeptime_submit`, and is freed once.
    let free = || drop(unsafe { Box::from_raw(ticket) });
    // No caller can be told.
    let _ = catch_unwind(AssertUnwindSafe(free));
}

/// The ticket, if it belongs to this client.
///
/// # Safety
/// `ticket` is null or was not freed, and stays so for `'a`.
unsafe fn owned<'a>(inside: &Inside, ticket: *mut Ticket) -> Result<&'a mut accel::Ticket, Fault> {
    if ticket.is_null() {
        return Err(Fault::invalid("the ticket is a null pointer"));
    }
    // SAFETY: not null, so it is a ticket; this field never changes, so that reading it is fine
    // even if the ticket turns out to be another client's, in use by another thread.
    let client = unsafe { (*ticket).client };
    if client != inside.number {
        return Err(Fault::invalid("the ticket belongs to another client"));
    }
    // SAFETY: this thread is inside the only client whose functions touch the ticket.
    Ok(unsafe { &mut (*ticket).ticket })
}

/// Fills in the outcome and turns any other end than "done" into a fault.
///
/// # Safety
/// [`layout::check_writable`] has accepted `to`.
unsafe fn report(to: *mut OutcomeFields, done: RequestOutcome) -> Result<c_int, Fault> {
    // SAFETY: promised by the caller.
    unsafe { layout::write(to, &OutcomeFields::new(&done)) };
    done.ok()?;
    Ok(OK)
}
