//! The loop over events: what ends and what comes, in the order that the scenario's ties ask for.
//!
//! Events only change what executors and requests are ready, and mark the cores and devices that
//! this concerns. Decisions then say who has them, which may set new alarms at this very instant:
//! for work of no length, or of which nothing is left. Time goes on when neither is left.

use super::Tie;
use super::simulator::{Event, NEVER, Simulator};

const ENDS_FIRST: [Event; 4] = [Event::RequestEnd, Event::StepEnd, Event::Release, Event::Arrival];
const RELEASES_FIRST: [Event; 4] =
    [Event::Release, Event::Arrival, Event::StepEnd, Event::RequestEnd];

impl Simulator {
    /// Lets the next event happen. False where there is none.
    pub(super) fn step(&mut self) -> bool {
        let (at_ns, event, index) = match self.scenario.tie {
            Tie::CompletionFirst | Tie::DecisionFirst => self.first_event(ENDS_FIRST),
            Tie::ReleaseFirst => self.first_event(RELEASES_FIRST),
            Tie::Random => self.any_event(),
        };
        if at_ns > self.now_ns {
            if self.decide() {
                return true;
            }
            if at_ns == NEVER {
                return false;
            }
            self.now_ns = at_ns;
        }
        self.happen(event, index);
        if !self.is_lazy() {
            self.decide();
        }
        true
    }

    /// The first alarm, and of those at one instant the first in this order.
    fn first_event(&self, order: [Event; 4]) -> (u64, Event, usize) {
        let mut first = (NEVER, Event::Release, 0);
        for event in order {
            for (index, &at_ns) in self.alarms[self.alarms_of(event)].iter().enumerate() {
                if at_ns < first.0 {
                    first = (at_ns, event, index);
                }
            }
        }
        first
    }

    /// One of the first alarms, drawn.
    fn any_event(&mut self) -> (u64, Event, usize) {
        let first = self.first_event(ENDS_FIRST);
        let is_due = |&at_ns: &&u64| *at_ns == first.0;
        let due = self.alarms.iter().filter(is_due).count();
        if due < 2 || first.0 == NEVER {
            return first;
        }
        let mut skip = self.order.usize(..due);
        for event in ENDS_FIRST {
            for (index, &at_ns) in self.alarms[self.alarms_of(event)].iter().enumerate() {
                if at_ns == first.0 {
                    if skip == 0 {
                        return (at_ns, event, index);
                    }
                    skip -= 1;
                }
            }
        }
        first
    }

    fn happen(&mut self, event: Event, index: usize) {
        match event {
            Event::StepEnd => self.end_step(index),
            Event::RequestEnd => self.end_service(index),
            Event::Release => self.release(index),
            Event::Arrival => self.arrive(index),
        }
    }

    /// Lets every core and device that something changed for decide. False where there is none.
    fn decide(&mut self) -> bool {
        let mut any = false;
        for core in 0..self.cores.len() {
            if std::mem::take(&mut self.cores[core].is_stale) {
                self.decide_core(core);
                any = true;
            }
        }
        for device in 0..self.devices.len() {
            if std::mem::take(&mut self.devices[device].is_stale) {
                self.decide_device(device);
                any = true;
            }
        }
        any
    }
}
