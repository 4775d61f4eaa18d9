//! The program that is measured: its source, its compilation, its arguments and what it prints.
//!
//! It is written in C, so that its calls go through the table of jumps that every recorder can
//! hook. The machine's own compiler translates it when the command runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use stats::{ascending, nearest_rank};
use trial::Child;

const SOURCE: &str = include_str!("pairs.c");
/// The optimisation is that of most programs; binding is lazy, as uftrace needs it.
const OPTIONS: [&str; 4] = ["-O2", "-pthread", "-Wl,-z,lazy", "-o"];

/// Kind of the program's rounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// A mutex is locked and unlocked.
    Mutex,
    /// A read lock is taken, and inside it once more.
    NestedReads,
    /// Two threads lock the same mutex, hold it and leave it alone; the other one on this core.
    Two { core: usize, held_ns: u64, outside_ns: u64 },
}

impl Measure {
    /// Returns its title, for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Measure::Mutex => "mutex that is free",
            Measure::NestedReads => "nested read locks",
            Measure::Two { .. } => "two threads, one mutex",
        }
    }

    /// Calls of a round.
    pub(super) fn calls(self) -> u64 {
        match self {
            Measure::Mutex | Measure::Two { .. } => 2,
            Measure::NestedReads => 4,
        }
    }

    /// Threads that each do all rounds.
    pub(super) fn threads(self) -> u64 {
        match self {
            Measure::Mutex | Measure::NestedReads => 1,
            Measure::Two { .. } => 2,
        }
    }
}

/// Parameters of one run.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Kind of the rounds.
    pub measure: Measure,
    /// Core of the measured thread.
    pub core: usize,
    /// Its real-time priority, where that is allowed.
    pub priority: u8,
    /// Batches, each of which is timed.
    pub batches: u64,
    /// Rounds of each thread in a batch.
    pub rounds: u64,
}

impl Plan {
    /// Measured rounds of all threads together.
    pub(super) fn all_rounds(&self) -> u64 {
        self.measure.threads() * self.batches * self.rounds
    }

    /// The program's arguments. Each thread first does `warm_up` rounds that are not measured.
    pub(super) fn arguments(&self, warm_up: u64) -> Vec<String> {
        let word = match self.measure {
            Measure::Mutex => "mutex",
            Measure::NestedReads => "rwlock",
            Measure::Two { .. } => "two",
        };
        let mut numbers =
            vec![self.core as u64, self.priority.into(), warm_up, self.batches, self.rounds];
        if let Measure::Two { core, held_ns, outside_ns } = self.measure {
            numbers.extend([core as u64, held_ns, outside_ns]);
        }
        let numbers = numbers.iter().map(u64::to_string);
        std::iter::once(word.to_owned()).chain(numbers).collect()
    }
}

/// Results of a run of the program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// Nanoseconds of a round in the median batch.
    pub round_ns: f64,
    /// Address of the measured lock.
    pub lock: u64,
    /// True if the measured threads had their real-time priority.
    pub fifo: bool,
    /// Voluntary context switches of the measured threads.
    pub switches: u64,
}

impl Reading {
    fn parse(output: &str, plan: &Plan) -> anyhow::Result<Reading> {
        let fields: Vec<(&str, &str)> =
            output.lines().filter_map(|line| line.split_once(' ')).collect();
        let value = |name: &str| {
            let found = fields.iter().find(|(field, _)| *field == name);
            found.map(|(_, value)| *value).with_context(|| format!("the program prints no {name}"))
        };
        let times = fields.iter().filter(|(field, _)| *field == "batch_ns");
        let times: Vec<f64> = times.map(|(_, ns)| ns.parse()).collect::<Result<_, _>>()?;
        anyhow::ensure!(
            times.len() as u64 == plan.batches,
            "the program prints {} batches; expected {}",
            times.len(),
            plan.batches
        );
        let batch_ns = nearest_rank(&ascending(&times), 500).context("no batch has a time")?;
        let lock = value("lock")?;
        let digits = lock.strip_prefix("0x").unwrap_or(lock);
        Ok(Reading {
            round_ns: batch_ns / (plan.measure.threads() * plan.rounds) as f64,
            lock: u64::from_str_radix(digits, 16).with_context(|| format!("lock {lock}"))?,
            fifo: value("fifo")? == "1",
            switches: value("switches")?.parse()?,
        })
    }
}

/// Compiles the program into a folder.
pub(super) fn compile_pairs(folder: &Path) -> anyhow::Result<PathBuf> {
    compile(folder, "pairs", SOURCE, &[])
}

/// Compiles a program in C into a folder.
pub(super) fn compile(
    folder: &Path,
    name: &str,
    source: &str,
    options: &[&str],
) -> anyhow::Result<PathBuf> {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source)?;
    let compiler = std::env::var_os("CC").filter(|name| !name.is_empty());
    let compiler = compiler.unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(options).args(OPTIONS).arg(&program).arg(&file);
    let child = Child::start("the compiler", command).with_context(|| {
        let name = compiler.display();
        format!("the measured program is in C, and {name} does not start; set CC to a C compiler")
    })?;
    let (status, _, errors) = child.run_out()?;
    anyhow::ensure!(status.success(), "the measured program cannot be compiled: {}", errors.trim());
    Ok(program)
}

/// Runs a command that runs the program, and reads what the program says.
pub(super) fn read(command: Command, plan: &Plan) -> anyhow::Result<Reading> {
    Reading::parse(&output_of(command)?, plan)
}

/// The standard output of a command, which must succeed.
pub(super) fn output_of(command: Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (status, output, errors) = Child::start(name.as_str(), command)?.run_out()?;
    anyhow::ensure!(status.success(), "{name}: {status}: {}", errors.trim());
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan =
        Plan { measure: Measure::Mutex, core: 1, priority: 50, batches: 3, rounds: 10 };

    #[test]
    fn reading_is_the_median_batch_of_what_the_program_prints() {
        let output = "lock 0x40c0\nfifo 1\nswitches 4\nbatch_ns 900\nbatch_ns 100\nbatch_ns 200\n";
        let reading = Reading::parse(output, &PLAN).unwrap();
        let expected = Reading { round_ns: 20.0, lock: 0x40c0, fifo: true, switches: 4 };
        assert_eq!(reading, expected);
        let two = Measure::Two { core: 0, held_ns: 1, outside_ns: 1 };
        let two = Plan { measure: two, ..PLAN };
        assert_eq!(Reading::parse(output, &two).unwrap().round_ns, 10.0);
    }

    #[test]
    fn reading_of_a_program_that_stopped_half_way_is_refused() {
        let output = "lock 0x40c0\nfifo 1\nswitches 0\nbatch_ns 900\n";
        let error = Reading::parse(output, &PLAN).unwrap_err().to_string();
        assert_eq!(error, "the program prints 1 batches; expected 3");
    }

    #[test]
    fn program_takes_the_arguments_of_a_plan() {
        let folder = tempfile::tempdir().unwrap();
        let program = compile_pairs(folder.path()).unwrap();
        let core = realtime::thread::cores()[0];
        let two = Measure::Two { core, held_ns: 10, outside_ns: 10 };
        for measure in [Measure::Mutex, Measure::NestedReads, two] {
            let plan = Plan { measure, core, priority: 0, batches: 3, rounds: 10 };
            let mut command = Command::new(&program);
            command.args(plan.arguments(5));
            let reading = read(command, &plan).unwrap();
            assert!(reading.round_ns > 0.0 && reading.lock != 0 && !reading.fifo);
        }
    }
}
