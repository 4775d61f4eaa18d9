//! The `keeptime` command: parses the command line and calls the subcommand.
//!
//! Exit status: 0 is yes or done, 1 is no (the answer of the subcommand), 2 is that it could not
//! be run.
#![forbid(unsafe_code)]
// They panic where the output is closed or full.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[macro_use(tell)]
extern crate terminal;

mod analyze;
mod calibrate;
mod doctor;
mod log;
#[cfg(feature = "manual")]
mod manual;
mod progress;
mod regulate;
#[cfg(feature = "ros")]
mod remote;
mod report;
#[cfg(feature = "ros")]
mod ros_gateway;
#[cfg(feature = "ros")]
mod ros_security;
mod run;
mod serve;
mod simulate;
mod status;
#[cfg(not(feature = "ros"))]
mod without_ros;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use terminal::signals::{self, Interrupted};

#[cfg(not(feature = "ros"))]
use without_ros::{remote, ros_gateway};

/// Finds out why accelerator (GPU) work is late, and makes it happen on time. Experiments of papers
/// and measurements of this machine: keeptime-lab
#[derive(Parser)]
#[command(name = "keeptime", version = env!("KEEPTIME_VERSION"))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Bound the response time of every chain, and name the first thing to change
    Analyze(analyze::Args),
    /// Measure the execution times of services, each alone on its accelerator
    Calibrate(calibrate::Args),
    /// Check what this machine allows, and print how to grant what is missing
    Doctor(doctor::Args),
    #[command(hide = true)]
    GpuHost,
    #[cfg(feature = "manual")]
    #[command(hide = true)]
    Manual(manual::Args),
    /// Limit the memory accesses of best-effort cores while accelerator work holds the bandwidth lock
    Regulate(regulate::Args),
    #[command(hide = true)]
    RegulateLoad(regulate::load::Args),
    /// Use the accelerators of another machine over the ROS 2 graph
    #[cfg_attr(not(feature = "ros"), command(about = without_ros::ABOUT))]
    Remote(remote::Args),
    /// Explain why launches were late, from a recorded trace
    Report(report::Args),
    #[cfg(feature = "ros")]
    #[command(hide = true)]
    RosGateway(ros_gateway::Args),
    /// Run a program, and record why its launches were late
    Run(run::Args),
    /// Serve accelerators to other processes, by chain priority
    Serve(serve::Args),
    /// Show the chains of a running server, their guarantees and their measured response times
    Status(status::Args),
    /// Simulate a schedule of a system beside its bounds, or search for bad ones
    Simulate(simulate::Args),
}

/// Exit status of a command whose answer this is: that of an interrupted program after a signal.
fn status_after_signals(answer: ExitCode) -> ExitCode {
    signals::interrupted().map_or(answer, |signal| ExitCode::from(signal.status()))
}

fn main() -> ExitCode {
    let answer = match Arguments::parse().command {
        Command::Analyze(args) => analyze::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::GpuHost => Ok(device_cuda::host::serve()),
        #[cfg(feature = "manual")]
        Command::Manual(args) => manual::run(&args, <Arguments as clap::CommandFactory>::command()),
        Command::Regulate(args) => regulate::run(&args),
        Command::RegulateLoad(args) => regulate::load::run(&args),
        Command::Remote(args) => remote::run(&args),
        Command::Report(args) => report::run(&args),
        #[cfg(feature = "ros")]
        Command::RosGateway(args) => ros_gateway::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Simulate(args) => simulate::run(&args),
    };
    terminal::output::status("keeptime", answer.or_else(interrupted))
}

/// The answer of a command that a signal has ended before it had anything to show.
fn interrupted(error: anyhow::Error) -> anyhow::Result<ExitCode> {
    let Some(signal) = error.downcast_ref::<Interrupted>() else { return Err(error) };
    tell!("keeptime: {error:#}");
    Ok(ExitCode::from(signal.status()))
}
