//! Answers on their way to clients.

use crate::bucket::Request;
use crate::session::Session;
use device::Outcome;
use realtime::clock::monotonic_ns;
use shm::completion::{Completion, Opening};
use std::sync::Arc;

/// An answer that is ready to go to its client.
pub(super) struct Answer {
    pub session: Arc<Session>,
    pub slot: u16,
    pub opening: Opening,
    pub outcome: Completion,
}

impl Request {
    /// The answer to this request. What the device did not do is zero.
    pub(super) fn answer(self, status: u32, device: Option<&Outcome>) -> Answer {
        let outcome = Completion {
            status,
            launch_id: self.launch_id,
            arrived_ns: self.arrived_ns,
            started_ns: device.map_or(0, |outcome| outcome.started_ns),
            finished_ns: device.map_or(0, |outcome| outcome.finished_ns),
            busy_ns: device.map_or(0, |outcome| outcome.busy_ns),
            answered_ns: 0,
        };
        Answer { session: self.session, slot: self.slot, opening: self.opening, outcome }
    }
}

/// Publishes answers. Never blocks, whatever the clients do.
pub(super) fn publish(answers: Vec<Answer>) {
    for Answer { session, slot, opening, mut outcome } in answers {
        outcome.answered_ns = monotonic_ns();
        session.answer(slot, opening, &outcome);
    }
}
