//! The memory of clients and registrations that are gone: kept until no device uses it any more,
//! then unmapped.

use super::Control;
use realtime::clock::thread_cpu_ns;
use shm::Mapping;
use std::sync::Arc;

/// Mappings of a client that is gone, kept until no device uses them any more.
pub(super) struct Remains {
    /// None when only a registration has ended.
    pub(super) session: Option<u64>,
    pub(super) uid: u32,
    pub(super) mappings: Vec<Arc<Mapping>>,
}

impl Control {
    /// Unmaps what nobody uses any more.
    pub(super) fn bury(&mut self) {
        let mut dying = std::mem::take(&mut self.dying);
        dying.retain_mut(|remains| {
            let begin_ns = thread_cpu_ns();
            let over = self.bury_one(remains);
            self.charge(remains.uid, begin_ns);
            !over
        });
        self.dying.append(&mut dying);
    }

    /// Unmaps the memory that nobody uses any more; returns true if none is left.
    fn bury_one(&mut self, remains: &mut Remains) -> bool {
        if remains.session.is_some_and(|session| !self.engine.at_rest(session)) {
            return false;
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
                    self.settings.journal.say(&line);
                }
            }
        }
        remains.mappings.is_empty()
    }
}
