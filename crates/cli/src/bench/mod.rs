//! `keeptime bench`: measures this machine, always beside a reference in the same run.

pub mod floor;
mod kills;
pub mod locks;
pub mod preempt;
mod requests;
mod sample;
mod service;
mod submission;
pub mod victim;

use std::process::ExitCode;

/// Options of `keeptime bench`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(clap::Subcommand)]
enum Benchmark {
    /// Round trip of an empty request, beside a bare futex ping-pong of two processes
    Requests(requests::Args),
    /// Kill clients at random under load, and watch the others
    Kills(kills::Args),
    /// How long threads wait for locks under each policy; with --trace, what recording adds to a lock, beside LTTng and uftrace
    Locks(locks::Args),
    /// How long an urgent kernel is held up by a less urgent one, in several ways
    Preempt(preempt::Args),
    /// What handing work to an accelerator costs, by method: streams, graphs, Vulkan and others
    Submission(submission::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.benchmark {
        Benchmark::Requests(args) => requests::run(args),
        Benchmark::Kills(args) => kills::run(args),
        Benchmark::Locks(args) => locks::run(args),
        Benchmark::Preempt(args) => preempt::run(args),
        Benchmark::Submission(args) => submission::run(args),
    }
}
