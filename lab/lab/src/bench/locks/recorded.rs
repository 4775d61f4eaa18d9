//! The program under Keeptime's own library, by way of `keeptime run`.
//!
//! The memory for records takes all that the measured batches make, and a little more; the oldest
//! give way. The warm-up fills it once, so that the batches find memory that was written before,
//! and still all of their records are in the trace, where they are counted: those of the measured
//! lock, which the warm-up does not use.

use std::path::Path;
use std::process::Command;

use record::{Action, Kind};
use shm::log::{CAPACITY, CHUNK_BYTES};
use trace::{StreamKind, Trace};

use super::program::{self, Measure, Plan};
use super::variant::{Records, Run};

/// Recording that `keeptime run` is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The locks of the CUDA libraries, of which there are none: every call is passed on.
    Forward,
    /// Locks that are waited for.
    Contended,
    /// Recording of all locks.
    Full,
    /// Recording of all locks, into memory that was not written before.
    FirstTouch,
}

/// Runs the program and counts its records.
pub(super) fn run(program: &Path, folder: &Path, mode: Mode, plan: &Plan) -> anyhow::Result<Run> {
    let file = folder.join("pairs.kt");
    let chunks = chunks(plan);
    let mut command = Command::new(crate::tool::keeptime()?);
    command.arg("run").arg("--out").arg(&file);
    command.args(["--tier", "preload", "--quiet", "--memory"]);
    command.arg(format!("{}KiB", (chunks * CHUNK_BYTES as u64) >> 10));
    command.args(match mode {
        Mode::Forward => &["--keep", "last"][..],
        Mode::Contended => &["--keep", "last", "--all-locks", "--contended"],
        Mode::Full => &["--keep", "last", "--all-locks"],
        Mode::FirstTouch => &["--keep", "first", "--all-locks"],
    });
    command.env_remove("LD_PRELOAD").arg("--").arg(program);
    command.args(plan.arguments(warm_up(plan, mode, chunks)));
    let reading = program::read(command, plan)?;
    let counts = Counts::of(&file, reading.lock)?;
    std::fs::remove_file(&file)?;
    counts.check(mode, plan)?;
    Ok(Run { records: Some(counts.records(plan)), reading })
}

/// Least and most records of a round in full mode: a lock that is waited for has one more.
fn records_of_a_round(measure: Measure) -> (u64, u64) {
    match measure {
        Measure::Mutex => (2, 2),
        Measure::NestedReads => (4, 4),
        Measure::Two { .. } => (2, 3),
    }
}

/// Chunks for the records of all batches, with the beginning and the end of each thread's in
/// chunks that are not full, and what the program itself locks besides.
fn chunks(plan: &Plan) -> u64 {
    let (_, most) = records_of_a_round(plan.measure);
    (plan.all_rounds() * most).div_ceil(CAPACITY.into()) + 4 * plan.measure.threads()
}

/// Rounds that each thread does beforehand.
fn warm_up(plan: &Plan, mode: Mode, chunks: u64) -> u64 {
    if mode == Mode::FirstTouch {
        return u64::from(CAPACITY) / 2;
    }
    let (least, _) = records_of_a_round(plan.measure);
    (chunks * u64::from(CAPACITY)).div_ceil(least * plan.measure.threads())
}

/// Records about the measured lock.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    acquired: u64,
    released: u64,
    waiting: u64,
    /// Records about any lock that there was no room for, or that are not whole.
    lost: u64,
}

impl Counts {
    fn of(file: &Path, lock: u64) -> anyhow::Result<Counts> {
        let trace = Trace::open(file)?;
        let lost = trace.metadata().lost_without_chunk.count;
        let mut counts = Counts { lost, ..Counts::default() };
        let threads = trace.streams().iter().filter(|stream| stream.kind == StreamKind::Thread);
        let mut records = Vec::new();
        for block in threads.flat_map(|stream| &stream.blocks) {
            counts.lost += block.lost.count + u64::from(block.torn);
            trace.read(block, &mut records)?;
            for record in records.iter().filter(|record| record.subject == lock) {
                match record.kind {
                    Kind::Lock(_, Action::Acquired) => counts.acquired += 1,
                    Kind::Lock(_, Action::Released) => counts.released += 1,
                    Kind::Lock(_, Action::Waiting) => counts.waiting += 1,
                    _ => {}
                }
            }
        }
        Ok(counts)
    }

    /// Checks that the recording has exactly the records of this mode.
    fn check(&self, mode: Mode, plan: &Plan) -> anyhow::Result<()> {
        let locks = plan.all_rounds() * plan.measure.calls() / 2;
        let rivals = matches!(plan.measure, Measure::Two { .. });
        let right = match mode {
            Mode::Forward => *self == Counts { lost: self.lost, ..Counts::default() },
            Mode::Contended if rivals => {
                self.acquired == self.waiting && self.released == self.waiting
            }
            Mode::Contended => self.acquired + self.released + self.waiting == 0,
            Mode::Full | Mode::FirstTouch => {
                self.acquired == locks && self.released == locks && (rivals || self.waiting == 0)
            }
        };
        anyhow::ensure!(
            right || self.lost > 0,
            "the lock was taken {locks} times, and the recording has {self:?}"
        );
        Ok(())
    }

    fn records(&self, plan: &Plan) -> Records {
        let made = self.acquired + self.released + self.waiting;
        Records { per_round: made as f64 / plan.all_rounds() as f64, lost: self.lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan =
        Plan { measure: Measure::Mutex, core: 0, priority: 0, batches: 20, rounds: 5_000 };

    #[test]
    fn memory_holds_all_that_is_measured_and_is_written_once_before() {
        let room = (chunks(&PLAN) - 2) * u64::from(CAPACITY);
        assert!(room >= 2 * PLAN.all_rounds());
        let written = 2 * warm_up(&PLAN, Mode::Full, chunks(&PLAN));
        assert!(written >= chunks(&PLAN) * u64::from(CAPACITY));
        assert!(2 * warm_up(&PLAN, Mode::FirstTouch, chunks(&PLAN)) <= u64::from(CAPACITY));
    }

    #[test]
    fn recording_that_lacks_a_record_is_refused_unless_it_says_so() {
        let whole = Counts { acquired: 100_000, released: 100_000, ..Counts::default() };
        whole.check(Mode::Full, &PLAN).unwrap();
        assert_eq!(whole.records(&PLAN), Records { per_round: 2.0, lost: 0 });
        let mut short = Counts { released: 99_999, ..whole };
        assert!(short.check(Mode::Full, &PLAN).is_err());
        assert!(short.check(Mode::Contended, &PLAN).is_err());
        assert!(short.check(Mode::Forward, &PLAN).is_err());
        short.lost = 1;
        short.check(Mode::Full, &PLAN).unwrap();
    }

    #[test]
    fn contended_recording_has_the_whole_of_each_wait() {
        let two = Measure::Two { core: 1, held_ns: 1, outside_ns: 1 };
        let plan = Plan { measure: two, ..PLAN };
        let mut counts = Counts { acquired: 7, released: 7, waiting: 7, lost: 0 };
        counts.check(Mode::Contended, &plan).unwrap();
        counts.released = 6;
        assert!(counts.check(Mode::Contended, &plan).is_err());
    }
}
