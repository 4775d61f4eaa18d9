//! Time for the loop that keeps a core: the processor's counter, which is read without a system
//! call and without memory.
//!
//! `CLOCK_MONOTONIC` is asked once a period; the pair of readings says how fast the counter goes,
//! over a time that grows, so that a stop ends within nanoseconds of where the clock would end it.
//! If the kernel itself does not trust the counter, the clock is read instead.

use realtime::clock::monotonic_ns;
use std::time::Duration;

/// The shortest time over which the counter's rate is taken.
const BASE: Duration = Duration::from_millis(5);

/// The counter, and how fast it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    first: (u64, u64),
    per_ns: f64,
    trusted: bool,
}

impl Ticks {
    /// Sleeps some milliseconds to find the rate.
    pub(super) fn measure() -> Ticks {
        let trusted = cfg!(target_arch = "aarch64")
            || (cfg!(target_arch = "x86_64")
                && realtime::machine::clocksource().as_deref() == Some("tsc"));
        if !trusted {
            return Ticks { first: (0, 0), per_ns: 1.0, trusted };
        }
        let mut ticks = Ticks { first: (counter(), monotonic_ns()), per_ns: 1.0, trusted };
        std::thread::sleep(BASE);
        ticks.mend(monotonic_ns());
        ticks
    }

    /// The counter now.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        if self.trusted { counter() } else { monotonic_ns() }
    }

    /// Takes the rate anew, knowing that the clock says `now_ns`.
    pub(super) fn mend(&mut self, now_ns: u64) {
        let (ticks, ns) = self.first;
        let passed = now_ns.saturating_sub(ns);
        if self.trusted && passed >= BASE.as_nanos() as u64 {
            self.per_ns = counter().saturating_sub(ticks) as f64 / passed as f64;
        }
    }

    /// Value of the counter after `ns` nanoseconds.
    pub(super) fn after(&self, ns: u64) -> u64 {
        self.now().saturating_add(self.of(ns))
    }

    /// Returns this number of nanoseconds as a difference of the counter.
    pub(super) fn of(&self, ns: u64) -> u64 {
        (ns as f64 * self.per_ns) as u64
    }

    /// A difference of the counter in nanoseconds.
    pub(super) fn ns(&self, ticks: u64) -> u64 {
        (ticks as f64 / self.per_ns) as u64
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets every process read the virtual counter; nothing else is touched.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millisecond_of_ticks_is_a_millisecond_of_the_clock() {
        let mut ticks = Ticks::measure();
        // Between two readings of the clock, however far apart they are.
        let reading = |ticks: &Ticks| (monotonic_ns(), ticks.now(), monotonic_ns());
        let first = reading(&ticks);
        while ticks.now() < ticks.of(1_000_000) + first.1 {
            std::hint::spin_loop();
        }
        let last = reading(&ticks);
        ticks.mend(last.2);
        let (least_ns, most_ns) = (last.0 - first.2, last.2 - first.0);
        let ns = ticks.ns(last.1 - first.1);
        assert!(ns >= least_ns - least_ns / 50 && ns <= most_ns + most_ns / 50, "{ns} ns");
        assert!(ticks.of(1_000_000) > 0 && most_ns >= 980_000, "{most_ns} ns");
    }
}
