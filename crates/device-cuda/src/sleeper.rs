//! Sleeping until an event, but not for ever.
//!
//! The driver's own sleep has no limit. So another thread sleeps in the driver, and the unit waits
//! for that thread as long as it is patient. If the event never comes, the thread stays behind in
//! the driver.

use crate::patience::Patience;
use cudarc::driver::{DriverError, result, sys};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};

/// Handles of the driver, which any thread may use.
struct Order(sys::CUevent);

// SAFETY: as above; the unit leaves the event alone meanwhile.
unsafe impl Send for Order {}

/// The thread that sleeps for a unit.
pub struct Sleeper {
    orders: Sender<Order>,
    ends: Receiver<Result<(), DriverError>>,
}

impl Sleeper {
    /// Starts the thread, which gets the calling thread's policy, cores and context.
    ///
    /// # Errors
    /// There is no context, or no thread.
    pub fn start() -> Result<Sleeper, DriverError> {
        struct Context(sys::CUcontext);
        // SAFETY: a handle of the driver, which any thread may use.
        unsafe impl Send for Context {}
        let none = DriverError(sys::CUresult::CUDA_ERROR_INVALID_CONTEXT);
        let context = Context(result::ctx::get_current()?.ok_or(none)?);
        let (orders, taken) = mpsc::channel::<Order>();
        let (told, ends) = mpsc::channel();
        let sleep = move || {
            let context = context;
            // SAFETY: the context lives as long as the unit, or stays behind with this thread.
            let current = unsafe { result::ctx::set_current(context.0) };
            while let Ok(Order(event)) = taken.recv() {
                // SAFETY: the unit's event, which it keeps until this thread has answered.
                let ended = current.and_then(|()| unsafe { result::event::synchronize(event) });
                if told.send(ended).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("cuda-sleeper".into()).spawn(sleep);
        let refused = |_| DriverError(sys::CUresult::CUDA_ERROR_OPERATING_SYSTEM);
        thread.map(|_| Sleeper { orders, ends }).map_err(refused)
    }

    /// Sleeps until the event has come, and gives what the driver says of it.
    ///
    /// # Errors
    /// As [`Patience::look`], or the thread has ended; it must not be used any more then.
    pub fn sleep(
        &self,
        event: sys::CUevent,
        patience: &mut Patience<'_>,
    ) -> Result<Result<(), DriverError>, DriverError> {
        let gone = DriverError(sys::CUresult::CUDA_ERROR_OPERATING_SYSTEM);
        self.orders.send(Order(event)).map_err(|_| gone)?;
        loop {
            match self.ends.recv_timeout(patience.step()) {
                Ok(ended) => return Ok(ended),
                Err(RecvTimeoutError::Timeout) => patience.look()?,
                Err(RecvTimeoutError::Disconnected) => return Err(gone),
            }
        }
    }
}
