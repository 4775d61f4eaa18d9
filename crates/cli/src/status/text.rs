//! The status of a server as text.

use std::path::Path;

use accel::control::Measured;
use accel::snapshot::{Accelerator, Bandwidth, Chain, Memory, Session, Snapshot, Standing};
use accel_server::short_time;

use super::{exceeds, standing};
use terminal::table::Table;

/// The whole page; `own_pid` is the process that asks.
pub(super) fn render(socket: &Path, snapshot: &Snapshot, own_pid: u32) -> String {
    let mut text = server(socket, snapshot);
    text += "\n";
    text += &chains(snapshot);
    text += "\n";
    text += &accelerators(snapshot);
    text += "\n";
    text += &sessions(&snapshot.sessions, own_pid);
    text += "\n";
    text += &memory(&snapshot.memory);
    text
}

/// Returns a table of the clients' memory; the client that asks is among them.
fn memory(memory: &Memory) -> String {
    let heading = ["user", "sessions", "memory", "at most"];
    let mut table = Table::new(&heading, &[1, 2, 3]);
    for user in &memory.users {
        let [used, limit] = [user.used_bytes, user.limit_bytes].map(short_size);
        table.row([user.uid.to_string(), user.sessions.to_string(), used, limit]);
    }
    let [used, limit] = [memory.used_bytes, memory.limit_bytes].map(short_size);
    table.render() + &format!("all: {used} of {limit}\n")
}

fn short_size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

fn server(socket: &Path, snapshot: &Snapshot) -> String {
    let Snapshot { server, counters: c, .. } = snapshot;
    let analysis = match server.analysis.as_str() {
        "" => String::new(),
        analysis => format!(" by the {analysis} analysis"),
    };
    let note = match server.note.as_str() {
        "" => String::new(),
        note => format!(" ({note})"),
    };
    let realtime = if server.realtime { "" } else { ", at normal priority" };
    let mut text = format!(
        "{}: policy {}, admission {}{analysis}{note}{realtime}\n",
        socket.display(),
        server.policy,
        server.admission
    );
    text += &format!(
        "requests: {} done, {} cancelled, {} failed, {} queued, {} running; {} overruns, {} demoted\n",
        c.done, c.cancelled, c.failed, c.queued, c.running, c.overruns, c.demotions
    );
    text += &format!(
        "clients: {} sessions now, {} since the start, {} refusals, {} evictions\n",
        c.sessions, c.opened, c.refusals, c.evictions
    );
    text += &format!(
        "decisions: {}, {} of them refusals, the last took {}, the longest {}\n",
        server.decisions,
        server.refused,
        short_time(server.last_decision_ns),
        short_time(server.longest_decision_ns)
    );
    if let Some(bandwidth) = &snapshot.bandwidth {
        text += &bandwidth_lock(bandwidth);
    }
    text
}

fn bandwidth_lock(bandwidth: &Bandwidth) -> String {
    let Bandwidth { socket, note, locked, unlocked, interrupted, acquisitions, held_ns, .. } =
        bandwidth;
    let now = match note.as_str() {
        "" => format!("{} running, regulator at {socket}", bandwidth.running),
        why => format!("NOT HELD: {socket}: {why}"),
    };
    format!(
        "bandwidth lock: {now}; {locked} requests with it, taken {acquisitions} times, held for {}; \
         {unlocked} without, {interrupted} lost it\n",
        short_time(*held_ns)
    )
}

fn optional(ns: Option<u64>) -> String {
    ns.map_or("-".into(), short_time)
}

fn chains(snapshot: &Snapshot) -> String {
    if snapshot.chains.is_empty() {
        return "no chains\n".into();
    }
    let heading = [
        "chain",
        "priority",
        "bucket",
        "period",
        "deadline",
        "bound",
        "standing",
        "callbacks",
        "requests",
        "longest",
        "overruns",
        "excess",
    ];
    let mut table = Table::new(&heading, &[1, 3, 4, 5, 8, 9, 10, 11]);
    for chain in &snapshot.chains {
        let counts = [chain.requests, chain.overruns, chain.excess].map(|n| n.to_string());
        let [requests, overruns, excess] = counts;
        table.row([
            chain.name.clone(),
            chain.priority.to_string(),
            buckets(chain, &snapshot.accelerators),
            optional(chain.period_ns),
            optional(chain.deadline_ns),
            optional(chain.bound_ns),
            standing(chain).into(),
            callbacks(chain),
            requests,
            optional(chain.longest_ns),
            overruns,
            excess,
        ]);
        // If nothing is promised, the reason does not matter.
        if chain.standing == Some(Standing::Unguaranteed) {
            table.remark(&chain.note);
        }
    }
    table.render()
        + "bound: of the response time, from release to end. longest: of the requests, from arrival \
           to end. excess: requests that came more often than declared.\n"
}

/// The bucket; with the accelerator's name where there are several.
fn buckets(chain: &Chain, accelerators: &[Accelerator]) -> String {
    let one = |&(index, bucket): &(usize, u32)| match accelerators {
        [_] => bucket.to_string(),
        _ => {
            let id = accelerators.get(index).map_or("?", |accelerator| &accelerator.id);
            format!("{id}:{bucket}")
        }
    };
    let all: Vec<String> = chain.buckets.iter().map(one).collect();
    if all.is_empty() { "-".into() } else { all.join(" ") }
}

/// Returns the number of known callbacks, and the least number of all if some are missing.
fn callbacks(chain: &Chain) -> String {
    match (chain.callbacks, chain.positions) {
        (0, _) => "-".into(),
        (known, positions) if known < positions => format!("{known} of {positions}"),
        (known, _) => known.to_string(),
    }
}

fn accelerators(snapshot: &Snapshot) -> String {
    let heading = ["accelerator", "overhead", "samples", "p50", "p99", "max", "configured"];
    let mut table = Table::new(&heading, &[2, 3, 4, 5, 6]);
    for accelerator in &snapshot.accelerators {
        let rows = [
            ("sigma", &accelerator.sigma, snapshot.server.sigma_ns),
            ("epsilon, server's part", &accelerator.epsilon, snapshot.server.epsilon_ns),
        ];
        for (what, measured, configured_ns) in rows {
            table.row(overhead(accelerator, what, measured, configured_ns));
            if exceeds(measured, configured_ns) {
                table.remark("! the maximum is larger than what the analysis counts with");
            }
        }
    }
    table.render()
}

fn overhead(
    accelerator: &Accelerator,
    what: &str,
    measured: &Measured,
    configured_ns: u64,
) -> [String; 7] {
    let time = |ns: u64| if measured.count == 0 { "-".into() } else { short_time(ns) };
    [
        accelerator.id.clone(),
        what.into(),
        measured.count.to_string(),
        time(measured.p50_ns),
        time(measured.p99_ns),
        time(measured.max_ns),
        short_time(configured_ns),
    ]
}

fn sessions(sessions: &[Session], own_pid: u32) -> String {
    let mut table = Table::new(&["process", "user", "registrations", "executor"], &[2]);
    for session in sessions.iter().filter(|session| session.pid != own_pid) {
        let executor = session
            .executor
            .map_or("-".into(), |(core, priority)| format!("core {core} at priority {priority}"));
        table.row([
            session.pid.to_string(),
            session.uid.to_string(),
            session.registrations.to_string(),
            executor,
        ]);
        table.remark(&session.note);
    }
    match sessions.iter().any(|session| session.pid != own_pid) {
        true => table.render(),
        false => "no other clients\n".into(),
    }
}
