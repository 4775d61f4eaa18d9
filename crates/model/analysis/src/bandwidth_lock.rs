//! Response times under a memory-bandwidth lock (document: BWLOCK++, section VII).
//!
//! All real-time chains share one core, and each keeps it while an accelerator works for it. Its
//! accelerator segments are critical sections of one lock whose ceiling is the highest priority
//! of the core: a chain that holds the lock is not preempted, and best-effort cores are throttled
//! meanwhile.

use crate::bound::jobs::{Budget, NONE, Period, least_fixed_point, some, times};
use crate::{Error, System};

/// The response time of one chain under the bandwidth lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockBound {
    /// `E`: processor and accelerator time together, with `epsilon` and `sigma` of each request.
    pub execution_ns: u64,
    /// `B`: the longest segment of any chain of lower priority, which is not preempted.
    pub blocking_ns: u64,
    /// `R`, where it is within the deadline. From the nominal release.
    pub response_ns: Option<u64>,
}

/// Equation 4 of BWLOCK++ for every chain: the least `R` with
/// `R = E_i + B_i + sum over hp(i) of ceil(R / P_j) E_j`, where `hp(i)` are the chains whose
/// executor has a higher process priority.
///
/// Assumptions: one core; an executor runs one chain and a chain stays on one executor; chains
/// hold the core during accelerator work, whatever their `wait` says; no release jitter; deadlines
/// are at most the periods. Requests need no device preemption, so that `kappa` does not enter.
///
/// # Errors
/// [`Error`] when the model contradicts itself, or one of the assumptions.
pub fn bandwidth_lock(system: &System) -> Result<Vec<LockBound>, Error> {
    system.check()?;
    check_assumptions(system)?;
    let priority =
        |chain: usize| system.executors[system.chains[chain].callbacks[0].executor].priority;
    let execution: Vec<u64> = (0..system.chains.len()).map(|c| execution_ns(system, c)).collect();
    let budget = Budget::new(system.chains.len());
    let bound = |chain: usize| {
        let (below, above): (Vec<usize>, Vec<usize>) = (0..system.chains.len())
            .filter(|&other| other != chain)
            .partition(|&other| priority(other) < priority(chain));
        let blocking = below.iter().map(|&lower| longest_segment_ns(system, lower)).max();
        let blocking_ns = blocking.unwrap_or(0);
        let own = execution[chain] + blocking_ns;
        let step = |r: u64| {
            let work =
                |&h: &usize| times(Period::new(system.chains[h].period_ns).jobs(r), execution[h]);
            above.iter().map(work).fold(own, u64::saturating_add)
        };
        let response = least_fixed_point(own, system.chains[chain].deadline_ns, &budget, step);
        LockBound { execution_ns: execution[chain], blocking_ns, response_ns: some(response) }
    };
    let bounds: Vec<LockBound> = (0..system.chains.len()).map(bound).collect();
    debug_assert!(bounds.iter().all(|bound| bound.response_ns != Some(NONE)));
    Ok(bounds)
}

fn execution_ns(system: &System, chain: usize) -> u64 {
    let chain = &system.chains[chain];
    let cpu: u64 = chain.callbacks.iter().map(|callback| callback.cpu.max_ns).sum();
    let overhead = system.epsilon_ns + system.sigma_ns;
    cpu + chain.segments().map(|segment| segment.exec.max_ns + overhead).sum::<u64>()
}

fn longest_segment_ns(system: &System, chain: usize) -> u64 {
    let segments = system.chains[chain].segments();
    segments.map(|segment| segment.exec.max_ns + system.sigma_ns).max().unwrap_or(0)
}

fn check_assumptions(system: &System) -> Result<(), Error> {
    let mut user = vec![None; system.executors.len()];
    let mut core = None;
    for (index, chain) in system.chains.iter().enumerate() {
        let executor = chain.callbacks[0].executor;
        let place = system.executors[executor].core;
        let refuse = |what, found: u64, expected: &str| {
            Err(Error::model(index, what, found, expected.to_owned()))
        };
        if chain.callbacks.iter().any(|callback| callback.executor != executor) {
            return refuse("executors", 2, "one executor for the whole chain under the lock");
        }
        if *core.get_or_insert(place) != place {
            return refuse("core", place.into(), "all chains on one core under the lock");
        }
        if user[executor].replace(index).is_some() {
            return refuse("executor", executor as u64, "an executor of its own under the lock");
        }
        if system.executors[executor].priority == 0 {
            return refuse("process priority", 0, "a real-time priority under the lock");
        }
        if chain.jitter_ns > 0 {
            return refuse("jitter", chain.jitter_ns, "none under the lock");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accelerator, Callback, Chain, Executor, Segment, Span, Wait};

    fn task(executor: usize, period_ns: u64, cpu_ns: u64, segments: &[u64]) -> Chain {
        let segment =
            |&ns: &u64| Segment { accelerator: 0, exec: Span::up_to(ns), cpu_before_ns: 0 };
        let callback = Callback {
            executor,
            cpu: Span::up_to(cpu_ns),
            segments: segments.iter().map(segment).collect(),
        };
        Chain {
            priority: 10 - executor as u32,
            period_ns,
            deadline_ns: period_ns,
            jitter_ns: 0,
            wait: Wait::Spin,
            best_effort: false,
            buckets: vec![0],
            callbacks: vec![callback],
        }
    }

    fn system() -> System {
        System {
            accelerators: vec![Accelerator { buckets: 1, concurrent_lowest: false }],
            executors: (0..3).map(|i| Executor { core: 4, priority: 9 - i }).collect(),
            chains: vec![task(0, 20, 2, &[1]), task(1, 40, 4, &[5, 2]), task(2, 100, 10, &[6, 8])],
            ..System::default()
        }
    }

    #[test]
    fn equation_4_blocks_by_the_longest_lower_segment_and_counts_whole_tasks() {
        let bounds = bandwidth_lock(&system()).unwrap();
        let values: Vec<_> =
            bounds.iter().map(|b| (b.execution_ns, b.blocking_ns, b.response_ns)).collect();
        // 3 + 8; 11 + 8 + 2 * 3 = 25; 24 + 0 + 3 * 3 + 2 * 11 = 55.
        assert_eq!(values, [(3, 8, Some(11)), (11, 8, Some(25)), (24, 0, Some(55))]);
    }

    #[test]
    fn what_the_equation_assumes_is_checked() {
        let mut two_cores = system();
        two_cores.executors[2].core = 5;
        assert!(bandwidth_lock(&two_cores).unwrap_err().to_string().contains("one core"));
        let mut jitter = system();
        jitter.chains[1].jitter_ns = 1;
        assert!(bandwidth_lock(&jitter).unwrap_err().to_string().contains("jitter"));
        let mut shared = system();
        shared.chains[1].callbacks[0].executor = 0;
        assert!(bandwidth_lock(&shared).unwrap_err().to_string().contains("of its own"));
    }
}
