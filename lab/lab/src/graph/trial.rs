//! Run of one method: start the server and the executors, let the graph run, collect their reports.
//!
//! The same pinning, priorities and locked memory under every method; a method is only who chooses
//! among callbacks, and who chooses among accelerator requests.

use std::path::Path;

use realtime::machine::RtLimits;
use realtime::work::Calibration;
use report::graph::{CallbackResult, MethodRun, PathResult};
use ros::Neighbours;
use system::{ArbitrationPolicy, Graph};
use terminal::progress::Progress;

use super::plan::ExecutorPlan;
use super::process::{ProcessReport, Spec};
use super::wire::{Setup, Transport};
use crate::chains::access::Way;
use crate::chains::chains_trial::{Placement, Ran, Run};
use crate::chains::disturbance::{LOST_SHARE, Seen, kept_back, milliseconds, percent};
use crate::chains::server::{self, SECOND_NS};
use crate::child::Order;

/// The least time that callbacks have to end after the last release.
const MIN_GRACE_NS: u64 = SECOND_NS;

/// Authority that chooses among callbacks, and among accelerator requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(super) enum Method {
    /// The executors of ROS 2; each process has devices of its own
    Ros2,
    /// Chain-aware executors; each process has devices of its own
    Picas,
    /// Chain-aware executors, and the accelerator server by chain priority
    Keeptime,
}

impl Method {
    /// Its name, as on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Ros2 => "ros2",
            Method::Picas => "picas",
            Method::Keeptime => "keeptime",
        }
    }
}

/// Parameters that are the same under every method.
pub(super) struct Trial<'a> {
    /// The system and its cores.
    pub placement: Placement<'a>,
    /// Its graph.
    pub graph: &'a Graph,
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
    pub(super) fn run(&self, method: Method, progress: &Progress) -> anyhow::Result<MethodRun> {
        self.ran(method, method.name(), progress).map(|(run, _)| run)
    }

    /// Runs the graph under a method for the longest processor time of a node, by that which the
    /// file declares; 1 where it declares none.
    ///
    /// # Errors
    /// Whatever fails takes everything down with it.
    pub(super) fn longest_work(&self, method: Method, progress: &Progress) -> anyhow::Result<f64> {
        let name = format!("{}, rehearsal", method.name());
        let (_, longest) = self.ran(method, &name, progress)?;
        Ok(longest.map_or(1.0, |longest| longest.share()))
    }

    fn ran(
        &self,
        method: Method,
        name: &str,
        progress: &Progress,
    ) -> anyhow::Result<(MethodRun, Option<Longest<'_>>)> {
        // Each process takes part twice.
        let is_crowded =
            self.transport == Transport::Dds && 2 * self.executors.len() > Neighbours::NOT_NEEDED;
        let _neighbours = is_crowded.then(|| Neighbours::new(self.domain)).transpose()?;
        let run = Run {
            name,
            policy: (method == Method::Keeptime).then_some(ArbitrationPolicy::Priority),
            duration_ns: self.duration_ns,
            grace_ns: self.grace_ns(),
        };
        let processes = |folder: &Path| self.processes(method, folder);
        let ran: Ran<'_, ProcessReport> = self.placement.run(&run, processes, progress)?;
        let Ran { reports, refused, mut evidence, lost } = ran;
        for ((plans, report), refused) in self.split().zip(&reports).zip(&refused) {
            for (at, (plan, seen)) in plans.iter().zip(&report.executors).enumerate() {
                evidence.executors.push(Seen {
                    id: &plan.id,
                    priority: plan.priority,
                    is_normal: seen.refused.is_some(),
                    is_unlocked: refused.lock.is_some(),
                    // The process's, which its first executor stands for.
                    late_ns: if at == 0 { report.late_ns } else { 0 },
                    stretch_p99: None,
                });
            }
        }
        let mut marks = evidence.refused_marks();
        marks.extend(lost);
        marks.extend(failure_marks(&reports));
        marks.extend(evidence.marks());
        let (duration_ns, limits) = (evidence.duration_ns, &evidence.limits);
        marks.extend(kept_from_core(self.executors, &reports, duration_ns, limits));
        let longest = self.longest(&reports);
        let order = |path: &PathResult| self.graph.paths.iter().position(|p| p.id == path.id);
        let mut paths: Vec<PathResult> =
            reports.iter().flat_map(|report| &report.paths).cloned().collect();
        paths.sort_by_key(order);
        let executors = reports.iter().flat_map(|report| &report.executors);
        let mut callbacks: Vec<CallbackResult> =
            executors.flat_map(|executor| &executor.callbacks).cloned().collect();
        callbacks.sort_by_key(|callback| std::cmp::Reverse(callback.priority));
        let run = MethodRun {
            method: method.name().into(),
            marks,
            paths,
            cycles: reports.iter().flat_map(|report| &report.cycles).cloned().collect(),
            callbacks,
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

    /// The executors of each process: one, or all where they share queues.
    fn split(&self) -> std::slice::Chunks<'_, ExecutorPlan> {
        match self.transport {
            Transport::Dds => self.executors.chunks(1),
            Transport::Shared => self.executors.chunks(self.executors.len().max(1)),
        }
    }

    /// The processes, by names and tasks.
    fn processes(&self, method: Method, folder: &Path) -> anyhow::Result<Vec<(String, Order)>> {
        let file = std::path::absolute(self.placement.file)?;
        let namespace = format!("/keeptime_{}_{}", std::process::id(), method.name());
        let count = self.split().len();
        let process = |(process, executors): (usize, &[ExecutorPlan])| {
            let ids: Vec<&str> = executors.iter().map(|plan| plan.id.as_str()).collect();
            let mut cores: Vec<usize> =
                executors.iter().flat_map(|plan| &plan.cores).copied().collect();
            cores.sort_unstable();
            cores.dedup();
            let highest = executors.iter().map(|plan| plan.priority).max().unwrap_or(0);
            let spec = Spec {
                file: file.clone(),
                executors: executors.to_vec(),
                ros2: method == Method::Ros2,
                way: match method {
                    Method::Keeptime => Way::Server(server::socket(folder)),
                    Method::Ros2 | Method::Picas => self.placement.direct((process, count))?,
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
            };
            anyhow::Ok((format!("executor {}", ids.join(", ")), Order::GraphExecutor(spec)))
        };
        self.split().enumerate().map(process).collect()
    }
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
