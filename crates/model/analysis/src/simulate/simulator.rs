//! The simulator: its state, and the loop over instants.
//!
//! Whatever will happen next is an alarm: the instant at which a core or a device ends what it is
//! doing, a chain is released, or a chain arrives at its next executor. All alarms stand in one
//! list; time jumps to the least of them. Lists are short, so a scan is faster than a heap.

use super::draw::Demand;
use super::plan::Plan;
use super::release::Progress;
use super::trace::{Recorder, Trace};
use super::{Scenario, ScheduleOutcome, Tie};
use crate::{Error, System};
use fastrand::Rng;
use std::ops::Range;

/// Number of events between two calls of a watch: an event of a large system takes microseconds.
const LOOK: u32 = 1 << 10;
/// Time of no alarm.
pub(super) const NEVER: u64 = u64::MAX;

/// Simulates one system, as often as wanted, without allocating again.
pub struct Simulator {
    pub(super) plan: Plan,
    pub(super) scenario: Scenario,
    pub(super) demand: Demand,
    /// Draws what [`Tie::Random`] leaves open.
    pub(super) order: Rng,
    pub(super) now_ns: u64,
    /// One for each core, then each device, then each chain's release, then, if that takes any
    /// time, each chain's arrival at its next executor.
    pub(super) alarms: Vec<u64>,
    pub(super) cores: Vec<Core>,
    pub(super) devices: Vec<Device>,
    pub(super) processes: Vec<Process>,
    pub(super) chains: Vec<Progress>,
    pub(super) outcome: ScheduleOutcome,
    pub(super) responses_ns: Vec<Vec<u64>>,
    pub(super) recorder: Option<Box<Recorder>>,
}

/// State of a core.
#[derive(Default, Clone)]
pub(super) struct Core {
    /// Its executors, the first first. Differs from the plan in the order of those that share.
    pub executors: Vec<usize>,
    /// The executor that has it.
    pub runs: Option<usize>,
    /// Time since when, as far as not yet accounted for.
    pub since_ns: u64,
    /// True if the executor that has it must be chosen anew.
    pub is_stale: bool,
}

/// State of a device.
#[derive(Default, Clone)]
pub(super) struct Device {
    /// The executor whose request has it.
    pub serves: Option<usize>,
    /// True while it is still switching to that request.
    pub switches: bool,
    pub since_ns: u64,
    pub is_stale: bool,
}

/// State of an executor.
#[derive(Default, Clone)]
pub(super) struct Process {
    pub phase: Phase,
    /// The chain that it works for, unless it is free.
    pub chain: usize,
    /// Time that is left of the present step or request.
    pub left_ns: u64,
    /// The accelerator of the present request.
    pub device: usize,
    /// Its rank there: [`super::plan::PlannedRequest::rank`].
    pub rank: u64,
    /// True if the present request has started.
    pub is_started: bool,
    /// Number of callbacks that are ready.
    pub ready: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Free,
    Computes,
    Requests,
}

impl Simulator {
    /// Prepares a system.
    ///
    /// # Errors
    /// [`Error`] when the system contradicts itself.
    pub fn new(system: &System) -> Result<Simulator, Error> {
        let plan = Plan::new(system)?;
        let chains = plan.chains.len();
        let arrivals = if plan.hop_ns > 0 { chains } else { 0 };
        let alarms = plan.cores.len() + plan.devices.len() + chains + arrivals;
        Ok(Simulator {
            scenario: Scenario { chains: Vec::new(), ..Scenario::synchronous(system) },
            demand: Demand::new(&plan),
            order: Rng::with_seed(0),
            now_ns: 0,
            alarms: vec![NEVER; alarms],
            cores: vec![Core::default(); plan.cores.len()],
            devices: vec![Device::default(); plan.devices.len()],
            processes: vec![Process::default(); plan.executors.len()],
            chains: vec![Progress::default(); chains],
            outcome: ScheduleOutcome::default(),
            responses_ns: vec![Vec::new(); chains],
            recorder: None,
            plan,
        })
    }

    /// Simulates one scenario.
    ///
    /// # Panics
    /// If the scenario was made for another number of chains.
    pub fn run(&mut self, scenario: &Scenario) -> &ScheduleOutcome {
        self.recorder = None;
        self.simulate(scenario, &mut |_| true);
        &self.outcome
    }

    /// Simulates one scenario; whether to its end. `watch` is told the present instant many times a
    /// second, and ends the simulation by returning false.
    ///
    /// # Panics
    /// If the scenario was made for another number of chains.
    pub fn run_watched(&mut self, scenario: &Scenario, watch: &mut dyn FnMut(u64) -> bool) -> bool {
        self.recorder = None;
        self.simulate(scenario, watch)
    }

    /// The responses of the last scenario, as far as it was simulated.
    pub fn outcome(&self) -> &ScheduleOutcome {
        &self.outcome
    }

    /// Response times of each chain in the last scenario, in the order of its jobs.
    pub fn responses_ns(&self) -> &[Vec<u64>] {
        &self.responses_ns
    }

    /// Simulates one scenario and writes down all that happened, until `watch` ends it as in
    /// [`Simulator::run_watched`].
    ///
    /// # Panics
    /// If the scenario was made for another number of chains.
    pub fn trace(&mut self, scenario: &Scenario, watch: &mut dyn FnMut(u64) -> bool) -> Trace {
        self.recorder = Some(Box::new(Recorder::new(scenario)));
        self.simulate(scenario, watch);
        let recorder = self.recorder.take().expect("set above");
        recorder.finish(&self.outcome)
    }

    /// Simulates until the end, or until `watch` returns false; whether until the end.
    fn simulate(&mut self, scenario: &Scenario, watch: &mut dyn FnMut(u64) -> bool) -> bool {
        let (found, expected) = (scenario.chains.len(), self.plan.chains.len());
        assert_eq!(found, expected, "the scenario was made for another number of chains");
        self.begin(scenario);
        let mut left = LOOK;
        while self.step() {
            left -= 1;
            if left == 0 {
                left = LOOK;
                if !watch(self.now_ns) {
                    return false;
                }
            }
        }
        // Those of a schedule that was not simulated to its end might have ended.
        self.count_unfinished();
        true
    }

    fn begin(&mut self, scenario: &Scenario) {
        self.scenario.chains.clone_from(&scenario.chains);
        self.scenario = Scenario { chains: std::mem::take(&mut self.scenario.chains), ..*scenario };
        self.order = Rng::with_seed(scenario.seed);
        self.now_ns = 0;
        self.alarms.fill(NEVER);
        self.devices.fill(Device::default());
        self.processes.fill(Process::default());
        self.begin_cores();
        self.begin_chains();
    }

    fn begin_cores(&mut self) {
        for (core, planned) in self.cores.iter_mut().zip(&self.plan.cores) {
            core.executors.clone_from(&planned.executors);
            let shared = planned.executors.len() - planned.shared;
            self.order.shuffle(&mut core.executors[shared..]);
            (core.runs, core.since_ns, core.is_stale) = (None, 0, false);
        }
    }

    /// Alarms of a kind of event.
    pub(super) fn alarms_of(&self, kind: Event) -> Range<usize> {
        let device = self.cores.len();
        let release = device + self.devices.len();
        let arrival = release + self.chains.len();
        match kind {
            Event::StepEnd => 0..device,
            Event::RequestEnd => device..release,
            Event::Release => release..arrival,
            Event::Arrival => arrival..self.alarms.len(),
        }
    }

    /// Returns true if ties leave decisions for later.
    pub(super) fn is_lazy(&mut self) -> bool {
        match self.scenario.tie {
            Tie::CompletionFirst => true,
            Tie::ReleaseFirst | Tie::DecisionFirst => false,
            Tie::Random => self.order.bool(),
        }
    }
}

/// Kinds of alarms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A core has done the present step of its executor.
    StepEnd,
    /// A device has done its request, or its switch to it.
    RequestEnd,
    /// A chain is released.
    Release,
    /// A chain arrives at the executor of its next part.
    Arrival,
}
