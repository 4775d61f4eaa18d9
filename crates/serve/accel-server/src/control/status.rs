//! Answers of the server to questions about itself, entry by entry.

use super::{Connection, Control};
use crate::admission::{Claim, Judged, Source};
use crate::meter::measured;
use crate::{peer, seeker};
use accel::control::{
    AcceleratorStatus, Ask, ChainStatus, Code, MemoryStatus, NO_BUCKET, Name, Packet, Refused,
    SHOWN_ACCELERATORS, ServerStatus, SessionStatus, pack_text,
};
use accel::snapshot::Origin;
use std::sync::atomic::Ordering;
use system::{Admission as Mode, ArbitrationPolicy};
use zerocopy::{FromZeros, IntoBytes};

impl Control {
    /// Answers a question.
    pub(super) fn tell(&mut self, session: u64, ask: &Ask) {
        match ask {
            Ask::QueryStatus => {
                let mut counters = self.engine.counters();
                counters.memory_bytes = self.budget.sum_bytes();
                self.send(session, counters.as_bytes(), &[]);
            }
            Ask::QueryServer => {
                let status = self.server_status();
                self.send(session, status.as_bytes(), &[]);
            }
            Ask::QueryAccelerator(query) => {
                let status = self.accelerator_status(query.index);
                self.send_entry(session, "accelerator", query.index, status);
            }
            Ask::QuerySession(query) => {
                let status = self.session_status(query.index);
                self.send_entry(session, "session", query.index, status);
            }
            Ask::QueryChain(query) => {
                let status = self.chain_status(query.index);
                self.send_entry(session, "chain", query.index, status);
            }
            Ask::QueryBandwidth => {
                let seeker = self.settings.facts.seeker.as_deref();
                let status = seeker::status(seeker, self.engine.held());
                self.send(session, status.as_bytes(), &[]);
            }
            Ask::QueryMemory(query) => {
                let status = self.memory_status(query.index);
                self.send_entry(session, "user", query.index, status);
            }
            // These are not questions.
            Ask::Hello(_) | Ask::Register(_) | Ask::Deregister(_) | Ask::Reprioritise(_) => {}
        }
    }

    /// Sends an entry of a list, or its end, which is no refusal in the counters: a client reads to
    /// the end.
    fn send_entry(&mut self, session: u64, what: &str, index: u32, entry: Option<impl Packet>) {
        match entry {
            Some(entry) => self.send(session, entry.as_bytes(), &[]),
            None => {
                let text = format!("{what} {index}: there are no more");
                self.send(session, Refused::new(Code::Unknown, &text).as_bytes(), &[]);
            }
        }
    }

    fn server_status(&self) -> ServerStatus {
        let facts = &self.settings.facts;
        let counts = self.admission.counts;
        let mode = self.admission.mode();
        let analysis = if mode == Mode::Off { "" } else { analysis_name(self.admission.variant()) };
        ServerStatus {
            kind: ServerStatus::KIND,
            realtime: facts.realtime.load(Ordering::Relaxed).into(),
            revision: self.admission.revision,
            kappa_ns: facts.system.kappa_ns,
            epsilon_ns: facts.system.epsilon_ns,
            sigma_ns: facts.system.sigma_ns,
            hop_ns: facts.system.hop_ns,
            decisions: counts.decisions,
            refused: counts.refused,
            last_decision_ns: counts.last_ns,
            longest_decision_ns: counts.longest_ns,
            policy: Name::cut(policy_name(facts.policy)),
            admission: Name::cut(mode_name(mode)),
            analysis: Name::cut(analysis),
            note: pack_text(&facts.note),
        }
    }

    fn accelerator_status(&self, index: u32) -> Option<AcceleratorStatus> {
        let place = index as usize;
        let accelerator = self.settings.facts.system.accelerators.get(place)?;
        let load = self.engine.load(place)?;
        let registrations = self.admission.claims().iter().filter(|c| c.accelerator == place);
        Some(AcceleratorStatus {
            kind: AcceleratorStatus::KIND,
            count: self.settings.facts.system.accelerators.len() as u32,
            revision: self.admission.revision,
            buckets: accelerator.buckets,
            queued: load.queued,
            running: load.running,
            registrations: registrations.count() as u32,
            sigma: measured(&load.meter.sigma),
            epsilon: measured(&load.meter.epsilon),
            id: Name::cut(&accelerator.id),
            device: Name::cut(&load.device),
        })
    }

    fn session_status(&self, index: u32) -> Option<SessionStatus> {
        let open = self.connections.iter().filter(|(_, connection)| connection.open.is_some());
        let mut sessions: Vec<(u64, &Connection)> = open.map(|(id, c)| (*id, c)).collect();
        sessions.sort_unstable_by_key(|(id, _)| *id);
        let &(session, connection) = sessions.get(index as usize)?;
        let pid = connection.peer.number();
        let own = self.admission.claims().iter().filter(|claim| claim.session == session);
        let executor = own.clone().find_map(|claim| claim.executor);
        let note = executor.and_then(|(core, priority)| peer::contradiction(pid, core, priority));
        let (core, process_priority) = executor.unwrap_or_default();
        Some(SessionStatus {
            kind: SessionStatus::KIND,
            count: sessions.len() as u32,
            revision: self.admission.revision,
            session,
            pid: pid as u32,
            uid: connection.peer.uid,
            registrations: own.count() as u32,
            declared: executor.is_some().into(),
            core,
            process_priority,
            note: pack_text(&note.unwrap_or_default()),
        })
    }

    fn chain_status(&mut self, index: u32) -> Option<ChainStatus> {
        self.admission.refine();
        let chains = &self.admission.verdict().chains;
        let judged = chains.get(index as usize)?;
        let own = self.admission.claims().iter().filter(|claim| is_of(claim, judged));
        let mut status = ChainStatus {
            kind: ChainStatus::KIND,
            count: chains.len() as u32,
            revision: self.admission.revision,
            priority: judged.priority,
            standing: judged.standing as u32,
            origin: judged.origin as u32,
            callbacks: judged.callbacks,
            positions: judged.positions,
            registrations: own.clone().count() as u32,
            period_ns: judged.period_ns,
            deadline_ns: judged.deadline_ns,
            bound_ns: judged.bound_ns,
            buckets: self.buckets(judged),
            name: Name::cut(&judged.name),
            note: pack_text(&judged.note()),
            ..ChainStatus::new_zeroed()
        };
        if let Some(claim) = own.clone().next() {
            let count = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
            status.requests = count(&claim.tally.requests);
            status.longest_ns = count(&claim.tally.longest_ns);
            status.overruns = count(&claim.tally.overruns);
            status.excess = count(&claim.tally.excess);
        }
        Some(status)
    }

    fn memory_status(&self, index: u32) -> Option<MemoryStatus> {
        let mut users: Vec<u32> = self.budget.users().collect();
        users.sort_unstable();
        let &uid = users.get(index as usize)?;
        let own = self.connections.values().filter(|c| c.peer.uid == uid && c.open.is_some());
        Some(MemoryStatus {
            kind: MemoryStatus::KIND,
            count: users.len() as u32,
            revision: self.admission.revision,
            uid,
            sessions: own.count() as u32,
            used_bytes: self.budget.used_by(uid),
            limit_bytes: self.budget.limit_of(uid),
            total_bytes: self.budget.sum_bytes(),
            total_limit_bytes: self.budget.total_bytes,
        })
    }

    fn buckets(&self, judged: &Judged) -> [u8; SHOWN_ACCELERATORS] {
        let mut buckets = [NO_BUCKET; SHOWN_ACCELERATORS];
        // Only this policy has buckets of chains.
        if self.settings.facts.policy != ArbitrationPolicy::Priority {
            return buckets;
        }
        for &accelerator in &judged.uses {
            let spread = &self.admission.spreads()[accelerator];
            if let (Some(shown), Some(&bucket)) =
                (buckets.get_mut(accelerator), spread.get(&judged.priority))
            {
                *shown = u8::try_from(bucket).unwrap_or(NO_BUCKET);
            }
        }
        buckets
    }
}

/// Returns true if a registration belongs to a chain.
fn is_of(claim: &Claim, judged: &Judged) -> bool {
    let same = match (&claim.source, judged.origin) {
        (Source::File(_), Origin::File) | (Source::Declared(_), Origin::Clients) => true,
        (Source::Nobody, Origin::Nobody) => claim.priority == judged.priority,
        _ => false,
    };
    same && claim.chain == judged.name
}

fn policy_name(policy: ArbitrationPolicy) -> &'static str {
    match policy {
        ArbitrationPolicy::Priority => "priority",
        ArbitrationPolicy::Fifo => "fifo",
        ArbitrationPolicy::Timeslice => "timeslice",
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Report => "report",
        Mode::Off => "off",
    }
}

fn analysis_name(variant: analysis::Variant) -> &'static str {
    match variant {
        analysis::Variant::Tight => "tight",
        analysis::Variant::Sound => "sound",
        analysis::Variant::Published => "published",
    }
}
