//! `keeptime manual FOLDER`: manual pages and completions of shells, for packages.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap_complete::Shell;

/// Options of `keeptime manual`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the files here; the folder must exist
    folder: PathBuf,
}

/// Writes a manual page for each command, and completions for bash, zsh and fish.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    command = command.disable_help_subcommand(true);
    let context = || args.folder.display().to_string();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "keeptime", &args.folder)
            .with_context(context)?;
    }
    clap_mangen::generate_to(command, &args.folder).with_context(context)?;
    Ok(ExitCode::SUCCESS)
}
