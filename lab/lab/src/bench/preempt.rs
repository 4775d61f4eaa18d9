//! `keeptime-lab bench preempt`: how long an urgent kernel is held up by a less urgent one, the
//! measurement of PAAM's Table I, in four ways of getting both onto the same accelerator
//! ([`way`]).
//!
//! An iteration launches the less urgent kernel, waits for a random part of the time that the
//! kernel takes, so that it is met at any of its points, and then runs the urgent one, which is
//! the same kernel. Right after it the urgent one runs once more, alone. The delay is the
//! difference of the two, as there. Iterations in which the less urgent kernel did not run any
//! more (or not yet) when the urgent one was submitted are counted, and do not count.

mod preempt_result;
mod way;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread;
use terminal::progress::Progress;
use trial::signals;

use super::floor::{is_granted, prioritise};
use crate::shown::{End, Shown};
use preempt_result::{Case, Findings};
use way::{Kernel, Place, Way};

pub(crate) use way::Order;

/// Repetitions of a kernel alone, before it is known how long it takes.
const TRIALS: usize = 20;
/// A thread that never sleeps is stopped by the kernel for 50 ms of each second.
const REST_NS: u64 = 50_000;

/// Options of `keeptime-lab bench preempt`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The accelerator: cpu, cuda:N or vulkan:N
    #[arg(long, default_value = "cpu", value_parser = super::parse_device)]
    device: String,
    /// Kernels, of matmul, reduce, vecadd, histogram
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "matmul,reduce,vecadd,histogram"
    )]
    kernels: Vec<Kernel>,
    /// Ways, of streams, processes, server, sliced
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "streams,processes,server,sliced"
    )]
    ways: Vec<way::Kind>,
    /// Slices of each kernel, in the way sliced
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1024))]
    slices: u32,
    /// Iterations of each way and kernel
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Time after which no further iteration of a way and kernel begins
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = terminal::time)]
    case_limit: Duration,
    /// Measure less: 50 iterations
    #[arg(long, conflicts_with = "iterations")]
    quick: bool,
    /// The device's threads poll for the end of a kernel without sleeping
    #[arg(long)]
    spin: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cores = thread::cores();
    let last = *cores.last().context("no core may be used")?;
    let others: Vec<usize> = cores.iter().copied().filter(|core| *core != last).collect();
    let home = if others.is_empty() { cores } else { others };
    let priority = if is_granted(50) { 90 } else { 0 };
    let place = Place {
        device: args.device.clone(),
        cores: home,
        priority,
        spin: args.spin,
        blocks_per_slice: 0,
    };
    let mut bench = Bench { args, place, last, cases: Vec::new(), missing: Vec::new() };
    let all = args.ways.len() * args.kernels.len();
    let progress = Progress::start("keeptime-lab bench preempt", None);
    let interrupted = signals::finished(bench.measure(all, &progress))?;
    drop(progress);
    let Bench { cases, missing, .. } = bench;
    let units = (cases.len(), all - missing.len() * args.kernels.len());
    let end = End { interrupted, units, name: "cases" };
    end.check()?;
    if let [(way, why), ..] = missing.as_slice() {
        ensure!(!cases.is_empty(), "nothing could be measured: {way}: {why}");
    }
    let findings = Findings { device: args.device.clone(), cases, missing };
    let schema = ("keeptime.bench-preempt", 1);
    let shown = Shown { schema, json: args.json, html: None, end: &end };
    shown.text(|| findings.json(), || findings.text())?;
    let met = findings.cases.iter().all(|case| !case.delays_ns.is_empty());
    ensure!(met, "in one of the cases the less urgent kernel never ran when the urgent one came");
    end.answer(ExitCode::SUCCESS)
}

/// The cases that have been measured, and the ways that cannot be.
struct Bench<'a> {
    args: &'a Args,
    place: Place,
    /// Core of the measuring thread.
    last: usize,
    cases: Vec<Case>,
    missing: Vec<(&'static str, String)>,
}

impl Bench<'_> {
    /// Measures all cases.
    fn measure(&mut self, all: usize, progress: &Progress) -> anyhow::Result<()> {
        for (number, kind) in self.args.ways.iter().enumerate() {
            if let Some(why) = kind.missing(&self.place) {
                self.missing.push((kind.name(), why));
                continue;
            }
            for (at, kernel) in self.args.kernels.iter().enumerate() {
                let done = (number * self.args.kernels.len() + at) as u64;
                let stage = format!("{} {}", kind.name(), kernel.name());
                progress.at(done, all as u64, &stage);
                let case = self.case(*kind, *kernel).context(stage)?;
                // A case takes up to a minute: each is told when it is known.
                progress.tell(format_args!("{}", case.words()));
                self.cases.push(case);
            }
        }
        Ok(())
    }

    fn case(&self, kind: way::Kind, kernel: Kernel) -> anyhow::Result<Case> {
        let blocks_per_slice = kind.blocks_per_slice(&self.place, kernel, self.args.slices);
        let place = Place { blocks_per_slice, ..self.place.clone() };
        // Processes and threads of the way inherit neither this thread's core nor its priority.
        prioritise(0)?;
        thread::pin(&place.cores)?;
        let mut way = kind.open(&place, kernel)?;
        thread::pin(&[self.last])?;
        prioritise(if place.priority == 0 { 0 } else { 50 })?;
        let case = Case::new(kind.name(), kernel.name(), blocks_per_slice);
        measure(self.args, case, way.as_mut())
    }
}

fn measure(args: &Args, mut case: Case, pair: &mut dyn Way) -> anyhow::Result<Case> {
    let iterations = if args.quick { 50 } else { args.iterations };
    let mut trials = (0..TRIALS).map(|_| pair.urgent()).collect::<anyhow::Result<Vec<_>>>()?;
    trials.sort_unstable();
    let usual_ns = trials[TRIALS / 2];
    let end = monotonic_ns() + args.case_limit.as_nanos() as u64;
    for _ in 0..iterations {
        signals::check()?;
        pair.begin()?;
        let until = monotonic_ns() + fastrand::u64(0..=usual_ns);
        while monotonic_ns() < until {
            std::hint::spin_loop();
        }
        let submitted = monotonic_ns();
        let behind_ns = pair.urgent()?;
        let (started, finished) = pair.end()?;
        let alone_ns = pair.urgent()?;
        case.add(alone_ns, behind_ns, (started..finished).contains(&submitted));
        let now = monotonic_ns();
        if now > end {
            break;
        }
        sleep_until_ns(now + REST_NS.max(usual_ns / 4));
    }
    Ok(case)
}
