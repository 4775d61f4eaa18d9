//! Speed at which a GPU does the steps of `busy`.
//!
//! Measured on the GPU itself, between two events of one stream: where other processes have it in
//! turns, what is between the two is mostly within one turn, and the shortest of some runs is. So
//! programs that start at the same time find the same speed, and their work is equally long.

use crate::builtin::BUSY_THREADS;
use crate::context::Context;
use crate::driver::describe;
use crate::slice::start;
use cudarc::driver::{DriverError, result, sys};

/// Long enough for the resolution of events, half a microsecond, not to matter; shorter than the
/// turns that processes have a GPU in.
const RUN_MS: f32 = 0.5;
/// Runs of which the shortest counts.
const RUNS: usize = 15;
/// Number of steps that no GPU does in [`RUN_MS`].
const MOST_STEPS: u64 = 1 << 30;

/// Speed at which a GPU does the steps of `busy`, in threads that fill it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Calibration {
    steps_per_ns: f64,
}

/// Resources of a measurement; those that were made for it are destroyed with it.
struct Trial<'a> {
    context: &'a Context,
    fill: u32,
    stream: sys::CUstream,
    events: [sys::CUevent; 2],
    word: sys::CUdeviceptr,
}

impl Calibration {
    /// Measures for some ten milliseconds, in the calling thread's current context.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn measure(context: &Context, fill: u64) -> Result<Calibration, String> {
        let measured = || {
            let mut trial = Trial::new(context, u32::try_from(fill).unwrap_or(u32::MAX))?;
            // Work before, so that a clock that saves power is up.
            let mut steps = 1 << 10;
            while trial.run(steps)? < RUN_MS && steps < MOST_STEPS {
                steps *= 2;
            }
            let (mut run_ms, mut beside_ms) = (f32::INFINITY, f32::INFINITY);
            for _ in 0..RUNS {
                run_ms = run_ms.min(trial.run(steps)?);
                // Time that a launch takes beside its steps.
                beside_ms = beside_ms.min(trial.run(0)?);
            }
            // On a disturbed machine the difference may be nothing; most of it is the steps.
            let ms = (run_ms - beside_ms).max(run_ms / 2.0).max(f32::MIN_POSITIVE);
            Ok(Calibration { steps_per_ns: steps as f64 / (f64::from(ms) * 1e6) })
        };
        measured().map_err(|error: DriverError| describe(&error))
    }

    /// The steps that take so long.
    pub(crate) fn steps(&self, ns: u64) -> u64 {
        (ns as f64 * self.steps_per_ns) as u64
    }
}

impl Trial<'_> {
    fn new(context: &Context, fill: u32) -> Result<Trial<'_>, DriverError> {
        let (stream, events) = (std::ptr::null_mut(), [std::ptr::null_mut(); 2]);
        let mut trial = Trial { context, fill, stream, events, word: 0 };
        // SAFETY: the context is current; what is made is destroyed once, in `drop`.
        unsafe { trial.word = result::malloc_sync(8)? };
        trial.stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        for event in &mut trial.events {
            *event = result::event::create(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC)?;
        }
        Ok(trial)
    }

    /// Returns the time that this number of steps take on the GPU, in milliseconds.
    fn run(&mut self, steps: u64) -> Result<f32, DriverError> {
        let Some(busy) = self.context.entries[1] else { unreachable!("busy is built in") };
        let grid = (self.fill, BUSY_THREADS);
        let memory = (0, 0, self.word, 0);
        // SAFETY: stream, events and the word that the kernel may write are this trial's and live.
        unsafe {
            result::event::record(self.events[0], self.stream)?;
            start(busy, grid, memory, [steps, 0, 0, 0], self.stream)?;
            result::event::record(self.events[1], self.stream)?;
            result::event::synchronize(self.events[1])?;
            result::event::elapsed(self.events[0], self.events[1])
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        // SAFETY: each was made by this trial, or is null; nothing of it runs any more, or the
        // context is broken, and then the driver refuses.
        unsafe {
            for event in self.events.into_iter().filter(|event| !event.is_null()) {
                let _ = result::event::destroy(event);
            }
            if !self.stream.is_null() {
                let _ = result::stream::destroy(self.stream);
            }
            if self.word != 0 {
                let _ = result::free_sync(self.word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_as_many_as_the_time_has() {
        let calibration = Calibration { steps_per_ns: 0.0128 };
        assert_eq!([0, 1_000, 100_000].map(|ns| calibration.steps(ns)), [0, 12, 1280]);
    }
}
