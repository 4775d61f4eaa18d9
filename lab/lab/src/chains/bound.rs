//! The guaranteed response times beside which the observed ones are shown.
//!
//! The bounds hold for the run itself: the executors on the cores of this machine, not those of the
//! file. The bounds assume that an accelerator has its compute cores to itself; if folding takes
//! that away, there are none.

use analysis::{Refusal, Status, Variant};
use system::System;

use super::fold::Cores;

/// The bounds of one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Bound of each chain, where it has a guarantee under the priority policy.
    pub guaranteed_ns: Vec<Option<u64>>,
    /// Reasons why some chains have no bound.
    pub marks: Vec<String>,
}

/// Bounds every chain as it is placed on this machine.
pub(crate) fn bounds(system: &System, cores: &Cores) -> Bounds {
    let nothing = vec![None; system.chains.len()];
    if let Some(reason) = shared_cores(system, cores) {
        return Bounds { guaranteed_ns: nothing, marks: vec![format!("no bounds: {reason}")] };
    }
    let mut model = system.model();
    for (executor, &core) in model.executors.iter_mut().zip(&cores.executors) {
        executor.core = u32::try_from(core).unwrap_or(u32::MAX);
    }
    let analysis = match analysis::analyze(&model, Variant::Tight) {
        Ok(analysis) => analysis,
        Err(error) => {
            let marks = vec![format!("no bounds: {error}")];
            return Bounds { guaranteed_ns: nothing, marks };
        }
    };
    let guaranteed_ns = analysis.chains.iter().map(|chain| match chain.status {
        Status::Ok => chain.response_ns,
        _ => None,
    });
    let late = system
        .chains
        .iter()
        .zip(&analysis.chains)
        .filter(|(chain, bound)| !chain.best_effort && bound.status != Status::Ok);
    let reasons: Vec<String> = late
        .map(|(chain, bound)| match &bound.refusal {
            Some(refusal) => format!("{} ({})", chain.id, reason(system, refusal)),
            None => chain.id.clone(),
        })
        .collect();
    let marks = match reasons.is_empty() {
        true => Vec::new(),
        false => vec![format!("no bound within the deadline: {}", reasons.join(", "))],
    };
    Bounds { guaranteed_ns: guaranteed_ns.collect(), marks }
}

fn reason(system: &System, refusal: &Refusal) -> String {
    let chain = |index: usize| system.chains[index].id.as_str();
    match *refusal {
        Refusal::Late { missing_ns, .. } => {
            format!("at least {:.3} ms over it", missing_ns as f64 / 1e6)
        }
        Refusal::Overload { accelerator, .. } => {
            format!("{} is full", system.accelerators[accelerator].id)
        }
        Refusal::Relies { chain: on } => format!("relies on {}", chain(on)),
        Refusal::Concurrent { accelerator } => {
            format!("lowest bucket of {}", system.accelerators[accelerator].id)
        }
    }
}

/// Cores that two things use which the bounds keep apart.
pub(crate) fn shared_cores(system: &System, cores: &Cores) -> Option<String> {
    for (place, accelerator) in system.accelerators.iter().enumerate() {
        let id = &accelerator.id;
        let own = cores.accelerators.get(id).map(Vec::as_slice).unwrap_or_default();
        if own.is_empty() {
            return Some(format!("{id} has no core of its own"));
        }
        if let Some(core) = own.iter().find(|core| cores.executors.contains(core)) {
            return Some(format!("{id} shares core {core} with executors"));
        }
        for other in &system.accelerators[..place] {
            let theirs = cores.accelerators.get(&other.id).map(Vec::as_slice).unwrap_or_default();
            if let Some(core) = own.iter().find(|core| theirs.contains(core)) {
                return Some(format!("{id} shares core {core} with {}", other.id));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system() -> System {
        let text = "
accelerators: [{id: gpu0, buckets: 2, cores: [0]}]
executors:
- {id: e1, core: 1, priority: 9}
- {id: e2, core: 2, priority: 8}
chains:
- {id: high, priority: 2, period: 100 ms, callbacks: [{id: c, executor: e1, cpu: 10 ms}]}
- {id: low, priority: 1, period: 100 ms, callbacks: [{id: c, executor: e2, cpu: 20 ms}]}
";
        System::parse(text, "bounds.yaml").unwrap()
    }

    fn cores(accelerator: usize, executors: [usize; 2]) -> Cores {
        Cores {
            accelerators: [("gpu0".to_owned(), vec![accelerator])].into(),
            executors: executors.to_vec(),
            ..Cores::default()
        }
    }

    #[test]
    fn what_is_bounded_is_the_folded_system() {
        let apart = bounds(&system(), &cores(0, [1, 2]));
        assert_eq!(apart.guaranteed_ns, [Some(10_000_000), Some(20_000_000)]);
        let folded = bounds(&system(), &cores(0, [1, 1]));
        assert_eq!(folded.guaranteed_ns, [Some(10_000_000), Some(30_000_000)]);
        assert!(folded.marks.is_empty());
    }

    #[test]
    fn accelerator_without_a_core_of_its_own_leaves_no_bounds() {
        let shared = bounds(&system(), &cores(1, [1, 1]));
        assert_eq!(shared.guaranteed_ns, [None, None]);
        assert_eq!(shared.marks, ["no bounds: gpu0 shares core 1 with executors"]);
    }

    #[test]
    fn chain_without_a_bound_says_how_much_is_missing() {
        let mut system = system();
        system.chains[1].deadline_ns = 25_000_000;
        let bounds = bounds(&system, &cores(0, [1, 1]));
        assert_eq!(bounds.guaranteed_ns, [Some(10_000_000), None]);
        assert!(bounds.marks[0].contains("low (at least 5.000 ms over it)"), "{bounds:?}");
    }
}
