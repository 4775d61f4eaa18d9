//! `keeptime-lab bench`: measures this machine, always beside a reference in the same run.

pub(crate) mod attacks;
pub(crate) mod bandwidth;
pub(crate) mod floor;
mod hog;
mod kills;
pub(crate) mod locks;
mod perception;
pub(crate) mod preempt;
mod regulate;
mod requests;
mod sample;
mod service;
mod submission;
pub(crate) mod transport;
pub(crate) mod victim;

use std::process::ExitCode;

use realtime::machine;

/// Options of `keeptime-lab bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(clap::Subcommand)]
enum Benchmark {
    /// Attack a server as another user, and measure the requests of a client of the highest priority
    Attacks(attacks::Args),
    /// Measure how much memory hogs slow kernels down, without the memory-bandwidth lock and with
    /// it; with --html, the plots
    Bandwidth(bandwidth::Args),
    /// Use memory bandwidth on some cores, and report the rates
    Hog(hog::Args),
    /// Round trip of a request and the server's share of it, beside a bare futex ping-pong of two processes
    Requests(requests::Args),
    /// Kill clients at random under load, and watch the others
    Kills(kills::Args),
    /// Measure the waits of threads for locks under each policy; with --trace, the cost that
    /// recording adds to a lock, beside LTTng and uftrace
    Locks(locks::Args),
    /// Measure the time of a driving stack's network on an accelerator that others use, too
    Perception(perception::Args),
    /// Measure the delay of an urgent kernel by a less urgent one, in several ways
    Preempt(preempt::Args),
    /// Measure the delay until the bandwidth lock takes effect, and the shares of threads on a core
    /// that is regulated, under the default scheduler and under throttle-fair scheduling
    Regulate(regulate::Args),
    /// Measure the cost of submitting work to an accelerator, by method: streams, graphs, Vulkan
    /// and others
    Submission(submission::Args),
    /// Measure the cost of a request by its way to the accelerator: shared memory, DDS on one
    /// machine, DDS between hosts
    Transport(transport::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.benchmark {
        Benchmark::Attacks(args) => attacks::run(args),
        Benchmark::Bandwidth(args) => bandwidth::run(args),
        Benchmark::Hog(args) => hog::run(args),
        Benchmark::Requests(args) => requests::run(args),
        Benchmark::Kills(args) => kills::run(args),
        Benchmark::Locks(args) => locks::run(args),
        Benchmark::Perception(args) => perception::run(args),
        Benchmark::Preempt(args) => preempt::run(args),
        Benchmark::Regulate(args) => regulate::run(args),
        Benchmark::Submission(args) => submission::run(args),
        Benchmark::Transport(args) => transport::run(args),
    }
}

/// The machine, name and value, of which so many cores are used.
fn machine_facts(cores: &[usize]) -> Vec<(String, String)> {
    let facts = [
        ("processor", machine::core_model()),
        ("cores", cores.len().to_string()),
        ("kernel", machine::kernel_release()),
        ("virtual machine", if machine::is_virtual() { "yes" } else { "no" }.into()),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).into()
}

/// A device that a server can have here.
fn parse_device(text: &str) -> Result<String, String> {
    let numbered = |kind: &str| {
        let number = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':'));
        number.is_some_and(|number| number.parse::<u16>().is_ok())
    };
    match text == "cpu" || numbered("cuda") || numbered("vulkan") {
        true => Ok(text.to_owned()),
        false => Err("expected cpu, cuda:N or vulkan:N".into()),
    }
}
