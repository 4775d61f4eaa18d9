//! When a taken lock takes effect, and what it costs whoever takes it; beside a thread of the same
//! core and priority that is woken by a bare futex.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bandwidth::regulator::{Budget, Load, Regulator, Spread};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread::{Policy, pin, set_policy};
use serde::Serialize;

use super::Bench;
use crate::bench::sample::{Quantiles, Samples};
use crate::regulate::load::Running;

/// How long the lock is held each time.
const HELD_NS: u64 = 300_000;
/// How long it is free while the thread lingers, and before it sleeps.
const GAPS: [(&str, Duration, u64); 2] =
    [("asleep", Duration::ZERO, 1_000_000), ("lingering", Duration::from_millis(10), 500_000)];

/// What was found in one of the two cases.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// What the core's thread does when the lock is taken.
    pub thread: &'static str,
    /// From the taking to the beginning of the first period.
    pub effect: Spread,
    /// What taking it cost.
    pub taking: Quantiles,
    /// What giving it back cost.
    pub release: Option<Quantiles>,
}

/// Takes the lock so often in each case, while the core computes.
pub fn measure(bench: &Bench, takings: u32) -> anyhow::Result<Vec<Effect>> {
    let _load = Running::start(Load::Compute, bench.core)?;
    let mut effects = vec![bare(bench, takings)?];
    for (thread, linger, gap_ns) in GAPS {
        effects.push(one(bench, thread, linger, gap_ns, takings)?);
    }
    Ok(effects)
}

fn one(
    bench: &Bench,
    thread: &'static str,
    linger: Duration,
    gap_ns: u64,
    takings: u32,
) -> anyhow::Result<Effect> {
    // A budget that is spent before the lock is given back: the thread is in a stop then.
    let mut config = bench.config(Budget::Share(0.1));
    config.linger = linger;
    let regulator = Regulator::start(config)?;
    let hold = regulator.hold()?;
    let (mut taking, mut release) = (Samples::new(), Samples::new());
    for _ in 0..takings {
        let begin = monotonic_ns();
        hold.acquire();
        taking.push(monotonic_ns() - begin);
        sleep_until_ns(begin + HELD_NS);
        let begin = monotonic_ns();
        hold.release();
        release.push(monotonic_ns() - begin);
        sleep_until_ns(begin + gap_ns);
    }
    let effect = regulator.statistics().effect;
    Ok(Effect { thread, effect, taking: taking.quantiles(), release: Some(release.quantiles()) })
}

/// A thread of the core that sleeps until it is woken, and does nothing else.
fn bare(bench: &Bench, takings: u32) -> anyhow::Result<Effect> {
    let (asked_ns, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let core = bench.core;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> Result<Samples, realtime::Error> {
            pin(&[core])?;
            set_policy(Policy::Fifo(1))?;
            let mut delays = Samples::new();
            while !is_over.load(Ordering::Acquire) {
                std::thread::park();
                // A wake-up for no reason has nothing to say.
                match asked_ns.swap(0, Ordering::Acquire) {
                    0 => {}
                    asked_ns => delays.push(monotonic_ns() - asked_ns),
                }
            }
            Ok(delays)
        });
        let mut taking = Samples::new();
        for _ in 0..takings {
            let begin = monotonic_ns();
            asked_ns.store(begin, Ordering::Release);
            thread.thread().unpark();
            taking.push(monotonic_ns() - begin);
            sleep_until_ns(begin + HELD_NS + GAPS[0].2);
        }
        is_over.store(true, Ordering::Release);
        thread.thread().unpark();
        let delays = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let quantiles = delays.quantiles();
        let effect = Spread {
            count: u64::from(takings),
            p50_ns: quantiles.p50_ns as u64,
            p99_ns: quantiles.p99_ns as u64,
            longest_ns: quantiles.max_ns as u64,
        };
        Ok(Effect { thread: "bare futex", effect, taking: taking.quantiles(), release: None })
    })
}
