//! Document 001's section IV-C-4 and Figs. 5, 6 and 10: who runs on a best-effort core that is
//! stopped at times, and how much it is stopped, under each scheduling rule.
//!
//! Each best-effort core has a memory-bound thread and a compute-bound one, whose array is half of
//! the L1 data cache. The lock is held for a while; the regulator, which keeps account of both, is
//! another one for each rule.
//!
//! A budget has to tell the two apart. One of bytes does. One of time does not, so that where the
//! processor counts nothing the memory-bound thread takes fresh pages all the time, and the budget
//! is page faults, a third of what it has in a period by itself, as in the document's Fig. 4.

use std::time::Duration;

use anyhow::{Context, ensure};
use bandwidth::regulator::{Budget, SoftwareEvent, ThreadStatistics};
use bandwidth::workload::{Access, PAGE_BYTES, Size};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use report::bandwidth::{RuleRun, Spread};

use super::hogs::{Hogs, Place};
use super::measure::Bench;
use super::protection::{Manner, Protection};

/// Repetitions of each rule, in turns.
const TURNS: usize = 3;
/// The rules: document 001's rho, none for the kernel's own scheduler.
const RULES: [(&str, Option<f64>); 3] =
    [("default", None), ("rho = 1", Some(1.0)), ("rho = 3", Some(3.0))];
/// Of what a memory-bound thread does in a period, its budget.
const PART: f64 = 1.0 / 3.0;
/// How long it is watched for that.
const TRIAL: Duration = Duration::from_millis(300);

/// What one turn gave, in the order of [`RuleRun`].
type Turn = [f64; 5];

/// All rules, and the budget of a core in words.
pub fn measure(bench: &Bench, duration: Duration) -> anyhow::Result<(String, Vec<RuleRun>)> {
    let access = match bench.manner.budget {
        Budget::Bytes { .. } => Access::Write,
        _ => Access::Fresh,
    };
    let mut hogs = Hogs::start(&pairs(&bench.manner.cores, access), &bench.home)?;
    let manner = manner(&bench.manner, &mut hogs)?;
    let mut turns: [Vec<Turn>; RULES.len()] = Default::default();
    for turn in 0..TURNS {
        for place in 0..RULES.len() {
            let rule = (turn + place) % RULES.len();
            turns[rule].push(once(&manner, bench, &mut hogs, (RULES[rule].1, duration))?);
        }
    }
    let result = |((name, _), turns): (&(&str, Option<f64>), &Vec<Turn>)| {
        let column = |number: usize| {
            let samples: Vec<f64> = turns.iter().map(|turn| turn[number]).collect();
            let unknown = || format!("the regulator knew no threads under {name}");
            Spread::of(&samples).with_context(unknown)
        };
        Ok(RuleRun {
            rule: (*name).into(),
            stopped: column(0)?,
            memory_periods: column(1)?,
            memory_virtual: column(2)?,
            memory: column(3)?,
            compute: column(4)?,
        })
    };
    let rules = RULES.iter().zip(&turns).map(result).collect::<anyhow::Result<_>>()?;
    Ok((manner.words().1, rules))
}

/// A memory-bound and a compute-bound hog on each of some cores, in this order.
fn pairs(cores: &[usize], access: Access) -> Vec<Place> {
    let both = |core: &usize| {
        let memory = Place { core: *core, access, size: Size::TwiceLlc };
        [memory, Place { access: Access::Write, size: Size::HalfL1d, ..memory }]
    };
    cores.iter().flat_map(both).collect()
}

/// The budget: of bytes, if that is how the bench counts, otherwise of page faults.
fn manner(usual: &Manner, hogs: &mut Hogs) -> anyhow::Result<Manner> {
    if matches!(usual.budget, Budget::Bytes { .. }) {
        return Ok(usual.clone());
    }
    let memory: Vec<usize> = (0..hogs.places.len()).step_by(2).collect();
    hogs.run(&memory)?;
    let meter = hogs.meter()?;
    pass(TRIAL);
    let got = hogs.since(&meter)?;
    hogs.pause()?;
    let mean = got.iter().sum::<f64>() / memory.len() as f64;
    let faults = mean * 1e6 / PAGE_BYTES as f64 * usual.period.as_secs_f64();
    let per_period = ((faults * PART) as u64).max(1);
    let budget = Budget::Events { event: SoftwareEvent::PageFaults, per_period };
    Ok(Manner { budget, ..usual.clone() })
}

fn once(
    manner: &Manner,
    bench: &Bench,
    hogs: &mut Hogs,
    (rho, duration): (Option<f64>, Duration),
) -> anyhow::Result<Turn> {
    let all: Vec<usize> = (0..hogs.places.len()).collect();
    hogs.run(&all)?;
    let protection = Protection::start(manner, Some((rho, hogs.pid())))?;
    let meter = hogs.meter()?;
    ensure!(protection.hold.acquire(), "the lock cannot be taken");
    pass(duration);
    let got = hogs.since(&meter)?;
    let statistics = protection.statistics();
    protection.hold.release();
    drop(protection);
    hogs.pause()?;
    let cores = bench.manner.cores.len() as f64;
    let stopped = statistics.stopped_ns() as f64 / (duration.as_nanos() as f64 * cores);
    let memory_bound = |of: fn(&ThreadStatistics) -> f64| {
        let sum = |step: usize| {
            let threads: Vec<i32> = hogs.threads.iter().step_by(step).copied().collect();
            let known = statistics.threads.iter().filter(|it| threads.contains(&it.thread));
            known.map(of).sum::<f64>()
        };
        sum(2) / sum(1)
    };
    let of_kind = |kind: usize| got.iter().skip(kind).step_by(2).sum();
    Ok([
        stopped,
        memory_bound(|thread| thread.periods),
        memory_bound(|thread| thread.virtual_ns),
        of_kind(0),
        of_kind(1),
    ])
}

fn pass(duration: Duration) {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    sleep_until_ns(monotonic_ns().saturating_add(ns));
}
