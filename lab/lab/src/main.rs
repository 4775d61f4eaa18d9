//! The `keeptime-lab` command: repeats the papers' experiments, and measures this machine.
//!
//! Exit status: 0 is yes or done, 1 is no (the answer of the subcommand), 2 is that it could not
//! be run.
#![forbid(unsafe_code)]
// They panic where the output is closed or full.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[macro_use(tell)]
extern crate terminal;

mod bench;
mod chains;
mod drive;
mod graph;
mod study;
mod tool;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Repeats the papers' experiments, and measures this machine.
#[derive(Parser)]
#[command(name = "keeptime-lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure this machine beside a reference
    Bench(bench::Args),
    #[command(hide = true)]
    BenchAttacker(bench::attacks::AttackerArgs),
    #[command(hide = true)]
    BenchFloorPeer(bench::floor::PeerArgs),
    #[command(hide = true)]
    BenchHogs(bench::bandwidth::ProcessArgs),
    #[command(hide = true)]
    BenchPreemptPeer(bench::preempt::PeerArgs),
    #[command(hide = true)]
    BenchTied(bench::locks::TiedArgs),
    #[command(hide = true)]
    BenchVictim(bench::victim::Args),
    /// Run a system of callback chains for real, under one policy after another
    Chains(chains::Args),
    #[command(hide = true)]
    ChainExecutor(chains::executor::Args),
    /// Drive a scenario with a whole stack, under one policy after another
    Drive(drive::Args),
    /// Run a graph of nodes for real, under one method after another
    Graph(graph::Args),
    #[command(hide = true)]
    GraphExecutor(graph::process::Args),
    /// Count how many random systems each analysis accepts
    Study(study::Args),
}

fn main() -> ExitCode {
    let answer = match Arguments::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::BenchAttacker(args) => bench::attacks::attacker(&args),
        Command::BenchFloorPeer(args) => bench::floor::peer(&args),
        Command::BenchHogs(args) => bench::bandwidth::process(&args),
        Command::BenchPreemptPeer(args) => bench::preempt::peer(&args),
        Command::BenchTied(args) => bench::locks::tied(&args),
        Command::BenchVictim(args) => bench::victim::run(&args),
        Command::Chains(args) => chains::run(&args),
        Command::ChainExecutor(args) => chains::executor::run(&args),
        Command::Drive(args) => drive::run(&args),
        Command::Graph(args) => graph::run(&args),
        Command::GraphExecutor(args) => graph::process::run(&args),
        Command::Study(args) => study::run(&args),
    };
    terminal::output::status("keeptime-lab", answer)
}
