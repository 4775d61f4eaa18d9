//! Times a network's repetitions.
//!
//! Two times are taken, for every method at the same two points and by `CLOCK_MONOTONIC`: the
//! **submission** is from before the first call that hands work over until after the last one; the
//! **completion** is from the same beginning until the thread knows that the outputs are in its
//! memory. Between the two the thread asks again and again ([`Wait::Poll`]), or sleeps
//! ([`Wait::Block`]).

use crate::{Error, Run};
use realtime::clock::monotonic_ns;
use realtime::thread::{self, Scheduling};
use serde::Serialize;
use std::time::Duration;
use trial::signals;

/// The share of a second that the measuring thread leaves to others: the kernel stops a real-time
/// thread that takes more than 95 % of a core, for as long as 50 ms.
const REST_SHARE: u64 = 8;
/// Time of measuring after which the thread rests, before the next repetition.
const STRETCH_NS: u64 = 60_000_000;
/// A submission that takes longer counts as lost.
const PATIENCE_NS: u64 = 120_000_000_000;

/// Way in which the thread learns of the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Polls without a pause.
    Poll,
    /// Sleeps, in whatever way the interface offers.
    Block,
}

/// Rules for the measurement of a case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Protocol {
    /// Repetitions before those that count.
    pub warm_up: u32,
    /// Repetitions that count.
    pub repetitions: u32,
    /// After this time in nanoseconds no further repetition begins, though one is always made.
    pub limit_ns: u64,
    /// Way in which the end is awaited.
    pub wait: Wait,
}

/// The two times of a repetition, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Sample {
    /// True if it belongs to the warm-up, which does not count.
    pub warm_up: bool,
    /// Time from the beginning until all was handed over.
    pub submission_ns: u64,
    /// Time from the beginning until the outputs were there.
    pub completion_ns: u64,
}

/// Repeats a submission. The thread rests now and then, between repetitions.
///
/// # Errors
/// As the submission; or it does not end.
pub fn repeat(run: &mut dyn Run, protocol: &Protocol) -> Result<Vec<Sample>, Error> {
    let all = protocol.warm_up + protocol.repetitions;
    let mut samples = Vec::with_capacity(all as usize);
    let begin = monotonic_ns();
    let mut stretch = begin;
    for repetition in 0..all {
        if signals::interrupted().is_some() {
            return Err(Error::Interrupted);
        }
        let now = monotonic_ns();
        let warm_up = repetition < protocol.warm_up;
        // Half of the time is for the warm-up at most, and one repetition counts in any case.
        let limit = if warm_up { protocol.limit_ns / 2 } else { protocol.limit_ns };
        let due = now - begin > limit;
        if due && warm_up {
            continue;
        }
        if due && samples.iter().any(|sample: &Sample| !sample.warm_up) {
            break;
        }
        if now - stretch > STRETCH_NS {
            std::thread::sleep(Duration::from_nanos((now - stretch) / REST_SHARE));
            stretch = monotonic_ns();
        }
        samples.push(once(run, protocol.wait, warm_up)?);
    }
    Ok(samples)
}

fn once(run: &mut dyn Run, wait: Wait, warm_up: bool) -> Result<Sample, Error> {
    let begin = monotonic_ns();
    run.submit()?;
    let submitted = monotonic_ns();
    match wait {
        Wait::Block => run.wait()?,
        Wait::Poll => {
            while !run.is_finished()? {
                if monotonic_ns() - begin > PATIENCE_NS {
                    return Err(Error::failed("waiting for the end", "two minutes have passed"));
                }
                std::hint::spin_loop();
            }
        }
    }
    let finished = monotonic_ns();
    Ok(Sample { warm_up, submission_ns: submitted - begin, completion_ns: finished - begin })
}

/// Core and priority of the measuring thread while it measures.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Seat {
    /// The core that it is kept on; wherever it was if there is none.
    pub core: Option<usize>,
    /// Its `SCHED_FIFO` priority; the ordinary policy if there is none.
    pub priority: Option<u8>,
    /// Cores that it goes back to between two measurements, so that threads that a driver starts
    /// while a network is built do not inherit the seat.
    pub home: Vec<usize>,
}

impl Seat {
    /// The calling thread sits here from now on, until the value that is returned is dropped.
    ///
    /// # Errors
    /// The core or the priority is refused.
    pub fn take(&self) -> Result<Seated<'_>, realtime::Error> {
        let seated = Seated(self);
        if let Some(core) = self.core {
            thread::pin(&[core])?;
        }
        if let Some(priority) = self.priority {
            thread::set_policy(Scheduling::Fifo(priority))?;
        }
        Ok(seated)
    }
}

/// Gives the calling thread the ordinary policy and its home back when dropped.
#[derive(Debug)]
pub struct Seated<'a>(&'a Seat);

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        // Both are less than the thread has.
        let _ = thread::set_policy(Scheduling::Normal);
        let _ = thread::pin(&self.0.home);
    }
}
