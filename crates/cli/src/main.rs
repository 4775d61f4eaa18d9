//! The `keeptime` command: parses the command line and calls the subcommand.
//!
//! Exit status: 0 is yes or done, 1 is no (the answer of the subcommand), 2 is that it could not
//! be run.
#![forbid(unsafe_code)]
// They panic where the output is closed or full.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[macro_use]
mod output;

mod analyze;
mod bench;
mod calibrate;
mod chains;
mod command_line;
mod doctor;
mod drive;
mod graph;
mod log;
mod regulate;
mod remote;
mod report;
mod ros_gateway;
mod ros_security;
mod run;
mod serve;
mod simulate;
mod status;
mod study;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Makes accelerator work happen on time.
#[derive(Parser)]
#[command(name = "keeptime", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Bound the response time of every chain, and say what to change first
    Analyze(analyze::Args),
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
    /// Measure the execution times of services, each alone on its accelerator
    Calibrate(calibrate::Args),
    /// Run a system of callback chains for real, under one policy after another
    Chains(chains::Args),
    #[command(hide = true)]
    ChainExecutor(chains::executor::Args),
    #[command(hide = true)]
    ChainServer(chains::ServerArgs),
    /// Say what this machine allows, and how to grant what is missing
    Doctor(doctor::Args),
    /// Drive a scenario with a whole stack, under one policy after another
    Drive(drive::Args),
    #[command(hide = true)]
    GpuHost,
    /// Run a graph of nodes for real, under one method after another
    Graph(graph::Args),
    #[command(hide = true)]
    GraphExecutor(graph::process::Args),
    /// Hold best-effort cores to a budget while accelerator work holds the bandwidth lock
    Regulate(regulate::Args),
    #[command(hide = true)]
    RegulateLoad(regulate::load::Args),
    /// Use the accelerators of another machine over the ROS 2 graph
    Remote(remote::Args),
    /// Say why launches were late, from a recorded trace
    Report(report::Args),
    #[command(hide = true)]
    RosGateway(ros_gateway::Args),
    /// Run a program, and record why its launches were late
    Run(run::Args),
    /// Serve accelerators to other processes, by chain priority
    Serve(serve::Args),
    /// Ask a running server what it promises to whom, and what it measured
    Status(status::Args),
    /// Count how many random systems each analysis accepts
    Study(study::Args),
    /// Simulate a schedule of a system beside its bounds, or search for bad ones
    Simulate(simulate::Args),
}

fn main() -> ExitCode {
    let answer = match Arguments::parse().command {
        Command::Analyze(args) => analyze::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::BenchAttacker(args) => bench::attacks::attacker(&args),
        Command::BenchFloorPeer(args) => bench::floor::peer(&args),
        Command::BenchHogs(args) => bench::bandwidth::process(&args),
        Command::BenchPreemptPeer(args) => bench::preempt::peer(&args),
        Command::BenchTied(args) => bench::locks::tied(&args),
        Command::BenchVictim(args) => bench::victim::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Chains(args) => chains::run(&args),
        Command::ChainExecutor(args) => chains::executor::run(&args),
        Command::ChainServer(args) => chains::serve(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Drive(args) => drive::run(&args),
        Command::GpuHost => Ok(device_cuda::host::serve()),
        Command::Graph(args) => graph::run(&args),
        Command::GraphExecutor(args) => graph::process::run(&args),
        Command::Regulate(args) => regulate::run(&args),
        Command::RegulateLoad(args) => regulate::load::run(&args),
        Command::Remote(args) => remote::run(&args),
        Command::Report(args) => report::run(&args),
        Command::RosGateway(args) => ros_gateway::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Study(args) => study::run(&args),
        Command::Simulate(args) => simulate::run(&args),
    };
    answer.unwrap_or_else(|error| {
        // Whoever closed the pipe has read enough.
        if !is_broken_pipe(&error) {
            tell!("keeptime: {error:#}");
        }
        ExitCode::from(2)
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
