//! "Autonomy Today"'s Figs. 12 and 13 as tables: what the calls themselves take.
//!
//! Without contention, one thread takes sixteen locks in a row and lets them go
//! again, since one call is shorter than reading the clock: a sample is the mean of sixteen calls.
//! If four threads want the lock, the processor time of each call is taken, that is, without the
//! time in which the thread was suspended, as in the paper.

use std::collections::BTreeMap;

use super::super::result::Spread;
use super::Bench;
use super::PRIORITY;
use super::policy::Policy;
use super::reading::Reading;
use super::shape::{Calls, Kind, Shape};
use trial::signals::{self, Interrupted};

/// Locks in a row, as in `contend.c`.
const ROW: f64 = 16.0;
const CONTENDING_THREADS: u32 = 4;
const SECTION_NS: u64 = 10_000;
const THINK_NS: u64 = 10_000;
const READS: u32 = 50;

const MUTEXES: [Policy; 5] =
    [Policy::Default, Policy::InheritNative, Policy::Inherit, Policy::Fair, Policy::FairInherit];
const RWLOCKS: [Policy; 3] = [Policy::Default, Policy::PhaseFair, Policy::Ck];

/// Times of one call under one policy.
pub(super) struct Call {
    /// Number of the paper's figure that shows this call.
    pub figure: u32,
    pub policy: Policy,
    /// Name of the pthread function: lock, unlock, read_lock ...
    pub call: &'static str,
    pub contended: bool,
    pub mean_ns: Spread,
    pub p50_ns: Spread,
    pub p99_ns: Spread,
    /// Context switches for each acquisition of the run.
    pub switches_per_op: Spread,
}

/// The calls of a figure and the histograms that they are in.
fn calls(figure: u32) -> &'static [(&'static str, &'static str)] {
    if figure == 12 {
        return &[("lock", "locked"), ("unlock", "unlocked")];
    }
    &[
        ("read_lock", "read_locked"),
        ("read_unlock", "read_unlocked"),
        ("write_lock", "locked"),
        ("write_unlock", "unlocked"),
    ]
}

/// Parts of the measurement: each figure without contention and with it.
pub(super) const PARTS: usize = 4;

/// Measures both figures; `tell` hears of each part.
pub(super) fn measure(
    bench: &mut Bench,
    all: &mut Vec<Call>,
    mut tell: impl FnMut(&str),
) -> anyhow::Result<()> {
    for (figure, kind, policies) in
        [(12, Kind::Mutex, &MUTEXES[..]), (13, Kind::Rwlock, &RWLOCKS[..])]
    {
        for contended in [false, true] {
            let what = if contended { "contended" } else { "uncontended" };
            tell(&format!("calls of Fig. {figure}, {what}"));
            let shape = shape(kind, contended, bench);
            let mut runs: BTreeMap<Policy, Vec<Reading>> = BTreeMap::new();
            let mut failed = Vec::new();
            for repetition in 0..bench.extent.repetitions {
                for policy in bench.turn(policies, repetition) {
                    if failed.contains(&policy) {
                        continue;
                    }
                    signals::check()?;
                    match bench.programs.run(policy, &shape) {
                        Err(error) if error.is::<Interrupted>() => return Err(error),
                        Ok(run) => runs.entry(policy).or_default().push(run.reading),
                        Err(error) => {
                            let case = format!("calls/{}/{what}", policy.name());
                            bench.leave_out(policy, case, &error)?;
                            failed.push(policy);
                            runs.remove(&policy);
                        }
                    }
                }
            }
            for (policy, readings) in &runs {
                let of =
                    |(call, histogram)| of(figure, *policy, contended, call, histogram, readings);
                all.extend(calls(figure).iter().copied().filter_map(of));
            }
        }
    }
    Ok(())
}

fn shape(kind: Kind, contended: bool, bench: &Bench) -> Shape {
    let shape = Shape {
        kind,
        reads: READS,
        warm_up_ms: super::WARM_UP_MS,
        measured_ms: bench.extent.measured_ms,
        ..Shape::default()
    };
    if contended {
        Shape {
            threads: CONTENDING_THREADS,
            section_ns: SECTION_NS,
            think_ns: THINK_NS,
            calls: Calls::ProcessorTime,
            ..shape
        }
    } else {
        // Others are kept away from the one thread, where that is allowed.
        let fifo = if bench.has_fifo() { PRIORITY } else { 0 };
        Shape { threads: 1, fifo, pin: true, calls: Calls::FreeLocks, ..shape }
    }
}

fn of(
    figure: u32,
    policy: Policy,
    contended: bool,
    call: &'static str,
    histogram: &str,
    readings: &[Reading],
) -> Option<Call> {
    let row = if contended { 1.0 } else { ROW };
    let spread = |number: &dyn Fn(&Reading) -> Option<f64>| {
        Spread::of(readings.iter().filter_map(number).collect::<Vec<f64>>())
    };
    let permille = |permille| {
        spread(&|reading| Some(reading.histograms.get(histogram)?.permille(permille)? as f64 / row))
    };
    Some(Call {
        figure,
        policy,
        call,
        contended,
        mean_ns: spread(&|reading| Some(reading.histograms.get(histogram)?.mean_ns()? / row))?,
        p50_ns: permille(500)?,
        p99_ns: permille(990)?,
        switches_per_op: spread(&|reading| {
            Some(reading.switches as f64 / reading.operations().max(1) as f64)
        })?,
    })
}
