//! The `keeptime-lab` command: repeats the papers' experiments, and measures this machine.
//!
//! Exit status: 0 is yes or done, 1 is no (the answer of the subcommand), 2 is that it could not
//! be run, 130 and 143 are that SIGINT or SIGTERM ended it; what was finished by then is shown.
#![forbid(unsafe_code)]
// They panic where the output is closed or full.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[macro_use(tell)]
extern crate terminal;

mod bench;
mod chains;
mod child;
mod drive;
mod graph;
mod shown;
mod study;
mod tool;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use trial::signals::{self, Interrupted};

/// Repeats the papers' experiments, and measures this machine.
#[derive(Parser)]
#[command(name = "keeptime-lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure this machine, and compare it with a reference
    Bench(bench::Args),
    /// Run a system of callback chains on this machine, under one policy after another
    Chains(chains::Args),
    #[command(hide = true)]
    Child(child::Args),
    /// Drive a scenario with a whole stack, under one policy after another
    Drive(drive::Args),
    /// Run a graph of nodes on this machine, under one method after another
    Graph(graph::Args),
    /// Count how many random systems each analysis accepts
    Study(study::Args),
}

fn main() -> ExitCode {
    let answer = run(Arguments::parse().command);
    let interrupted = |error: &anyhow::Error| error.downcast_ref::<Interrupted>().copied();
    let interrupted = answer.as_ref().err().and_then(interrupted);
    let status = terminal::output::status("keeptime-lab", answer);
    interrupted.map_or(status, |interrupted| ExitCode::from(interrupted.status()))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    if !matches!(command, Command::Child(_)) {
        signals::catch()?;
    }
    match command {
        Command::Bench(args) => bench::run(&args),
        Command::Chains(args) => chains::run(&args),
        Command::Child(args) => child::run(&args),
        Command::Drive(args) => drive::run(&args),
        Command::Graph(args) => graph::run(&args),
        Command::Study(args) => study::run(&args),
    }
}
