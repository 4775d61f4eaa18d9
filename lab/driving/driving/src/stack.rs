//! The computation as modules of a [`dataflow::Graph`]: two stacks of the same modules.
//!
//! ```text
//! scan -> segmentation -> tracking -> prediction -> planning -> control -> command
//!              localisation (100 Hz) ----^------------^------------^
//! ```
//!
//! Stack A is wired as Apollo is: a message makes the next module run, and each module has cores
//! of its own. Stack B is wired as Autoware is: a timer of 10 Hz makes prediction and planning
//! run, whatever has come by then; with the fast path, a message whose deadline does not allow
//! waiting for the timer makes them run at once.

mod anytime;
mod brake;
mod danger;
mod middleware;
mod modules;
mod network_module;
mod segmentation;
mod short;

pub use danger::{Nearness, dangerous, deadlines, nearness};
pub use middleware::Middleware;

use crate::network::{Perception, Scores};
use crate::{Cloud, Detection, Ego, Prediction, Track, Trajectory};
use brake::EmergencyBrake;
use dataflow::{Cancel, Graph, Group, Output, Settings, Source, Topic, Trigger};
use modules::{Control, Planning, PredictionModule, Tracking};
use network_module::NetworkModule;
use segmentation::Segmentation;
use serde::{Deserialize, Serialize};
use short::Usual;
use std::sync::Arc;
use world::{Command, Road, Route};

/// Scan of one turn of the lidar, with the ego's place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scan {
    /// Time of its capture, s.
    pub at: f64,
    /// The ego then.
    pub ego: Ego,
    /// Points that the sensor saw.
    pub cloud: Arc<Cloud>,
    /// Scores of the network for it, if there is one and it answered.
    pub scores: Option<Arc<Scores>>,
}

/// Objects that a scan shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Detections {
    /// Time at which the scan was captured, s.
    pub at: f64,
    /// The ego then.
    pub ego: Ego,
    /// The nearest first.
    pub found: Vec<Detection>,
}

/// Objects around the ego.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scene {
    /// Time at which the scan was captured, s.
    pub at: f64,
    /// The ego then.
    pub ego: Ego,
    /// All other objects.
    pub tracks: Vec<Track>,
}

/// Predictions of all objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Predicted {
    /// Time from which they are valid, s.
    pub at: f64,
    /// Each object's; in a first part, those that are not urgent do what they were last found to do.
    pub predictions: Vec<Prediction>,
    /// Another is nearer than is safe, along and across (RSS).
    pub danger: bool,
}

/// State of the ego.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Localisation {
    /// Time of the state, s.
    pub at: f64,
    /// The ego then.
    pub ego: Ego,
}

/// Answer of the emergency brake.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Brake {
    /// True if the vehicle is to brake as hard as it can.
    pub pressed: bool,
    /// Press only until there is a plan for the same frame, which then brakes at least as RSS asks
    /// for.
    pub until_planned: bool,
    /// The reaction comes too late for that: braking as RSS asks for does not suffice any more.
    pub overdue: bool,
}

/// Kind of stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// Message-triggered, with groups of cores for each module.
    A,
    /// Timer-triggered stages at 10 Hz.
    B,
}

/// Criterion by which prediction's fast path takes objects first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Their reaction deadlines.
    Deadline,
    /// Their distances from the ego (COLA).
    Distance,
}

/// Source of the deadlines of objects that tracking finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deadlines {
    /// No brake.
    None,
    /// Longest time that the reaction to each object may take (RSS).
    Reactions,
    /// The ego's speed: 400 ms, less 10 ms for each m/s above 10, whatever the object (Pylot).
    EgoSpeed,
}

/// Duration of an emergency brake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// Until the reaction may clearly wait again, whatever planning says.
    UntilSafe,
    /// Until there is a plan for the frame that it was pressed for. As long as the reaction stays due
    /// that plan brakes at least as hard as RSS assumes.
    UntilPlanned,
}

/// Parts of COLA's section 4 that are switched on, and their parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// Partial results of prediction, a shorter horizon and lookahead in planning, an extra worker
    /// for planning (section 4.1).
    pub fast_path: bool,
    /// Prediction's state update and the plans for other lanes ahead of time (section 4.2).
    pub proactive: bool,
    /// Pieces of segmentation, prediction and planning as guests on other groups' cores (section
    /// 4.3).
    pub stealing: bool,
    /// After its capture each frame's command must be out within this, s; none: only the objects'
    /// deadlines count.
    pub deadline: Option<f64>,
    /// Source of the objects' deadlines.
    pub object_deadlines: Deadlines,
    /// Order in which objects come.
    pub order: Order,
    /// Objects nearer than this are urgent, m.
    pub near: f64,
    /// Number of first objects that are urgent, however far away.
    pub urgent: usize,
    /// The fast path's lookahead, m.
    pub lookahead: f64,
    /// The fast path's horizon, s.
    pub horizon: f64,
    /// Frames until an object is confirmed.
    pub confirm_frames: u32,
    /// Prediction and planning refine a short result for so long, s, instead of choosing a path;
    /// none: they do not.
    pub budget: Option<f64>,
    /// A brake that does not wait for planning, if there is one.
    pub emergency_brake: Option<Held>,
    /// Transport of messages from module to module.
    pub middleware: Middleware,
    /// A network that says what stands where; none: what is seen of an object's size says it.
    pub perception: Option<Perception>,
}

impl Features {
    /// No feature.
    pub fn base() -> Features {
        Features {
            fast_path: false,
            proactive: false,
            stealing: false,
            emergency_brake: None,
            ..Features::all()
        }
    }

    /// All features.
    pub fn all() -> Features {
        Features {
            fast_path: true,
            proactive: true,
            stealing: true,
            deadline: Some(0.125),
            object_deadlines: Deadlines::Reactions,
            order: Order::Deadline,
            near: 20.0,
            urgent: 4,
            lookahead: 30.0,
            horizon: 3.0,
            confirm_frames: 1,
            budget: None,
            emergency_brake: Some(Held::UntilPlanned),
            middleware: Middleware::Pointer,
            perception: None,
        }
    }

    /// Settings with which an executor runs a graph with these features.
    pub fn settings(&self) -> Settings {
        let stealing = Settings::default().stealing.filter(|_| self.stealing);
        Settings {
            fast_path: self.fast_path,
            proactive: self.proactive,
            stealing,
            trace_events: 1 << 20,
            ..Settings::default()
        }
    }
}

/// Knowledge of a stack before it drives.
#[derive(Clone, Debug)]
pub struct Mission {
    /// The lanes.
    pub road: Arc<Road>,
    /// The way to go.
    pub route: Arc<Route>,
    /// The fastest that it shall drive, whatever is allowed, m/s.
    pub desired: f64,
}

impl Mission {
    /// The speed that it may drive at a distance along the route, m/s.
    pub fn limit(&self, along: f64) -> f64 {
        self.route.limit(along).min(self.desired)
    }

    /// Middles of the lanes that it may use, m left of the route; its own is the first.
    pub fn lanes(&self, along: f64) -> Vec<f64> {
        let own = self.road.lane(self.route.lane(along));
        let beside = [(own.left, 1.0), (own.right, -1.0)].into_iter().filter_map(|(lane, side)| {
            let lane = self.road.lane(lane?);
            Some(side * (own.width + lane.width) / 2.0)
        });
        [0.0].into_iter().chain(beside).collect()
    }
}

/// The doors of a stack.
pub struct Doors {
    /// Turns of the lidar.
    pub scans: Source<Scan>,
    /// States of the ego.
    pub localisation: Source<Localisation>,
    /// Commands to the vehicle.
    pub commands: Output<Command>,
}

/// The key of prediction's state that is updated before the next frame comes.
const STATE: &str = "prediction: state";

const PERIOD_NS: u64 = 100_000_000;

/// Cores of perception, prediction, planning and control.
pub const CORES: [usize; 4] = [2, 2, 2, 1];

/// Number of cores of a stack.
pub fn cores(features: &Features) -> usize {
    CORES.iter().sum::<usize>()
        + usize::from(features.emergency_brake == Some(Held::UntilSafe))
        + usize::from(features.perception.is_some())
}

/// Builds a stack.
pub fn build(stack: Stack, features: &Features, mission: &Mission) -> (Graph, Doors) {
    let mut graph = Graph::new();
    let group = |graph: &mut Graph, name: &str, cores| graph.group(Group::new(name, cores));
    let perceives = group(&mut graph, "perception", CORES[0]);
    let predicts = group(&mut graph, "prediction", CORES[1]);
    let plans = group(&mut graph, "planning", CORES[2]);
    let controls = group(&mut graph, "control", CORES[3]);
    let scan: Topic<Scan> = graph.topic("scan");
    let localised: Topic<Localisation> = graph.topic("localisation");
    let detected: Topic<Detections> = graph.topic("detections");
    let tracked: Topic<Scene> = graph.topic("scene");
    let predicted: Topic<Predicted> = graph.topic("predictions");
    let planned: Topic<Trajectory> = graph.topic("trajectory");
    let braking: Topic<Brake> = graph.topic("brake");
    let commanded: Topic<Command> = graph.topic("command");
    let deadline_ns = features.deadline.map(|deadline| (deadline * 1e9) as u64);
    let scans = graph.source("lidar", &scan, deadline_ns);
    let localisation = graph.source("localisation", &localised, None);

    let scored = features.perception.as_ref().map(|perception| {
        let waits = group(&mut graph, "accelerator", 1);
        let scored: Topic<Scan> = graph.topic("scored");
        graph.module("network", waits, NetworkModule::new(perception), scan.latest(), &scored);
        scored
    });
    let seen = scored.as_ref().unwrap_or(&scan);
    let segmentation = Segmentation::default();
    graph.module("segmentation", perceives, segmentation, seen.latest(), &detected).guest_pieces();
    let tracking = Tracking::new(mission.clone(), features);
    graph.module("tracking", perceives, tracking, detected.fifo(4), &tracked);
    let prediction = PredictionModule::new(mission.clone(), features);
    let wires = (tracked.latest().urgent(), localised.latest().passive());
    let mut module = graph
        .module("prediction", predicts, prediction, wires, &predicted)
        .fast_path()
        .cancel(Cancel::Rest)
        .guest_pieces();
    if stack == Stack::B {
        module = module.trigger(Trigger::Timer { period_ns: PERIOD_NS, offset_ns: 50_000_000 });
    }
    module.id();
    // A part of a prediction starts stack A's planning, and the rest does once more; the timer starts
    // it once for each frame.
    let usual = Usual::default();
    let planning = || Planning::new(mission.clone(), features, stack == Stack::B, &usual);
    let wires = (predicted.latest().urgent(), localised.latest().passive());
    let mut module =
        graph.module("planning", plans, planning(), wires, &planned).fast_path().guest_pieces();
    module = match stack {
        Stack::A => module.extra_worker(plans, planning()),
        Stack::B => module
            .cancel(Cancel::Rest)
            .trigger(Trigger::Timer { period_ns: PERIOD_NS, offset_ns: 0 }),
    };
    module.id();
    let trajectories = match stack {
        Stack::A => planned.latest(),
        Stack::B => planned.latest().passive().urgent(),
    };
    let brakes = match stack {
        Stack::A => braking.latest(),
        Stack::B => braking.latest().passive().urgent(),
    };
    let wires = (localised.latest(), trajectories, brakes);
    graph.module("control", controls, Control::default(), wires, &commanded);

    if let Some(held) = features.emergency_brake {
        let brakes = match held {
            Held::UntilSafe => group(&mut graph, "brake", 1),
            Held::UntilPlanned => controls,
        };
        let brake = EmergencyBrake::new(mission.clone(), held == Held::UntilPlanned);
        let wires = (tracked.latest(), localised.latest().passive());
        graph.module("brake", brakes, brake, wires, &braking);
    }

    if features.middleware == Middleware::Serialised {
        graph.serialise(&scan);
        scored.iter().for_each(|scored| graph.serialise(scored));
        graph.serialise(&localised);
        graph.serialise(&detected);
        graph.serialise(&tracked);
        graph.serialise(&predicted);
        graph.serialise(&planned);
        graph.serialise(&braking);
        graph.serialise(&commanded);
    }
    let commands = graph.output(&commanded);
    (graph, Doors { scans, localisation, commands })
}
