//! A stack drives a scenario: the world and the graph in a closed loop on the virtual clock.
//!
//! Every 10 ms localisation comes in, every 100 ms a turn of the lidar. The modules run for real
//! and are charged on simulated cores; a command acts on the world from the step after the time at
//! which it was computed.

use crate::stack::{self, Doors, Features, Localisation, Mission, Scan, Stack};
use crate::{Ego, Lidar, Track};
use dataflow::trace::{Event, Names, Reaction, Reactions};
use dataflow::{Costs, Header, Message, Statistics, Virtual};
use glam::DMat2;
use std::collections::HashSet;
use std::sync::Arc;
use world::{Body, Collision, Command, STEP, Scenario, World, sumo};

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is none.
    #[error(transparent)]
    Scenario(#[from] world::scenario::Error),
    /// SUMO's traffic could not be had.
    #[error(transparent)]
    Sumo(#[from] world::sumo::Error),
    /// The graph was not run.
    #[error("the stack: {0}")]
    Stack(#[from] dataflow::Error),
}

/// How a scenario went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long it was driven, s; up to the first collision.
    pub driven: f64,
    /// Whom the ego touched.
    pub collisions: Vec<Collision>,
    /// For how long somebody ahead was nearer than is safe, along and across (RSS), s.
    pub dangerous: f64,
    /// How often it came to that.
    pub dangers: usize,
    /// The strongest braking of the ego in the last two seconds, m/s²; 0 if it did not brake.
    pub braked: f64,
    /// How far the ego came along its route, m.
    pub progress: f64,
    /// When it had come as far as it was to go ([`to`]), s.
    pub arrived: Option<f64>,
    /// The frames of the lidar that led to a command.
    pub frames: Vec<Frame>,
    /// Frames that led to none.
    pub unanswered: usize,
    /// When the hazard began, s; none if there was none.
    pub began: Option<f64>,
    /// How the stack reacted to the hazard after it had begun and could be seen: the first command
    /// from a frame that shows it which brakes or steers by clearly more than the command before.
    /// None if there was no hazard, it was never seen, or no command changed.
    pub reaction: Option<Reaction>,
    /// How many simulated cores there are.
    pub cores: usize,
    /// What the modules and groups did.
    pub statistics: Statistics,
    /// What happened in the stack.
    pub events: Vec<Event>,
    /// Events that went before these, and are lost.
    pub lost_events: u64,
    /// The number of the lidar among the sources.
    pub scans: u16,
    /// What the numbers in it are called.
    pub names: Names,
}

/// A frame of the lidar that led to a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Its number, as in the trace.
    pub number: u64,
    /// When it was captured, s.
    pub captured: f64,
    /// From its capture to the first command that knows of it, s.
    pub latency: f64,
}

impl Outcome {
    /// The latency that a share of the frames does not exceed, s; none without frames.
    pub fn latency(&self, share: f64) -> Option<f64> {
        let mut sorted: Vec<f64> = self.frames.iter().map(|frame| frame.latency).collect();
        sorted.sort_by(f64::total_cmp);
        let place = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(place.max(1) - 1).copied()
    }

    /// The mean latency, s; none without frames.
    pub fn mean_latency(&self) -> Option<f64> {
        let sum: f64 = self.frames.iter().map(|frame| frame.latency).sum();
        (!self.frames.is_empty()).then(|| sum / self.frames.len() as f64)
    }
}

/// A command with when it was out and what it was computed from.
struct Sent {
    command: Command,
    header: Arc<Header>,
}

/// Has `stack` drive `scenario`; what modules take is charged by `costs`.
///
/// # Errors
///
/// The scenario makes no world, or a replay in `costs` is not of this drive.
pub fn run(
    scenario: &Scenario,
    stack: Stack,
    features: &Features,
    costs: Costs,
) -> Result<Outcome, Error> {
    watch(scenario, stack, features, costs, &mut |_| ())
}

/// As [`run`]; ends when the ego has come `distance` m along its route.
///
/// # Errors
///
/// As [`run`].
pub fn to(
    distance: f64,
    scenario: &Scenario,
    stack: Stack,
    features: &Features,
    costs: Costs,
) -> Result<Outcome, Error> {
    Drive::new(scenario, stack, features, costs)?.go(distance, &mut |_| ())
}

/// As [`run`]; shows the world before each of its steps, and at the end.
///
/// # Errors
///
/// As [`run`].
pub fn watch(
    scenario: &Scenario,
    stack: Stack,
    features: &Features,
    costs: Costs,
    show: &mut dyn FnMut(&World),
) -> Result<Outcome, Error> {
    Drive::new(scenario, stack, features, costs)?.go(f64::INFINITY, show)
}

struct Drive {
    world: World,
    /// Whoever moves those whom the world does not.
    sumo: Option<sumo::Traffic>,
    mission: Mission,
    clock: Virtual,
    cores: usize,
    doors: Doors,
    lidar: Lidar,
    command: Command,
    sent: Vec<Sent>,
    /// When each turn of the lidar was captured.
    scans_ns: Vec<u64>,
    dangerous: f64,
    /// How often it came to that, and whether it is so now.
    dangers: (usize, bool),
    /// At each step, m/s².
    accelerations: Vec<f64>,
    /// When the hazard, which had begun, was first visible.
    seen: Option<f64>,
}

/// Steps of the world from one turn of the lidar to the next.
const TURN: u64 = 10;

impl Drive {
    fn new(
        scenario: &Scenario,
        stack: Stack,
        features: &Features,
        costs: Costs,
    ) -> Result<Drive, Error> {
        let mut world = World::new(scenario)?;
        let sumo = sumo::Traffic::start(scenario, &mut world)?;
        let mission = Mission {
            road: Arc::new(world.road().clone()),
            route: Arc::new(world.route().clone()),
            desired: scenario.ego.desired_kmh.map_or(f64::INFINITY, |kmh| kmh / 3.6),
        };
        let (graph, doors) = stack::build(stack, features, &mission);
        let cores = stack::cores(features);
        let clock = Virtual::new(graph, features.settings(), costs)?;
        Ok(Drive {
            world,
            sumo,
            mission,
            clock,
            cores,
            doors,
            lidar: Lidar::default(),
            command: Command::default(),
            sent: Vec::new(),
            scans_ns: Vec::new(),
            dangerous: 0.0,
            dangers: (0, false),
            accelerations: Vec::new(),
            seen: None,
        })
    }

    /// To the end, the first collision or so many metres on, whatever comes first.
    fn go(mut self, distance: f64, show: &mut dyn FnMut(&World)) -> Result<Outcome, Error> {
        let start = self.along();
        let mut arrived = None;
        while !self.world.ended() && self.world.collisions().is_empty() && arrived.is_none() {
            show(&self.world);
            self.step()?;
            arrived = (self.along() - start >= distance).then(|| self.world.time());
        }
        show(&self.world);
        Ok(self.outcome(start, arrived))
    }

    fn step(&mut self) -> Result<(), Error> {
        let now_ns = ns(self.world.time());
        self.sense(now_ns)?;
        self.clock.advance_to(now_ns)?;
        for message in self.clock.take(&self.doors.commands) {
            let Message { header, value } = message;
            self.command = *value;
            self.sent.push(Sent { command: *value, header });
        }
        self.look();
        match &mut self.sumo {
            None => self.world.step(&self.command),
            Some(sumo) => {
                let others = sumo.step(&self.world.bodies()[0])?;
                self.world.step_among(&self.command, others);
            }
        }
        Ok(())
    }

    fn sense(&mut self, now_ns: u64) -> Result<(), Error> {
        let (at, ego) = (self.world.time(), self.ego());
        let localisation = Localisation { at, ego };
        self.clock.inject(&self.doors.localisation, now_ns, now_ns, localisation)?;
        if self.world.steps().is_multiple_of(TURN) {
            let turn = self.world.steps() / TURN;
            let cloud = self.lidar.scan(ego.pose, self.world.bodies(), turn);
            self.clock.inject(&self.doors.scans, now_ns, now_ns, Scan { at, ego, cloud })?;
            self.scans_ns.push(now_ns);
        }
        Ok(())
    }

    /// What the stack is judged by.
    fn look(&mut self) {
        let (bodies, route) = (self.world.bodies(), &self.mission.route);
        let others: Vec<Track> = bodies[1..].iter().map(truth).collect();
        let dangerous = stack::dangerous(&self.ego(), &others, route);
        self.dangerous += if dangerous { STEP } else { 0.0 };
        self.dangers.0 += usize::from(dangerous && !self.dangers.1);
        self.dangers.1 = dangerous;
        self.accelerations.push(self.world.ego().acceleration());
        let hazard = self.world.hazard().filter(|hazard| hazard.began.is_some());
        if hazard.is_some_and(|hazard| self.world.sees(hazard.body)) && self.seen.is_none() {
            self.seen = Some(self.world.time());
        }
    }

    fn ego(&self) -> Ego {
        let ego = self.world.ego();
        Ego {
            pose: ego.pose(),
            speed: ego.speed(),
            acceleration: ego.acceleration(),
            curvature: ego.curvature(),
        }
    }

    fn along(&self) -> f64 {
        self.mission.route.line().offset(self.world.ego().pose().position).along
    }

    fn reaction(&self, events: &[Event], seen_ns: u64) -> Option<Reaction> {
        let before = self.sent.iter().rfind(|sent| sent.header.published_ns <= seen_ns);
        // Before the first one the vehicle rolls on.
        let before = before.map_or(Command::default(), |sent| sent.command);
        let reacts: HashSet<u64> = self
            .sent
            .iter()
            .filter(|sent| {
                sent.command.acceleration <= before.acceleration - HARDER
                    || (sent.command.curvature - before.curvature).abs() >= ASIDE
            })
            .map(|sent| sent.header.id)
            .collect();
        let scans = self.doors.scans.id();
        Reactions::new(events).first(scans, seen_ns, |message| reacts.contains(&message))
    }

    fn outcome(self, start: f64, arrived: Option<f64>) -> Outcome {
        let scans = self.doors.scans.id();
        let mut frames = Vec::new();
        let mut unanswered = 0;
        let mut commands = self.sent.iter();
        let mut newest = commands.next();
        for (number, captured_ns) in (0..).zip(&self.scans_ns) {
            while newest.is_some_and(|sent| !sent.header.knows(scans, *captured_ns)) {
                newest = commands.next();
            }
            match newest {
                Some(sent) => frames.push(Frame {
                    number,
                    captured: *captured_ns as f64 / 1e9,
                    latency: (sent.header.published_ns - captured_ns) as f64 / 1e9,
                }),
                None => unanswered += 1,
            }
        }
        let events: Vec<Event> = self.clock.trace().events().copied().collect();
        let reaction = self.seen.and_then(|seen| self.reaction(&events, ns(seen)));
        Outcome {
            driven: self.world.time(),
            collisions: self.world.collisions().to_vec(),
            dangerous: self.dangerous,
            dangers: self.dangers.0,
            braked: self.accelerations.iter().rev().take(BEFORE).fold(0.0, |most, a| most.max(-a)),
            progress: self.along() - start,
            arrived,
            frames,
            unanswered,
            began: self.world.hazard().and_then(|hazard| hazard.began),
            reaction,
            cores: self.cores,
            statistics: self.clock.statistics(),
            lost_events: self.clock.trace().lost(),
            scans: scans.index() as u16,
            events,
            names: self.clock.names().clone(),
        }
    }
}

/// Steps of the world in two seconds.
const BEFORE: usize = 200;
/// A command reacts if it brakes by so much more, m/s².
const HARDER: f64 = 1.0;
/// Or steers by so much more, 1/m.
const ASIDE: f64 = 0.01;

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// A body as a stack without errors would track it.
fn truth(body: &Body) -> Track {
    Track {
        id: body.id,
        kind: body.kind,
        pose: body.pose,
        velocity: body.speed * body.pose.forward(),
        acceleration: body.acceleration * body.pose.forward(),
        doubt: DMat2::ZERO,
        length: body.length,
        width: body.width,
        seen: u32::MAX,
        at: 0.0,
    }
}
