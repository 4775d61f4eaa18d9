//! Under which policy the locks are measured, and how a program is run under it.
//!
//! The program in C is the same for the C library's own locks and under the preload library: the
//! guard's policies come through `keeptime run --guard`, as any program gets them. What the guard
//! says it did is checked, so that no policy is measured that was not there.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use trial::Child;

use super::super::program;
use super::reading::Reading;
use super::shape::{Kind, Shape};
use crate::child::Order;

const SOURCE: &str = include_str!("contend.c");
const CK_HEADER: &str = "ck_pflock.h";

/// Policy of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Policy {
    /// The C library's default
    Default,
    /// Mutexes that the program itself makes inheritance mutexes
    InheritNative,
    /// keeptime run --guard inherit
    Inherit,
    /// keeptime run --guard fair
    Fair,
    /// keeptime run --guard fair+inherit
    #[value(name = "fair+inherit")]
    FairInherit,
    /// Read-write locks under keeptime run --guard fair
    PhaseFair,
    /// Concurrency Kit's phase-fair read-write lock, which spins
    Ck,
    /// parking_lot's mutex and read-write lock
    #[value(name = "parking_lot")]
    ParkingLot,
}

impl Policy {
    /// Policies of mutexes, in the order of the tables.
    pub(crate) const MUTEXES: [Policy; 6] = [
        Policy::Default,
        Policy::InheritNative,
        Policy::Inherit,
        Policy::Fair,
        Policy::FairInherit,
        Policy::ParkingLot,
    ];
    /// Policies of read-write locks.
    pub(crate) const RWLOCKS: [Policy; 4] =
        [Policy::Default, Policy::PhaseFair, Policy::Ck, Policy::ParkingLot];

    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Policy::Default => "default",
            Policy::InheritNative => "inherit-native",
            Policy::Inherit => "inherit",
            Policy::Fair => "fair",
            Policy::FairInherit => "fair+inherit",
            Policy::PhaseFair => "phase-fair",
            Policy::Ck => "ck",
            Policy::ParkingLot => "parking_lot",
        }
    }

    /// The guard's mode, and what it says when it guards the locks of a kind.
    fn guard(self) -> Option<&'static str> {
        match self {
            Policy::Inherit => Some("inherit"),
            Policy::Fair | Policy::PhaseFair => Some("fair"),
            Policy::FairInherit => Some("fair+inherit"),
            _ => None,
        }
    }
}

/// The programs, and what this machine lacks of them.
pub(super) struct Programs {
    contend: PathBuf,
    _folder: tempfile::TempDir,
    /// Reason why Concurrency Kit's lock is not measured, if it is not.
    pub no_ck: Option<String>,
}

/// Results of a run.
pub(super) struct Run {
    pub reading: Reading,
    /// Report of the guard on its actions.
    pub guard: Option<String>,
}

impl Programs {
    /// Compiles the program in C, with Concurrency Kit's lock if its header is there.
    pub(super) fn new() -> anyhow::Result<Programs> {
        let folder = tempfile::tempdir()?;
        let compile = |options| program::compile(folder.path(), "contend", SOURCE, options);
        let (contend, no_ck) = match compile(&["-DWITH_CK"]) {
            Ok(program) => (program, None),
            Err(error) => {
                let program = compile(&[])?;
                let text = format!("{error:#}");
                let reason = if text.contains(CK_HEADER) {
                    format!("{CK_HEADER} is not installed (package libck-dev)")
                } else {
                    text
                };
                (program, Some(reason))
            }
        };
        Ok(Programs { contend, _folder: folder, no_ck })
    }

    /// Runs a program once.
    pub(super) fn run(&self, policy: Policy, shape: &Shape) -> anyhow::Result<Run> {
        let mut shape = *shape;
        let mut command = Command::new(&self.contend);
        match policy {
            Policy::ParkingLot => {
                let order = Order::Locks(shape);
                let mut child = Child::order_by("the measured program", &order, |mut command| {
                    command.env_remove("LD_PRELOAD");
                    command
                })?;
                return Ok(Run { reading: child.hear()?, guard: None });
            }
            Policy::Default | Policy::InheritNative => {
                shape.inherit = policy == Policy::InheritNative;
            }
            Policy::Ck => shape.kind = Kind::Ck,
            _ => {
                let mode = policy.guard().context("not a policy of the guard")?;
                command = Command::new(crate::tool::keeptime()?);
                command.args(["run", "--guard", mode, "--guard-all", "--"]).arg(&self.contend);
            }
        }
        command.args(shape.words()).env_remove("LD_PRELOAD");
        let (status, output, errors) = Child::start("the measured program", command)?.run_out()?;
        ensure!(status.success(), "the measured program: {status}: {}", errors.trim());
        let reading = Reading::parse(&output)?;
        let guard = errors.lines().find_map(|line| line.strip_prefix("keeptime run: guard "));
        if policy.guard().is_some() {
            check(policy, guard.context("the guard printed no summary")?)?;
        }
        Ok(Run { reading, guard: guard.map(str::to_owned) })
    }
}

/// Checks that the guard did the work of the policy. The guard says nothing of fair mutexes if all
/// went well.
fn check(policy: Policy, said: &str) -> anyhow::Result<()> {
    let expected = match policy {
        Policy::Inherit => "mutexes made to inherit",
        Policy::PhaseFair => "read-write locks made phase-fair",
        _ => "",
    };
    let right = said.contains(expected) && !said.contains("nothing was guarded");
    ensure!(right, "the guard printed {said:?}; expected {expected:?}");
    let left = said.split_once("left alone").map_or("", |(_, left)| left);
    ensure!(
        !left.contains("mutexes") || policy == Policy::PhaseFair,
        "the guard printed {said:?}; expected no mutexes left alone"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn names_in_results_are_those_of_the_option() {
        for policy in Policy::value_variants() {
            let value = policy.to_possible_value().expect("a name");
            assert_eq!(value.get_name(), policy.name());
            let measured = Policy::MUTEXES.contains(policy) || Policy::RWLOCKS.contains(policy);
            assert!(measured, "{policy:?}");
        }
    }

    #[test]
    fn guard_that_did_something_else_is_refused() {
        check(Policy::Fair, "fair: nothing was to be done").unwrap();
        check(Policy::Fair, "fair: 3 hand-overs").unwrap();
        check(Policy::Inherit, "inherit: 17 mutexes made to inherit").unwrap();
        check(Policy::PhaseFair, "fair: 16 read-write locks made phase-fair").unwrap();
        for (policy, said) in [
            (Policy::Fair, "fair: the program did not load the library, so nothing was guarded"),
            (Policy::Fair, "fair: nothing was to be done; left alone, by uses: 2 robust mutexes"),
            (Policy::Inherit, "inherit: nothing was to be done"),
            (Policy::PhaseFair, "fair: 3 hand-overs"),
        ] {
            let error = check(policy, said).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn program_without_a_lock_of_the_machine_is_still_compiled() {
        let folder = tempfile::tempdir().unwrap();
        program::compile(folder.path(), "contend", SOURCE, &[]).unwrap();
    }

    #[test]
    fn program_measures_every_kind_of_call() {
        use super::super::shape::Calls;
        let programs = Programs::new().unwrap();
        for calls in [Calls::Waits, Calls::ProcessorTime, Calls::FreeLocks] {
            let shape = Shape {
                kind: Kind::Rwlock,
                threads: 1,
                reads: 50,
                calls,
                // Long enough that a thread runs at all on a machine with other work.
                measured_ms: 300,
                ..Shape::default()
            };
            let Run { reading, guard } = programs.run(Policy::Default, &shape).unwrap();
            let names = if calls == Calls::Waits { 2 } else { 4 };
            assert_eq!(reading.histograms.len(), names, "{calls:?}");
            assert!(reading.operations() > 0 && guard.is_none());
        }
    }
}
