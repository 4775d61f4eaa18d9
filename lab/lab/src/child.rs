//! Child processes of an experiment, run by this program itself: their orders.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use trial::Parent;

use crate::{bench, chains, graph};

/// Options of the hidden subcommand.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Process id of the starting process; this one ends with it
    #[arg(long)]
    parent: i32,
    /// Name of the child in lists of processes
    name: String,
}

/// First message to a child.
#[derive(Serialize, Deserialize)]
pub(crate) enum Order {
    Attacker(bench::attacks::Attacker),
    ChainExecutor(chains::executor::Spec),
    /// The other side of a round trip between processes.
    Floor(bench::floor::Peer),
    GraphExecutor(graph::process::Spec),
    Hogs(bench::bandwidth::Order),
    /// The measured program of a lock that is not in C.
    Locks(bench::locks::Shape),
    Preempt(bench::preempt::Order),
    /// Another program, which ends with this one's parent.
    Program(Vec<String>),
    Transport(bench::transport::Client),
    Victim(bench::victim::Victim),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut parent = Parent::join(args.parent)?;
    match parent.hear()? {
        Order::Attacker(attacker) => attacker.run(&parent)?,
        Order::ChainExecutor(spec) => chains::executor::run(&spec, &mut parent)?,
        Order::Floor(peer) => peer.run(&parent)?,
        Order::GraphExecutor(spec) => graph::process::run(&spec, &mut parent)?,
        Order::Hogs(order) => order.run(&mut parent)?,
        Order::Locks(shape) => parent.tell(&bench::locks::measure(&shape)?)?,
        Order::Preempt(order) => order.run(&mut parent)?,
        Order::Program(words) => bench::locks::become_program(&words)?,
        Order::Transport(client) => client.run(&mut parent)?,
        Order::Victim(victim) => victim.run()?,
    }
    Ok(ExitCode::SUCCESS)
}
