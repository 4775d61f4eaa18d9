//! Surroundings of the ego when each frame was captured, and the modules' times for it: the data
//! that the characterisation of base compares (COLA, figures 5 and 9c).

use dataflow::trace::{Class, RunEnd as End};
use driving::drive::{DriveOutcome, TURN};
use driving::runs::Run;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use world::{Kind, World};

/// Vehicles nearer than this are counted as traffic, m (COLA, section 2.3).
const DENSE: f64 = 25.0;
/// Bodies up to this distance that the ego can see are counted as objects, m.
const RANGE: f64 = 80.0;

/// The modules whose times are kept of each frame, in this order.
pub const MODULES: [&str; 4] = ["segmentation", "tracking", "prediction", "planning"];

/// A frame of the lidar that led to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Packed", into = "Packed")]
pub struct Frame {
    /// Its number.
    pub number: u64,
    /// Cars and trucks within 25 m of the ego.
    pub vehicles: u16,
    /// Bodies within 80 m that the ego can see.
    pub objects: u16,
    /// Latency from its capture to the first command that takes it into account, us.
    pub latency_us: u32,
    /// Time for which the run of each of [`MODULES`] had a core, us; none without a run.
    pub modules_us: [Option<u32>; 4],
}

/// Serialised form: without names, of which there would be thousands.
type Packed = (u64, u16, u16, u32, [Option<u32>; 4]);

impl From<Packed> for Frame {
    fn from((number, vehicles, objects, latency_us, modules_us): Packed) -> Frame {
        Frame { number, vehicles, objects, latency_us, modules_us }
    }
}

impl From<Frame> for Packed {
    fn from(frame: Frame) -> Packed {
        let Frame { number, vehicles, objects, latency_us, modules_us } = frame;
        (number, vehicles, objects, latency_us, modules_us)
    }
}

/// Counts what is around the ego while a drive is watched.
#[derive(Default)]
pub(crate) struct Watch(HashMap<u64, (u16, u16)>);

impl Watch {
    /// Looks at the world before a step.
    pub(crate) fn look(&mut self, world: &World) {
        if !world.steps().is_multiple_of(TURN) {
            return;
        }
        let (ego, others) = (world.ego().pose().position, &world.bodies()[1..]);
        let within =
            |most: f64| others.iter().filter(move |body| body.pose.position.distance(ego) <= most);
        let drives = |body: &&world::Body| matches!(body.kind, Kind::Car | Kind::Truck);
        let vehicles = within(DENSE).filter(drives).count() as u16;
        let objects = within(RANGE).filter(|body| world.sees(body.id)).count() as u16;
        self.0.insert(us(world.time()), (vehicles, objects));
    }

    /// The frames of the drive that it has watched.
    pub(crate) fn frames(&self, outcome: &DriveOutcome, runs: &[Run]) -> Vec<Frame> {
        let mut took: HashMap<(u64, usize), u32> = HashMap::new();
        let done = |run: &&Run| run.outcome == End::Done && run.class != Class::Ahead;
        for run in runs.iter().filter(done) {
            let name = run.module.and_then(|module| outcome.names.modules.get(module));
            let place = name.and_then(|name| MODULES.iter().position(|module| module == name));
            if let Some(place) = place {
                took.entry((run.frame, place)).or_insert((run.service_ns / 1000) as u32);
            }
        }
        let frame = |frame: &driving::drive::Frame| {
            let (vehicles, objects) = *self.0.get(&us(frame.captured))?;
            let time_at = |place: usize| took.get(&(frame.number, place)).copied();
            Some(Frame {
                number: frame.number,
                vehicles,
                objects,
                latency_us: us(frame.latency) as u32,
                modules_us: std::array::from_fn(time_at),
            })
        };
        outcome.frames.iter().filter_map(frame).collect()
    }
}

fn us(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}
