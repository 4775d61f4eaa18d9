//! Requests that take longer than declared, and devices that break down.

use super::State;
use super::answer::Answer;
use super::notice::{Named, Notice, Reason};
use crate::bucket::Request;
use device::FailureCode;
use system::Overrun;

impl State {
    /// A request has ended because the device broke down. Each client that this happens to is
    /// told by its answer; one whose request never ended is not served any more.
    pub(super) fn broke_down(&mut self, accelerator: usize, request: &Request, code: u32) {
        if !is_lost(code) {
            return;
        }
        let named = self.named(accelerator, request);
        let session = request.session.id;
        if code == FailureCode::Endless as u32 {
            self.evict(session, Reason::Endless(named));
            self.drop_waiting(session);
            return;
        }
        let fault = self.accelerators[accelerator].device.statistics().fault;
        self.notice(session, Notice::Lost { request: named, fault });
    }

    /// A running request has taken longer than it declared.
    pub(super) fn overran(
        &mut self,
        accelerator: usize,
        lane: usize,
        action: Overrun,
        answers: &mut Vec<Answer>,
    ) {
        let Some(owner) = self.accelerators.get(accelerator) else { return };
        let Some(request) = &owner.lanes[lane].running else { return };
        let declared_us = request.launch.budget_ns.unwrap_or(0) / 1000;
        let session = request.session.id;
        let request = self.named(accelerator, request);
        let owner = &mut self.accelerators[accelerator];
        owner.lanes[lane].overran = true;
        self.counters.overruns += 1;
        let demoted = match action {
            Overrun::Demote => owner.demote(lane).map(|()| owner.lanes[lane].demoted),
            _ => Ok(false),
        };
        self.counters.demotions += u64::from(demoted == Ok(true));
        self.notice(session, Notice::Overran { request, declared_us, demoted });
        self.advance(accelerator, None, answers);
    }

    /// Names a request: its accelerator, chain, launch id and process.
    fn named(&self, accelerator: usize, request: &Request) -> Named {
        let session = self.sessions.get(&request.session.id);
        let registration = session.and_then(|s| s.registrations.get(request.registration as usize));
        Named {
            accelerator: self.accelerators[accelerator].id.clone(),
            chain: registration.and_then(Option::as_ref).map(|of| of.chain.clone()),
            launch_id: request.launch_id,
            pid: request.session.pid,
        }
    }
}

/// Returns true if a failure means that the device broke down.
pub(super) fn is_lost(code: u32) -> bool {
    code == FailureCode::Lost as u32 || code == FailureCode::Endless as u32
}
