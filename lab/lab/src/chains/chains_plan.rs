//! Task of each executor process, derived from the system file.
//!
//! A chain is cut into parts, runs of consecutive callbacks on one executor; an executor gets the
//! parts that are its own, and for each the executor that takes over afterwards. Everything that
//! must be the same in all processes and under all policies is decided here: release offsets,
//! numbers of releases, cores.

use accel::Wait;
use serde::{Deserialize, Serialize};
use system::{Callback, Segment, System};

use super::fold::Cores;

/// The kernel that stands for the work of a segment without a service.
const WORK: &str = "busy";
/// Kernels that need no data, which this command could not supply.
const KERNELS: [&str; 2] = [WORK, "empty"];
/// Releases of all chains together; each is one sample in memory.
const MAX_RELEASES: u64 = 20_000_000;
/// The least time that jobs have to end after the last release.
const MIN_GRACE_NS: u64 = 1_000_000_000;

/// Tasks of all executors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// The executors that have callbacks.
    pub executors: Vec<ExecutorPlan>,
    /// Number of jobs that each chain releases, in the order of the file.
    pub releases: Vec<u64>,
    /// Time for which chains are released, in nanoseconds.
    pub duration_ns: u64,
    /// Time that jobs may take to end after that: two periods of the slowest chain, at least 1 s.
    pub grace_ns: u64,
}

/// Task of one executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExecutorPlan {
    /// Its name.
    pub id: String,
    /// The core it is kept on.
    pub core: usize,
    /// `SCHED_FIFO` priority; 0 is normal scheduling.
    pub priority: u8,
    /// Time from the start to the moment when unfinished jobs are given up.
    pub patience_ns: u64,
    /// The parts of chains that it runs.
    pub parts: Vec<PartPlan>,
}

/// Consecutive callbacks of one chain on one executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartPlan {
    /// The chain.
    pub chain: ChainPlan,
    /// Position of the first callback in the chain.
    pub position: usize,
    /// The callbacks, never empty.
    pub callbacks: Vec<CallbackPlan>,
    /// Their priorities, among the callbacks of all chains.
    pub priorities: Vec<u32>,
    /// The position at which the chain goes on; none after its last part.
    pub next: Option<usize>,
}

/// Properties of a chain that an executor needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChainPlan {
    /// Its number in the file.
    pub index: usize,
    /// Its name.
    pub id: String,
    /// Larger is more critical.
    pub priority: u32,
    /// Distance between two releases.
    pub period_ns: u64,
    /// The first release, after the start.
    pub offset_ns: u64,
    /// Number of jobs that are released.
    pub releases: u64,
    /// True if it waits for accelerators with a busy core.
    pub spins: bool,
    /// True if it leaves out releases while its job before is busy.
    pub best_effort: bool,
}

/// Callback of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallbackPlan {
    /// Processor time, in equal shares before each request.
    pub cpu_ns: u64,
    /// Its requests, in order.
    pub requests: Vec<RequestPlan>,
}

/// Accelerator request of a callback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestPlan {
    /// The accelerator.
    pub accelerator: String,
    /// The service.
    pub service: String,
    /// The first argument.
    pub argument: u64,
    /// Declared time on the accelerator.
    pub exec_ns: u64,
}

impl Plan {
    /// Plans a system on these cores, with one release offset per chain.
    ///
    /// # Errors
    /// Names the service that cannot be run, or says that the run is too long.
    pub(crate) fn new(
        system: &System,
        cores: &Cores,
        offsets_ns: &[u64],
        duration_ns: u64,
    ) -> Result<Plan, anyhow::Error> {
        check_services(system)?;
        let releases: Vec<u64> = system
            .chains
            .iter()
            .zip(offsets_ns)
            .map(|(chain, offset)| duration_ns.saturating_sub(*offset).div_ceil(chain.period_ns))
            .collect();
        let total = releases.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        anyhow::ensure!(
            total <= MAX_RELEASES,
            "--duration: found {total} releases in {} s, expected at most {MAX_RELEASES}",
            duration_ns / 1_000_000_000
        );
        let slowest = system.chains.iter().map(|chain| chain.period_ns).max().unwrap_or(0);
        let grace_ns = slowest.saturating_mul(2).max(MIN_GRACE_NS);
        let planned =
            system.executors.iter().zip(&cores.executors).map(|(executor, &core)| ExecutorPlan {
                id: executor.id.clone(),
                core,
                priority: u8::try_from(executor.priority).unwrap_or(99),
                patience_ns: duration_ns.saturating_add(grace_ns),
                parts: parts(system, &executor.id, offsets_ns, &releases),
            });
        let executors = planned.filter(|executor| !executor.parts.is_empty()).collect();
        Ok(Plan { executors, releases, duration_ns, grace_ns })
    }
}

/// The first release of each chain: all at the start, or at a random time in the first period.
pub(crate) fn offsets_ns(system: &System, seed: Option<u64>) -> Vec<u64> {
    let Some(seed) = seed else { return vec![0; system.chains.len()] };
    let mut random = fastrand::Rng::with_seed(seed);
    system.chains.iter().map(|chain| random.u64(..chain.period_ns)).collect()
}

/// Returns the way in which the chain waits, for the client library.
pub(crate) fn wait(chain: &ChainPlan) -> Wait {
    if chain.spins { Wait::Spin } else { Wait::Suspend }
}

/// The parts of an executor, of chains that release at all.
fn parts(system: &System, executor: &str, offsets_ns: &[u64], releases: &[u64]) -> Vec<PartPlan> {
    let chains: Vec<(u32, usize)> =
        system.chains.iter().map(|chain| (chain.priority, chain.callbacks.len())).collect();
    let priorities = executor::priorities(&chains);
    let mut mine = Vec::new();
    for (index, chain) in system.chains.iter().enumerate() {
        let mut end = 0;
        for part in chain.parts() {
            let position = end;
            end += part.callbacks.len();
            if part.executor != executor || releases[index] == 0 {
                continue;
            }
            mine.push(PartPlan {
                chain: ChainPlan {
                    index,
                    id: chain.id.clone(),
                    priority: chain.priority,
                    period_ns: chain.period_ns,
                    offset_ns: offsets_ns[index],
                    releases: releases[index],
                    spins: chain.wait == system::Wait::Spin,
                    best_effort: chain.best_effort,
                },
                position,
                callbacks: part.callbacks.iter().map(|c| callback_plan(system, c)).collect(),
                priorities: priorities[index][position..end].into(),
                next: (end < chain.callbacks.len()).then_some(end),
            });
        }
    }
    mine
}

fn callback_plan(system: &System, callback: &Callback) -> CallbackPlan {
    let requests = callback.segments.iter().map(|segment| request_plan(system, segment)).collect();
    CallbackPlan { cpu_ns: callback.cpu_ns, requests }
}

/// Returns the request that stands for a segment.
pub(crate) fn request_plan(system: &System, segment: &Segment) -> RequestPlan {
    let service = segment.service.clone().unwrap_or_else(|| WORK.to_owned());
    let works = system.service(&service).is_none_or(|service| service.kernel == WORK);
    RequestPlan {
        accelerator: segment.accel.clone(),
        service,
        argument: if works { segment.exec_ns } else { 0 },
        // The analysis accounts for this time, A* = A + 2 kappa + sigma (PAAM, section IV-F).
        exec_ns: segment.exec_ns + 2 * system.kappa_ns + system.sigma_ns,
    }
}

fn check_services(system: &System) -> Result<(), anyhow::Error> {
    for chain in &system.chains {
        for (callback, segment) in chain
            .callbacks
            .iter()
            .flat_map(|callback| callback.segments.iter().map(move |segment| (callback, segment)))
        {
            check_service(system, segment, || {
                format!("chains.{}.callbacks.{}", chain.id, callback.id)
            })?;
        }
    }
    Ok(())
}

/// Refuses a segment that needs data; `place` says where it stands.
pub(crate) fn check_service(
    system: &System,
    segment: &Segment,
    place: impl Fn() -> String,
) -> Result<(), anyhow::Error> {
    let service = segment.service.as_deref().and_then(|name| system.service(name));
    let Some(service) = service else { return Ok(()) };
    anyhow::ensure!(
        KERNELS.contains(&service.kernel.as_str()),
        "{}: {}.segments: found service {} of kernel {}, expected one of {}: chains are run \
         without data",
        system.name,
        place(),
        service.name,
        service.kernel,
        KERNELS.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
accelerators: [{id: gpu0, buckets: 2, cores: [0]}]
services:
- {name: nothing, accelerator: gpu0, kernel: empty}
- {name: add, accelerator: gpu0, kernel: vecadd}
executors:
- {id: e1, core: 1, priority: 9}
- {id: idle, core: 1, priority: 3}
- {id: e2, core: 1, priority: 8}
chains:
- id: far
  priority: 2
  period: 10 ms
  wait: spin
  callbacks:
  - {id: a, executor: e1, cpu: 100 us, segments: [{accel: gpu0, exec: 50 us}]}
  - {id: b, executor: e1, cpu: 200 us}
  - {id: c, executor: e2, cpu: 300 us, segments: [{accel: gpu0, exec: 60 us, service: nothing}]}
  - {id: d, executor: e1, cpu: 400 us}
- id: near
  priority: 1
  period: 700 ms
  best_effort: true
  callbacks: [{id: a, executor: e2, cpu: 5 us}]
";

    fn plan(text: &str, duration_ns: u64) -> Result<Plan, anyhow::Error> {
        let system = System::parse(text, "test.yaml").unwrap();
        let cores = super::super::fold::place(&system, &[0, 1], &[])?;
        Plan::new(&system, &cores, &offsets_ns(&system, None), duration_ns)
    }

    #[test]
    fn chain_is_handed_on_where_its_executor_changes() {
        let plan = plan(TEXT, 1_000_000_000).unwrap();
        let ids: Vec<&str> = plan.executors.iter().map(|e| e.id.as_str()).collect();
        assert_eq!(ids, ["e1", "e2"], "an executor without callbacks needs no process");
        let far = |e: usize| {
            let parts = plan.executors[e].parts.iter().filter(|part| part.chain.id == "far");
            parts.map(|p| (p.position, p.callbacks.len(), p.next)).collect::<Vec<_>>()
        };
        assert_eq!(far(0), [(0, 2, Some(2)), (3, 1, None)]);
        assert_eq!(far(1), [(2, 1, Some(3))]);
        let priorities = |e: usize| plan.executors[e].parts.iter().map(|p| p.priorities.clone());
        assert!(priorities(0).eq([vec![2, 3], vec![5]]), "a later callback is more urgent");
        assert!(priorities(1).eq([vec![4], vec![1]]), "so is every one of a more urgent chain");
    }

    #[test]
    fn requests_name_the_work_and_its_time() {
        let plan = plan(TEXT, 1_000_000_000).unwrap();
        let request = &plan.executors[0].parts[0].callbacks[0].requests[0];
        assert_eq!((request.service.as_str(), request.argument), ("busy", 50_000));
        let request = &plan.executors[1].parts[0].callbacks[0].requests[0];
        assert_eq!((request.service.as_str(), request.argument), ("nothing", 0));
        assert_eq!(request.exec_ns, 60_000);
    }

    #[test]
    fn releases_fill_the_duration_and_grace_is_two_of_the_longest_periods() {
        let plan = plan(TEXT, 1_000_000_000).unwrap();
        assert_eq!(plan.releases, [100, 2]);
        assert_eq!(plan.grace_ns, 1_400_000_000);
        assert_eq!(plan.executors[0].patience_ns, 2_400_000_000);
    }

    #[test]
    fn random_offsets_lie_in_the_period_and_follow_the_seed() {
        let system = System::parse(TEXT, "test.yaml").unwrap();
        let first = offsets_ns(&system, Some(1));
        assert!(first.iter().zip(&system.chains).all(|(offset, c)| *offset < c.period_ns));
        assert_eq!(first, offsets_ns(&system, Some(1)));
        assert_ne!(first, offsets_ns(&system, Some(2)));
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        let refusal = plan(&TEXT.replace("service: nothing", "service: add"), 1).unwrap_err();
        assert!(refusal.to_string().contains("chains.far.callbacks.c"), "{refusal}");
        assert!(refusal.to_string().contains("add of kernel vecadd"), "{refusal}");
        let refusal = plan(&TEXT.replace("10 ms", "1 us"), 60_000_000_000).unwrap_err();
        assert!(refusal.to_string().starts_with("--duration: found 600000"), "{refusal}");
    }
}
