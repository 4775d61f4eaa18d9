//! Requests that take longer than declared, and devices that break down.

use super::State;
use super::answer::Answer;
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
        let what = self.in_words(accelerator, request);
        if code == FailureCode::Endless as u32 {
            let why = format!("{what} never ended; the device is set up anew");
            self.evict(request.session.id, why);
            self.drop_waiting(request.session.id);
            return;
        }
        let then = match self.accelerators[accelerator].device.statistics().fault {
            Some(why) => format!("cannot be set up anew: {why}"),
            None => "is set up anew".to_owned(),
        };
        let session = request.session.id;
        self.notice(session, format!("{what} was lost: the device broke down, and {then}"));
    }

    /// A running request has taken longer than it declared.
    pub(super) fn overran(
        &mut self,
        accelerator: usize,
        lane: usize,
        action: Overrun,
    ) -> Vec<Answer> {
        let Some(owner) = self.accelerators.get(accelerator) else { return Vec::new() };
        let Some(request) = &owner.lanes[lane].running else { return Vec::new() };
        let declared_us = request.launch.budget_ns.unwrap_or(0) / 1000;
        let what = self.in_words(accelerator, request);
        let session = request.session.id;
        let mut text = format!("{what} runs longer than the declared {declared_us} us");
        let owner = &mut self.accelerators[accelerator];
        owner.lanes[lane].overran = true;
        self.counters.overruns += 1;
        if action == Overrun::Demote {
            match owner.demote(lane) {
                Ok(()) if owner.lanes[lane].demoted => {
                    self.counters.demotions += 1;
                    text += ", demoted to the lowest bucket";
                }
                Ok(()) => {}
                Err(error) => text += &format!(", cannot be demoted: {error}"),
            }
        }
        self.notice(session, text);
        self.advance(accelerator, None)
    }

    /// Names a request in words: its accelerator, chain, launch id and process.
    fn in_words(&self, accelerator: usize, request: &Request) -> String {
        let owner = &self.accelerators[accelerator].id;
        let session = self.sessions.get(&request.session.id);
        let registration = session.and_then(|s| s.registrations.get(request.registration as usize));
        let chain = registration.and_then(Option::as_ref).map_or("?", |r| r.chain.as_str());
        let (id, pid) = (request.launch_id, request.session.pid);
        format!("{owner}: chain {chain}, request {id} of process {pid}")
    }
}

/// Returns true if a failure means that the device broke down.
pub(super) fn is_lost(code: u32) -> bool {
    code == FailureCode::Lost as u32 || code == FailureCode::Endless as u32
}
