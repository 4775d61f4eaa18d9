//! Registrations come, change and go, each with a decision of admission control.
//!
//! A decision is made first, then the dispatcher follows it, then it is committed. What is refused
//! leaves everything as it was. Who leaves is not asked: the dispatcher lets go at once, and the
//! buckets of the others follow.

use super::Control;
use crate::admission::{self, Claim};
use crate::journal::Kind;
use crate::refusal::Refusal;
use crate::register::{self, Prepared};
use crate::{access::is_trusted, peer};
use accel::control::{self, Code, Packet};
use realtime::clock::monotonic_ns;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A decision that takes longer is told, with the process that asked for it.
const LONG_DECISION_NS: u64 = 100_000_000;

impl Control {
    /// Lets a registration in whose memory is present.
    pub(super) fn register(
        &mut self,
        session: u64,
        packet: &control::Register,
        prepared: Prepared,
    ) -> Result<(), Refusal> {
        let Some(connection) = self.connections.get_mut(&session) else { return Ok(()) };
        let Some(open) = &mut connection.open else { return Ok(()) };
        let (pid, uid) = (connection.peer.number(), connection.peer.uid);
        if let Some((_, priority)) = prepared.executor {
            if !is_trusted(uid) && !peer::may_run_at(pid, priority) {
                let text = format!(
                    "chain {:?} declares process priority {priority}: process {pid} may not run at it \
                 (no CAP_SYS_NICE, RLIMIT_RTPRIO below it)",
                    prepared.chain
                );
                return Err((Code::Declaration, text));
            }
        }
        let tally = self.admission.tally(&prepared.chain, prepared.priority, &prepared.source);
        let claim = Claim {
            session,
            number: u32::MAX,
            pid,
            uid,
            chain: prepared.chain.clone(),
            priority: prepared.priority,
            accelerator: prepared.accelerator(),
            source: prepared.source.clone(),
            executor: prepared.executor,
            declare: connection.grant.declare.clone(),
            tally: tally.clone(),
        };
        let decision = self.admission.register(claim)?;
        // A registration without memory still takes its place in the count.
        let mapping = prepared.mapping.clone().unwrap_or_else(|| open.mapping.clone());
        let registration = prepared.registration(tally, monotonic_ns());
        let (number, bucket) = self.engine.register(session, registration, &decision.spreads)?;
        let news = self.admission.commit(decision, Some(number));
        open.memory.insert(number, mapping);
        self.remark(session, packet, &news);
        self.send_registered(session, number, bucket);
        Ok(())
    }

    /// Logs a long decision about a registration that came in, and the news of chains.
    fn remark(&self, session: u64, packet: &control::Register, news: &[String]) {
        let Some(connection) = self.connections.get(&session) else { return };
        let (pid, uid) = (connection.peer.number(), connection.peer.uid);
        let journal = &self.settings.journal;
        let taken_ns = self.admission.counts.last_ns;
        if taken_ns >= LONG_DECISION_NS {
            let took = admission::short_time(taken_ns);
            let chain = packet.chain.get().unwrap_or("?");
            let line =
                || format!("the decision about chain {chain:?} of process {pid} took {took}");
            journal.tell(Kind::Chain, uid, line);
        }
        news.iter().for_each(|line| journal.tell(Kind::Chain, uid, || line.clone()));
        let chain = packet.chain.get().unwrap_or("?");
        journal.tell(Kind::Session, uid, || format!("process {pid} registered chain {chain:?}"));
    }

    fn send_registered(&mut self, session: u64, registration: u32, bucket: u32) {
        let kind = control::Registered::KIND;
        let answer = control::Registered { kind, registration, bucket };
        self.send(session, answer.as_bytes(), &[]);
    }

    pub(super) fn deregister(&mut self, session: u64, number: u32) -> Result<(), Refusal> {
        let Some(registration) = self.engine.deregister(session, number) else {
            return Err((Code::Unknown, format!("registration {number}: no such registration")));
        };
        self.keep_tally(&registration);
        self.release(session, Some(number));
        let open = self.connections.get_mut(&session).and_then(|c| c.open.as_mut());
        if let Some(open) = open {
            if let Some(mapping) = open.memory.remove(&number) {
                if !Arc::ptr_eq(&mapping, &open.mapping) {
                    self.let_go(session, mapping);
                }
            }
        }
        drop(registration);
        self.send(session, control::Done { kind: control::Done::KIND }.as_bytes(), &[]);
        Ok(())
    }

    /// The dispatcher has let go of a session or of one registration of it: judges the rest.
    pub(super) fn release(&mut self, session: u64, number: Option<u32>) {
        let uid = self.connections.get(&session).map_or(u32::MAX, |c| c.peer.uid);
        for line in self.admission.leave(session, number) {
            self.settings.journal.tell(Kind::Chain, uid, || line);
        }
        self.engine.set_spreads(self.admission.spreads());
    }

    pub(super) fn reprioritise(
        &mut self,
        session: u64,
        packet: &control::Reprioritise,
    ) -> Result<(), Refusal> {
        let Some(connection) = self.connections.get(&session) else { return Ok(()) };
        let (number, priority) = (packet.registration, packet.chain_priority);
        register::check_priority(&connection.grant, priority)?;
        let own = |claim: &&Claim| (claim.session, claim.number) == (session, number);
        if let Some(claim) = self.admission.claims().iter().find(own) {
            self.settings.services.check_chain(&claim.chain, priority)?;
        }
        let (decision, moved) = self.admission.reprioritise(session, number, priority)?;
        self.engine.reprioritise(&moved, priority, &decision.spreads);
        let uid = connection.peer.uid;
        for line in self.admission.commit(decision, None) {
            self.settings.journal.tell(Kind::Chain, uid, || line);
        }
        let bucket = self.engine.bucket(session, number).unwrap_or(0);
        self.send_registered(session, number, bucket);
        Ok(())
    }
}
