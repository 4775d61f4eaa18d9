//! One process with executors of a graph.
//!
//! By its [`Spec`] it joins the graph, registers its accelerator requests,
//! waits until everybody whom it sends to is found, answers [`Answer::Ready`], and waits for the
//! start instant. Then its executors run until the end; its last message is [`Answer::Done`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use accel::{Request, Wait};
use anyhow::Context;
use executor::{Executor, Group, Period, Policy, Settings, Thread};
use graph_bounds::callback_name;
use realtime::clock::monotonic_ns;
use realtime::machine;
use realtime::mutex::PiMutex;
use realtime::thread;
use realtime::work::Calibration;
use serde::{Deserialize, Serialize};
use stats::Summary;
use system::{Graph, Segment, System};
use trial::Parent;

use super::node::{self, Ask, Callback, Memory, Node};
use super::plan::ExecutorPlan;
use super::record::{Failures, PathRecord, Record, Tally};
use super::wire::{Output, Setup, Wire};
use crate::chains::access::{Direct, Way, registration};
use crate::chains::plan::request_plan;
use crate::chains::server::READY_NS;

/// Task of a process: the first message of its parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
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

/// Privileges that the system refused to a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Refused {
    /// Reason why its memory is not locked.
    pub lock: Option<String>,
}

/// Answer of the process.
pub type Answer = trial::Answer<Refused, ProcessReport>;

/// Report of one process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Delay of its start after the start instant, in nanoseconds.
    pub late_ns: u64,
    /// Its executors.
    pub executors: Vec<ExecutorReport>,
    /// The paths that end here, by number in the file.
    pub paths: Vec<(usize, PathRecord)>,
    /// The periods of cyclic nodes, by number in the file.
    pub cycles: Vec<(usize, Vec<u64>)>,
    /// The longest processor time that the work of each node took, nanoseconds, by number in the file.
    pub works: Vec<(usize, u64)>,
    /// Counts of failures.
    pub failures: Failures,
}

/// Report of one executor.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ExecutorReport {
    /// Its name.
    pub id: String,
    /// Reason why it has no real-time priority, if it should have one.
    pub refused: Option<String>,
    /// Time for which its thread could have run and did not, in nanoseconds: of an executor of one
    /// thread, if it is known.
    pub run_delay_ns: Option<u64>,
    /// Its callbacks.
    pub callbacks: Vec<CallbackReport>,
}

/// Report of a callback.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CallbackReport {
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: u32,
    /// Number of its executions.
    pub count: u64,
    /// Messages or releases that were never served.
    pub dropped: u64,
    /// Median, 99th percentile and maximum of the response, in microseconds.
    pub response_us: Option<[f64; 3]>,
    /// The same of the execution.
    pub execution_us: Option<[f64; 3]>,
}

/// Is the process.
pub fn run(spec: &Spec, parent: &mut Parent) -> anyhow::Result<()> {
    let system = System::read(&spec.file)?;
    let graph = system.graph.as_ref().context("the file has no graph")?;
    let mut process = Process::prepare(spec, &system, graph)?;
    process.wait_until_found(graph)?;
    let lock = thread::lock_memory().err().map(|error| error.to_string());
    parent.tell(&Answer::Ready(Refused { lock }))?;
    let report = process.run(spec, graph, parent.hear()?)?;
    parent.tell(&Answer::Done(report))
}

/// Executors that wait for the start.
struct Process {
    executors: Vec<Prepared>,
    outputs: BTreeMap<String, Arc<Output>>,
    /// The nodes are on the graph as long as it is.
    _wire: Wire,
    record: Arc<Record>,
    tally: Arc<Tally>,
}

/// An executor with its requests, and what its nodes will do.
struct Prepared {
    executor: Executor,
    plan: ExecutorPlan,
    /// By node and input, none for the timer.
    asks: BTreeMap<(usize, Option<usize>), Vec<Ask>>,
    works: BTreeMap<usize, node::Work>,
    groups: BTreeMap<usize, Group>,
    inputs: BTreeMap<(usize, usize), super::wire::Incoming>,
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
        let prepared =
            spec.executors.iter().map(|plan| Prepared::new(spec, plan, system, graph, &wire));
        let executors = prepared.collect::<anyhow::Result<Vec<Prepared>>>()?;
        let record = Arc::new(Record::new(graph, &nodes, spec.duration_ns));
        Ok(Process { executors, outputs, _wire: wire, record, tally: Arc::default() })
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

    fn run(&mut self, spec: &Spec, graph: &Graph, start_ns: u64) -> anyhow::Result<ProcessReport> {
        let (record, tally, outputs) = (&self.record, &self.tally, &self.outputs);
        let stop_ns = start_ns + spec.duration_ns;
        let end_ns = stop_ns + spec.grace_ns;
        let mut running = Vec::new();
        let longest: BTreeMap<usize, Arc<AtomicU64>> =
            (0..graph.nodes.len()).map(|number| (number, Arc::default())).collect();
        let late_ns = monotonic_ns().saturating_sub(start_ns);
        for prepared in self.executors.drain(..) {
            let id = prepared.plan.id.clone();
            let at = |number: usize, work, inputs| {
                Arc::new(Node {
                    number: number as u32,
                    kind: graph.nodes[number].kind,
                    work,
                    longest_ns: longest[&number].clone(),
                    message_bytes: graph.message_bytes as usize,
                    end_ns,
                    memory: PiMutex::new(Memory::new(inputs)),
                    record: record.clone(),
                    tally: tally.clone(),
                })
            };
            let executor = prepared.build(graph, outputs, (start_ns, stop_ns), at);
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
        Ok(ProcessReport {
            late_ns,
            executors,
            paths: record.paths(),
            cycles: record.cycles(),
            works: longest
                .iter()
                .map(|(number, longest_ns)| (*number, longest_ns.load(Ordering::Relaxed)))
                .filter(|(_, longest_ns)| *longest_ns > 0)
                .collect(),
            failures: tally.failures(),
        })
    }
}

impl Prepared {
    fn new(
        spec: &Spec,
        plan: &ExecutorPlan,
        system: &System,
        graph: &Graph,
        wire: &Wire,
    ) -> anyhow::Result<Prepared> {
        let policy = if spec.ros2 { Policy::Ros2 } else { Policy::ChainAware };
        let thread = |core: &usize| Thread { cores: vec![*core], priority: plan.priority };
        let mut executor = Executor::new(policy, plan.cores.iter().map(thread).collect())?;
        let mut direct = match &spec.way {
            Way::Direct(file, cores) => Some(Direct::open(file, cores)?),
            Way::Server(_) => None,
        };
        if let Way::Server(socket) = &spec.way {
            executor.connect(socket, Wait::Suspend)?;
        }
        let (mut asks, mut works) = (BTreeMap::new(), BTreeMap::new());
        let (mut groups, mut inputs) = (BTreeMap::new(), BTreeMap::new());
        for &number in &plan.nodes {
            let node = &graph.nodes[number];
            // As in ROS 2: the callbacks of a node exclude each other if nobody says otherwise.
            groups.insert(number, executor.group(executor::Exclusion::Mutual));
            works.insert(number, work(&node.work, spec.calibration.as_ref()));
            let mut register = |input: Option<usize>, priority: u32, segments: &[Segment]| {
                let callback = callback_name(node, input.map(|input| &node.inputs[input]));
                let asked = segments.iter().enumerate().map(|(segment, of)| {
                    let request = request_plan(system, of);
                    if let Some(direct) = &mut direct {
                        return Ok(Ask::Direct(direct.lane(&request)?));
                    }
                    // Each callback has a priority of its own, and so a chain of its own; names of
                    // chains are shorter than those of two nodes may be.
                    let chain = format!("graph callback {priority}");
                    let id = (number as u64) << 32 | segment as u64;
                    let registration = registration((&chain, priority), id, &request);
                    let service = executor.register(&registration)?;
                    Ok(Ask::Server(service, Request::new().arguments(&[request.argument])))
                });
                let asked = asked.collect::<anyhow::Result<Vec<Ask>>>().context(callback.clone());
                asked.map(|asked| _ = asks.insert((number, input), asked))
            };
            if let Some(timer) = &node.timer {
                register(None, timer.priority, &timer.segments)?;
            }
            for (at, input) in node.inputs.iter().enumerate() {
                register(Some(at), input.priority, &input.segments)?;
                inputs.insert((number, at), wire.input(&node.id, &input.from, input.depth)?);
            }
        }
        Ok(Prepared { executor, plan: plan.clone(), asks, works, groups, inputs })
    }

    /// Adds the callbacks, in the order of the file.
    fn build(
        mut self,
        graph: &Graph,
        outputs: &BTreeMap<String, Arc<Output>>,
        (start_ns, stop_ns): (u64, u64),
        node: impl Fn(usize, node::Work, usize) -> Arc<Node>,
    ) -> Executor {
        for &number in &self.plan.nodes {
            let of_file = &graph.nodes[number];
            let shared = node(number, self.works[&number], of_file.inputs.len());
            let group = self.groups[&number];
            let output = |topic: Option<&str>| outputs.get(topic?).cloned();
            let settings = |input, priority| {
                Settings::new(&callback_name(of_file, input), priority).group(group)
            };
            if let Some(timer) = &of_file.timer {
                let mut callback = Callback {
                    node: shared.clone(),
                    input: None,
                    asks: self.asks.remove(&(number, None)).unwrap_or_default(),
                    output: output(Some(&of_file.id)),
                };
                let settings = settings(None, timer.priority);
                let tick = move |context: &mut _, _| callback.tick(context);
                let (first_ns, period_ns, until_ns) = (start_ns, timer.period_ns, stop_ns);
                self.executor.timer(settings, Period { first_ns, period_ns, until_ns }, tick);
            }
            for (at, input) in of_file.inputs.iter().enumerate() {
                let Some(incoming) = self.inputs.remove(&(number, at)) else { continue };
                let mut callback = Callback {
                    node: shared.clone(),
                    input: Some(at),
                    asks: self.asks.remove(&(number, Some(at))).unwrap_or_default(),
                    output: output(of_file.forwarded(input)),
                };
                let settings = settings(Some(input), input.priority);
                let receive = move |context: &mut _, message| callback.receive(context, message);
                self.executor.subscription(settings, incoming, receive);
            }
        }
        self.executor
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
        let of = |time: fn(&executor::Sample) -> u64, max_ns: u64| {
            let us = |ns: u64| ns as f64 / 1e3;
            let samples: Vec<f64> = callback.samples.iter().map(|s| us(time(s))).collect();
            Summary::of(&samples).map(|all| [all.p50, all.p99, us(max_ns)])
        };
        CallbackReport {
            response_us: of(|sample| sample.response_ns, callback.response_max_ns),
            execution_us: of(|sample| sample.execution_ns, callback.execution_max_ns),
            name: callback.name,
            priority: callback.priority,
            count: callback.count,
            dropped: callback.dropped,
        }
    });
    let callbacks = callbacks.collect();
    ExecutorReport { id, refused: report.refused, run_delay_ns: None, callbacks }
}
