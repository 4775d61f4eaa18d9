//! One executor of a system, as a process of its own.
//!
//! It gets itself ready for its [`Spec`] (core, priority, inbox, server,
//! memory, each request once), answers with [`Answer::Ready`], and waits for the start
//! instant. Then it loops until every chain has ended: take messages, take due releases, and
//! run the one callback that [`Ready`] puts first; only when there is none, wait for a message or
//! the next release. Its last message is [`Answer::Done`].
//!
//! A request that fails ends its job and is counted; after the plan's patience everything that
//! has not ended is given up, so that nothing outlives the run.

use std::path::PathBuf;

use accel::Wait;
use anyhow::Context;
use realtime::clock::{monotonic_ns, thread_cpu_ns};
use realtime::thread::{self, Policy};
use realtime::work::{self, Calibration};
use serde::{Deserialize, Serialize};
use trial::Parent;

use super::access::{Access, Ask, Failure, Way};
use super::alarm::Alarm;
use super::mail::{Mail, Message, News};
use super::plan::{CallbackPlan, ChainPlan, ExecutorPlan, PartPlan, wait};
use super::ready::{Job, Ready, Spent, Timer};

/// Longest time that the requests before the start may take together, in nanoseconds.
const WARM_UP_NS: u64 = 5_000_000_000;
/// Samples of processor time for which room is made beforehand.
const MAX_SAMPLES: usize = 1 << 20;

/// Task of an executor process: the first message of its parent.
#[derive(Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Plan of the executor.
    pub plan: ExecutorPlan,
    /// Speed of this machine.
    pub calibration: Calibration,
    /// Way by which the executor reaches accelerators.
    pub way: Way,
    /// The folder of the executors' sockets.
    pub folder: PathBuf,
}

/// Privileges that the system refused to an executor.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Refused {
    /// Reason why it has no real-time priority, if it should have one.
    pub priority: Option<String>,
    /// Reason why its memory is not locked.
    pub lock: Option<String>,
}

/// Answer of the executor process.
pub type Answer = trial::Answer<Refused, Report>;

/// Report of one executor.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Delay of its first step after the start instant, in nanoseconds.
    pub late_ns: u64,
    /// The 99th percentile of processor time over nominal time, of all callbacks.
    pub stretch_p99: Option<f64>,
    /// Its parts, in the order of the plan.
    pub parts: Vec<PartReport>,
}

/// Report of one part of a chain.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PartReport {
    /// Number of the chain in the file.
    pub chain: usize,
    /// Releases left out.
    pub skipped: u64,
    /// Jobs that ended because a request failed.
    pub failed: u64,
    /// Error of the last of them.
    pub error: Option<String>,
    /// Number and response time in nanoseconds of each job that completed here.
    pub responses: Vec<(u64, u64)>,
    /// Number, response time and where it went, of the slowest of them.
    pub slowest: Option<(u64, u64, Spent)>,
}

/// Is the executor.
pub fn run(spec: Spec, parent: &mut Parent) -> anyhow::Result<()> {
    let mut executor = Executor::prepare(spec)?;
    let priority = set_priority(executor.plan.priority)?;
    let lock = thread::lock_memory().err().map(|error| error.to_string());
    executor.warm_up();
    parent.tell(&Answer::Ready(Refused { priority, lock }))?;
    let report = executor.run(parent.hear()?)?;
    parent.tell(&Answer::Done(report))
}

/// Sets the priority; a missing privilege is an answer, anything else an error.
pub(crate) fn set_priority(priority: u8) -> anyhow::Result<Option<String>> {
    let policy = if priority == 0 { Policy::Normal } else { Policy::Fifo(priority) };
    match thread::set_policy(policy) {
        Ok(()) => Ok(None),
        Err(error @ realtime::Error::Privilege { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

struct Executor {
    plan: ExecutorPlan,
    folder: PathBuf,
    access: Access,
    mail: Mail,
    alarm: Alarm,
    ready: Ready,
    parts: Vec<Part>,
    callbacks: Vec<Callback>,
    /// Time at which everything that has not ended is given up.
    end_ns: u64,
    /// Processor time of callbacks, in thousandths of their nominal time.
    stretches: Vec<u32>,
}

/// The state of a part of a chain.
struct Part {
    /// Its first callback here.
    callback: usize,
    /// The timer of the chain, in its first part.
    timer: Option<Timer>,
    /// More jobs may come from the executor before.
    open: bool,
    /// The executor after this one knows that no more jobs come.
    closed: bool,
    report: PartReport,
}

struct Callback {
    part: usize,
    /// True if it is the last one of its part.
    last: bool,
    cpu_ns: u64,
    pieces: Vec<Piece>,
}

/// Work, then a request; a callback without requests is one piece.
struct Piece {
    iterations: u64,
    request: Option<Ask>,
}

/// Outcome of a callback.
enum End {
    Done,
    Failed(String),
    OutOfTime,
}

impl Executor {
    fn prepare(spec: Spec) -> anyhow::Result<Executor> {
        let Spec { plan, calibration, way, folder } = spec;
        thread::set_name(&plan.id);
        thread::pin(&[plan.core])?;
        let mail = Mail::open(&folder, plan.index).context("inbox")?;
        let asks = plan.parts.iter().flat_map(|p| &p.callbacks).any(|c| !c.requests.is_empty());
        let mut access = Access::open(&way, asks)?;
        let (mut parts, mut callbacks, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
        for (index, part) in plan.parts.iter().enumerate() {
            parts.push(Part::new(part, callbacks.len()));
            for (offset, callback) in part.callbacks.iter().enumerate() {
                let pieces = pieces(part, offset, &calibration, &mut access)
                    .with_context(|| format!("chain {}", part.chain.id))?;
                let last = offset + 1 == part.callbacks.len();
                callbacks.push(Callback { part: index, last, cpu_ns: callback.cpu_ns, pieces });
                ranks.push((part.chain.priority, part.position + offset));
            }
        }
        let releases = |part: &PartPlan| part.chain.releases;
        let most = plan.parts.iter().map(releases).max().unwrap_or(0);
        let runs: u64 = plan.parts.iter().map(|p| releases(p) * p.callbacks.len() as u64).sum();
        Ok(Executor {
            folder,
            access,
            mail,
            alarm: Alarm::new().context("timer")?,
            ready: Ready::new(&ranks, most),
            parts,
            callbacks,
            end_ns: 0,
            stretches: Vec::with_capacity((runs as usize).min(MAX_SAMPLES)),
            plan,
        })
    }

    /// Sends each request once, so that no job pays for what a device does once: compiling,
    /// loading, registering memory. What fails here fails again, and is counted then.
    fn warm_up(&mut self) {
        let end_ns = monotonic_ns() + WARM_UP_NS;
        for piece in self.callbacks.iter().flat_map(|callback| &callback.pieces) {
            if let Some(request) = &piece.request {
                let _ = self.access.run(request, Wait::Suspend, end_ns, &mut Spent::default());
            }
        }
    }

    fn run(&mut self, start_ns: u64) -> anyhow::Result<Report> {
        self.mail.connect(&self.folder, &peers(&self.plan)).context("inbox of an executor")?;
        self.end_ns = start_ns + self.plan.patience_ns;
        for (part, plan) in self.parts.iter_mut().zip(&self.plan.parts) {
            part.start(&plan.chain, plan.position, start_ns);
        }
        let late_ns = monotonic_ns().saturating_sub(start_ns);
        loop {
            let now_ns = monotonic_ns();
            self.receive();
            self.release(now_ns);
            let sent = self.mail.flush();
            if now_ns >= self.end_ns {
                break;
            }
            match self.ready.pop() {
                Some((callback, job)) => self.call(callback, job),
                None if self.close() && sent => break,
                None => self.alarm.wait(&self.mail, self.next_ns())?,
            }
        }
        Ok(Report {
            late_ns,
            stretch_p99: p99(&mut self.stretches),
            parts: self.parts.drain(..).map(Part::into_report).collect(),
        })
    }

    fn receive(&mut self) {
        while let Some(Message { chain, position, news }) = self.mail.receive() {
            let (chain, position) = (chain as usize, position as usize);
            let mut plans = self.plan.parts.iter();
            let here = plans.position(|p| p.chain.index == chain && p.position == position);
            let Some(part) = here.map(|index| &mut self.parts[index]) else { continue };
            match (news, &mut part.timer) {
                (News::Start(job), None) => self.ready.push(part.callback, job),
                (News::End, None) => part.open = false,
                (News::Over(at_ns), Some(timer)) => timer.over(at_ns),
                _ => {}
            }
        }
    }

    fn release(&mut self, now_ns: u64) {
        for part in &mut self.parts {
            let Some(timer) = &mut part.timer else { continue };
            while let Some(job) = timer.release(now_ns) {
                self.ready.push(part.callback, job);
            }
        }
    }

    /// The next release, or the end of all patience.
    fn next_ns(&self) -> u64 {
        let timers = self.parts.iter().filter_map(|part| part.timer.as_ref()?.next_ns());
        timers.min().unwrap_or(u64::MAX).min(self.end_ns)
    }

    /// Runs one callback and passes its job on.
    fn call(&mut self, index: usize, mut job: Job) {
        let end = self.work(index, &mut job.spent);
        let callback = &self.callbacks[index];
        let (part, plan) = (&mut self.parts[callback.part], &self.plan.parts[callback.part]);
        match end {
            End::Done if !callback.last => return self.ready.push(index + 1, job),
            End::Done => {
                if let Some((executor, position)) = plan.next {
                    let message = message(&plan.chain, position, News::Start(job));
                    return self.mail.send(executor, &message);
                }
                let response_ns = monotonic_ns().saturating_sub(job.release_ns);
                part.report.responses.push((job.number, response_ns));
                if part.report.slowest.is_none_or(|(_, most_ns, _)| response_ns > most_ns) {
                    part.report.slowest = Some((job.number, response_ns, job.spent));
                }
            }
            End::Failed(error) => {
                part.report.failed += 1;
                part.report.error = Some(error);
            }
            End::OutOfTime => {}
        }
        if plan.chain.best_effort {
            self.tell_over(callback.part);
        }
    }

    /// The first executor of a best-effort chain may release the next job.
    fn tell_over(&mut self, part: usize) {
        let (now_ns, chain) = (monotonic_ns(), &self.plan.parts[part].chain);
        if chain.first_executor != self.plan.index {
            return self.mail.send(chain.first_executor, &message(chain, 0, News::Over(now_ns)));
        }
        let parts = self.parts.iter_mut().filter(|p| p.report.chain == chain.index);
        parts.filter_map(|part| part.timer.as_mut()).for_each(|timer| timer.over(now_ns));
    }

    /// The work of one callback: processor, request, processor, request.
    fn work(&mut self, index: usize, spent: &mut Spent) -> End {
        let callback = &self.callbacks[index];
        let wait = wait(&self.plan.parts[callback.part].chain);
        let mut cpu_ns = 0;
        for Piece { iterations, request } in &callback.pieces {
            let (begin_ns, before_ns) = (monotonic_ns(), thread_cpu_ns());
            work::run(*iterations);
            cpu_ns += thread_cpu_ns() - before_ns;
            spent.computing_ns += monotonic_ns() - begin_ns;
            let Some(request) = request else { continue };
            match self.access.run(request, wait, self.end_ns, spent) {
                Ok(()) => {}
                Err(Failure::OutOfTime) => return End::OutOfTime,
                Err(Failure::Failed(why)) => return End::Failed(why),
            }
        }
        if callback.cpu_ns > 0 && self.stretches.len() < MAX_SAMPLES {
            self.stretches.push((cpu_ns * 1000 / callback.cpu_ns) as u32);
        }
        End::Done
    }

    /// Tells the executors after this one where no more jobs come; true if that is so everywhere.
    /// Only called when no callback is ready.
    fn close(&mut self) -> bool {
        for (part, plan) in self.parts.iter_mut().zip(&self.plan.parts) {
            let more = match &part.timer {
                Some(timer) => timer.next_ns().is_some(),
                None => part.open,
            };
            if more || part.closed {
                continue;
            }
            part.closed = true;
            if let Some((executor, position)) = plan.next {
                self.mail.send(executor, &message(&plan.chain, position, News::End));
            }
        }
        self.parts.iter().all(|part| part.closed) && self.mail.flush()
    }
}

impl Part {
    fn new(plan: &PartPlan, callback: usize) -> Part {
        let samples = if plan.next.is_none() { plan.chain.releases } else { 0 };
        let responses = Vec::with_capacity(samples as usize);
        let report = PartReport { chain: plan.chain.index, responses, ..PartReport::default() };
        Part { callback, timer: None, open: true, closed: false, report }
    }

    fn start(&mut self, chain: &ChainPlan, position: usize, start_ns: u64) {
        if position == 0 {
            let first_ns = start_ns + chain.offset_ns;
            let timer = Timer::new(first_ns, chain.period_ns, chain.releases, chain.best_effort);
            self.timer = Some(timer);
        }
    }

    fn into_report(self) -> PartReport {
        let skipped = self.timer.map_or(0, |timer| timer.skipped());
        PartReport { skipped, ..self.report }
    }
}

fn message(chain: &ChainPlan, position: usize, news: News) -> Message {
    Message { chain: chain.index as u32, position: position as u32, news }
}

/// Every other executor that this one may send to.
fn peers(plan: &ExecutorPlan) -> Vec<usize> {
    let next = plan.parts.iter().filter_map(|part| Some(part.next?.0));
    let first = plan.parts.iter().map(|part| part.chain.first_executor);
    let mut peers: Vec<usize> = next.chain(first).filter(|peer| *peer != plan.index).collect();
    peers.sort_unstable();
    peers.dedup();
    peers
}

/// Splits a callback into work and requests, and registers the requests.
fn pieces(
    part: &PartPlan,
    offset: usize,
    calibration: &Calibration,
    access: &mut Access,
) -> anyhow::Result<Vec<Piece>> {
    let CallbackPlan { cpu_ns, requests } = &part.callbacks[offset];
    let iterations = calibration.iterations(cpu_ns / requests.len().max(1) as u64);
    if requests.is_empty() {
        return Ok(vec![Piece { iterations, request: None }]);
    }
    let mut pieces = Vec::with_capacity(requests.len());
    for (segment, request) in requests.iter().enumerate() {
        let number = ((part.position + offset) as u64) << 32 | segment as u64;
        let chain = (part.chain.id.as_str(), part.chain.priority);
        let request = access.register(chain, number, request)?;
        pieces.push(Piece { iterations, request: Some(request) });
    }
    Ok(pieces)
}

fn p99(stretches: &mut [u32]) -> Option<f64> {
    stretches.sort_unstable();
    let rank = (stretches.len() * 99).div_ceil(100).checked_sub(1)?;
    Some(f64::from(stretches[rank]) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p99_is_the_nearest_rank() {
        assert_eq!(p99(&mut []), None);
        assert_eq!(p99(&mut [1500]), Some(1.5));
        let mut samples: Vec<u32> = (1..=200).rev().collect();
        assert_eq!(p99(&mut samples), Some(0.198));
    }
}
