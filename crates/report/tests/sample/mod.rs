//! A made-up but plausible result: eight chains on one accelerator under three policies.

use report::chains::{ChainInfo, ChainResult, ChainsRun, PolicyRun};

/// A small generator (SplitMix64), so that every run of the tests sees the same result.
struct Dice(u64);

impl Dice {
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Name, period in ms, work in ms, bound in ms, best effort.
const CHAINS: [(&str, f64, f64, Option<f64>, bool); 8] = [
    ("chain1", 120.0, 28.0, Some(49.8), false),
    ("chain2", 120.0, 49.0, Some(92.0), false),
    ("chain3", 220.0, 66.0, None, false),
    ("chain4", 260.0, 44.0, None, false),
    ("chain5", 360.0, 40.0, None, false),
    ("chain6", 400.0, 29.0, None, false),
    ("be1", 120.0, 28.0, None, true),
    ("be2", 220.0, 66.0, None, true),
];

/// The result of running [`CHAINS`] for a minute under each policy.
pub(crate) fn sample() -> ChainsRun {
    let chains = CHAINS.iter().zip((1..=8).rev()).map(|(chain, priority)| ChainInfo {
        id: chain.0.to_owned(),
        priority,
        period_ns: ns(chain.1),
        deadline_ns: ns(chain.1),
        best_effort: chain.4,
        bound_ns: chain.3.map(ns),
    });
    ChainsRun {
        system_name: "examples/paam-case-study-1.yaml".to_owned(),
        machine: "AMD EPYC 7763, 8 cores, Linux 6.1.0".to_owned(),
        command: "keeptime-lab chains examples/paam-case-study-1.yaml --duration 60".to_owned(),
        date: "2025-06-03 14:20".to_owned(),
        duration_ns: 60_000_000_000,
        judged: vec!["priority".to_owned()],
        marks: vec![
            "ran at normal priority: SCHED_FIFO is not permitted here".to_owned(),
            "2 of the 7 cores that the file names do not exist; their executors share core 1"
                .to_owned(),
        ],
        chains: chains.collect(),
        policies: vec![
            policy("priority", 1, |rank, dice| 1.0 + 0.17 * rank * dice.share()),
            policy("fifo", 2, |_, dice| 1.6 + 2.6 * dice.share() * dice.share()),
            policy("timeslice", 3, |_, dice| 2.4 + 2.0 * dice.share()),
        ],
    }
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

fn policy(name: &str, seed: u64, stretch: impl Fn(f64, &mut Dice) -> f64) -> PolicyRun {
    let mut dice = Dice(seed);
    let chains = CHAINS.iter().enumerate().map(|(rank, (id, period, work, bound, _))| {
        let releases = (60_000.0 / period) as u64;
        let limit = bound.filter(|_| name == "priority").unwrap_or(f64::INFINITY) * 0.985;
        let rank = if name == "priority" && rank > 5 { 26.0 } else { rank as f64 + 1.5 };
        let mut response_ns = Vec::new();
        let mut skipped = 0;
        for _ in 0..releases {
            let spike = if dice.share() > 0.985 { 1.0 + 0.5 * dice.share() } else { 1.0 };
            let time = (work * stretch(rank, &mut dice) * spike).min(limit);
            if time > 1.6 * period {
                skipped += 1;
            } else {
                response_ns.push(ns(time));
            }
        }
        ChainResult {
            id: (*id).to_owned(),
            jobs: response_ns.len() as u64,
            skipped,
            unfinished: u64::from(skipped > 3),
            misses: response_ns.iter().filter(|time| **time > ns(*period)).count() as u64,
            response_ns,
            slowest: None,
        }
    });
    PolicyRun {
        policy: name.to_owned(),
        marks: Vec::new(),
        chains: chains.collect(),
        facts: vec![
            ("accelerator busy".to_owned(), "91.4 %".to_owned()),
            ("preemptions".to_owned(), ((4 - seed) * 317).to_string()),
        ],
    }
}
