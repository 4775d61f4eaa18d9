//! Variants of a measured program: bare, one of Keeptime's ways to record, another recorder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use super::lttng::Lttng;
use super::program::{self, Measure, Plan, Reading};
use super::recorded::{self, Mode};
use super::uftrace;

/// Variant of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Variant {
    /// No recorder.
    Bare,
    /// The preload library records, but not the locks of this caller.
    Forward,
    /// Recording of contended locks.
    Contended,
    /// Recording of all locks.
    Full,
    /// The same, in memory that was not written before.
    FirstTouch,
    /// LTTng's wrapper of the pthread functions.
    Lttng,
    /// uftrace.
    Uftrace,
}

impl Variant {
    /// All variants, in the order of the tables.
    pub(super) const ALL: [Variant; 7] = [
        Variant::Bare,
        Variant::Forward,
        Variant::Contended,
        Variant::Full,
        Variant::FirstTouch,
        Variant::Lttng,
        Variant::Uftrace,
    ];

    /// Its name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::Bare => "bare",
            Variant::Forward => "forward",
            Variant::Contended => "contended",
            Variant::Full => "full",
            Variant::FirstTouch => "first_touch",
            Variant::Lttng => "lttng",
            Variant::Uftrace => "uftrace",
        }
    }

    /// Names the unit that counts as one of its records.
    pub(super) fn record(self) -> &'static str {
        match self {
            Variant::Bare => "none",
            Variant::Lttng => "event",
            Variant::Uftrace => "call (its entry and its exit)",
            _ => "record",
        }
    }

    /// Returns true if it is a tool of others, which a machine may lack.
    pub(super) fn is_foreign(self) -> bool {
        matches!(self, Variant::Lttng | Variant::Uftrace)
    }
}

/// Run of the program.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Results that the program printed.
    pub reading: Reading,
    /// Records of the run; `None` without a recorder.
    pub records: Option<Records>,
}

/// Counts of the records of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Records {
    /// Records of a round.
    pub per_round: f64,
    /// Records of the whole run that were lost.
    pub lost: u64,
}

/// The program and the recorders that this machine has.
pub(super) struct Bench {
    program: PathBuf,
    folder: tempfile::TempDir,
    lttng: Option<Lttng>,
    /// Recorders that are left out, each with the reason.
    pub left_out: BTreeMap<Variant, String>,
}

impl Bench {
    /// Compiles the program and finds the recorders.
    pub(super) fn new() -> anyhow::Result<Bench> {
        let folder = tempfile::tempdir()?;
        let program = program::compile_pairs(folder.path())?;
        let mut bench = Bench { program, folder, lttng: None, left_out: BTreeMap::new() };
        match Lttng::start() {
            Ok(lttng) => bench.lttng = Some(lttng),
            Err(error) => bench.leave_out(Variant::Lttng, &error),
        }
        if let Err(error) = uftrace::find() {
            bench.leave_out(Variant::Uftrace, &error);
        }
        Ok(bench)
    }

    /// Returns true if a plan measures a variant. The cost of the first touch of memory is a matter
    /// of records, not of locks, and measured once.
    pub(super) fn has(&self, variant: Variant, plan: &Plan) -> bool {
        !self.left_out.contains_key(&variant)
            && (variant != Variant::FirstTouch || plan.measure == Measure::Mutex)
    }

    /// Measures a variant no more.
    pub(super) fn leave_out(&mut self, variant: Variant, error: &anyhow::Error) {
        let reason = format!("{error:#}");
        tell!("keeptime-lab bench: {} is left out: {reason}", variant.name());
        self.left_out.insert(variant, reason);
    }

    /// Runs the program once.
    pub(super) fn run(&mut self, variant: Variant, plan: &Plan) -> anyhow::Result<Run> {
        let (program, folder) = (&self.program, self.folder.path());
        let recorded = |mode| recorded::run(program, folder, mode, plan);
        match variant {
            Variant::Bare => {
                let mut command = Command::new(program);
                command.env_remove("LD_PRELOAD").args(plan.arguments(plan.rounds));
                Ok(Run { reading: program::read(command, plan)?, records: None })
            }
            Variant::Forward => recorded(Mode::Forward),
            Variant::Contended => recorded(Mode::Contended),
            Variant::Full => recorded(Mode::Full),
            Variant::FirstTouch => recorded(Mode::FirstTouch),
            Variant::Uftrace => uftrace::run(program, folder, plan),
            Variant::Lttng => match &mut self.lttng {
                Some(lttng) => lttng.run(program, plan),
                None => anyhow::bail!("LTTng was not started"),
            },
        }
    }
}
