//! What taking the lock costs its holder, and how soon it takes effect.

use realtime::clock::{monotonic_ns, sleep_until_ns};
use report::bandwidth::LockCost;
use report::stats::{ascending, nearest_rank};

use super::measure::Bench;

/// Takings of a lock that is held anyway, in groups, so that reading the clock does not count.
const GROUPS: usize = 2000;
const GROUP: usize = 100;
/// Takings of a free lock.
const TAKINGS: usize = 500;
/// After a release, until the regulator's threads sleep: longer than they look for more by
/// themselves.
const SLEEP_NS: u64 = 3_000_000;

/// The lock of the bench's regulator, without kernels and hogs.
pub fn measure(bench: &mut Bench) -> anyhow::Result<LockCost> {
    // A regulator of its own, whose delays are of these takings only.
    bench.end_protection();
    let protection = super::protection::Protection::start(&bench.manner, None)?;
    let hold = &protection.hold;
    let (mut taken, mut given) = (Vec::new(), Vec::new());
    let (mut again, mut unchanged) = (Vec::new(), Vec::new());
    for _ in 0..TAKINGS {
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
        again.push((monotonic_ns() - back) as f64);
        hold.release();
        given.push((back - release) as f64);
        taken.push((middle - begin) as f64);
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
        unchanged_ns: three(&unchanged),
        taken_ns: three(&taken),
        again_ns: three(&again),
        given_ns: three(&given),
        effect_ns: [effect.p50_ns as f64, effect.longest_ns as f64],
    })
}

fn three(samples: &[f64]) -> [f64; 3] {
    let sorted = ascending(samples);
    [500, 990, 1000].map(|permille| nearest_rank(&sorted, permille).unwrap_or(f64::NAN))
}
