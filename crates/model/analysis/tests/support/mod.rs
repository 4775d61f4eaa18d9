//! The published systems, built by hand.
#![allow(dead_code, reason = "each test file uses its part")]

use analysis::{Accelerator, Callback, Chain, Executor, Segment, Span, System, Wait};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;

/// A callback with one request of `exec_ns`, or none where that is 0.
pub(crate) fn callback(executor: usize, cpu_ns: u64, exec_ns: u64) -> Callback {
    let segment = Segment { accelerator: 0, exec: Span::up_to(exec_ns), cpu_before_ns: 0 };
    let segments = if exec_ns > 0 { vec![segment] } else { vec![] };
    Callback { executor, cpu: Span::up_to(cpu_ns), segments }
}

/// A chain on one accelerator.
pub(crate) fn chain(priority: u32, period_ns: u64, bucket: u32, callbacks: Vec<Callback>) -> Chain {
    Chain {
        priority,
        period_ns,
        deadline_ns: period_ns,
        jitter_ns: 0,
        wait: Wait::Suspend,
        best_effort: false,
        buckets: vec![bucket],
        callbacks,
    }
}

/// Case study 1 of PAAM with the cores of the authors' script, 10 ms for each segment.
pub(crate) fn case_study_1(kappa_ns: u64, epsilon_ns: u64) -> System {
    let cpu: [&[u64]; 8] = [
        &[2, 6],
        &[2, 8, 9],
        &[6, 8, 4, 8],
        &[5, 7, 2],
        &[2, 1, 7],
        &[2, 7],
        &[2, 6],
        &[6, 8, 4, 8],
    ];
    let periods = [120, 120, 220, 260, 360, 400, 120, 220];
    let buckets = [5, 5, 4, 3, 2, 1, 0, 0];
    let chains = (0..8usize).map(|i| {
        let callbacks = cpu[i].iter().map(|cpu| callback(i, cpu * MS, 10 * MS)).collect();
        let mut chain = chain(8 - i as u32, periods[i] * MS, buckets[i], callbacks);
        chain.best_effort = i >= 6;
        chain
    });
    let place = [(2, 90), (3, 89), (4, 88), (5, 87), (6, 86), (7, 85), (6, 2), (7, 1)];
    System {
        kappa_ns,
        epsilon_ns,
        accelerators: vec![Accelerator { buckets: 6, concurrent_lowest: false }],
        executors: place.map(|(core, priority)| Executor { core, priority }).to_vec(),
        chains: chains.collect(),
        ..System::default()
    }
}

/// The printed theorem's counterexample: two chains on one executor, the lower one waits for an
/// accelerator.
pub(crate) fn counterexample() -> System {
    let mut high = chain(2, 100 * MS, 0, vec![callback(0, MS, 0)]);
    high.deadline_ns = 50 * MS;
    let low = chain(1, 200 * MS, 0, vec![callback(0, MS, 60 * MS)]);
    System {
        accelerators: vec![Accelerator { buckets: 1, concurrent_lowest: false }],
        executors: vec![Executor { core: 0, priority: 1 }],
        chains: vec![high, low],
        ..System::default()
    }
}
