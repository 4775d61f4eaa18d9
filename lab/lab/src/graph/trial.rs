//! One method: start the server and the executors, let the graph run, collect what they say.
//!
//! The same pinning, priorities and locked memory under every method; a method is only who chooses
//! among callbacks, and who chooses among accelerator requests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use realtime::clock::monotonic_ns;
use realtime::machine::{self, RtLimits};
use realtime::work::Calibration;
use report::graph::{CallbackResult, CycleResult, MethodRun, PathResult, Times};
use ros::Neighbours;
use system::{DeviceKind, Graph, Policy, System};
use trial::{Child, Children};

use super::plan::ExecutorPlan;
use super::process::{CallbackReport, ProcessReport, Refused, Spec};
use super::wire::{Setup, Transport};
use crate::chains::access::Way;
use crate::chains::disturbance::{
    Evidence, LOST_SHARE, Snapshot, Summary, kept_back, milliseconds, percent,
};
use crate::chains::executor::Report;
use crate::chains::fold::Cores;
use crate::chains::progress::Progress;
use crate::chains::server::{self, END_NS, READY_NS, SECOND_NS, ServerProcess};
use crate::chains::trial::{normal_priority, unlocked};
use crate::child::Order;

/// From the announcement of the start instant to the start.
const LEAD_NS: u64 = SECOND_NS / 2;
/// The least time that callbacks have to end after the last release.
const MIN_GRACE_NS: u64 = SECOND_NS;

/// Authority that chooses among callbacks, and among accelerator requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Method {
    /// The executors of ROS 2; each process has devices of its own
    Ros2,
    /// Chain-aware executors; each process has devices of its own
    Picas,
    /// Chain-aware executors, and the accelerator server by chain priority
    Keeptime,
}

impl Method {
    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Method::Ros2 => "ros2",
            Method::Picas => "picas",
            Method::Keeptime => "keeptime",
        }
    }
}

/// Parameters that are the same under every method.
pub struct Trial<'a> {
    /// The system.
    pub system: &'a System,
    /// Its graph.
    pub graph: &'a Graph,
    /// Its file.
    pub file: &'a Path,
    /// Cores of accelerators, server and executors.
    pub cores: &'a Cores,
    /// The executors.
    pub executors: &'a [ExecutorPlan],
    /// Transport that carries messages.
    pub transport: Transport,
    /// The domain of DDS.
    pub domain: u16,
    /// Speed of this machine, if that has to be known.
    pub calibration: Option<Calibration>,
    /// Time for which timers release, in nanoseconds.
    pub duration_ns: u64,
    /// Set by a signal.
    pub interrupted: Arc<AtomicBool>,
}

/// The longest processor time of a node's work, and what the file declares.
struct Longest<'a> {
    node: &'a str,
    longest_ns: u64,
    declared_ns: u64,
}

impl Longest<'_> {
    /// Returns the longest time as a multiple of the declared one.
    fn share(&self) -> f64 {
        self.longest_ns as f64 / self.declared_ns as f64
    }

    fn fact(&self) -> (String, String) {
        let [longest, declared] = [self.longest_ns, self.declared_ns].map(milliseconds);
        let (share, node) = (self.share(), self.node);
        let words =
            format!("{share:.2} times as long as declared, {node}: {longest} of {declared}");
        ("longest processor time".into(), words)
    }
}

impl Trial<'_> {
    /// Runs the graph under a method.
    ///
    /// # Errors
    /// Whatever fails takes everything down with it.
    pub fn run(&self, method: Method, progress: &mut Progress) -> anyhow::Result<MethodRun> {
        self.ran(method, method.name(), progress).map(|(run, _)| run)
    }

    /// Runs the graph under a method for the longest processor time of a node, by that which the
    /// file declares; 1 where it declares none.
    ///
    /// # Errors
    /// Whatever fails takes everything down with it.
    pub fn longest_work(&self, method: Method, progress: &mut Progress) -> anyhow::Result<f64> {
        let name = format!("{}, rehearsal", method.name());
        let (_, longest) = self.ran(method, &name, progress)?;
        Ok(longest.map_or(1.0, |longest| longest.share()))
    }

    fn ran(
        &self,
        method: Method,
        name: &str,
        progress: &mut Progress,
    ) -> anyhow::Result<(MethodRun, Option<Longest<'_>>)> {
        let folder = server::private_folder()?;
        // Declared after the folder, so that the processes end before it goes.
        let mut children = Children::new(self.interrupted.clone());
        progress.begin(&format!("{name}: starting"));
        let (file, cores) = (self.file, self.cores);
        let process =
            ServerProcess { file, cores, folder: folder.path(), interrupted: &self.interrupted };
        let mut server = match method {
            Method::Keeptime => Some(process.start(Policy::Priority)?),
            Method::Ros2 | Method::Picas => None,
        };
        let specs = self.specs(method, folder.path())?;
        // Each process takes part twice.
        let is_crowded =
            self.transport == Transport::Dds && 2 * specs.len() > Neighbours::NOT_NEEDED;
        let neighbours = is_crowded.then(|| Neighbours::new(self.domain)).transpose()?;
        for spec in &specs {
            let ids: Vec<&str> = spec.executors.iter().map(|plan| plan.id.as_str()).collect();
            let name = format!("executor {}", ids.join(", "));
            children.add(Child::order(&name, &Order::GraphExecutor(spec.clone()))?)?;
        }
        let refused: Vec<Refused> = children.ready(monotonic_ns() + 2 * READY_NS)?;
        let before = Snapshot::take(self.cores.used());
        let start_ns = monotonic_ns() + LEAD_NS;
        children.tell(&start_ns)?;
        let stop_ns = start_ns + self.duration_ns;
        let until_ns = stop_ns + self.grace_ns() + END_NS;
        let reports: Vec<ProcessReport> =
            children.reports(until_ns, || progress.left(name, stop_ns))?;
        drop(neighbours);
        let duration_ns = monotonic_ns().saturating_sub(start_ns);
        let after = Snapshot::take(self.cores.used());
        let (summary, lost) = match &mut server {
            Some(server) => process.stop(server),
            None => (None, None),
        };
        let mut marks =
            self.refused_marks(&reports, &unlocked_ids(&specs, &refused), summary.as_ref());
        marks.extend(lost);
        marks.extend(failure_marks(&reports));
        let late: Vec<(String, Report)> = specs
            .iter()
            .zip(&reports)
            .map(|(spec, report)| {
                let id = spec.executors.first().map_or(String::new(), |plan| plan.id.clone());
                (id, Report { late_ns: report.late_ns, ..Report::default() })
            })
            .collect();
        let units = self.cores.accelerators.iter().map(|(id, cores)| (id.clone(), cores.len()));
        let software = self.system.accelerators.iter();
        let software = software.filter(|accelerator| accelerator.device == DeviceKind::Cpu);
        let evidence = Evidence {
            duration_ns,
            before,
            after,
            limits: machine::rt_limits(),
            summary,
            units: units.collect(),
            software: software.map(|accelerator| accelerator.id.as_str()).collect(),
            executors: late.iter().map(|(id, report)| (id.as_str(), report)).collect(),
        };
        marks.extend(evidence.marks());
        marks.extend(kept_from_core(self.executors, &reports, duration_ns, &machine::rt_limits()));
        let longest = self.longest(&reports);
        let run = MethodRun {
            method: method.name().into(),
            marks,
            paths: self.paths(&reports),
            cycles: self.cycles(&reports),
            callbacks: callbacks(&reports),
            facts: evidence
                .facts()
                .into_iter()
                .chain(longest.as_ref().map(Longest::fact))
                .collect(),
        };
        Ok((run, longest))
    }

    /// The node whose work took the longest, compared with what the file declares.
    fn longest(&self, reports: &[ProcessReport]) -> Option<Longest<'_>> {
        let works = reports.iter().flat_map(|report| &report.works);
        let longest = works.filter_map(|(number, longest_ns)| {
            let node = self.graph.nodes.get(*number)?;
            let declared_ns = node.work.cpu_ns().filter(|ns| *ns > 0)?;
            Some(Longest { node: &node.id, longest_ns: *longest_ns, declared_ns })
        });
        longest.max_by(|a, b| a.share().total_cmp(&b.share()))
    }

    /// Returns the time for which callbacks may run after the last release: two periods of the
    /// slowest timer, at least 1 s.
    fn grace_ns(&self) -> u64 {
        let periods =
            self.graph.nodes.iter().filter_map(|node| Some(node.timer.as_ref()?.period_ns));
        periods.max().unwrap_or(0).saturating_mul(2).max(MIN_GRACE_NS)
    }

    /// One process for each executor, or one for all where they share queues.
    fn specs(&self, method: Method, folder: &Path) -> anyhow::Result<Vec<Spec>> {
        let file = std::path::absolute(self.file)?;
        let namespace = format!("/keeptime_{}_{}", std::process::id(), method.name());
        let processes: Vec<&[ExecutorPlan]> = match self.transport {
            Transport::Dds => self.executors.chunks(1).collect(),
            Transport::Shared => vec![self.executors],
        };
        let count = processes.len();
        let spec = |(process, executors): (usize, &[ExecutorPlan])| {
            let mut cores: Vec<usize> =
                executors.iter().flat_map(|plan| &plan.cores).copied().collect();
            cores.sort_unstable();
            cores.dedup();
            let highest = executors.iter().map(|plan| plan.priority).max().unwrap_or(0);
            Spec {
                file: file.clone(),
                executors: executors.to_vec(),
                ros2: method == Method::Ros2,
                way: match method {
                    Method::Keeptime => Way::Server(server::socket(folder)),
                    Method::Ros2 | Method::Picas => {
                        let cores = self.cores.of_process(self.system, (process, count));
                        Way::Direct(file.clone(), cores)
                    }
                },
                wire: Setup {
                    transport: self.transport,
                    domain: self.domain,
                    namespace: namespace.clone(),
                    cores,
                    // Not above it: a channel of Rust's standard library spins while a sender is
                    // between its two steps, and on one core the sender would never make the
                    // second one. The executor yields to its own priority between callbacks.
                    priority: highest,
                },
                calibration: self.calibration,
                duration_ns: self.duration_ns,
                grace_ns: self.grace_ns(),
            }
        };
        Ok(processes.into_iter().enumerate().map(spec).collect())
    }

    fn refused_marks(
        &self,
        reports: &[ProcessReport],
        unlocked_ids: &[String],
        summary: Option<&Summary>,
    ) -> Vec<String> {
        let mut wanted = self.executors.iter().filter(|plan| plan.priority > 0).count();
        let executors = reports.iter().flat_map(|report| &report.executors);
        let refused = executors.filter(|executor| executor.refused.is_some());
        let mut without: Vec<String> = refused.map(|executor| executor.id.clone()).collect();
        if let Some(summary) = summary.filter(|_| self.system.server.priority > 0) {
            wanted += 1 + summary.accelerators.len();
            without.extend((!summary.realtime).then(|| "the server".to_owned()));
            let accelerators = summary.accelerators.iter().filter(|(_, a)| !a.realtime);
            without.extend(accelerators.map(|(id, _)| id.clone()));
        }
        let normal = (!without.is_empty()).then(|| normal_priority(&without, wanted));
        let free = !unlocked_ids.is_empty();
        normal
            .into_iter()
            .chain(free.then(|| unlocked(unlocked_ids, self.executors.len())))
            .collect()
    }

    fn paths(&self, reports: &[ProcessReport]) -> Vec<PathResult> {
        let of = |number: usize| {
            let mut seen = reports.iter().flat_map(|report| &report.paths);
            seen.find(|(path, _)| *path == number).map(|(_, seen)| seen)
        };
        let paths = self.graph.paths.iter().enumerate();
        paths
            .filter_map(|(number, path)| {
                let seen = of(number)?;
                Some(PathResult {
                    id: path.id.clone(),
                    latency_us: seen.latency_ns.iter().map(|ns| *ns as f64 / 1e3).collect(),
                    dropped: seen.dropped.clone(),
                })
            })
            .collect()
    }

    fn cycles(&self, reports: &[ProcessReport]) -> Vec<CycleResult> {
        let all = reports.iter().flat_map(|report| &report.cycles);
        let of = |(node, periods_ns): &(usize, Vec<u64>)| CycleResult {
            id: self.graph.nodes[*node].id.clone(),
            period_us: periods_ns.iter().map(|ns| *ns as f64 / 1e3).collect(),
        };
        all.map(of).collect()
    }
}

/// The executors of processes whose memory is not locked.
fn unlocked_ids(specs: &[Spec], refused: &[Refused]) -> Vec<String> {
    let processes = specs.iter().zip(refused).filter(|(_, refused)| refused.lock.is_some());
    processes.flat_map(|(spec, _)| &spec.executors).map(|plan| plan.id.clone()).collect()
}

/// Names each executor that is the most urgent on its core and had to wait for it.
fn kept_from_core(
    plans: &[ExecutorPlan],
    reports: &[ProcessReport],
    duration_ns: u64,
    limits: &RtLimits,
) -> Vec<String> {
    let is_first = |plan: &&ExecutorPlan| {
        let [core] = plan.cores[..] else { return false };
        let rival = |other: &ExecutorPlan| {
            other.id != plan.id && other.cores.contains(&core) && other.priority >= plan.priority
        };
        plan.priority > 0 && !plans.iter().any(rival)
    };
    let seen = |id: &str| {
        let mut all = reports.iter().flat_map(|report| &report.executors);
        all.find(|report| report.id == id && report.refused.is_none())?.run_delay_ns
    };
    let mark = |plan: &ExecutorPlan| {
        let delay_ns = seen(&plan.id)?;
        let share = delay_ns as f64 / duration_ns.max(1) as f64;
        (share > LOST_SHARE).then(|| {
            let (id, core, cause) = (&plan.id, plan.cores[0], limits.kept_back().map(kept_back));
            let (delay, share) = (milliseconds(delay_ns), percent(share));
            let cause = cause.unwrap_or_default();
            format!(
                "{id} is the most urgent on core {core} and waited {delay} ({share}) for it{cause}"
            )
        })
    };
    plans.iter().filter(is_first).filter_map(mark).collect()
}

fn failure_marks(reports: &[ProcessReport]) -> Vec<String> {
    let sum = |count: fn(&ProcessReport) -> u64| reports.iter().map(count).sum::<u64>();
    let error = reports.iter().find_map(|report| report.failures.error.as_deref());
    let error = error.map_or(String::new(), |error| format!(": {error}"));
    let told = [
        (sum(|report| report.failures.failed), "callbacks lost to failed requests"),
        (sum(|report| report.failures.unsent), "messages could not be sent"),
    ];
    let told = told.iter().filter(|(count, _)| *count > 0);
    let mut marks: Vec<String> =
        told.map(|(count, what)| format!("{count} {what}{error}")).collect();
    let unfinished = sum(|report| report.failures.unfinished);
    if unfinished > 0 {
        marks.push(format!("{unfinished} callbacks still waited for an accelerator at the end"));
    }
    marks
}

fn callbacks(reports: &[ProcessReport]) -> Vec<CallbackResult> {
    let executors = reports.iter().flat_map(|report| &report.executors);
    let mut all: Vec<CallbackResult> = executors
        .flat_map(|executor| {
            executor.callbacks.iter().map(|callback| {
                let CallbackReport { name, priority, count, dropped, .. } = callback;
                let times =
                    |times: Option<[f64; 3]>| times.map(|[p50, p99, max]| Times { p50, p99, max });
                CallbackResult {
                    id: name.clone(),
                    executor: executor.id.clone(),
                    priority: *priority,
                    count: *count,
                    dropped: *dropped,
                    response_us: times(callback.response_us),
                    execution_us: times(callback.execution_us),
                }
            })
        })
        .collect();
    all.sort_by_key(|callback| std::cmp::Reverse(callback.priority));
    all
}
