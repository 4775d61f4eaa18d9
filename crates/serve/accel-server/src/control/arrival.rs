//! A registration on its way in: checked, its memory mapped, but not all of it present yet.
//!
//! Pages are zeroed when they are made present, which takes long for much memory. So it is done in
//! slices: one in each turn of the control thread, for the session whose turn it is, at the cost
//! of its user. The session's next packet is read when this one is answered.

use super::{Connection, Control, Remains};
use crate::refusal::Refusal;
use crate::register::{self, Prepared};
use accel::control::{self, Code};
use realtime::clock::{monotonic_ns, thread_cpu_ns};
use rustix::fd::OwnedFd;
use shm::Mapping;
use std::sync::Arc;

/// Bytes that are made present in one turn. A multiple of every page size.
const SLICE_BYTES: usize = 1 << 20;

/// A registration on its way in.
pub(super) struct Arriving {
    packet: control::Register,
    pub(super) prepared: Prepared,
    /// Bytes of its memory that are present.
    present: usize,
}

impl Control {
    /// Checks a registration packet and maps its memory.
    pub(super) fn arrives(
        &mut self,
        session: u64,
        packet: &control::Register,
        fds: Vec<OwnedFd>,
    ) -> Result<(), Refusal> {
        let Some(connection) = self.connections.get(&session) else { return Ok(()) };
        let Some(open) = &connection.open else { return Ok(()) };
        let limit = self.settings.limits.registrations as usize;
        if open.memory.len() >= limit {
            return Err((Code::Limit, format!("{limit} registrations in this session, its limit")));
        }
        let memory = register::Memory {
            fits: &|bytes| self.fits(connection, bytes),
            bell: &self.engine.control,
        };
        let crowds = |chain: &str| self.engine.crowds(chain);
        let (services, grant) = (&self.settings.services, &connection.grant);
        let prepared = register::prepare(services, crowds, grant, &memory, packet, fds)?;
        let uid = connection.peer.uid;
        let Some(cost_bytes) = prepared.mapping.as_ref().map(|mapping| mapping.cost_bytes()) else {
            return self.register(session, packet, prepared);
        };
        self.budget.charge(uid, cost_bytes);
        let arriving = Box::new(Arriving { packet: *packet, prepared, present: 0 });
        if let Some(open) = self.connections.get_mut(&session).and_then(|c| c.open.as_mut()) {
            open.memory_bytes += cost_bytes;
            open.arriving = Some(arriving);
        }
        self.listen(session, false);
        self.arriving.push_back(session);
        Ok(())
    }

    /// Checks that there is room for this much more memory of a session.
    fn fits(&self, connection: &Connection, bytes: u64) -> Result<(), Refusal> {
        let used = connection.open.as_ref().map_or(0, |open| open.memory_bytes);
        let left = connection.grant.memory_bytes.saturating_sub(used);
        if bytes > left {
            let text = format!("{bytes} bytes of memory, {left} bytes are left to this session");
            return Err((Code::Limit, text));
        }
        self.budget.fits(connection.peer.uid, bytes)
    }

    /// One slice, for the next session in line whose user does not rest.
    pub(super) fn arrive(&mut self) {
        for _ in 0..self.arriving.len() {
            let Some(session) = self.arriving.pop_front() else { return };
            // Gone meanwhile.
            let Some(connection) = self.connections.get(&session) else { continue };
            let uid = connection.peer.uid;
            if self.shares.rests_until(uid, monotonic_ns()).is_some() {
                self.arriving.push_back(session);
                continue;
            }
            let begin_ns = thread_cpu_ns();
            self.arrive_further(session);
            return self.charge(uid, begin_ns);
        }
    }

    fn arrive_further(&mut self, session: u64) {
        let open = self.connections.get_mut(&session).and_then(|c| c.open.as_mut());
        let Some(mut arriving) = open.and_then(|open| open.arriving.take()) else { return };
        let Some(mapping) = arriving.prepared.mapping.clone() else { return };
        let length = SLICE_BYTES.min(mapping.size() - arriving.present);
        let populated = mapping.populate(arriving.present, length);
        arriving.present += length;
        if populated.is_ok() && arriving.present < mapping.size() {
            let open = self.connections.get_mut(&session).and_then(|c| c.open.as_mut());
            if let Some(open) = open {
                open.arriving = Some(arriving);
            }
            return self.arriving.push_back(session);
        }
        let Arriving { packet, prepared, .. } = *arriving;
        let registered = match populated {
            Ok(()) => self.register(session, &packet, prepared),
            Err(error) => {
                drop(prepared);
                Err((Code::Memory, error.to_string()))
            }
        };
        if registered.is_err() {
            self.let_go(session, mapping);
        }
        self.conclude(session, registered);
    }

    /// Memory that a session has no registration for any more.
    pub(super) fn let_go(&mut self, session: u64, mapping: Arc<Mapping>) {
        let Some(connection) = self.connections.get_mut(&session) else { return };
        if let Some(open) = &mut connection.open {
            open.memory_bytes = open.memory_bytes.saturating_sub(mapping.cost_bytes());
        }
        let uid = connection.peer.uid;
        self.dying.push(Remains { session: None, uid, mappings: vec![mapping] });
    }
}
