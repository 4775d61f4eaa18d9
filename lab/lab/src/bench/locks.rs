//! `keeptime-lab bench locks`: what threads wait for locks under each policy ([`cases`]); with
//! `--trace`, what recording adds to a lock, beside what LTTng's wrapper of the pthread functions
//! and uftrace add to the same lock.
//!
//! For the latter, one small program ([`program`]) is run under every recorder ([`Variant`]), each
//! time in a fresh process. A repetition runs all of them, beginning with another one each time. A
//! recorder's cost is the program's time under it less its time without one in the same
//! repetition. What a run has recorded is counted in what it left behind. A recorder that the
//! machine does not have is left out, and the result says so.

mod cases;
mod lttng;
mod program;
mod recorded;
mod result;
mod text;
mod uftrace;
mod variant;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use realtime::thread;
use terminal::progress::Progress;
use trial::signals::{self, Interrupted};

use crate::shown::{End, Shown};

use program::{Measure, Plan};
use result::{Findings, Table};
use variant::{Bench, Variant};

pub(crate) use cases::{Shape, measure};
pub(crate) use lttng::become_program;

/// Batches of a run, whose time is that of its median batch.
const BATCHES: u64 = 20;
/// The priority of the measured threads.
const PRIORITY: u8 = 50;
/// Time for which each of two threads holds the lock that both want, and time for which it then
/// leaves the lock alone.
const HELD_NS: u64 = 2000;
const OUTSIDE_NS: u64 = 200;

/// Repetitions unless they are asked for; without `--trace` the cases know.
const TRACE_REPETITIONS: u32 = 11;
/// Repetitions and pairs with `--trace --quick`.
const QUICK_REPETITIONS: u32 = 2;
const QUICK_PAIRS: u64 = 40_000;

/// Options of `keeptime-lab bench locks`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure the cost that recording adds to a lock, instead of waits
    #[arg(long)]
    trace: bool,
    /// Repetitions of each policy in each case, or of each recorder: by default 3 or 11
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Numbers of threads that share a lock: by default 1,2,4,16,100
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "trace",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    threads: Option<Vec<u32>>,
    /// Policies to measure: by default all
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "trace", value_enum)]
    policy: Option<Vec<cases::PolicyArgument>>,
    /// Measured time of each run, from 10ms to 60s: by default 300ms, and three times that for long
    /// sections
    #[arg(long, value_name = "TIME", conflicts_with = "trace", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Measure less: one repetition of 100ms, fewer numbers of threads; with --trace, two
    /// repetitions of 40000 pairs
    #[arg(long)]
    quick: bool,
    /// Pairs of lock and unlock in one run
    #[arg(long, value_name = "N", default_value_t = 400_000, requires = "trace",
        value_parser = clap::value_parser!(u64).range(1000..=20_000_000))]
    pairs: u64,
    /// Also measure nested read locks, and two threads that contend for one lock
    #[arg(long, requires = "trace")]
    contended_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = terminal::time(text)?;
    let fits = (Duration::from_millis(10)..=Duration::from_secs(60)).contains(&duration);
    if fits { Ok(duration) } else { Err("expected a time from 10ms to 60s, as in 300ms".into()) }
}

impl Args {
    /// Repetitions of each recorder, and pairs of lock and unlock in a run.
    fn trace_extent(&self) -> (u32, u64) {
        let (repetitions, pairs) = match self.quick {
            true => (QUICK_REPETITIONS, QUICK_PAIRS),
            false => (TRACE_REPETITIONS, self.pairs),
        };
        (self.repetitions.unwrap_or(repetitions), pairs)
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.trace {
        trace(args)
    } else {
        let all = cases::PolicyArgument::value_variants();
        let wish = cases::Wish {
            threads: args.threads.clone(),
            policies: args.policy.clone().unwrap_or_else(|| all.to_vec()),
            duration: args.duration,
            repetitions: args.repetitions,
            quick: args.quick,
        };
        cases::run(&wish, args.json)
    }
}

/// Measures what recording adds.
fn trace(args: &Args) -> anyhow::Result<ExitCode> {
    let cores = thread::cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let mut bench = Bench::new()?;
    let mut plans = vec![(Measure::Mutex, 1)];
    if args.contended_run {
        plans.push((Measure::NestedReads, 2));
        if first == last {
            tell!("keeptime-lab bench locks: found only one core: two threads are not measured");
        } else {
            let two = Measure::Two { core: first, held_ns: HELD_NS, outside_ns: OUTSIDE_NS };
            plans.push((two, 10));
        }
    }
    let (repetitions, pairs) = args.trace_extent();
    let all = plans.len() * repetitions as usize;
    let progress = Progress::start("keeptime-lab bench locks", None);
    let mut done = 0;
    let mut tables = Vec::new();
    let measured = plans.iter().try_for_each(|&(measure, divisor)| {
        let rounds = pairs.div_ceil(BATCHES * divisor);
        let plan = Plan { measure, core: last, priority: PRIORITY, batches: BATCHES, rounds };
        let mut table = Table::new(plan);
        let repeated = (0..repetitions as usize).try_for_each(|repetition| {
            progress.at(done as u64, all as u64, measure.title());
            repeat(&mut bench, plan, repetition, &mut table)?;
            done += 1;
            Ok(())
        });
        tables.push(table);
        repeated
    });
    let interrupted = signals::finished(measured)?;
    drop(progress);
    let end = End { interrupted, units: (done, all), name: "repetitions" };
    end.check()?;
    let mut tables = tables.into_iter();
    let pairs = tables.next().context("nothing was measured")?;
    let findings =
        Findings { pairs, reads: tables.next(), rivals: tables.next(), left_out: bench.left_out };
    let schema = ("keeptime.bench-locks-trace", 2);
    let shown = Shown { schema, json: args.json, html: None, end: &end };
    shown.text(|| findings.json(), || text::render(&findings))?;
    end.answer(ExitCode::SUCCESS)
}

/// Measures all recorders that are there once; each repetition begins with another one.
fn repeat(
    bench: &mut Bench,
    plan: Plan,
    repetition: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    let mut order = Variant::ALL;
    order.rotate_left(repetition % Variant::ALL.len());
    for variant in order {
        if !bench.has(variant, &plan) {
            continue;
        }
        signals::check()?;
        match bench.run(variant, &plan) {
            Ok(run) => table.push(variant, run),
            Err(error) if variant.is_foreign() && !error.is::<Interrupted>() => {
                bench.leave_out(variant, &error);
                table.remove(variant);
            }
            Err(error) => return Err(error.context(variant.name())),
        }
    }
    Ok(())
}
