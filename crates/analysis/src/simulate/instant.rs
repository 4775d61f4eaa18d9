//! One instant: what ends and what comes, in the order that the scenario's ties ask for.
//!
//! Events only change what executors and requests are ready, and mark the cores and devices that
//! this concerns. Decisions then say who has them, which may set new alarms at this very instant:
//! for work of no length, or of which nothing is left.

use super::Tie;
use super::simulator::{Event, Simulator};

const ENDS_FIRST: [Event; 4] = [Event::RequestEnd, Event::StepEnd, Event::Release, Event::Arrival];
const RELEASES_FIRST: [Event; 4] =
    [Event::Release, Event::Arrival, Event::StepEnd, Event::RequestEnd];

impl Simulator {
    pub(super) fn instant(&mut self) {
        loop {
            match self.next_event() {
                Some((event, index)) => {
                    self.happen(event, index);
                    if !self.is_lazy() {
                        self.decide();
                    }
                }
                None if self.decide() => {}
                None => return,
            }
        }
    }

    fn next_event(&mut self) -> Option<(Event, usize)> {
        match self.scenario.tie {
            Tie::CompletionFirst | Tie::DecisionFirst => self.first_event(ENDS_FIRST),
            Tie::ReleaseFirst => self.first_event(RELEASES_FIRST),
            Tie::Random => self.any_event(),
        }
    }

    fn first_event(&self, order: [Event; 4]) -> Option<(Event, usize)> {
        order.into_iter().find_map(|event| {
            let mut alarms = self.alarms[self.alarms_of(event)].iter();
            alarms.position(|&at_ns| at_ns == self.now_ns).map(|index| (event, index))
        })
    }

    fn any_event(&mut self) -> Option<(Event, usize)> {
        let now_ns = self.now_ns;
        let is_due = |&at_ns: &&u64| *at_ns == now_ns;
        let due = self.alarms.iter().filter(is_due).count();
        if due == 0 {
            return None;
        }
        let mut skip = self.order.usize(..due);
        for event in ENDS_FIRST {
            for (index, at_ns) in self.alarms[self.alarms_of(event)].iter().enumerate() {
                if *at_ns == now_ns {
                    if skip == 0 {
                        return Some((event, index));
                    }
                    skip -= 1;
                }
            }
        }
        None
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
