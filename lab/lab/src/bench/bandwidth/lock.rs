//! Cost of taking the lock for its holder, and the delay until the lock takes effect; beside the
//! times of a bare futex and a bare timer on the same core, in turns.

use realtime::clock::{monotonic_ns, sleep_until_ns};
use report::bandwidth::LockCost;
use trial::signals;

use super::measure::Bench;
use crate::bench::floor::Bare;
use crate::bench::sample::Samples;

/// Takings of a lock that is held anyway, in groups, so that reading the clock does not count.
const GROUPS: usize = 2000;
const GROUP: usize = 100;
/// Takings of a free lock.
const TAKINGS: u32 = 500;
/// After a release, until the regulator's threads sleep: longer than they look for more by
/// themselves.
const SLEEP_NS: u64 = 3_000_000;
/// Takings between two looks at the floors.
const TURN: u32 = 50;

/// The lock of the bench's regulator, without kernels and hogs.
pub(super) fn measure(bench: &mut Bench) -> anyhow::Result<LockCost> {
    // A regulator of its own, whose delays are of these takings only.
    bench.end_protection();
    let protection = super::protection::Protection::start(&bench.manner)?;
    let hold = &protection.hold;
    let [mut taken, mut given, mut again] = [const { Samples::new() }; 3];
    let mut unchanged = Vec::new();
    let core = bench.manner.cores[0];
    let mut bare = Bare::start(core)?;
    for taking in 0..TAKINGS {
        signals::check()?;
        if taking % TURN == 0 {
            bare.wake(TURN, SLEEP_NS / 2)?;
            bare.sleep(core, TURN)?;
        }
        sleep_until_ns(monotonic_ns() + SLEEP_NS);
        let begin = monotonic_ns();
        let held = hold.acquire();
        let middle = monotonic_ns();
        anyhow::ensure!(held, "the lock cannot be taken");
        // Long enough for a period to begin.
        sleep_until_ns(middle + SLEEP_NS);
        let release = monotonic_ns();
        hold.release();
        let back = monotonic_ns();
        hold.acquire();
        again.push(monotonic_ns() - back);
        hold.release();
        given.push(back - release);
        taken.push(middle - begin);
    }
    hold.acquire();
    for _ in 0..GROUPS {
        let begin = monotonic_ns();
        for _ in 0..GROUP {
            hold.acquire();
            hold.release();
        }
        unchanged.push((monotonic_ns() - begin) as f64 / GROUP as f64);
    }
    hold.release();
    let effect = protection.statistics().effect;
    Ok(LockCost {
        unchanged_ns: three(&Samples::from(unchanged)),
        taken_ns: three(&taken),
        again_ns: three(&again),
        given_ns: three(&given),
        effect_ns: [effect.p50_ns, effect.p99_ns, effect.longest_ns].map(|ns| ns as f64),
        futex_ns: three(&bare.waking),
        woken_ns: three(&bare.woken),
        timer_ns: three(&bare.timer),
    })
}

/// Median, 99th percentile and maximum.
fn three(samples: &Samples) -> [f64; 3] {
    let [p50_ns, p99_ns, _, max_ns] = samples.quantiles().numbers();
    [p50_ns, p99_ns, max_ns]
}
