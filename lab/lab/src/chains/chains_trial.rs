//! Run of a system: start the server and the executors, let them run, collect their reports.
//!
//! The steps: a private folder for all sockets; the server, until it answers; the executors,
//! until all are ready; the start instant, the same for all; their reports; SIGTERM to the
//! server, which writes its summary. Whatever fails on the way takes everything down with it;
//! only a server that is lost while chains run is a result, not a failure.

use std::path::Path;

use realtime::clock::monotonic_ns;
use realtime::machine;
use realtime::work::Calibration;
use report::chains::PolicyRun;
use serde::de::DeserializeOwned;
use system::{ArbitrationPolicy, DeviceKind, System};
use terminal::progress::Progress;
use trial::{Child, Children};

use super::access::Way;
use super::chains_outcome;
use super::chains_plan::{ExecutorPlan, Plan};
use super::disturbance::{Evidence, Seen, Snapshot};
use super::executor::{Refused, Report, Spec};
use super::fold::Cores;
use super::server::{self, END_NS, READY_NS, SECOND_NS, ServerProcess};
use crate::child::Order;

/// Time from the announcement of the start instant to the start.
const LEAD_NS: u64 = SECOND_NS / 2;

/// A system on cores of this machine.
pub(crate) struct Placement<'a> {
    /// The system.
    pub system: &'a System,
    /// Its file, for the server.
    pub file: &'a Path,
    /// Cores of accelerators, server and executors.
    pub cores: &'a Cores,
}

/// Parameters of one run.
pub(crate) struct Run<'a> {
    /// Name that is shown meanwhile.
    pub name: &'a str,
    /// Arbitration policy of the server, if there is one.
    pub policy: Option<ArbitrationPolicy>,
    /// Time for which timers release, in nanoseconds.
    pub duration_ns: u64,
    /// Time that callbacks have to end after that.
    pub grace_ns: u64,
}

/// Outcome of one run.
pub(crate) struct Ran<'a, T> {
    /// The reports of the processes.
    pub reports: Vec<T>,
    /// Privileges that each of them was refused.
    pub refused: Vec<Refused>,
    /// The evidence, without the executors.
    pub evidence: Evidence<'a>,
    /// Reason why there is no summary of the server.
    pub lost: Option<String>,
}

impl Placement<'_> {
    /// The accelerator server, in the private folder of a run.
    pub(crate) fn server<'f>(&'f self, folder: &'f Path) -> ServerProcess<'f> {
        let (file, cores) = (self.file, self.cores);
        ServerProcess { file, cores, folder }
    }

    /// Devices of its own for one of so many processes.
    pub(crate) fn direct(&self, process: (usize, usize)) -> anyhow::Result<Way> {
        let cores = self.cores.of_process(self.system, process);
        Ok(Way::Direct(std::path::absolute(self.file)?, cores))
    }

    /// Runs processes, given in the run's folder by their names and tasks.
    pub(crate) fn run<T: DeserializeOwned>(
        &self,
        run: &Run<'_>,
        processes: impl FnOnce(&Path) -> anyhow::Result<Vec<(String, Order)>>,
        progress: &Progress,
    ) -> anyhow::Result<Ran<'_, T>> {
        let folder = server::private_folder()?;
        // Declared after the folder, so that the processes end before it goes.
        let mut children = Children::default();
        progress.stage(&format!("{}: starting", run.name));
        let process = self.server(folder.path());
        let mut server = run.policy.map(|policy| process.start(policy)).transpose()?;
        for (name, order) in processes(folder.path())? {
            children.add(Child::order(&name, &order)?)?;
        }
        let refused = children.ready(monotonic_ns() + 2 * READY_NS)?;
        let before = Snapshot::take(self.cores.used());
        let start_ns = monotonic_ns() + LEAD_NS;
        children.tell(&start_ns)?;
        let stop_ns = start_ns + run.duration_ns;
        let until_ns = stop_ns + run.grace_ns + END_NS;
        progress.stage(run.name);
        let reports = children.reports(until_ns)?;
        let duration_ns = monotonic_ns().saturating_sub(start_ns);
        let after = Snapshot::take(self.cores.used());
        let stopped = server.as_mut().map(|server| process.stop(server));
        let (summary, lost) = stopped.unwrap_or_default();
        let units = self.cores.accelerators.iter().map(|(id, cores)| (id.clone(), cores.len()));
        let software = self.system.accelerators.iter();
        let software = software.filter(|accelerator| accelerator.device == DeviceKind::Cpu);
        let evidence = Evidence {
            duration_ns,
            before,
            after,
            limits: machine::rt_limits(),
            summary,
            server_priority: self.system.server.priority,
            units: units.collect(),
            software: software.map(|accelerator| accelerator.id.as_str()).collect(),
            executors: Vec::new(),
        };
        Ok(Ran { reports, refused, evidence, lost })
    }
}

/// Parameters that are the same under every policy.
pub(crate) struct Trial<'a> {
    /// The system and its cores.
    pub placement: Placement<'a>,
    /// Tasks of the executors.
    pub plan: &'a Plan,
    /// Speed of this machine.
    pub calibration: Calibration,
}

impl Trial<'_> {
    /// Runs the system under an arbitration.
    pub(crate) fn run(
        &self,
        arbitration: Arbitration,
        progress: &Progress,
    ) -> anyhow::Result<PolicyRun> {
        let (name, plan) = (arbitration.name(), self.plan);
        let policy = match arbitration {
            Arbitration::Server(policy) => Some(policy),
            Arbitration::Direct => None,
        };
        let (duration_ns, grace_ns) = (plan.duration_ns, plan.grace_ns);
        let run = Run { name, policy, duration_ns, grace_ns };
        let processes = |folder: &Path| self.processes(arbitration, folder);
        let ran: Ran<'_, Report> = self.placement.run(&run, processes, progress)?;
        let Ran { reports, refused, mut evidence, lost } = ran;
        let seen = plan.executors.iter().zip(&reports).zip(&refused);
        evidence.executors.extend(seen.map(|((executor, report), refused)| Seen {
            id: &executor.id,
            priority: executor.priority,
            is_normal: report.refused.is_some(),
            is_unlocked: refused.lock.is_some(),
            late_ns: report.late_ns,
            stretch_p99: report.stretch_p99,
        }));
        let (chains, failed) = chains_outcome::results(self.placement.system, plan, &reports);
        let mut marks = evidence.refused_marks();
        marks.extend(lost.into_iter().chain(failed));
        marks.extend(evidence.marks());
        Ok(PolicyRun { policy: name.into(), marks, chains, facts: evidence.facts() })
    }

    /// One process for each executor.
    fn processes(
        &self,
        arbitration: Arbitration,
        folder: &Path,
    ) -> anyhow::Result<Vec<(String, Order)>> {
        let (executors, placement) = (&self.plan.executors, &self.placement);
        let process = |(number, plan): (usize, &ExecutorPlan)| {
            let way = match arbitration {
                Arbitration::Server(_) => Way::Server(server::socket(folder)),
                Arbitration::Direct => placement.direct((number, executors.len()))?,
            };
            let (calibration, folder) = (self.calibration, folder.into());
            let spec = Spec { plan: plan.clone(), calibration, way, folder };
            anyhow::Ok((format!("executor {}", plan.id), Order::ChainExecutor(spec)))
        };
        executors.iter().enumerate().map(process).collect()
    }
}

/// Authority that decides what an accelerator does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arbitration {
    /// The server, by this policy.
    Server(ArbitrationPolicy),
    /// No arbiter: each executor process has devices of its own.
    Direct,
}

impl Arbitration {
    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arbitration::Server(ArbitrationPolicy::Priority) => report::chains::PRIORITY,
            Arbitration::Server(ArbitrationPolicy::Fifo) => "fifo",
            Arbitration::Server(ArbitrationPolicy::Timeslice) => "timeslice",
            Arbitration::Direct => "direct",
        }
    }
}
