//! Requests of this library to the driver, to know when its work has ended. These calls are not
//! recorded, and leave `errno` as it was.

use crate::cuda::driver::{Other, other};
use crate::cuda::{SUCCESS, graph};
use crate::thread::Thread;
use std::mem::transmute;

/// A context, a stream or an event.
pub(super) type Handle = u64;

/// `CUDA_ERROR_NOT_READY`
pub(super) const NOT_READY: u32 = 600;
const NOT_FOUND: u32 = 500;
/// `CU_EVENT_DISABLE_TIMING`
const WITHOUT_TIME: u32 = 2;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: u32 = 2;

type GetHandle = unsafe extern "C-unwind" fn(*mut Handle) -> u32;
type TakeHandle = unsafe extern "C-unwind" fn(Handle) -> u32;
type HandleOf = unsafe extern "C-unwind" fn(Handle, *mut Handle) -> u32;
type MakeEvent = unsafe extern "C-unwind" fn(*mut Handle, u32) -> u32;
type Record = unsafe extern "C-unwind" fn(Handle, Handle) -> u32;
type ExchangeMode = unsafe extern "C-unwind" fn(*mut u32) -> u32;
type GetState = unsafe extern "C-unwind" fn(u32, *mut u32, *mut u32) -> u32;

/// Makes calls of the driver as if they had not been made.
pub(super) fn unseen<T>(thread: &Thread, call: impl FnOnce() -> T) -> T {
    // SAFETY: the thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let answer = thread.quietly(call);
    // SAFETY: as above.
    unsafe { *errno = before };
    answer
}

/// The calling thread's current context.
#[inline]
pub(super) fn current_context(thread: &Thread) -> Option<Handle> {
    let address = other(Other::CtxGetCurrent)?;
    let mut context = 0;
    // SAFETY: the function has this signature.
    let get = unsafe { transmute::<usize, GetHandle>(address) };
    // SAFETY: it stores a handle.
    let result = unseen(thread, || unsafe { get(&raw mut context) });
    (result == SUCCESS && context != 0).then_some(context)
}

/// Makes a context the calling thread's current one, 0 for none.
pub(super) fn set_context(thread: &Thread, context: Handle) -> u32 {
    with_handle(thread, Other::CtxSetCurrent, context)
}

/// The context of a stream that the program made; the current one if the driver does not tell.
pub(super) fn context_of(thread: &Thread, stream: Handle) -> Handle {
    let mut context = 0;
    if let Some(address) = other(Other::StreamGetCtx) {
        // SAFETY: the function has this signature.
        let get = unsafe { transmute::<usize, HandleOf>(address) };
        // SAFETY: the stream is one that the program is about to use.
        let result = unseen(thread, || unsafe { get(stream, &raw mut context) });
        if result == SUCCESS && context != 0 {
            return context;
        }
    }
    current_context(thread).unwrap_or(0)
}

/// Asks the driver if a stream is empty; returns the driver's result.
pub(super) fn query_stream(thread: &Thread, stream: Handle) -> u32 {
    with_handle(thread, Other::StreamQuery, stream)
}

/// Asks the driver if an event has happened; returns the driver's result.
pub(super) fn query_event(thread: &Thread, event: Handle) -> u32 {
    with_handle(thread, Other::EventQuery, event)
}

/// Ends an event of this library's.
pub(super) fn destroy_event(thread: &Thread, event: Handle) {
    with_handle(thread, Other::EventDestroy, event);
}

fn with_handle(thread: &Thread, function: Other, handle: Handle) -> u32 {
    let Some(address) = other(function) else { return NOT_FOUND };
    // SAFETY: the functions that are called with this have this signature.
    let call = unsafe { transmute::<usize, TakeHandle>(address) };
    // SAFETY: the handle is one that the driver gave out and that has not been destroyed.
    unseen(thread, || unsafe { call(handle) })
}

/// A new event, in the current context.
pub(super) fn make_event(thread: &Thread) -> Option<Handle> {
    let address = other(Other::EventCreate)?;
    // SAFETY: the function has this signature.
    let make = unsafe { transmute::<usize, MakeEvent>(address) };
    let mut event = 0;
    let before = relax(thread);
    // SAFETY: it stores a handle.
    let result = unseen(thread, || unsafe { make(&raw mut event, WITHOUT_TIME) });
    if let Some(mode) = before {
        exchange_mode(thread, mode);
    }
    (result == SUCCESS && event != 0).then_some(event)
}

/// Records an event in a stream that the program made, or for 0 in the thread's own default
/// stream.
pub(super) fn record(thread: &Thread, event: Handle, stream: Handle) -> bool {
    let function = if stream == 0 { Other::EventRecordPerThread } else { Other::EventRecord };
    let Some(address) = other(function) else { return false };
    // SAFETY: the functions have this signature.
    let record = unsafe { transmute::<usize, Record>(address) };
    // SAFETY: the event is this library's own; the stream is there.
    unseen(thread, || unsafe { record(event, stream) }) == SUCCESS
}

/// Lets the calling thread make calls that other threads' captures would forbid; the mode before.
pub(super) fn relax(thread: &Thread) -> Option<u32> {
    exchange_mode(thread, RELAXED)
}

fn exchange_mode(thread: &Thread, mut mode: u32) -> Option<u32> {
    let address = other(Other::ThreadExchangeStreamCaptureMode)?;
    // SAFETY: the function has this signature.
    let exchange = unsafe { transmute::<usize, ExchangeMode>(address) };
    // SAFETY: it reads and stores a number.
    let result = unseen(thread, || unsafe { exchange(&raw mut mode) });
    (result == SUCCESS).then_some(mode)
}

/// Returns true if a device has a primary context.
pub(super) fn has_primary(device: u32, thread: &Thread) -> bool {
    let Some(address) = other(Other::DevicePrimaryCtxGetState) else { return false };
    // SAFETY: the function has this signature.
    let get = unsafe { transmute::<usize, GetState>(address) };
    let (mut flags, mut active) = (0, 0);
    // SAFETY: it stores two numbers.
    let result = unseen(thread, || unsafe { get(device, &raw mut flags, &raw mut active) });
    result == SUCCESS && active != 0
}

/// Returns true if a stream is being captured, as function `number` understands its handle.
pub(super) fn is_captured(thread: &Thread, number: usize, stream: Handle) -> bool {
    graph::captures() && unseen(thread, || graph::is_captured(thread, number, stream))
}

/// Returns true if a stream that the program made is being captured, or may be: its context must be
/// the current one.
pub(super) fn may_be_captured(thread: &Thread, stream: Handle) -> bool {
    graph::captures()
        && unseen(thread, || graph::is_stream_captured(thread, stream)).unwrap_or(true)
}
