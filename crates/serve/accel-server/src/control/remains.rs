//! Clients and registrations that are gone: their memory is kept until no device uses it any more,
//! then unmapped, and all that their requests hold on to is kept until none is left, so that this
//! thread frees it and no real-time thread does.

use super::Control;
use crate::Level;
use crate::meter::Tally;
use crate::session::{Entry, Registration};
use realtime::clock::thread_cpu_ns;
use shm::Mapping;
use std::sync::Arc;

/// Mappings of a client that is gone, kept until no device uses them any more.
pub(super) struct Remains {
    /// None when only a registration has ended.
    pub(super) session: Option<Entry>,
    pub(super) uid: u32,
    pub(super) mappings: Vec<Arc<Mapping>>,
}

impl Control {
    /// Keeps the tally of a registration that is gone, until no request counts in it any more.
    pub(super) fn keep_tally(&mut self, registration: &Registration) {
        let known = |tally: &Arc<Tally>| Arc::ptr_eq(tally, &registration.tally);
        if !self.old_tallies.iter().any(known) {
            self.old_tallies.push(registration.tally.clone());
        }
    }

    /// Unmaps memory that is not used any more.
    pub(super) fn bury(&mut self) {
        self.old_tallies.retain(|tally| Arc::strong_count(tally) > 1);
        let mut dying = std::mem::take(&mut self.dying);
        dying.retain_mut(|remains| {
            let begin_ns = thread_cpu_ns();
            let over = self.bury_one(remains);
            self.charge(remains.uid, begin_ns);
            !over
        });
        self.dying.append(&mut dying);
    }

    /// Unmaps the memory that is not used any more; returns true if none is left.
    fn bury_one(&mut self, remains: &mut Remains) -> bool {
        if let Some(entry) = &remains.session {
            // Besides the devices, a thread may be about to answer a last request.
            let answering = || Arc::strong_count(&entry.session) > 1;
            if !self.engine.at_rest(entry.session.id) || answering() {
                return false;
            }
        }
        remains.session = None;
        let devices = self.engine.devices();
        for mapping in std::mem::take(&mut remains.mappings) {
            devices.iter().for_each(|(_, device)| device.let_go(&mapping));
            let cost_bytes = mapping.cost_bytes();
            match Arc::try_unwrap(mapping).map(Mapping::close) {
                Err(used) => remains.mappings.push(used),
                Ok(Ok(())) => self.budget.refund(remains.uid, cost_bytes),
                // It stays in the count, since it stays.
                Ok(Err(error)) => {
                    let line = format!("{cost_bytes} bytes stay mapped: {error}");
                    self.settings.journal.say(Level::Error, &line);
                }
            }
        }
        remains.mappings.is_empty()
    }
}
