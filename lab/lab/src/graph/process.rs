//! Process with executors of a graph.
//!
//! By its [`Spec`] it joins the graph, registers its accelerator requests,
//! waits until all its receivers are found, answers [`Answer::Ready`], and waits for the
//! start instant. Then its executors run until the end; its last message is [`Answer::Done`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use executor::{Executor, ExecutorPolicy, Period, Settings, Thread};
use graph_bounds::callback_name;
use realtime::clock::monotonic_ns;
use realtime::machine;
use realtime::mutex::PiMutex;
use realtime::thread;
use realtime::work::Calibration;
use report::graph::{CallbackResult, CycleResult, PathResult, Times};
use serde::{Deserialize, Serialize};
use stats::Summary;
use system::{Graph, Segment, System};
use trial::Parent;

use super::node::{self, Callback, Memory, Node};
use super::plan::ExecutorPlan;
use super::record::{Failures, Record, Tally};
use super::wire::{Output, Setup, Wire};
use crate::chains::access::{Access, Ask, Way};
use crate::chains::chains_plan::request_plan;
use crate::chains::executor::Refused;
use crate::chains::server::READY_NS;

/// Task of a process: the first message of its parent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The system file.
    pub file: PathBuf,
    /// The executors of this process.
    pub executors: Vec<ExecutorPlan>,
    /// True if the executors choose callbacks as ROS 2 does.
    pub ros2: bool,
    /// Way by which the executors reach accelerators.
    pub way: Way,
    /// Setup of the transport of messages.
    pub wire: Setup,
    /// Speed of this machine, if that has to be known.
    pub calibration: Option<Calibration>,
    /// Time for which timers release, in nanoseconds.
    pub duration_ns: u64,
    /// Time for which callbacks may run after that, in nanoseconds.
    pub grace_ns: u64,
}

/// Answer of the process.
pub(crate) type Answer = trial::Answer<Refused, ProcessReport>;

/// Report of one process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ProcessReport {
    /// Delay of its start after the start instant, in nanoseconds.
    pub late_ns: u64,
    /// Its executors.
    pub executors: Vec<ExecutorReport>,
    /// The paths that end here.
    pub paths: Vec<PathResult>,
    /// The periods of cyclic nodes.
    pub cycles: Vec<CycleResult>,
    /// The longest processor time that the work of each node took, nanoseconds, by number in the file.
    pub works: Vec<(usize, u64)>,
    /// Counts of failures.
    pub failures: Failures,
}

/// Report of one executor.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ExecutorReport {
    /// Its name.
    pub id: String,
    /// Reason why it has no real-time priority, if it should have one.
    pub refused: Option<String>,
    /// Time for which its thread could have run and did not, in nanoseconds: of an executor of one
    /// thread, if it is known.
    pub run_delay_ns: Option<u64>,
    /// Its callbacks.
    pub callbacks: Vec<CallbackResult>,
}

/// Runs the process.
pub(crate) fn run(spec: &Spec, parent: &mut Parent) -> anyhow::Result<()> {
    let system = System::read(&spec.file)?;
    let graph = system.graph.as_ref().context("the file has no graph")?;
    let process = Process::prepare(spec, &system, graph)?;
    process.wait_until_found(graph)?;
    let lock = thread::lock_memory().err().map(|error| error.to_string());
    parent.tell(&Answer::Ready(Refused { lock }))?;
    let report = process.run(spec, parent.hear()?)?;
    parent.tell(&Answer::Done(report))
}

/// Executors that wait for the start.
struct Process {
    /// Executors by name.
    executors: Vec<(String, Executor)>,
    outputs: BTreeMap<String, Arc<Output>>,
    /// The nodes are on the graph as long as it is.
    wire: Wire,
    record: Arc<Record>,
    tally: Arc<Tally>,
    /// The longest processor time of each node here, by number in the file.
    longest: BTreeMap<usize, Arc<AtomicU64>>,
}

impl Process {
    fn prepare(spec: &Spec, system: &System, graph: &Graph) -> anyhow::Result<Process> {
        let nodes: Vec<usize> =
            spec.executors.iter().flat_map(|plan| &plan.nodes).copied().collect();
        let wire = Wire::open(&spec.wire, graph, &nodes)?;
        let mut outputs = BTreeMap::new();
        for node in nodes.iter().map(|&number| &graph.nodes[number]) {
            for topic in node.topics() {
                outputs.insert(topic.to_owned(), Arc::new(wire.output(&node.id, topic)?));
            }
        }
        let mut process = Process {
            executors: Vec::new(),
            outputs,
            wire,
            record: Arc::new(Record::new(graph, &nodes, spec.duration_ns)),
            tally: Arc::default(),
            longest: nodes.iter().map(|number| (*number, Arc::default())).collect(),
        };
        for plan in &spec.executors {
            let executor = process.executor(spec, plan, system, graph)?;
            process.executors.push((plan.id.clone(), executor));
        }
        Ok(process)
    }

    /// An executor with its callbacks, in the order of the file.
    fn executor(
        &self,
        spec: &Spec,
        plan: &ExecutorPlan,
        system: &System,
        graph: &Graph,
    ) -> anyhow::Result<Executor> {
        let policy = if spec.ros2 { ExecutorPolicy::Ros2 } else { ExecutorPolicy::ChainAware };
        let thread = |core: &usize| Thread { cores: vec![*core], priority: plan.priority };
        let mut executor = Executor::new(policy, plan.cores.iter().map(thread).collect())?;
        let mut access = Access::open(&spec.way)?;
        for &number in &plan.nodes {
            let of_file = &graph.nodes[number];
            let node = Arc::new(Node {
                number: number as u32,
                kind: of_file.kind,
                work: work(&of_file.work, spec.calibration.as_ref()),
                longest_ns: self.longest[&number].clone(),
                message_bytes: graph.message_bytes as usize,
                memory: PiMutex::new(Memory::new(of_file.inputs.len())),
                record: self.record.clone(),
                tally: self.tally.clone(),
            });
            // As in ROS 2: the callbacks of a node exclude each other by default.
            let group = executor.group(executor::Exclusion::Mutual);
            let mut asks =
                |executor: &mut Executor, name: &str, priority: u32, segments: &[Segment]| {
                    // Each callback has a priority of its own, and so a chain of its own; names of
                    // chains are shorter than those of two nodes may be.
                    let chain = format!("graph callback {priority}");
                    let ask = |(segment, of): (usize, &Segment)| {
                        let id = (number as u64) << 32 | segment as u64;
                        access.register(
                            executor,
                            (chain.as_str(), priority),
                            id,
                            &request_plan(system, of),
                        )
                    };
                    let asks = segments.iter().enumerate().map(ask);
                    asks.collect::<anyhow::Result<Vec<Ask>>>().context(name.to_owned())
                };
            if let Some(timer) = &of_file.timer {
                let (name, priority) = (callback_name(of_file, None), timer.priority);
                let asks = asks(&mut executor, &name, priority, &timer.segments)?;
                let output = self.outputs.get(&of_file.id).cloned();
                let mut callback = Callback { node: node.clone(), input: None, asks, output };
                let period =
                    Period { until_ns: spec.duration_ns, ..Period::new(0, timer.period_ns) };
                let tick = move |context: &mut _, _| callback.tick(context);
                executor.timer(Settings::new(&name, priority).group(group), period, tick);
            }
            for (at, input) in of_file.inputs.iter().enumerate() {
                let (name, priority) = (callback_name(of_file, Some(input)), input.priority);
                let asks = asks(&mut executor, &name, priority, &input.segments)?;
                let topic = of_file.forwarded(input);
                let output = topic.and_then(|topic| self.outputs.get(topic)).cloned();
                let mut callback = Callback { node: node.clone(), input: Some(at), asks, output };
                let incoming = self.wire.input(&of_file.id, &input.from, input.depth)?;
                let receive = move |context: &mut _, message| callback.receive(context, message);
                executor.subscription(
                    Settings::new(&name, priority).group(group),
                    incoming,
                    receive,
                );
            }
        }
        Ok(executor)
    }

    /// Waits until every subscription of every topic that is sent from here is found.
    fn wait_until_found(&self, graph: &Graph) -> anyhow::Result<()> {
        let until_ns = monotonic_ns() + READY_NS;
        for (topic, output) in &self.outputs {
            let wanted = graph.subscriptions(topic);
            while !output.reaches(wanted) {
                anyhow::ensure!(
                    monotonic_ns() < until_ns,
                    "{topic}: not all of its {wanted} subscriptions were found by DDS"
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    fn run(self, spec: &Spec, start_ns: u64) -> anyhow::Result<ProcessReport> {
        let end_ns = start_ns + spec.duration_ns + spec.grace_ns;
        let mut running = Vec::new();
        let late_ns = monotonic_ns().saturating_sub(start_ns);
        for (id, mut executor) in self.executors {
            executor.start_at(start_ns);
            let builder = std::thread::Builder::new().name(id.clone());
            let run = move || {
                let delay_ns = || machine::run_delay_ns(realtime::thread::id());
                let before_ns = delay_ns();
                let ran = executor.run(end_ns);
                (ran, delay_ns().zip(before_ns).map(|(after, before)| after.saturating_sub(before)))
            };
            running.push((id, builder.spawn(run)?));
        }
        let mut executors = Vec::new();
        for (id, thread) in running {
            let ended = thread.join().map_err(|_| anyhow::anyhow!("executor {id} panicked"));
            let (ran, run_delay_ns) = ended?;
            executors.push(ExecutorReport { run_delay_ns, ..report(id, ran?) });
        }
        let longest = self.longest.iter();
        let works = longest.map(|(number, ns)| (*number, ns.load(Ordering::Relaxed)));
        Ok(ProcessReport {
            late_ns,
            executors,
            paths: self.record.paths(),
            cycles: self.record.cycles(),
            works: works.filter(|(_, longest_ns)| *longest_ns > 0).collect(),
            failures: self.tally.failures(),
        })
    }
}

fn work(work: &system::Work, calibration: Option<&Calibration>) -> node::Work {
    match (*work, calibration) {
        (system::Work::Cpu(ns), Some(calibration)) => {
            node::Work::Iterations(calibration.iterations(ns))
        }
        (system::Work::Primes { limit, .. }, _) => node::Work::Primes(limit),
        (system::Work::None | system::Work::Cpu(_), _) => node::Work::None,
    }
}

fn report(id: String, report: executor::Report) -> ExecutorReport {
    let callbacks = report.callbacks.into_iter().map(|callback| {
        let times = |time: fn(&executor::Sample) -> u64, max_ns: u64| {
            let samples: Vec<u64> = callback.samples.iter().map(time).collect();
            Summary::of_ns(&samples).map(|all| Times { p50: all.p50, p99: all.p99, max: max_ns })
        };
        CallbackResult {
            response_ns: times(|sample| sample.response_ns, callback.response_max_ns),
            execution_ns: times(|sample| sample.execution_ns, callback.execution_max_ns),
            id: callback.name,
            executor: id.clone(),
            priority: callback.priority,
            count: callback.count,
            dropped: callback.dropped,
        }
    });
    let callbacks = callbacks.collect();
    ExecutorReport { id, refused: report.refused, run_delay_ns: None, callbacks }
}
