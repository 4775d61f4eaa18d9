//! The ways to run a program under `keeptime run`.

use std::path::Path;

/// A way to run a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(super) enum Mode {
    /// `--out FILE --all-locks --memory 32MiB`
    Record,
    /// `--guard inherit --guard-all`
    Inherit,
    /// `--guard fair+inherit --guard-all`
    #[value(name = "fair+inherit")]
    FairInherit,
    /// Recorded, and guarded by `fair+inherit`
    Both,
}

pub(super) const ALL: [Mode; 4] = [Mode::Record, Mode::Inherit, Mode::FairInherit, Mode::Both];

/// Name of a run's trace in its folder for temporary files, which is removed after the run.
const TRACE: &str = "t.kt";
/// Less than by default, so that many runs find room beside each other and start fast.
const MEMORY: &str = "32MiB";

impl Mode {
    pub(super) fn text(self) -> &'static str {
        match self {
            Mode::Record => "record",
            Mode::Inherit => "inherit",
            Mode::FairInherit => "fair+inherit",
            Mode::Both => "both",
        }
    }

    /// Returns the words before the program. Not `-q`: the lines after the run are read.
    pub(super) fn prefix(self, keeptime: &Path, scratch: &Path) -> Vec<String> {
        let trace = scratch.join(TRACE).to_string_lossy().into_owned();
        let record = ["--out", &trace, "--all-locks", "--memory", MEMORY];
        let guard = |mode| ["--guard", mode, "--guard-all"];
        let options = match self {
            Mode::Record => record.to_vec(),
            Mode::Inherit => guard("inherit").to_vec(),
            Mode::FairInherit => guard("fair+inherit").to_vec(),
            Mode::Both => [&record[..], &guard("fair+inherit")].concat(),
        };
        let keeptime = keeptime.to_string_lossy();
        let words = [&*keeptime, "run"].into_iter().chain(options).chain(["--"]);
        words.map(str::to_owned).collect()
    }
}
