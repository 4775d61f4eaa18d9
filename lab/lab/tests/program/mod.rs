//! The programs as a user has them: the tool beside the laboratory.

use std::process::Command;

/// The laboratory, with the tool beside it.
pub(crate) fn laboratory() -> Command {
    testing::keeptime();
    Command::new(env!("CARGO_BIN_EXE_keeptime-lab"))
}
