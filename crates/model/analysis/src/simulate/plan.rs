//! A system laid out in flat lists, so that a simulation only counts indices.
//!
//! Callbacks of all chains stand one after the other, and so do their requests. Between and around
//! its requests a callback computes: with `n` requests it has `n + 1` steps of processor time,
//! which stand one after the other as well.

use crate::{Error, Span, System, Wait};
use std::cmp::Reverse;
use std::ops::Range;

pub(super) struct Plan {
    pub kappa_ns: u64,
    pub epsilon_ns: u64,
    pub sigma_ns: u64,
    pub hop_ns: u64,
    pub chains: Vec<PlannedChain>,
    pub callbacks: Vec<PlannedCallback>,
    pub requests: Vec<PlannedRequest>,
    pub executors: Vec<PlannedExecutor>,
    pub cores: Vec<PlannedCore>,
    pub devices: Vec<PlannedDevice>,
}

pub(super) struct PlannedChain {
    pub period_ns: u64,
    pub deadline_ns: u64,
    pub jitter_ns: u64,
    pub spins: bool,
    /// Its callbacks in [`Plan::callbacks`].
    pub callbacks: Range<usize>,
}

pub(super) struct PlannedCallback {
    pub executor: usize,
    pub cpu: Span,
    /// Its requests in [`Plan::requests`].
    pub requests: Range<usize>,
    /// Place of its first step of processor time.
    pub first_step: usize,
}

pub(super) struct PlannedRequest {
    pub device: usize,
    /// Order of service: the larger bucket, then the higher chain. Bucket in the upper half.
    pub rank: u64,
    pub exec: Span,
    pub cpu_before_ns: u64,
}

pub(super) struct PlannedExecutor {
    /// An index of [`Plan::cores`].
    pub core: usize,
    /// Chains that have callbacks here, the highest priority first.
    pub chains: Vec<usize>,
}

pub(super) struct PlannedCore {
    /// The number that the system gives it.
    pub id: u32,
    /// Its executors, the highest process priority first.
    pub executors: Vec<usize>,
    /// Number of them, at the end, that have priority 0.
    pub shared: usize,
}

pub(super) struct PlannedDevice {
    /// True if the chains that use it are in more than one bucket.
    pub preempts: bool,
    /// Executors with callbacks that use it.
    pub clients: Vec<usize>,
}

impl Plan {
    pub(super) fn new(system: &System) -> Result<Plan, Error> {
        system.check()?;
        let mut plan = Plan {
            kappa_ns: system.kappa_ns,
            epsilon_ns: system.epsilon_ns,
            sigma_ns: system.sigma_ns,
            hop_ns: system.hop_ns,
            chains: Vec::new(),
            callbacks: Vec::new(),
            requests: Vec::new(),
            executors: Vec::new(),
            cores: cores(system),
            devices: devices(system),
        };
        plan.add_chains(system);
        plan.add_executors(system);
        Ok(plan)
    }

    /// Steps of processor time of all callbacks.
    pub(super) fn steps(&self) -> usize {
        self.requests.len() + self.callbacks.len()
    }

    fn add_chains(&mut self, system: &System) {
        for chain in &system.chains {
            let first_callback = self.callbacks.len();
            for callback in &chain.callbacks {
                let first_request = self.requests.len();
                let first_step = self.steps();
                self.requests.extend(callback.segments.iter().map(|segment| PlannedRequest {
                    device: segment.accelerator,
                    rank: u64::from(chain.buckets[segment.accelerator]) << 32
                        | u64::from(chain.priority),
                    exec: segment.exec,
                    cpu_before_ns: segment.cpu_before_ns,
                }));
                self.callbacks.push(PlannedCallback {
                    executor: callback.executor,
                    cpu: callback.cpu,
                    requests: first_request..self.requests.len(),
                    first_step,
                });
            }
            self.chains.push(PlannedChain {
                period_ns: chain.period_ns,
                deadline_ns: chain.deadline_ns,
                jitter_ns: chain.jitter_ns,
                spins: chain.wait == Wait::Spin,
                callbacks: first_callback..self.callbacks.len(),
            });
        }
    }

    fn add_executors(&mut self, system: &System) {
        let by_priority = system.chains_by_priority();
        for (index, executor) in system.executors.iter().enumerate() {
            let is_here = |&chain: &usize| {
                system.chains[chain].callbacks.iter().any(|callback| callback.executor == index)
            };
            let core = self.cores.iter().position(|core| core.id == executor.core);
            self.executors.push(PlannedExecutor {
                core: core.expect("every executor's core is listed"),
                chains: by_priority.iter().copied().filter(is_here).collect(),
            });
        }
    }
}

fn cores(system: &System) -> Vec<PlannedCore> {
    let mut ids: Vec<u32> = system.executors.iter().map(|executor| executor.core).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(|id| core(system, id)).collect()
}

fn core(system: &System, id: u32) -> PlannedCore {
    let here = |&executor: &usize| system.executors[executor].core == id;
    let mut executors: Vec<usize> = (0..system.executors.len()).filter(here).collect();
    executors.sort_by_key(|&executor| Reverse(system.executors[executor].priority));
    let is_shared = |&&executor: &&usize| system.executors[executor].priority == 0;
    let shared = executors.iter().filter(is_shared).count();
    PlannedCore { id, executors, shared }
}

fn devices(system: &System) -> Vec<PlannedDevice> {
    let device = |accelerator| {
        let users = || system.chains.iter().filter(move |chain| chain.uses(accelerator));
        let mut buckets = users().map(|chain| chain.buckets[accelerator]);
        let first = buckets.next();
        let mut clients: Vec<usize> = users()
            .flat_map(|chain| &chain.callbacks)
            .filter(|callback| callback.segments.iter().any(|s| s.accelerator == accelerator))
            .map(|callback| callback.executor)
            .collect();
        clients.sort_unstable();
        clients.dedup();
        PlannedDevice { preempts: buckets.any(|bucket| Some(bucket) != first), clients }
    };
    (0..system.accelerators.len()).map(device).collect()
}
