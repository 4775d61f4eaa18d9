//! One policy: start the server and the executors, let them run, collect what they say.
//!
//! The steps: a private folder for all sockets; the server, until it answers; the executors,
//! until all are ready; the start instant, the same for all; their reports; SIGTERM to the
//! server, which writes its summary. Whatever fails on the way takes everything down with it;
//! only a server that is lost while chains run is a result, not a failure.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use accel::Client;
use anyhow::Context;
use realtime::clock::monotonic_ns;
use realtime::machine;
use realtime::work::Calibration;
use report::chains::PolicyRun;
use system::{Policy, System};

use super::access::Way;
use super::children::{Children, parent_option, wait_until};
use super::disturbance::{Evidence, Snapshot, Summary};
use super::executor::{Answer, Report, Spec};
use super::fold::Cores;
use super::outcome;
use super::plan::Plan;
use super::progress::Progress;

const SECOND_NS: u64 = 1_000_000_000;
/// How long the server and the executors may take to get ready.
const READY_NS: u64 = 20 * SECOND_NS;
/// How long the server may take to end, and executors to report after their patience.
const END_NS: u64 = 10 * SECOND_NS;
/// From the announcement of the start instant to the start.
const LEAD_NS: u64 = SECOND_NS / 2;

/// What is the same under every policy.
pub struct Trial<'a> {
    /// The system.
    pub system: &'a System,
    /// Its file, for the server.
    pub file: &'a Path,
    /// Where everything runs.
    pub cores: &'a Cores,
    /// What the executors do.
    pub plan: &'a Plan,
    /// How fast this machine works.
    pub calibration: Calibration,
    /// Set by a signal.
    pub interrupted: Arc<AtomicBool>,
}

/// What the executors said before the start.
#[derive(Default)]
struct Refusals {
    priority: Vec<String>,
    lock: Vec<String>,
}

impl Trial<'_> {
    /// Runs the system under an arbitration.
    pub fn run(
        &self,
        arbitration: Arbitration,
        progress: &mut Progress,
    ) -> anyhow::Result<PolicyRun> {
        let name = arbitration.name();
        let folder = private_folder()?;
        // Declared after the folder, so that the processes end before it goes.
        let mut children = Children::new(folder.path(), self.interrupted.clone());
        progress.begin(&format!("{name}: starting"));
        let server = match arbitration {
            Arbitration::Server(policy) => {
                Some(self.start_server(&mut children, policy, folder.path())?)
            }
            Arbitration::Direct => None,
        };
        let first = server.map_or(0, |server| server + 1);
        self.start_executors(&mut children, arbitration, folder.path())?;
        let refusals = self.wait_ready(&mut children, first)?;
        let before = Snapshot::take(self.cores.used());
        let start_ns = monotonic_ns() + LEAD_NS;
        for number in first..first + self.plan.executors.len() {
            children.tell(number, &start_ns.to_string())?;
        }
        let reports = self.collect(&mut children, first, start_ns, (name, progress))?;
        let duration_ns = monotonic_ns().saturating_sub(start_ns);
        let after = Snapshot::take(self.cores.used());
        let (summary, lost) = match server {
            Some(server) => self.stop_server(&mut children, server, folder.path())?,
            None => (None, None),
        };
        let (chains, failed) = outcome::results(self.system, self.plan, &reports);
        let mut marks = self.refused_marks(&refusals, summary.as_ref());
        marks.extend(lost.into_iter().chain(failed));
        let ids = self.plan.executors.iter().map(|executor| executor.id.as_str());
        let units = self.cores.accelerators.iter().map(|(id, cores)| (id.clone(), cores.len()));
        let evidence = Evidence {
            duration_ns,
            before,
            after,
            limits: machine::rt_limits(),
            summary,
            units: units.collect(),
            executors: ids.zip(&reports).collect(),
        };
        marks.extend(evidence.marks());
        Ok(PolicyRun { policy: name.into(), marks, chains, facts: evidence.facts() })
    }

    /// Starts one process per executor.
    fn start_executors(
        &self,
        children: &mut Children,
        arbitration: Arbitration,
        folder: &Path,
    ) -> anyhow::Result<()> {
        for executor in &self.plan.executors {
            let command = OsString::from("chain-executor");
            let arguments = [command].into_iter().chain(parent_option());
            let number = children.spawn(format!("executor {}", executor.id), arguments)?;
            let spec = Spec {
                plan: executor.clone(),
                calibration: self.calibration,
                way: match arbitration {
                    Arbitration::Server(_) => Way::Server(socket(folder)),
                    Arbitration::Direct => {
                        let cores = self.cores.accelerators.clone();
                        Way::Direct(std::path::absolute(self.file)?, cores.into_iter().collect())
                    }
                },
                folder: folder.into(),
            };
            children.tell(number, &serde_json::to_string(&spec)?)?;
        }
        Ok(())
    }

    /// Starts the server and waits until it answers.
    fn start_server(
        &self,
        children: &mut Children,
        policy: Policy,
        folder: &Path,
    ) -> anyhow::Result<usize> {
        let list =
            |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<String>>().join(",");
        let mut arguments: Vec<OsString> = vec!["chain-server".into()];
        arguments.extend(parent_option());
        let name = Arbitration::Server(policy).name();
        arguments.extend(["--policy".into(), name.into()]);
        // What has no bound is run all the same: to see what it does is what the run is for.
        arguments.extend(["--admission".into(), "report".into()]);
        arguments.extend(["--socket".into(), socket(folder).into()]);
        arguments.extend(["--summary".into(), summary(folder).into()]);
        if !self.cores.server.is_empty() {
            arguments.extend(["--cores".into(), list(&self.cores.server).into()]);
        }
        for (id, cores) in self.cores.accelerators.iter().filter(|(_, cores)| !cores.is_empty()) {
            let cores = format!("{id}={}", list(cores));
            arguments.extend(["--accelerator-cores".into(), cores.into()]);
        }
        arguments.extend(["--".into(), self.file.into()]);
        let server = children.spawn("the accelerator server".into(), arguments)?;
        let until_ns = monotonic_ns() + READY_NS;
        let mut last = None;
        let answers = wait_until(&self.interrupted, until_ns, || {
            match Client::connect(socket(folder)) {
                Ok(_) => return Ok(true),
                Err(error @ (accel::Error::NoServer { .. } | accel::Error::ServerLost { .. })) => {
                    last = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
            if children.is_running(server) { Ok(false) } else { Err(children.failure(server)) }
        })?;
        match last {
            Some(error) if !answers => Err(error).context("the accelerator server is not ready"),
            _ => Ok(server),
        }
    }

    /// Waits until every executor waits for the start.
    fn wait_ready(&self, children: &mut Children, first: usize) -> anyhow::Result<Refusals> {
        let until_ns = monotonic_ns() + READY_NS;
        let mut refusals = Refusals::default();
        let mut waiting = self.plan.executors.len();
        while waiting > 0 {
            let (number, line) = children.next_line(until_ns, || {})?;
            let Some(line) = line else { return Err(children.failure(number)) };
            let Answer::Ready { no_priority, no_lock } = answer(&line)? else {
                anyhow::bail!("an executor ended before the start");
            };
            let id = || self.plan.executors[number - first].id.clone();
            refusals.priority.extend(no_priority.map(|_| id()));
            refusals.lock.extend(no_lock.map(|_| id()));
            waiting -= 1;
        }
        Ok(refusals)
    }

    /// Waits for the reports, in the order of the executors.
    fn collect(
        &self,
        children: &mut Children,
        first: usize,
        start_ns: u64,
        (name, progress): (&str, &mut Progress),
    ) -> anyhow::Result<Vec<Report>> {
        let end_ns = start_ns + self.plan.duration_ns;
        let until_ns = end_ns + self.plan.grace_ns + END_NS;
        let mut reports: Vec<Option<Report>> = self.plan.executors.iter().map(|_| None).collect();
        while reports.iter().any(Option::is_none) {
            let show = || {
                let left_ns = end_ns.saturating_sub(monotonic_ns());
                progress.left(name, left_ns.min(self.plan.duration_ns).div_ceil(SECOND_NS));
            };
            let (number, line) = children.next_line(until_ns, show)?;
            let Some(report) = number.checked_sub(first).and_then(|i| reports.get_mut(i)) else {
                // The server has ended: its clients will say what that did to them.
                continue;
            };
            match line.map(|line| answer(&line)).transpose()? {
                Some(Answer::Done(done)) => *report = Some(done),
                None if report.is_some() => {}
                _ => return Err(children.failure(number)),
            }
        }
        Ok(reports.into_iter().flatten().collect())
    }

    /// Ends the server and reads what it wrote; the second value says why there is nothing.
    fn stop_server(
        &self,
        children: &mut Children,
        server: usize,
        folder: &Path,
    ) -> anyhow::Result<(Option<Summary>, Option<String>)> {
        if !children.is_running(server) {
            return Ok((None, Some(children.failure(server).to_string())));
        }
        let status = children.stop(server, monotonic_ns() + END_NS)?;
        match Summary::read(&summary(folder)) {
            Ok(summary) => Ok((Some(summary), None)),
            Err(error) => {
                let status = status.map_or("does not end".into(), |s| format!("ended with {s}"));
                let said = children.last_words(server);
                Ok((None, Some(format!("the accelerator server {status}{said}: {error:#}"))))
            }
        }
    }

    fn refused_marks(&self, refusals: &Refusals, summary: Option<&Summary>) -> Vec<String> {
        let mut wanted = self.plan.executors.iter().filter(|e| e.priority > 0).count();
        let mut without = refusals.priority.clone();
        if let Some(summary) = summary.filter(|_| self.system.server.priority > 0) {
            wanted += 1 + summary.accelerators.len();
            without.extend((!summary.realtime).then(|| "the server".to_owned()));
            let accelerators = summary.accelerators.iter().filter(|(_, a)| !a.realtime);
            without.extend(accelerators.map(|(id, _)| id.clone()));
        }
        let mut marks = Vec::new();
        if !without.is_empty() {
            let all = without.len() == wanted;
            let who = if all { String::new() } else { format!("{} ", without.join(", ")) };
            marks.push(format!(
                "{who}ran at normal priority: SCHED_FIFO refused, see keeptime doctor"
            ));
        }
        if !refusals.lock.is_empty() {
            let all = refusals.lock.len() == self.plan.executors.len();
            let who = if all { "executors".to_owned() } else { refusals.lock.join(", ") };
            marks.push(format!("memory of {who} was not locked, see keeptime doctor"));
        }
        marks
    }
}

/// Who decides what an accelerator does next.
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

fn answer(line: &str) -> anyhow::Result<Answer> {
    serde_json::from_str(line).context("the answer of an executor")
}

/// A folder that only this user can enter, gone when it is dropped.
fn private_folder() -> anyhow::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("keeptime-").permissions(Permissions::from_mode(0o700));
    builder.tempdir().context("a folder for the sockets of this run")
}

fn socket(folder: &Path) -> std::path::PathBuf {
    folder.join("server")
}

fn summary(folder: &Path) -> std::path::PathBuf {
    folder.join("summary.json")
}
