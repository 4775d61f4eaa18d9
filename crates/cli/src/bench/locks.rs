//! `keeptime bench locks --trace`: what recording adds to a lock, beside what LTTng's wrapper of
//! the pthread functions and uftrace add to the same lock.
//!
//! One small program ([`program`]) is run under every recorder ([`Variant`]), each time in a fresh
//! process. A repetition runs all of them, beginning with another one each time. A recorder's cost
//! is the program's time under it less its time without one in the same repetition. What a run
//! has recorded is counted in what it left behind. A recorder that the machine does not have is
//! left out, and the result says so.

mod lttng;
mod program;
mod recorded;
mod result;
mod text;
mod tied;
mod uftrace;
mod variant;

use std::io::Write;
use std::process::ExitCode;

use realtime::thread;

use program::{Measure, Plan};
use result::{Findings, Table};
use variant::{Bench, Variant};

pub use tied::{Args as TiedArgs, run as tied};

/// Batches of a run, whose time is that of its median batch.
const BATCHES: u64 = 20;
/// The priority of the measured threads.
const PRIORITY: u8 = 50;
/// How long each of two threads holds the lock that both want, and then leaves it alone.
const HELD_NS: u64 = 2000;
const OUTSIDE_NS: u64 = 200;

/// Options of `keeptime bench locks`.
#[derive(clap::Args)]
pub struct Args {
    /// Measure what recording adds to a lock
    #[arg(long, required = true)]
    trace: bool,
    /// How often each recorder is measured
    #[arg(long, value_name = "N", default_value_t = 11,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// How often one run locks and unlocks
    #[arg(long, value_name = "N", default_value_t = 400_000,
        value_parser = clap::value_parser!(u64).range(1000..=20_000_000))]
    pairs: u64,
    /// Also measure read locks inside each other, and two threads that want the same lock
    #[arg(long)]
    contended_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cores = thread::cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let mut bench = Bench::new()?;
    let mut measure = |measure, divisor: u64| {
        let rounds = args.pairs.div_ceil(BATCHES * divisor);
        let plan = Plan { measure, core: last, priority: PRIORITY, batches: BATCHES, rounds };
        repeat(&mut bench, plan, args.repetitions)
    };
    let pairs = measure(Measure::Mutex, 1)?;
    let (mut reads, mut rivals) = (None, None);
    if args.contended_run {
        reads = Some(measure(Measure::NestedReads, 2)?);
        if first == last {
            eprintln!("keeptime bench: only one core, so that no two threads can be measured");
        } else {
            let two = Measure::Two { core: first, held_ns: HELD_NS, outside_ns: OUTSIDE_NS };
            rivals = Some(measure(two, 10)?);
        }
    }
    let findings = Findings { pairs, reads, rivals, left_out: bench.left_out };
    let text = if args.json { findings.json()? } else { text::render(&findings) };
    write!(std::io::stdout().lock(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// Measures all recorders that are there, in turns.
fn repeat(bench: &mut Bench, plan: Plan, repetitions: u32) -> anyhow::Result<Table> {
    let mut table = Table::new(plan);
    for repetition in 0..repetitions as usize {
        let title = plan.measure.title();
        eprintln!("keeptime bench: {title}, {} of {repetitions}", repetition + 1);
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
