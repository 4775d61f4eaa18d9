//! An executor of a system, as a process of its own.
//!
//! By its [`Spec`] it gets itself ready (core, callbacks, server, each request once, memory), answers
//! with [`Answer::Ready`], and waits for the start instant. Then an [`Executor`] runs its callbacks
//! until every chain has ended; its last message is [`Answer::Done`].
//!
//! The first callback of a chain is a timer, a later one is released by the [`Job`] of the one before
//! it: by a queue, or by a pipe in the run's folder where that is in another process. Real-time chains
//! serve every release, however late; a best-effort chain leaves a release out if the job before it had
//! not ended by then, which its [`Gate`] decides. A job with the number [`END`] follows the last one.
//!
//! A request that fails ends its job and is counted; after the plan's patience everything that has not
//! ended is given up, so that nothing outlives the run.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use accel::Wait;
use anyhow::Context as _;
use executor::{Context, Executor, ExecutorPolicy, Period, Queue, Sender, Settings, Thread};
use realtime::clock::{monotonic_ns, thread_cpu_ns};
use realtime::mutex::PiMutex;
use realtime::thread;
use realtime::work::{self, Calibration};
use serde::{Deserialize, Serialize};
use stats::Summary;
use trial::Parent;

use super::access::{Access, Ask, Failure, Way};
use super::chains_plan::{CallbackPlan, ChainPlan, ExecutorPlan, PartPlan, wait};
use super::job::{END, Gate, Job, Spent};

/// Longest time that the requests before the start may take together, in nanoseconds.
const WARM_UP_NS: u64 = 5_000_000_000;
/// Samples of processor time for which room is made beforehand.
const MAX_SAMPLES: usize = 1 << 20;

/// Task of an executor process: the first message of its parent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Plan of the executor.
    pub plan: ExecutorPlan,
    /// Speed of this machine.
    pub calibration: Calibration,
    /// Way by which the executor reaches accelerators.
    pub way: Way,
    /// The folder of the executors' pipes.
    pub folder: PathBuf,
}

/// Privileges that the system refused to a process before the start.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Refused {
    /// Reason why its memory is not locked.
    pub lock: Option<String>,
}

/// Answer of the executor process.
pub(crate) type Answer = trial::Answer<Refused, Report>;

/// Report of one executor.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Delay of its first step after the start instant, in nanoseconds.
    pub late_ns: u64,
    /// Reason why it has no real-time priority, if it should have one.
    pub refused: Option<String>,
    /// The 99th percentile of processor time over nominal time, of all callbacks.
    pub stretch_p99: Option<f64>,
    /// Its parts, in the order of the plan.
    pub parts: Vec<PartReport>,
}

/// Report of one part of a chain.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PartReport {
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

/// Runs the executor process.
pub(crate) fn run(spec: &Spec, parent: &mut Parent) -> anyhow::Result<()> {
    let process = Process::prepare(spec)?;
    if spec.plan.priority > 0 {
        // Now, or a busy machine delays the start; the executor says whether it is refused.
        let _ = thread::set_policy(thread::Scheduling::Fifo(spec.plan.priority));
    }
    let lock = thread::lock_memory().err().map(|error| error.to_string());
    parent.tell(&Answer::Ready(Refused { lock }))?;
    let report = process.run(parent.hear()?)?;
    parent.tell(&Answer::Done(report))
}

/// An executor that waits for the start.
struct Process<'a> {
    spec: &'a Spec,
    executor: Executor,
    access: Access,
    /// Time at which requests before the start are given up.
    warm_ns: u64,
    /// The gates of best-effort chains that begin here, by number of the chain.
    gates: BTreeMap<usize, Arc<PiMutex<Gate>>>,
    /// Reports of the parts, which their callbacks fill.
    parts: Vec<Arc<PiMutex<PartReport>>>,
    shared: Arc<Shared>,
}

/// State of all callbacks of the process.
struct Shared {
    /// Parts to which jobs may still come.
    open: AtomicUsize,
    /// Processor time of callbacks over their nominal time.
    stretches: PiMutex<Vec<f64>>,
}

/// Callback of a chain.
struct Callback {
    cpu_ns: u64,
    pieces: Vec<Piece>,
    wait: Wait,
    /// Hands a job on; none after the last callback of the chain.
    next: Option<Next>,
    /// True if it is the last one of its part.
    is_last: bool,
    /// Tells the gate of a best-effort chain when a job ended.
    over: Option<Over>,
    part: Arc<PiMutex<PartReport>>,
    shared: Arc<Shared>,
}

type Next = Box<dyn Fn(&Job) -> std::io::Result<()> + Send>;
type Over = Box<dyn Fn(u64) + Send>;

/// Work, then a request; a callback without requests is one piece.
struct Piece {
    iterations: u64,
    request: Option<Ask>,
}

impl Process<'_> {
    fn prepare(spec: &Spec) -> anyhow::Result<Process<'_>> {
        let plan = &spec.plan;
        thread::set_name(&plan.id);
        // So are the threads of devices of its own that have no cores.
        thread::pin(&[plan.core])?;
        let only = Thread { cores: vec![plan.core], priority: plan.priority };
        let runs: u64 =
            plan.parts.iter().map(|p| p.chain.releases * p.callbacks.len() as u64).sum();
        let stretches = PiMutex::new(Vec::with_capacity((runs as usize).min(MAX_SAMPLES)));
        let mut process = Process {
            spec,
            executor: Executor::new(ExecutorPolicy::ChainAware, vec![only])?,
            access: Access::open(&spec.way)?,
            warm_ns: monotonic_ns() + WARM_UP_NS,
            gates: BTreeMap::new(),
            parts: Vec::new(),
            shared: Arc::new(Shared { open: AtomicUsize::new(plan.parts.len()), stretches }),
        };
        for part in plan.parts.iter().filter(|part| part.position == 0 && part.chain.best_effort) {
            process.add_gate(part)?;
        }
        for part in &plan.parts {
            process.add(part).with_context(|| format!("chain {}", part.chain.id))?;
        }
        Ok(process)
    }

    fn run(mut self, start_ns: u64) -> anyhow::Result<Report> {
        self.executor.start_at(start_ns);
        let late_ns = monotonic_ns().saturating_sub(start_ns);
        let refused = self.executor.run(start_ns + self.spec.plan.patience_ns)?.refused;
        let stretch_p99 = Summary::of(&self.shared.stretches.lock()).map(|all| all.p99);
        let parts = self.parts.iter().map(|part| std::mem::take(&mut *part.lock())).collect();
        Ok(Report { late_ns, refused, stretch_p99, parts })
    }

    /// The pipe by which jobs of a chain come to a position, or their ends to its gate.
    fn pipe(&self, chain: &ChainPlan, what: impl Display) -> PathBuf {
        self.spec.folder.join(format!("chain-{}-{what}", chain.index))
    }

    /// Adds the gate of a best-effort chain that begins with this part.
    fn add_gate(&mut self, part: &PartPlan) -> anyhow::Result<()> {
        let gate = Arc::new(PiMutex::new(Gate::default()));
        self.gates.insert(part.chain.index, gate.clone());
        if part.next.is_some() {
            // Of the timer's priority and registered before it: what ended is known first.
            let settings = Settings::new(&format!("{} ended", part.chain.id), part.priorities[0]);
            let ends = self.executor.mailbox::<u64>(&self.pipe(&part.chain, "ends"))?;
            self.executor.subscription(settings, ends, move |_, at_ns| gate.lock().over(at_ns));
        }
        Ok(())
    }

    /// Channel by which the callbacks of a chain tell that a job ended.
    fn over(&self, chain: &ChainPlan) -> anyhow::Result<Option<Over>> {
        if !chain.best_effort {
            return Ok(None);
        }
        if let Some(gate) = self.gates.get(&chain.index).cloned() {
            return Ok(Some(Box::new(move |at_ns| gate.lock().over(at_ns))));
        }
        let ends = Sender::open(&self.pipe(chain, "ends"))?;
        // A gate that hears nothing stays shut.
        Ok(Some(Box::new(move |at_ns| _ = ends.send(&at_ns))))
    }

    /// Adds the callbacks of a part.
    fn add(&mut self, part: &PartPlan) -> anyhow::Result<()> {
        let chain = &part.chain;
        let samples = if part.next.is_none() { chain.releases } else { 0 };
        let responses = Vec::with_capacity(samples as usize);
        let report = PartReport { chain: chain.index, responses, ..PartReport::default() };
        let report = Arc::new(PiMutex::new(report));
        self.parts.push(report.clone());
        let mut next: Option<Next> = None;
        if let Some(position) = part.next {
            let jobs = Sender::open(&self.pipe(chain, position))?;
            next = Some(Box::new(move |job: &Job| jobs.send(job)));
        }
        // Each hands its jobs to the one after it.
        for (offset, plan) in part.callbacks.iter().enumerate().rev() {
            let position = part.position + offset;
            let callback = Callback {
                cpu_ns: plan.cpu_ns,
                pieces: self.pieces(chain, position, plan)?,
                wait: wait(chain),
                next: next.take(),
                is_last: offset + 1 == part.callbacks.len(),
                over: self.over(chain)?,
                part: report.clone(),
                shared: self.shared.clone(),
            };
            let name = format!("{} {position}", chain.id);
            let settings = Settings::new(&name, part.priorities[offset]);
            if position == 0 {
                self.add_timer(settings, chain, callback);
                continue;
            }
            let jobs = match offset {
                0 => self.executor.mailbox(&self.pipe(chain, position))?,
                _ => Queue::new(usize::MAX),
            };
            let queue = jobs.clone();
            next = Some(Box::new(move |job: &Job| {
                queue.push(*job);
                Ok(())
            }));
            let serve = move |context: &mut Context, job| callback.serve(context, job);
            self.executor.subscription(settings, jobs, serve);
        }
        Ok(())
    }

    /// Adds the first callback of a chain.
    fn add_timer(&mut self, settings: Settings, chain: &ChainPlan, callback: Callback) {
        let (gate, releases) = (self.gates.get(&chain.index).cloned(), chain.releases);
        let period = Period {
            until_ns: chain.offset_ns + releases * chain.period_ns,
            catches_up: true,
            ..Period::new(chain.offset_ns, chain.period_ns)
        };
        self.executor.timer(settings, period, move |context, release| {
            let (number, release_ns) = (release.number, release.due_ns);
            match gate.as_ref().is_none_or(|gate| gate.lock().admits(release_ns)) {
                true => callback.serve(context, Job { number, release_ns, ..Job::default() }),
                false => callback.part.lock().skipped += 1,
            }
            if number + 1 == releases {
                callback.serve(context, Job { number: END, ..Job::default() });
            }
        });
    }

    /// Splits a callback into work and requests, and registers the requests. Each is done once, so
    /// that no job pays for what a device does once: compiling, loading, registering memory. What
    /// fails here fails again, and is counted then.
    fn pieces(
        &mut self,
        chain: &ChainPlan,
        position: usize,
        callback: &CallbackPlan,
    ) -> anyhow::Result<Vec<Piece>> {
        let CallbackPlan { cpu_ns, requests } = callback;
        let iterations = self.spec.calibration.iterations(cpu_ns / requests.len().max(1) as u64);
        if requests.is_empty() {
            return Ok(vec![Piece { iterations, request: None }]);
        }
        let mut pieces = Vec::with_capacity(requests.len());
        for (segment, request) in requests.iter().enumerate() {
            let number = (position as u64) << 32 | segment as u64;
            let named = (chain.id.as_str(), chain.priority);
            let ask = self.access.register(&mut self.executor, named, number, request)?;
            let client = self.executor.clients().first_mut();
            let _ = ask.run(client, Wait::Suspend, self.warm_ns, &mut Spent::default());
            pieces.push(Piece { iterations, request: Some(ask) });
        }
        Ok(pieces)
    }
}

impl Callback {
    /// Serves a job, or the end of all jobs.
    fn serve(&self, context: &mut Context, mut job: Job) {
        if job.number == END {
            // Who cannot be told ends when all patience does.
            let _ = self.pass_on(&job);
            // Relaxed: only the number matters, on one thread.
            if self.is_last && self.shared.open.fetch_sub(1, Ordering::Relaxed) == 1 {
                context.stop();
            }
            return;
        }
        match self.work(context, &mut job.spent).and_then(|()| self.pass_on(&job)) {
            Ok(()) if self.next.is_some() => return,
            Ok(()) => self.part.lock().completed(&job, monotonic_ns()),
            Err(Failure::OutOfTime) => {}
            Err(Failure::Failed(error)) => {
                let mut report = self.part.lock();
                report.failed += 1;
                report.error = Some(error);
            }
        }
        if let Some(over) = &self.over {
            over(monotonic_ns());
        }
    }

    fn pass_on(&self, job: &Job) -> Result<(), Failure> {
        let full =
            |error| Failure::Failed(format!("the next executor takes no more jobs: {error}"));
        self.next.as_ref().map_or(Ok(()), |next| next(job).map_err(full))
    }

    /// The work of the callback: processor, request, processor, request.
    fn work(&self, context: &mut Context, spent: &mut Spent) -> Result<(), Failure> {
        let mut cpu_ns = 0;
        for Piece { iterations, request } in &self.pieces {
            let (begin_ns, before_ns) = (monotonic_ns(), thread_cpu_ns());
            work::run(*iterations);
            cpu_ns += thread_cpu_ns() - before_ns;
            spent.computing_ns += monotonic_ns() - begin_ns;
            if let Some(request) = request {
                let end_ns = context.until_ns();
                request.run(context.accelerators().ok(), self.wait, end_ns, spent)?;
            }
        }
        let mut stretches = self.shared.stretches.lock();
        if self.cpu_ns > 0 && stretches.len() < MAX_SAMPLES {
            stretches.push(cpu_ns as f64 / self.cpu_ns as f64);
        }
        Ok(())
    }
}

impl PartReport {
    /// A job ended at `end_ns`, with the last callback of its chain.
    fn completed(&mut self, job: &Job, end_ns: u64) {
        let response_ns = end_ns.saturating_sub(job.release_ns);
        self.responses.push((job.number, response_ns));
        if self.slowest.is_none_or(|(_, most_ns, _)| response_ns > most_ns) {
            self.slowest = Some((job.number, response_ns, job.spent));
        }
    }
}
