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

use clap::ValueEnum;
use realtime::thread;

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
    /// Measured time of each run: by default 0.3, and three times that for long sections
    #[arg(long, value_name = "SECONDS", conflicts_with = "trace", value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// Measure less: one repetition of 0.1 s, fewer numbers of threads
    #[arg(long, conflicts_with = "trace")]
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

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.01..=60.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds from 0.01 to 60, as in 0.3".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.trace {
        trace(args)?;
    } else {
        let all = cases::PolicyArgument::value_variants();
        let wish = cases::Wish {
            threads: args.threads.clone(),
            policies: args.policy.clone().unwrap_or_else(|| all.to_vec()),
            seconds: args.seconds,
            repetitions: args.repetitions,
            quick: args.quick,
        };
        cases::run(&wish, args.json)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures what recording adds.
fn trace(args: &Args) -> anyhow::Result<()> {
    let cores = thread::cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let mut bench = Bench::new()?;
    let repetitions = args.repetitions.unwrap_or(TRACE_REPETITIONS);
    let mut measure = |measure, divisor: u64| {
        let rounds = args.pairs.div_ceil(BATCHES * divisor);
        let plan = Plan { measure, core: last, priority: PRIORITY, batches: BATCHES, rounds };
        repeat(&mut bench, plan, repetitions)
    };
    let pairs = measure(Measure::Mutex, 1)?;
    let (mut reads, mut rivals) = (None, None);
    if args.contended_run {
        reads = Some(measure(Measure::NestedReads, 2)?);
        if first == last {
            tell!("keeptime-lab bench: found only one core: two threads are not measured");
        } else {
            let two = Measure::Two { core: first, held_ns: HELD_NS, outside_ns: OUTSIDE_NS };
            rivals = Some(measure(two, 10)?);
        }
    }
    let findings = Findings { pairs, reads, rivals, left_out: bench.left_out };
    terminal::output::print(args.json, || findings.json(), || text::render(&findings))
}

/// Measures all recorders that are there, in turns.
fn repeat(bench: &mut Bench, plan: Plan, repetitions: u32) -> anyhow::Result<Table> {
    let mut table = Table::new(plan);
    for repetition in 0..repetitions as usize {
        let title = plan.measure.title();
        tell!("keeptime-lab bench: {title}, {} of {repetitions}", repetition + 1);
        let mut order = Variant::ALL;
        order.rotate_left(repetition % Variant::ALL.len());
        for variant in order {
            if !bench.has(variant, &plan) {
                continue;
            }
            match bench.run(variant, &plan) {
                Ok(run) => table.push(variant, run),
                Err(error) if variant.is_foreign() => {
                    bench.leave_out(variant, &error);
                    table.remove(variant);
                }
                Err(error) => return Err(error.context(variant.name())),
            }
        }
    }
    Ok(table)
}
