//! `keeptime status`: chains, guarantees and measurements of a running server.
//!
//! Exit status 0 when the server answered, 2 when there is none.

mod text;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use accel::control::Measured;
use accel::snapshot::{
    Accelerator, Bandwidth, Chain, Memory, Origin, Session, Snapshot, Standing, User,
};
use accel::{Client, ServerUser};
use serde_json::{Value, json};

/// Options of `keeptime status`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's socket, instead of $KEEPTIME_SOCKET or the usual places
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Also accept a server of this user (a number), besides root and the own user
    #[arg(long, value_name = "UID")]
    server_user: Option<u32>,
    /// Print JSON instead of text; times are in nanoseconds
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let socket = args.socket.clone().unwrap_or_else(accel::default_socket);
    let user = args.server_user.map_or(ServerUser::RootOrOwn, ServerUser::RootOr);
    let snapshot = Client::connect_to(&socket, user)?.snapshot()?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&render_json(&snapshot))? + "\n",
        false => text::render(&socket, &snapshot, std::process::id()),
    };
    write!(std::io::stdout().lock(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// The word for what a chain is promised.
fn standing(chain: &Chain) -> &'static str {
    match chain.standing {
        Some(Standing::Guaranteed) => "guaranteed",
        Some(Standing::Unguaranteed) => "no guarantee",
        Some(Standing::BestEffort) => "best effort",
        Some(Standing::Undeclared) => "undeclared",
        Some(Standing::Unanalysed) => "not analysed",
        None => "unknown",
    }
}

fn origin(chain: &Chain) -> &'static str {
    match chain.origin {
        Some(Origin::File) => "configuration",
        Some(Origin::Clients) => "clients",
        Some(Origin::Nobody) => "nobody",
        None => "unknown",
    }
}

/// Returns true if a measured time is longer than the one for which the analysis accounts.
fn exceeds(measured: &Measured, configured_ns: u64) -> bool {
    measured.max_ns > configured_ns
}

fn render_json(snapshot: &Snapshot) -> Value {
    let Snapshot { server, counters: c, accelerators, sessions, chains, bandwidth, memory } =
        snapshot;
    let names: Vec<&str> = accelerators.iter().map(|a| a.id.as_str()).collect();
    json!({
        "schema": "keeptime.status",
        "version": 1,
        "server": {
            "policy": server.policy,
            "admission": server.admission,
            "analysis": (!server.analysis.is_empty()).then_some(&server.analysis),
            "note": server.note,
            "realtime": server.realtime,
            "kappa_ns": server.kappa_ns,
            "epsilon_ns": server.epsilon_ns,
            "sigma_ns": server.sigma_ns,
            "hop_ns": server.hop_ns,
            "decisions": server.decisions,
            "refused": server.refused,
            "last_decision_ns": server.last_decision_ns,
            "longest_decision_ns": server.longest_decision_ns,
        },
        "counters": {
            "sessions": c.sessions, "registrations": c.registrations, "queued": c.queued,
            "running": c.running, "memory_bytes": c.memory_bytes, "done": c.done,
            "cancelled": c.cancelled, "failed": c.failed, "overruns": c.overruns,
            "demotions": c.demotions, "opened": c.opened, "refusals": c.refusals,
            "evictions": c.evictions, "mutings": c.mutings,
        },
        "accelerators": accelerators
            .iter()
            .map(|a| accelerator_json(a, server.sigma_ns, server.epsilon_ns))
            .collect::<Vec<Value>>(),
        "sessions": sessions.iter().map(session_json).collect::<Vec<Value>>(),
        "chains": chains.iter().map(|chain| chain_json(chain, &names)).collect::<Vec<Value>>(),
        "bandwidth_lock": bandwidth.as_ref().map(bandwidth_json),
        "memory": memory_json(memory),
    })
}

fn memory_json(memory: &Memory) -> Value {
    let user = |user: &User| {
        json!({
            "uid": user.uid, "sessions": user.sessions, "used_bytes": user.used_bytes,
            "limit_bytes": user.limit_bytes,
        })
    };
    json!({
        "used_bytes": memory.used_bytes,
        "limit_bytes": memory.limit_bytes,
        "users": memory.users.iter().map(user).collect::<Vec<Value>>(),
    })
}

fn bandwidth_json(bandwidth: &Bandwidth) -> Value {
    json!({
        "regulator": bandwidth.socket,
        "attached": bandwidth.note.is_empty(),
        "note": bandwidth.note,
        "services": bandwidth.services,
        "running": bandwidth.running,
        "requests_with": bandwidth.locked,
        "requests_without": bandwidth.unlocked,
        "requests_interrupted": bandwidth.interrupted,
        "acquisitions": bandwidth.acquisitions,
        "held_ns": bandwidth.held_ns,
    })
}

fn accelerator_json(accelerator: &Accelerator, sigma_ns: u64, epsilon_ns: u64) -> Value {
    let measured = |m: &Measured, configured_ns: u64| {
        json!({
            "count": m.count, "p50_ns": m.p50_ns, "p99_ns": m.p99_ns, "max_ns": m.max_ns,
            "configured_ns": configured_ns, "exceeds": exceeds(m, configured_ns),
        })
    };
    json!({
        "id": accelerator.id,
        "device": accelerator.device,
        "buckets": accelerator.buckets,
        "queued": accelerator.queued,
        "running": accelerator.running,
        "registrations": accelerator.registrations,
        "sigma": measured(&accelerator.sigma, sigma_ns),
        "epsilon_of_server": measured(&accelerator.epsilon, epsilon_ns),
    })
}

fn session_json(session: &Session) -> Value {
    let executor =
        session.executor.map(|(core, priority)| json!({"core": core, "priority": priority}));
    json!({
        "session": session.number,
        "pid": session.pid,
        "uid": session.uid,
        "registrations": session.registrations,
        "executor": executor,
        "note": session.note,
    })
}

fn chain_json(chain: &Chain, accelerators: &[&str]) -> Value {
    let name = |index: usize| accelerators.get(index).map_or("?", |name| *name).to_owned();
    let buckets: serde_json::Map<String, Value> =
        chain.buckets.iter().map(|&(index, bucket)| (name(index), bucket.into())).collect();
    json!({
        "name": chain.name,
        "priority": chain.priority,
        "standing": standing(chain),
        "declared_by": origin(chain),
        "buckets": buckets,
        "period_ns": chain.period_ns,
        "deadline_ns": chain.deadline_ns,
        "bound_ns": chain.bound_ns,
        "callbacks": chain.callbacks,
        "positions": chain.positions,
        "registrations": chain.registrations,
        "requests": chain.requests,
        "longest_request_ns": chain.longest_ns,
        "overruns": chain.overruns,
        "excess": chain.excess,
        "note": chain.note,
    })
}
