//! Reports of the gateway on the server: chains, status, diagnostics.

use super::desk::Remote;
use crate::message::Time;
use crate::message::diagnostic::{DiagnosticArray, DiagnosticStatus, Header, KeyValue};
use crate::message::keeptime::{AcceleratorStatus, ChainStatus, GatewayStatus, Outcome, Status};
use accel::snapshot::{Chain, Snapshot};
use accel::{Client, Error};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time for which an answer of the server is good enough for the next question.
const FRESH: Duration = Duration::from_millis(20);

pub(crate) struct Reporter {
    socket: PathBuf,
    client: Option<Client>,
    last: Option<(Instant, Snapshot)>,
    restarts: u32,
}

impl Reporter {
    pub(super) fn new(socket: PathBuf, restarts: u32) -> Reporter {
        Reporter { socket, client: None, last: None, restarts }
    }

    /// The server's chains, with what is known of those of remote clients.
    pub(super) fn chains(&mut self, remote: &[Remote]) -> Result<Vec<ChainStatus>, Outcome> {
        match self.snapshot() {
            Ok(snapshot) => Ok(chains(snapshot, remote)),
            Err(error) => Err(Outcome::new(Outcome::UNAVAILABLE, error.to_string())),
        }
    }

    /// The server's chains have changed.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    fn snapshot(&mut self) -> Result<&Snapshot, Error> {
        let fresh = |(when, _): &(Instant, Snapshot)| when.elapsed() < FRESH;
        if !self.last.as_ref().is_some_and(fresh) {
            self.last = None;
            let client = match &mut self.client {
                Some(client) => client,
                none => none.insert(Client::connect(&self.socket)?),
            };
            let snapshot = client.snapshot()?;
            self.last = Some((Instant::now(), snapshot));
        }
        Ok(&self.last.as_ref().expect("set above").1)
    }

    /// The status and the diagnostics of now.
    pub(super) fn status(
        &mut self,
        gateway: GatewayStatus,
        remote: &[Remote],
    ) -> (Status, DiagnosticArray) {
        let stamp = Time::now();
        let restarts = self.restarts;
        let (status, reason) = match self.snapshot() {
            Ok(snapshot) => (status(stamp, snapshot, gateway, remote), String::new()),
            Err(error) => (Status { stamp, gateway, ..Status::default() }, error.to_string()),
        };
        let diagnostics = diagnostics(&status, &reason, restarts);
        (status, diagnostics)
    }
}

fn status(stamp: Time, snapshot: &Snapshot, gateway: GatewayStatus, remote: &[Remote]) -> Status {
    let accelerators = snapshot.accelerators.iter().map(|one| AcceleratorStatus {
        id: one.id.clone(),
        device: one.device.clone(),
        buckets: one.buckets,
        queued: one.queued,
        running: one.running,
        registrations: one.registrations,
    });
    let counters = &snapshot.counters;
    Status {
        stamp,
        connected: true,
        realtime: snapshot.server.realtime,
        policy: snapshot.server.policy.clone(),
        admission: snapshot.server.admission.clone(),
        done: counters.done,
        cancelled: counters.cancelled,
        failed: counters.failed,
        overruns: counters.overruns,
        accelerators: accelerators.collect(),
        chains: chains(snapshot, remote),
        gateway,
    }
}

fn chains(snapshot: &Snapshot, remote: &[Remote]) -> Vec<ChainStatus> {
    let merged = snapshot.chains.iter().map(|chain| {
        let known = remote.iter().find(|one| one.chain == chain.name);
        merge(chain, known.map(|one| &one.status))
    });
    merged.collect()
}

fn merge(chain: &Chain, remote: Option<&ChainStatus>) -> ChainStatus {
    ChainStatus {
        name: chain.name.clone(),
        priority: chain.priority,
        standing: chain.standing.map_or(0, |standing| standing as u8),
        callbacks: chain.callbacks,
        registrations: chain.registrations,
        period_ns: chain.period_ns.unwrap_or(0),
        deadline_ns: chain.deadline_ns.unwrap_or(0),
        bound_ns: chain.bound_ns.unwrap_or(0),
        requests: chain.requests,
        longest_ns: chain.longest_ns.unwrap_or(0),
        overruns: chain.overruns,
        excess: chain.excess,
        note: chain.note.clone(),
        ..remote.cloned().unwrap_or_default()
    }
}

fn diagnostics(status: &Status, reason: &str, restarts: u32) -> DiagnosticArray {
    let gateway = &status.gateway;
    let (level, message) = match (status.connected, restarts) {
        (false, _) => (DiagnosticStatus::ERROR, reason.to_owned()),
        (true, 0) => (DiagnosticStatus::OK, format!("{} chains", status.chains.len())),
        (true, _) => (DiagnosticStatus::WARN, format!("gateway restarted {restarts} times")),
    };
    let mut entries = vec![DiagnosticStatus {
        level,
        name: "keeptime: server".into(),
        message,
        hardware_id: "keeptime".into(),
        values: values(&[
            ("done", status.done),
            ("cancelled", status.cancelled),
            ("failed", status.failed),
            ("overruns", status.overruns),
            ("remote clients", gateway.clients.into()),
            ("remote registrations", gateway.registrations.into()),
            ("remote requests answered", gateway.answered),
            ("remote requests refused", gateway.refused),
            ("remote messages malformed", gateway.malformed),
            ("remote leases ended", gateway.leases_ended),
        ]),
    }];
    for one in &status.accelerators {
        entries.push(DiagnosticStatus {
            level: DiagnosticStatus::OK,
            name: format!("keeptime: accelerator {}", one.id),
            message: one.device.clone(),
            hardware_id: one.id.clone(),
            values: values(&[
                ("queued", one.queued.into()),
                ("running", one.running.into()),
                ("registrations", one.registrations.into()),
            ]),
        });
    }
    entries.extend(status.chains.iter().map(chain_diagnostic));
    let header = Header { stamp: status.stamp, frame_id: String::new() };
    DiagnosticArray { header, status: entries }
}

/// A chain whose promise cannot be kept, or that does more than it declared, is a warning.
fn chain_diagnostic(chain: &ChainStatus) -> DiagnosticStatus {
    let broken = chain.overruns > 0 || chain.excess > 0 || chain.remote_expired > 0;
    let unkept = chain.standing == accel::snapshot::Standing::Unguaranteed as u8;
    DiagnosticStatus {
        level: if broken || unkept { DiagnosticStatus::WARN } else { DiagnosticStatus::OK },
        name: format!("keeptime: chain {}", chain.name),
        message: match chain.note.as_str() {
            "" => format!("priority {}", chain.priority),
            note => note.to_owned(),
        },
        hardware_id: "keeptime".into(),
        values: values(&[
            ("requests", chain.requests),
            ("longest, ns", chain.longest_ns),
            ("bound, ns", chain.bound_ns),
            ("overruns", chain.overruns),
            ("excess", chain.excess),
            ("remote requests expired", chain.remote_expired),
        ]),
    }
}

fn values(pairs: &[(&str, u64)]) -> Vec<KeyValue> {
    let pair =
        |(key, value): &(&str, u64)| KeyValue { key: (*key).into(), value: value.to_string() };
    pairs.iter().map(pair).collect()
}
