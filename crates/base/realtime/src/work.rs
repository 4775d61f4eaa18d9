//! Processor work of a known length: real arithmetic, a fixed number of iterations.
//!
//! A thread that shall use the processor for 3 ms must not watch a clock until 3 ms have passed:
//! it would count the time in which others ran. So the speed of the arithmetic is measured once
//! ([`Calibration::measure`]) and from then on work is a number of iterations.
//!
//! The measurement takes many samples of about 50 us of the thread's processor time, so that
//! preemption by other threads does not count. What remains is disturbance that the kernel does
//! not subtract: interrupts, cold caches, a sibling hyper-thread, a hypervisor that runs something
//! else. It only ever makes samples longer, so the median stands for the undisturbed speed as long
//! as half of the samples are, and [`Calibration::spread`] says how far they were apart. The
//! minimum is not used: it is the speed of the highest turbo clock, which does not last.
//!
//! The speed of a virtual machine varies with its neighbours and with the clock of the host. A
//! duration that must not be exceeded needs a margin of at least the spread.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use crate::clock::{monotonic_ns, thread_cpu_ns};

const SAMPLE_NS: u64 = 50_000;
const MEASURE_NS: u64 = 200_000_000;
const MIN_SAMPLES: usize = 64;

/// Speed at which the calling thread's core does the arithmetic of [`run`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// Iterations in one microsecond of processor time, by the median of the samples.
    pub iterations_per_us: f64,
    /// Relative spread of the samples: (p90 - p10) / p50 of their durations.
    pub spread: f64,
}

impl Calibration {
    /// Measures for about 200 ms on the calling thread, on whatever core it runs on.
    pub fn measure() -> Self {
        let iterations = sample_iterations();
        let reading_ns = clock_reading_ns();
        let mut samples = Vec::with_capacity((MEASURE_NS / SAMPLE_NS) as usize + MIN_SAMPLES);
        let end = monotonic_ns() + MEASURE_NS;
        while samples.len() < MIN_SAMPLES || monotonic_ns() < end {
            let start = thread_cpu_ns();
            run(iterations);
            samples.push((thread_cpu_ns() - start).saturating_sub(reading_ns).max(1));
        }
        samples.sort_unstable();
        let quantile = |percent: usize| samples[(samples.len() - 1) * percent / 100] as f64;
        let median = quantile(50);
        Self {
            iterations_per_us: iterations as f64 * 1_000.0 / median,
            spread: (quantile(90) - quantile(10)) / median,
        }
    }

    /// The iterations that take `ns` nanoseconds of processor time.
    pub fn iterations(&self, ns: u64) -> u64 {
        (ns as f64 * self.iterations_per_us / 1_000.0).round() as u64
    }
}

/// The iterations that take one sample, found by doubling, which also warms the core up.
fn sample_iterations() -> u64 {
    let mut iterations = 1_000;
    loop {
        let start = thread_cpu_ns();
        run(iterations);
        if thread_cpu_ns() - start >= SAMPLE_NS {
            return iterations;
        }
        iterations *= 2;
    }
}

/// Returns the time that one reading of the clock adds to a sample: some hundred nanoseconds of
/// system call.
fn clock_reading_ns() -> u64 {
    let readings = (0..100).map(|_| {
        let start = thread_cpu_ns();
        thread_cpu_ns() - start
    });
    readings.min().unwrap_or(0)
}

/// Does `iterations` steps of arithmetic in which each step needs the result of the one before,
/// and returns the last result.
#[inline(never)]
pub fn run(iterations: u64) -> u64 {
    let mut integer = black_box(0x9e37_79b9_7f4a_7c15_u64);
    let mut float = black_box(0.5_f64);
    for _ in 0..iterations {
        integer = integer.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(float.to_bits() | 1);
        float = (float + (integer >> 12) as f64 * (0.5 / (1_u64 << 52) as f64)) * 0.5;
    }
    black_box(integer)
}

/// Does arithmetic that takes `ns` nanoseconds of processor time, by `calibration`.
pub fn run_for(calibration: &Calibration, ns: u64) {
    black_box(run(calibration.iterations(ns)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibrated_work_takes_about_the_wanted_processor_time() {
        let calibration = Calibration::measure();
        let mut times: Vec<u64> = (0..50)
            .map(|_| {
                let start = thread_cpu_ns();
                run_for(&calibration, 1_000_000);
                thread_cpu_ns() - start
            })
            .collect();
        times.sort_unstable();
        // A wide range, because a virtual machine may change its speed between the two.
        assert!((200_000..5_000_000).contains(&times[25]), "median {} ns", times[25]);
    }

    #[test]
    fn iterations_are_proportional_to_time() {
        let calibration = Calibration { iterations_per_us: 120.0, spread: 0.0 };
        assert_eq!(calibration.iterations(0), 0);
        assert_eq!(calibration.iterations(1_000), 120);
        assert_eq!(calibration.iterations(2_500_000), 300_000);
    }

    #[test]
    fn work_depends_on_every_iteration() {
        assert_ne!(run(1_000), run(1_001));
        assert_eq!(run(1_000), run(1_000));
    }
}
