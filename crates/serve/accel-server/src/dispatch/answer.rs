//! Answers on their way to clients, and what a request cost besides its run.

use crate::accelerator::{Accelerator, Lane};
use crate::bucket::Request;
use crate::meter::Meter;
use crate::session::Session;
use device::OperationOutcome;
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
    pub(super) fn answer(self, status: u32, device: Option<&OperationOutcome>) -> Answer {
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

/// Publishes answers, and returns the time of the last one. Never blocks, whatever the clients do.
pub(super) fn publish(answers: &mut Vec<Answer>) -> u64 {
    let mut answered_ns = 0;
    for Answer { session, slot, opening, mut outcome } in answers.drain(..) {
        answered_ns = monotonic_ns();
        outcome.answered_ns = answered_ns;
        session.answer(slot, opening, &outcome);
    }
    answered_ns
}

/// A request that has ended, as far as it is measured.
pub(super) struct Ended {
    meter: Arc<Meter>,
    now_ns: u64,
    sigma_ns: Option<u64>,
    /// Time from the arrival of a request to its launch, where it did not have to wait.
    taken_ns: Option<u64>,
}

impl Ended {
    /// The request of a lane, before the lane lets go of it.
    pub(super) fn of(
        owner: &Accelerator,
        lane: usize,
        outcome: &OperationOutcome,
        now_ns: u64,
    ) -> Ended {
        let Lane { launched, running, .. } = &owner.lanes[lane];
        let done = outcome.status == device::Status::Done;
        let arrived_ns = running.as_ref().filter(|_| launched.at_once && done);
        Ended {
            meter: owner.meter.clone(),
            now_ns,
            sigma_ns: owner.overhead_ns(lane, outcome, now_ns),
            taken_ns: arrived_ns.map(|request| launched.at_ns.saturating_sub(request.arrived_ns)),
        }
    }

    /// Its answer is published.
    pub(super) fn measure(self, answered_ns: u64) {
        if let Some(sigma_ns) = self.sigma_ns {
            self.meter.sigma.add(sigma_ns);
        }
        if let Some(taken_ns) = self.taken_ns {
            self.meter.epsilon.add(taken_ns + answered_ns.saturating_sub(self.now_ns));
        }
    }
}
