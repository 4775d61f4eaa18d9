//! The clock of a trace: the processor's time-stamp counter.
//!
//! Reading it costs a third of a `clock_gettime`, and the kernel's tracer can use the same
//! counter, so that nothing needs to be converted while recording. A [`Calibration`] made of two
//! readings beside `CLOCK_MONOTONIC`, at the start and at the end of a trace, turns ticks into
//! nanoseconds afterwards.

use rustix::time::{ClockId, clock_gettime};

/// The time-stamp counter.
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction; it reads a counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        monotonic_ns()
    }
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The counter, half-way between two readings around that of the clock.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub ns: u64,
    /// Ticks between the two readings of the counter: the fewer, the better the pair fits.
    pub spread: u64,
}

impl Reading {
    /// Reads both clocks some times and returns the pair that lay closest together.
    pub fn take() -> Reading {
        let one = || {
            let before = now();
            let ns = monotonic_ns();
            let after = now();
            Reading { ticks: before + (after - before) / 2, ns, spread: after - before }
        };
        (0..32).map(|_| one()).min_by_key(|reading| reading.spread).expect("32 readings")
    }
}

/// Turns ticks into nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    ticks: u64,
    ns: u64,
    ns_per_tick: f64,
}

impl Calibration {
    /// The line through two readings, the second at least 1 us after the first; `None` for
    /// readings that no clock gives.
    pub fn between(start: Reading, end: Reading) -> Option<Calibration> {
        let ticks = end.ticks.checked_sub(start.ticks).filter(|ticks| *ticks > 0)?;
        let ns = end.ns.checked_sub(start.ns).filter(|ns| *ns >= 1000)?;
        let ns_per_tick = ns as f64 / ticks as f64;
        Some(Calibration { ticks: start.ticks, ns: start.ns, ns_per_tick })
    }

    /// Nanoseconds that a tick takes.
    pub fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    /// A duration in nanoseconds.
    pub fn duration_ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick).round() as u64
    }

    /// A point in time in nanoseconds of `CLOCK_MONOTONIC`; 0 before the clock began.
    pub fn ns(&self, ticks: u64) -> u64 {
        if ticks >= self.ticks {
            self.ns.saturating_add(self.duration_ns(ticks - self.ticks))
        } else {
            self.ns.saturating_sub(self.duration_ns(self.ticks - ticks))
        }
    }

    /// The reading of the counter at a point in time of `CLOCK_MONOTONIC`.
    pub fn ticks(&self, ns: u64) -> u64 {
        let scaled = |ns: u64| (ns as f64 / self.ns_per_tick).round() as u64;
        if ns >= self.ns {
            self.ticks.saturating_add(scaled(ns - self.ns))
        } else {
            self.ticks.saturating_sub(scaled(self.ns - ns))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibration_gives_back_what_it_was_made_of() {
        let start = Reading { ticks: 1_000_000, ns: 5_000_000_000, spread: 10 };
        let end = Reading { ticks: 26_000_000, ns: 5_010_000_000, spread: 10 };
        let clock = Calibration::between(start, end).unwrap();
        assert_eq!(clock.duration_ns(2_500), 1_000);
        assert_eq!(clock.ns(end.ticks), end.ns);
        assert_eq!(clock.ns(start.ticks - 2_500), start.ns - 1_000);
        assert_eq!(clock.ticks(start.ns + 4_000), start.ticks + 10_000);
    }

    #[test]
    fn impossible_readings_are_refused() {
        let reading = Reading { ticks: 10, ns: 10_000, spread: 0 };
        assert_eq!(Calibration::between(reading, reading), None);
        let earlier = Reading { ticks: 5, ns: 90_000, spread: 0 };
        assert_eq!(Calibration::between(reading, earlier), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no time-stamp counter")]
    fn counter_runs_with_the_monotonic_clock() {
        let start = Reading::take();
        while Reading::take().ns < start.ns + 5_000_000 {}
        let middle = Reading::take();
        while Reading::take().ns < start.ns + 10_000_000 {}
        let clock = Calibration::between(start, Reading::take()).unwrap();
        let off = clock.ns(middle.ticks).abs_diff(middle.ns);
        let allowed = clock.duration_ns(middle.spread + start.spread) + 2_000;
        assert!(off <= allowed, "{off} ns off in the middle, {allowed} allowed");
    }
}
