//! Speed of the device, measured on itself.

use crate::Error;
use crate::binding::Bound;
use crate::worker::{Dispatch, Worker};
use device::{FailureCode, Level};
use realtime::clock::monotonic_ns;

const ROUND_TRIPS: usize = 101;
const RUNS: usize = 9;
/// Runs for each number of steps that is tried.
const TRIES: usize = 3;
/// Long enough for the round trip to matter little.
const RUN_NS: u64 = 1_000_000;

/// Speed at which a device does the steps of `busy`, and the cost of a dispatch beside them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calibration {
    /// Steps in one microsecond: the median.
    pub steps_per_us: f64,
    /// Median time from before the submission of an empty dispatch until its end is known.
    pub round_trip_ns: u64,
}

impl Calibration {
    /// Measures for about 50 ms. `kernel` is the place of `busy`.
    pub(crate) fn measure(worker: &mut Worker, kernel: usize) -> Result<Calibration, Error> {
        Calibration::by(|steps| {
            let start_ns = monotonic_ns();
            run(worker, kernel, Level(0), steps).map_err(Error::Trial)?;
            Ok(monotonic_ns() - start_ns)
        })
    }

    /// The same, with what does that many steps and says how long they took, ns.
    fn by<E>(mut run: impl FnMut(u64) -> Result<u64, E>) -> Result<Calibration, E> {
        let mut time = |steps: u64, count: usize| -> Result<u64, E> {
            let mut times = (0..count).map(|_| run(steps)).collect::<Result<Vec<u64>, E>>()?;
            times.sort_unstable();
            Ok(times[count / 2])
        };
        // Work before, so that a clock that saves power is up. One run that something else kept from
        // the device must not make too few steps look long enough.
        let mut steps = 1_000;
        while time(steps, TRIES)? < RUN_NS && steps < 1 << 30 {
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

/// Runs that many steps on the device, at most 2^32 - 1.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_run_that_is_kept_from_the_device_does_not_make_its_steps_too_few() {
        // 80 steps in a microsecond, and beside them 50 us, and up to 100 more from run to run.
        let mut runs = 0;
        let found = Calibration::by(|steps| {
            runs += 1;
            let more_ns = if runs % 20 == 2 { 12_000_000 } else { runs * 37 % 101 * 1_000 };
            Ok::<u64, Infallible>(50_000 + steps * 1_000 / 80 + more_ns)
        });
        let found = found.unwrap();
        assert!((found.steps_per_us - 80.0).abs() < 8.0, "{found:?}");
        assert!((80_000..120_000).contains(&found.round_trip_ns), "{found:?}");
    }
}
