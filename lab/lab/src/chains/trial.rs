//! One policy: start the server and the executors, let them run, collect what they say.
//!
//! The steps: a private folder for all sockets; the server, until it answers; the executors,
//! until all are ready; the start instant, the same for all; their reports; SIGTERM to the
//! server, which writes its summary. Whatever fails on the way takes everything down with it;
//! only a server that is lost while chains run is a result, not a failure.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use realtime::clock::monotonic_ns;
use realtime::machine;
use realtime::work::Calibration;
use report::chains::PolicyRun;
use system::{DeviceKind, Policy, System};
use trial::{Child, Children};

use super::access::Way;
use super::disturbance::{Evidence, Snapshot, Summary};
use super::executor::{Refused, Report, Spec};
use super::fold::Cores;
use super::outcome;
use super::plan::Plan;
use super::progress::Progress;
use super::server::{self, END_NS, READY_NS, SECOND_NS, ServerProcess};
use crate::child::Order;

/// From the announcement of the start instant to the start.
const LEAD_NS: u64 = SECOND_NS / 2;

/// Parameters that are the same under every policy.
pub struct Trial<'a> {
    /// The system.
    pub system: &'a System,
    /// Its file, for the server.
    pub file: &'a Path,
    /// Cores of accelerators, server and executors.
    pub cores: &'a Cores,
    /// Tasks of the executors.
    pub plan: &'a Plan,
    /// Speed of this machine.
    pub calibration: Calibration,
    /// Set by a signal.
    pub interrupted: Arc<AtomicBool>,
}

impl Trial<'_> {
    /// Runs the system under an arbitration.
    pub fn run(
        &self,
        arbitration: Arbitration,
        progress: &mut Progress,
    ) -> anyhow::Result<PolicyRun> {
        let name = arbitration.name();
        let folder = server::private_folder()?;
        // Declared after the folder, so that the processes end before it goes.
        let mut children = Children::new(self.interrupted.clone());
        progress.begin(&format!("{name}: starting"));
        let mut server = match arbitration {
            Arbitration::Server(policy) => Some(self.server(folder.path()).start(policy)?),
            Arbitration::Direct => None,
        };
        self.start_executors(&mut children, arbitration, folder.path())?;
        let refused: Vec<Refused> = children.ready(monotonic_ns() + READY_NS)?;
        let before = Snapshot::take(self.cores.used());
        let start_ns = monotonic_ns() + LEAD_NS;
        children.tell(&start_ns)?;
        let stop_ns = start_ns + self.plan.duration_ns;
        let until_ns = stop_ns + self.plan.grace_ns + END_NS;
        let reports: Vec<Report> = children.reports(until_ns, || progress.left(name, stop_ns))?;
        let duration_ns = monotonic_ns().saturating_sub(start_ns);
        let after = Snapshot::take(self.cores.used());
        let (summary, lost) = match &mut server {
            Some(server) => self.server(folder.path()).stop(server),
            None => (None, None),
        };
        let (chains, failed) = outcome::results(self.system, self.plan, &reports);
        let mut marks = self.refused_marks(&refused, summary.as_ref());
        marks.extend(lost.into_iter().chain(failed));
        let ids = self.plan.executors.iter().map(|executor| executor.id.as_str());
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
            executors: ids.zip(&reports).collect(),
        };
        marks.extend(evidence.marks());
        Ok(PolicyRun { policy: name.into(), marks, chains, facts: evidence.facts() })
    }

    fn server<'f>(&'f self, folder: &'f Path) -> ServerProcess<'f> {
        let (file, cores) = (self.file, self.cores);
        ServerProcess { file, cores, folder, interrupted: &self.interrupted }
    }

    /// Starts one process per executor.
    fn start_executors(
        &self,
        children: &mut Children,
        arbitration: Arbitration,
        folder: &Path,
    ) -> anyhow::Result<()> {
        let count = self.plan.executors.len();
        for (process, executor) in self.plan.executors.iter().enumerate() {
            let spec = Spec {
                plan: executor.clone(),
                calibration: self.calibration,
                way: match arbitration {
                    Arbitration::Server(_) => Way::Server(server::socket(folder)),
                    Arbitration::Direct => {
                        let cores = self.cores.of_process(self.system, (process, count));
                        Way::Direct(std::path::absolute(self.file)?, cores)
                    }
                },
                folder: folder.into(),
            };
            let name = format!("executor {}", executor.id);
            children.add(Child::order(&name, &Order::ChainExecutor(spec))?)?;
        }
        Ok(())
    }

    fn refused_marks(&self, refused: &[Refused], summary: Option<&Summary>) -> Vec<String> {
        let ids_of = |is_refused: fn(&Refused) -> bool| -> Vec<String> {
            let executors = self.plan.executors.iter().zip(refused);
            let without = executors.filter(|(_, refused)| is_refused(refused));
            without.map(|(executor, _)| executor.id.clone()).collect()
        };
        let mut wanted = self.plan.executors.iter().filter(|e| e.priority > 0).count();
        let mut without = ids_of(|refused| refused.priority.is_some());
        if let Some(summary) = summary.filter(|_| self.system.server.priority > 0) {
            wanted += 1 + summary.accelerators.len();
            without.extend((!summary.realtime).then(|| "the server".to_owned()));
            let accelerators = summary.accelerators.iter().filter(|(_, a)| !a.realtime);
            without.extend(accelerators.map(|(id, _)| id.clone()));
        }
        let normal = (!without.is_empty()).then(|| normal_priority(&without, wanted));
        let executors = self.plan.executors.len();
        let lock = ids_of(|refused| refused.lock.is_some());
        normal.into_iter().chain((!lock.is_empty()).then(|| unlocked(&lock, executors))).collect()
    }
}

/// Names those that had no real-time priority, of so many that should have it.
pub fn normal_priority(without: &[String], wanted: usize) -> String {
    let who = match without.len() == wanted {
        true => String::new(),
        false => format!("{} ", without.join(", ")),
    };
    format!("{who}ran at normal priority: SCHED_FIFO refused, see keeptime doctor")
}

/// Whose memory was not locked, of so many executors.
pub fn unlocked(without: &[String], executors: usize) -> String {
    let all = without.len() == executors;
    let who = if all { "executors".to_owned() } else { without.join(", ") };
    format!("memory of {who} was not locked, see keeptime doctor")
}

/// Authority that decides what an accelerator does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arbitration {
    /// The server, by this policy.
    Server(Policy),
    /// Nobody: each executor process has devices of its own.
    Direct,
}

impl Arbitration {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Arbitration::Server(Policy::Priority) => report::chains::PRIORITY,
            Arbitration::Server(Policy::Fifo) => "fifo",
            Arbitration::Server(Policy::Timeslice) => "timeslice",
            Arbitration::Direct => "direct",
        }
    }
}
