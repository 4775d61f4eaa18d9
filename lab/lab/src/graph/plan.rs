//! Assignment of nodes to executors, with cores and priorities.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use system::{Graph, Node, System};

use crate::chains::chains_plan::check_service;
use crate::chains::fold::Cores;

/// Number of threads that executors have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Threads {
    /// One thread for each executor of the file.
    Single,
    /// All nodes in one executor with a thread on each core of the file's executors.
    Multi,
}

/// Plan of an executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecutorPlan {
    /// Its name.
    pub id: String,
    /// The core of each of its threads.
    pub cores: Vec<usize>,
    /// `SCHED_FIFO` priority; 0 is normal scheduling.
    pub priority: u8,
    /// Its nodes, by number in the file.
    pub nodes: Vec<usize>,
}

/// The executors that have nodes.
///
/// # Errors
/// Names a segment that needs data, which there is none of.
pub(super) fn executors(
    system: &System,
    graph: &Graph,
    cores: &Cores,
    threads: Threads,
) -> anyhow::Result<Vec<ExecutorPlan>> {
    for node in &graph.nodes {
        for segment in node.segments() {
            check_service(system, segment, || format!("graph.nodes.{}", node.id))?;
        }
    }
    let single = system.executors.iter().zip(&cores.executors).map(|(executor, &core)| {
        let here = |(_, node): &(usize, &Node)| node.executor == executor.id;
        let nodes = graph.nodes.iter().enumerate().filter(here);
        ExecutorPlan {
            id: executor.id.clone(),
            cores: vec![core],
            priority: u8::try_from(executor.priority).unwrap_or(99),
            nodes: nodes.map(|(number, _)| number).collect(),
        }
    });
    let mut plans: Vec<ExecutorPlan> = single.filter(|plan| !plan.nodes.is_empty()).collect();
    if threads == Threads::Multi {
        // One thread for each core of the file, even where several fell onto one core here.
        let named = system.executors.iter().zip(&cores.executors);
        let used = named.filter(|(executor, _)| plans.iter().any(|plan| plan.id == executor.id));
        let cores: BTreeSet<(u32, usize)> =
            used.map(|(executor, &core)| (executor.core, core)).collect();
        plans = vec![ExecutorPlan {
            id: "all".into(),
            cores: cores.into_iter().map(|(_, core)| core).collect(),
            priority: plans.iter().map(|plan| plan.priority).max().unwrap_or(0),
            nodes: (0..graph.nodes.len()).collect(),
        }];
    }
    Ok(plans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph_bounds::callback_name;

    const TEXT: &str = "
executors:
- {id: front, core: 5, priority: 80}
- {id: rear, core: 3, priority: 70}
- {id: idle, core: 9, priority: 90}
graph:
  nodes:
  - {id: lidar, kind: sensor, executor: rear, period: 10 ms, priority: 1}
  - {id: filter, kind: transform, executor: front, inputs: [{from: lidar, priority: 2}]}
  - {id: plan, kind: cyclic, executor: front, period: 10 ms, priority: 4, inputs: [{from: filter, priority: 3}]}
";

    fn plans(threads: Threads) -> Vec<ExecutorPlan> {
        let system = System::parse(TEXT, "test.yaml").unwrap();
        let cores = Cores { executors: vec![1, 1, 0], ..Cores::default() };
        executors(&system, system.graph.as_ref().unwrap(), &cores, threads).unwrap()
    }

    #[test]
    fn single_threaded_executors_are_those_of_the_file_that_have_nodes() {
        let expected = |id: &str, priority, nodes: &[usize]| ExecutorPlan {
            id: id.into(),
            cores: vec![1],
            priority,
            nodes: nodes.into(),
        };
        assert_eq!(
            plans(Threads::Single),
            [expected("front", 80, &[1, 2]), expected("rear", 70, &[0])]
        );
    }

    #[test]
    fn multi_threaded_executor_has_a_thread_for_each_core_of_the_file() {
        let all = plans(Threads::Multi);
        assert_eq!((all.len(), &all[0].cores, all[0].priority), (1, &vec![1, 1], 80));
        assert_eq!(all[0].nodes, [0, 1, 2]);
    }

    #[test]
    fn callbacks_are_named_after_their_node_and_what_they_wait_for() {
        let system = System::parse(TEXT, "test.yaml").unwrap();
        let nodes = &system.graph.as_ref().unwrap().nodes;
        let names =
            [callback_name(&nodes[0], None), callback_name(&nodes[1], nodes[1].inputs.first())];
        assert_eq!(names, ["lidar (timer)", "filter"]);
        assert_eq!(callback_name(&nodes[2], nodes[2].inputs.first()), "plan < filter");
    }
}
