//! A stack drives a scenario: the world and the graph in a closed loop on the virtual clock. The
//! same on the wall clock is [`crate::wall`]'s.
//!
//! Every 10 ms localisation comes in, every 100 ms a turn of the lidar. The modules run for real
//! and are charged on simulated cores; a command acts on the world from the step after the time at
//! which it was computed.

use crate::stack::{self, Doors, Features, Localisation, Mission, Scan, Stack};
use crate::violation::Watch;
use crate::{Ego, Lidar, Track, Violations};
use dataflow::trace::{Event, Names, Reaction, Reactions};
use dataflow::{Costs, Header, Message, Observed, Statistics, Virtual};
use glam::DMat2;
use rss::Preset;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use world::{Body, Collision, Command, STEP, Scenario, World, sumo};

/// Reason for which a drive has no outcome.
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
    /// The machine refused something to the thread of the world.
    #[error("the world: {0}")]
    World(#[from] realtime::Error),
    /// The caller did not want it to go on.
    #[error("the drive was stopped")]
    Stopped,
}

/// Condition that ends a drive, if neither its scenario nor a collision ends it before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// Not before.
    End,
    /// The ego has come so far along its route, m.
    Distance(f64),
    /// The hazard, which had begun, has been visible for so long, s.
    Seen(f64),
    /// Nothing more comes of the hazard, which could be seen: the ego has stood for 1 s, or 4 s
    /// have passed.
    Over,
}

/// Outcome of a scenario that was driven.
#[derive(Clone, Debug)]
pub struct DriveOutcome {
    /// Time that was driven, s; up to the first collision.
    pub driven: f64,
    /// Bodies that the ego touched.
    pub collisions: Vec<Collision>,
    /// Times in which another ahead was nearer, along and across, than the assumptions of ad-rss
    /// allow, and their causes.
    pub violations: Violations,
    /// The same with the assumptions called aggressive, which nothing in the stack knows of.
    pub aggressive: Violations,
    /// The strongest braking of the ego in the last two seconds, m/s²; 0 if it did not brake.
    pub braked: f64,
    /// Distance that the ego came along its route, m.
    pub progress: f64,
    /// Time at which it had come as far as it was to go ([`Until::Distance`]), s.
    pub arrived: Option<f64>,
    /// The frames of the lidar that led to a command.
    pub frames: Vec<Frame>,
    /// Frames that led to none.
    pub unanswered: usize,
    /// Time at which the hazard began, s; none if there was none.
    pub began: Option<f64>,
    /// Time at which it could first be seen after that, s; none if it could not.
    pub seen: Option<f64>,
    /// Reaction of the stack to the hazard after it had begun and could be seen: the first command
    /// from a frame that shows it which brakes or steers by clearly more than the command before.
    /// None if there was no hazard, it was never seen, or no command changed.
    pub reaction: Option<Reaction>,
    /// Number of cores of the stack.
    pub cores: usize,
    /// Statistics of the modules and groups.
    pub statistics: Statistics,
    /// Events in the stack.
    pub events: Vec<Event>,
    /// Events that went before these, and are lost.
    pub lost_events: u64,
    /// The number of the lidar among the sources.
    pub scans: u16,
    /// Names of the numbers in the trace.
    pub names: Names,
    /// Timing errors of the wall clock; none on the virtual clock.
    pub kept: Option<Kept>,
    /// Chunks that cost what another drive took for them, and those that it did
    /// not have ([`Costs::Observed`]).
    pub observed: (u64, u64),
}

/// Timing errors of a drive on the wall clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Frames, of localisation and of the lidar, that came in more than a millisecond after their
    /// moment: the world was not ready.
    pub late: usize,
    /// The longest that a frame was late, s.
    pub latest: f64,
    /// Requests of the threads that the system refused, each with a remedy.
    pub refused: Vec<String>,
}

/// A frame of the lidar that led to a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Its number, as in the trace.
    pub number: u64,
    /// Time of its capture, s.
    pub captured: f64,
    /// Latency from its capture to the first command that takes it into account, s.
    pub latency: f64,
}

impl DriveOutcome {
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

/// Drives `scenario` with `stack`; what modules take is charged by `costs`.
///
/// # Errors
///
/// The scenario makes no world, or a replay in `costs` is not of this drive.
pub fn run(
    scenario: &Scenario,
    stack: Stack,
    features: &Features,
    costs: Costs,
) -> Result<DriveOutcome, Error> {
    watch(scenario, stack, features, costs, Until::End, &mut |_| ControlFlow::Continue(()))
}

/// As [`run`], but not further than `until`; shows the world before each of its steps, and at the
/// end. The drive is given up where `show` breaks.
///
/// # Errors
///
/// As [`run`]; [`Error::Stopped`].
pub fn watch(
    scenario: &Scenario,
    stack: Stack,
    features: &Features,
    costs: Costs,
    until: Until,
    show: &mut dyn FnMut(&World) -> ControlFlow<()>,
) -> Result<DriveOutcome, Error> {
    on(Course::start(scenario, until)?, stack, features, costs, show)
}

/// Record of another drive on the wall clock for the virtual one, to compare the clocks.
pub struct Seen {
    /// Command that the vehicle got in each step of the world: it goes where it went.
    pub obeyed: Vec<Command>,
    /// Times that the modules took.
    pub observed: Observed,
}

/// As [`watch`], but the stack sees what it saw in another drive, and what its modules take is what
/// they took there. It computes its commands, and its reaction is that of the first of its own that
/// reacts; the vehicle obeys those of the other drive. The drive ends with the last of these.
///
/// # Errors
///
/// As [`watch`].
pub fn watch_again(
    scenario: &Scenario,
    stack: Stack,
    features: &Features,
    seen: Seen,
    until: Until,
    show: &mut dyn FnMut(&World) -> ControlFlow<()>,
) -> Result<DriveOutcome, Error> {
    let course = Course { imposed: Some(seen.obeyed), ..Course::start(scenario, until)? };
    on(course, stack, features, Costs::Observed(seen.observed), show)
}

/// Goes on with a drive, or stops it, as its watcher wants.
pub(crate) fn shown(go_on: ControlFlow<()>) -> Result<(), Error> {
    if go_on.is_break() { Err(Error::Stopped) } else { Ok(()) }
}

fn on(
    mut course: Course,
    stack: Stack,
    features: &Features,
    costs: Costs,
    show: &mut dyn FnMut(&World) -> ControlFlow<()>,
) -> Result<DriveOutcome, Error> {
    let (graph, doors) = stack::build(stack, features, &course.mission);
    let mut clock = Virtual::new(graph, features.settings(), costs)?;
    while !course.over() {
        shown(show(&course.world))?;
        let (now_ns, frames) = course.sense();
        clock.inject(&doors.localisation, now_ns, now_ns, frames.localisation)?;
        if let Some(scan) = frames.scan {
            clock.inject(&doors.scans, now_ns, now_ns, scan)?;
        }
        clock.advance_to(now_ns)?;
        course.obey(clock.take(&doors.commands));
        course.step()?;
    }
    shown(show(&course.world))?;
    Ok(course.outcome(&doors, stack::cores(features), Left::of(&clock)))
}

/// A scenario while it is driven: everything but the stack and its clock.
pub(crate) struct Course {
    pub(crate) world: World,
    /// Traffic that SUMO moves; none: the world moves all.
    sumo: Option<sumo::Traffic>,
    pub(crate) mission: Mission,
    until: Until,
    /// Place where the ego started along its route, m.
    start: f64,
    arrived: Option<f64>,
    lidar: Lidar,
    command: Command,
    /// Commands that the ego obeyed, one for each step.
    pub(crate) obeyed: Vec<Command>,
    /// Commands that the ego is to obey instead, one for each step.
    imposed: Option<Vec<Command>>,
    sent: Vec<Sent>,
    /// Capture time of each turn of the lidar, ns.
    scans_ns: Vec<u64>,
    /// Watches with the assumptions of the stack, and with others.
    watches: [Watch; 2],
    /// Acceleration at each step, m/s².
    accelerations: Vec<f64>,
    /// Steps for which it has stood.
    stood: usize,
    /// Time at which the hazard, which had begun, was first visible, s.
    seen: Option<f64>,
}

/// Frames that come in at one moment.
pub(crate) struct Frames {
    pub(crate) localisation: Localisation,
    pub(crate) scan: Option<Scan>,
}

/// Record that a clock leaves of a drive.
pub(crate) struct Left {
    pub(crate) events: Vec<Event>,
    pub(crate) lost: u64,
    pub(crate) statistics: Statistics,
    pub(crate) names: Names,
    pub(crate) kept: Option<Kept>,
    pub(crate) observed: (u64, u64),
}

impl Left {
    /// Record that the virtual clock leaves.
    pub(crate) fn of(clock: &Virtual) -> Left {
        Left {
            events: clock.trace().events().copied().collect(),
            lost: clock.trace().lost(),
            statistics: clock.statistics(),
            names: clock.names().clone(),
            kept: None,
            observed: clock.observed(),
        }
    }
}

/// Steps of the world from one turn of the lidar to the next.
pub const TURN: u64 = 10;

impl Course {
    pub(crate) fn start(scenario: &Scenario, until: Until) -> Result<Course, Error> {
        let mut world = World::new(scenario)?;
        let sumo = sumo::Traffic::start(scenario, &mut world)?;
        let mission = mission(scenario, &world);
        let mut course = Course {
            world,
            sumo,
            mission,
            until,
            start: 0.0,
            arrived: None,
            lidar: Lidar::default(),
            command: Command::default(),
            obeyed: Vec::new(),
            imposed: None,
            sent: Vec::new(),
            scans_ns: Vec::new(),
            watches: [Preset::AD_RSS, Preset::AGGRESSIVE].map(Watch::new),
            accelerations: Vec::new(),
            stood: 0,
            seen: None,
        };
        course.start = course.along();
        Ok(course)
    }

    /// Returns true at the end of the drive.
    pub(crate) fn over(&self) -> bool {
        let world = &self.world;
        let there = match self.until {
            Until::End => false,
            Until::Distance(_) => self.arrived.is_some(),
            Until::Seen(after) => self.seen_for().is_some_and(|since| since >= after - STEP / 2.0),
            Until::Over => self.seen_for().is_some_and(|since| since >= OVER || self.stands()),
        };
        let told = self.imposed.as_ref().is_some_and(|all| all.len() == self.obeyed.len());
        there || told || world.ended() || !world.collisions().is_empty()
    }

    /// Time for which the hazard, which had begun, has been visible, s; none: it was not yet.
    pub(crate) fn seen_for(&self) -> Option<f64> {
        self.seen.map(|seen| self.world.time() - seen)
    }

    /// The present time, ns, and the frames that the sensors give now.
    pub(crate) fn sense(&mut self) -> (u64, Frames) {
        let hazard = self.world.hazard().filter(|hazard| hazard.began.is_some());
        if hazard.is_some_and(|hazard| self.world.sees(hazard.body)) && self.seen.is_none() {
            self.seen = Some(self.world.time());
        }
        let (at, ego) = (self.world.time(), self.ego());
        let now_ns = ns(at);
        let scan = self.world.steps().is_multiple_of(TURN).then(|| {
            self.scans_ns.push(now_ns);
            let turn = self.world.steps() / TURN;
            let cloud = Arc::new(self.lidar.scan(ego.pose, self.world.bodies(), turn));
            Scan { at, ego, cloud, scores: None }
        });
        (now_ns, Frames { localisation: Localisation { at, ego }, scan })
    }

    /// Does as the newest of these commands says.
    pub(crate) fn obey(&mut self, commands: Vec<Message<Command>>) {
        for Message { header, value } in commands {
            self.command = *value;
            self.sent.push(Sent { command: *value, header });
        }
    }

    /// Judges the stack, and goes on by one step of the world.
    pub(crate) fn step(&mut self) -> Result<(), Error> {
        self.look();
        let imposed = self.imposed.as_ref().and_then(|all| all.get(self.obeyed.len()));
        let command = imposed.copied().unwrap_or(self.command);
        self.obeyed.push(command);
        match &mut self.sumo {
            None => self.world.step(&command),
            Some(sumo) => {
                let others = sumo.step(&self.world.bodies()[0])?;
                self.world.step_among(&command, others);
            }
        }
        if let Until::Distance(distance) = self.until {
            let there = self.along() - self.start >= distance;
            self.arrived = self.arrived.or(there.then(|| self.world.time()));
        }
        Ok(())
    }

    /// Updates the measures by which the stack is judged.
    fn look(&mut self) {
        let (bodies, route) = (self.world.bodies(), &self.mission.route);
        let others: Vec<Track> = bodies[1..].iter().map(truth).collect();
        let (at, ego) = (self.world.time(), self.ego());
        for watch in &mut self.watches {
            watch.look(at, STEP, &ego, &others, route);
        }
        self.accelerations.push(self.world.ego().acceleration());
        self.stood = if self.world.ego().speed() == 0.0 { self.stood + 1 } else { 0 };
    }

    fn stands(&self) -> bool {
        self.stood >= STOOD
    }

    fn ego(&self) -> Ego {
        ego(&self.world)
    }

    fn along(&self) -> f64 {
        self.mission.route.line().offset(self.world.ego().pose().position).along
    }

    fn reaction(&self, doors: &Doors, events: &[Event], seen_ns: u64) -> Option<Reaction> {
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
        Reactions::new(events).first(doors.scans.id(), seen_ns, |message| reacts.contains(&message))
    }

    /// Outcome of the drive, with a stack of this number of cores.
    pub(crate) fn outcome(self, doors: &Doors, cores: usize, left: Left) -> DriveOutcome {
        let scans = doors.scans.id();
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
        let Left { events, lost, statistics, names, kept, observed } = left;
        let reaction = self.seen.and_then(|seen| self.reaction(doors, &events, ns(seen)));
        let progress = self.along() - self.start;
        let [violations, aggressive] = self.watches.map(Watch::found);
        DriveOutcome {
            driven: self.world.time(),
            collisions: self.world.collisions().to_vec(),
            violations,
            aggressive,
            braked: self.accelerations.iter().rev().take(BEFORE).fold(0.0, |most, a| most.max(-a)),
            progress,
            arrived: self.arrived,
            frames,
            unanswered,
            began: self.world.hazard().and_then(|hazard| hazard.began),
            seen: self.seen,
            reaction,
            cores,
            statistics,
            lost_events: lost,
            scans: scans.index() as u16,
            events,
            names,
            kept,
            observed,
        }
    }
}

/// Steps of the world in two seconds.
const BEFORE: usize = 200;
/// After so long nothing more comes of a hazard, s.
const OVER: f64 = 4.0;
/// Number of steps of the world for which the ego has stood.
const STOOD: usize = 100;
/// Least additional braking of a command that counts as a reaction, m/s².
const HARDER: f64 = 1.0;
/// Additional curvature of a reaction by steering, 1/m.
const ASIDE: f64 = 0.01;

/// Mission of a stack, which it knows before it drives a scenario.
pub fn mission(scenario: &Scenario, world: &World) -> Mission {
    Mission {
        road: Arc::new(world.road().clone()),
        route: Arc::new(world.route().clone()),
        desired: scenario.ego.desired_kmh.map_or(f64::INFINITY, |kmh| kmh / 3.6),
    }
}

/// State of the ego now.
pub fn ego(world: &World) -> Ego {
    let ego = world.ego();
    Ego {
        pose: ego.pose(),
        speed: ego.speed(),
        acceleration: ego.acceleration(),
        curvature: ego.curvature(),
    }
}

pub(crate) fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// A body as a stack without errors would track it.
pub fn truth(body: &Body) -> Track {
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
