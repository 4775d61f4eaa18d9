//! How fast the device works, measured on itself.

use crate::Error;
use crate::binding::Bound;
use crate::worker::{Dispatch, Worker};
use device::{FailureCode, Level};
use realtime::clock::monotonic_ns;

const ROUND_TRIPS: usize = 101;
const RUNS: usize = 9;
/// Long enough for the round trip to matter little.
const RUN_NS: u64 = 1_000_000;

/// How fast a device does the steps of `busy`, and what a dispatch costs beside them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calibration {
    /// Steps in one microsecond: the median.
    pub steps_per_us: f64,
    /// From before the submission of an empty dispatch until its end is known: the median.
    pub round_trip_ns: u64,
}

impl Calibration {
    /// Measures for about 50 ms. `kernel` is the place of `busy`.
    pub(crate) fn measure(worker: &mut Worker, kernel: usize) -> Result<Calibration, Error> {
        let mut time = |steps: u64, count: usize| -> Result<u64, Error> {
            let mut times = Vec::with_capacity(count);
            for _ in 0..count {
                let start_ns = monotonic_ns();
                run(worker, kernel, Level(0), steps).map_err(Error::Trial)?;
                times.push(monotonic_ns() - start_ns);
            }
            times.sort_unstable();
            Ok(times[count / 2])
        };
        // Work before, so that a clock that saves power is up.
        let mut steps = 1_000;
        while time(steps, 1)? < RUN_NS && steps < 1 << 30 {
            steps *= 2;
        }
        let round_trip_ns = time(0, ROUND_TRIPS)?;
        let run_ns = time(steps, RUNS)?.saturating_sub(round_trip_ns).max(1);
        Ok(Calibration { steps_per_us: steps as f64 * 1_000.0 / run_ns as f64, round_trip_ns })
    }

    /// The steps of a block that lasts so long with its round trip.
    pub(crate) fn steps(&self, ns: u64) -> u64 {
        (ns.saturating_sub(self.round_trip_ns) as f64 * self.steps_per_us / 1_000.0) as u64
    }
}

/// Has the device do that many steps, at most 2^32 - 1.
pub(crate) fn run(
    worker: &mut Worker,
    kernel: usize,
    level: Level,
    steps: u64,
) -> Result<(), FailureCode> {
    let arguments = [steps.min(u32::MAX.into()), 0, 0, 0];
    let (input, output) = (Bound::Whole, Bound::Whole);
    worker.run(&Dispatch { kernel, level, arguments, groups: [1; 3], input, output })
}
