//! Modules by themselves: what they compute again on inputs of a drive that were kept, part by
//! part, alone and beside others that take the last-level cache (COLA, sections 3.3 and 3.4).
//!
//! The drive is the oracle's, whose modules take no time: on any machine it is the same. Its scans
//! are taken again; tracks come from all of them, and every two seconds the inputs of all modules
//! are kept. Then each input is computed on one core: with nothing beside it, and beside hogs on
//! other cores, one size after the other before the next input comes, so that a machine that
//! changes its speed changes it for all sizes alike.

use crate::Error;
use crate::measure::unless_stopped;
use bandwidth::workload::{Access, Caches, Hog, Size};
use driving::drive::{self, DriveOutcome, TURN, Until, mission, truth};
use driving::plan::Situation;
use driving::predict::Surroundings;
use driving::stack::{Mission, Scan, Stack, dangerous};
use driving::{
    Detection, Ego, Lidar, Planner, Policy, Prediction, Predictor, Segmenter, Track, Tracker,
};
use realtime::clock::thread_cpu_ns;
use realtime::thread;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Arc;
use world::{Scenario, World, ego};

/// Turns of the lidar between two inputs that are kept.
const EVERY: u64 = 20;
/// Number of times that each part is computed on an input; the median counts.
const AGAIN: usize = 3;
/// Sizes of the memory that hogs sweep together, in last-level caches.
pub(crate) const SWEPT: [f64; 5] = [0.125, 0.25, 0.5, 1.0, 2.0];
/// Largest number of cores given to hogs.
const HOGS: usize = 3;
/// Lookaheads of planning, m, and horizons of prediction, s.
const LOOKAHEADS: [f64; 6] = [30.0, 40.0, 50.0, 60.0, 70.0, 80.0];
const HORIZONS: [f64; 4] = [2.0, 4.0, 6.0, 8.0];
/// Ways that prediction follows through junctions.
const WAYS: usize = 3;

/// A part of a module's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Segmentation: what of the scan stands on the ground.
    Ground,
    /// Segmentation: clusters of that.
    Clusters,
    /// Segmentation: what each cluster is.
    Shapes,
    /// Tracking.
    Tracking,
    /// Prediction: the road around the ego, which localisation's message brings.
    Around,
    /// Prediction: the places of all objects, which perception's message brings.
    Crowd,
    /// Prediction: what each object may do, as long ahead as `setting` s.
    Objects,
    /// Planning, as far ahead as `setting` m.
    Planning,
}

impl Part {
    /// All, in the order in which they follow one another.
    pub const ALL: [Part; 8] = [
        Part::Ground,
        Part::Clusters,
        Part::Shapes,
        Part::Tracking,
        Part::Around,
        Part::Crowd,
        Part::Objects,
        Part::Planning,
    ];

    /// Returns the names of its module and of its work.
    pub fn name(self) -> &'static str {
        match self {
            Part::Ground => "segmentation: ground",
            Part::Clusters => "segmentation: clusters",
            Part::Shapes => "segmentation: what each is",
            Part::Tracking => "tracking",
            Part::Around => "prediction: road around",
            Part::Crowd => "prediction: everybody's place",
            Part::Objects => "prediction: each object",
            Part::Planning => "planning",
        }
    }

    /// Returns the [`Call::setting`] if nothing else is asked for.
    pub fn usual(self) -> f64 {
        match self {
            Part::Objects => Predictor::default().horizon,
            Part::Planning => Planner::default().lookahead,
            _ => 0.0,
        }
    }
}

/// A part of a module computed on an input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Packed", into = "Packed")]
pub struct Call {
    /// Part that was computed.
    pub part: Part,
    /// Number of the input in the drive.
    pub input: u32,
    /// Objects in it.
    pub objects: u32,
    /// Lookahead, m, or horizon, s; 0 for a part that has none.
    pub setting: f64,
    /// Size of the memory that hogs swept together meanwhile, in last-level caches; 0 without hogs.
    pub swept: f64,
    /// Processor time on a core as slow as the study's, us.
    pub took_us: f64,
}

impl Call {
    /// Returns true for values that a replay can produce.
    pub(crate) fn is_possible(&self) -> bool {
        [self.setting, self.swept, self.took_us].iter().all(|it| it.is_finite() && *it >= 0.0)
    }
}

/// Serialised form.
type Packed = (Part, u32, u32, f64, f64, f64);

impl From<Packed> for Call {
    fn from((part, input, objects, setting, swept, took_us): Packed) -> Call {
        Call { part, input, objects, setting, swept, took_us }
    }
}

impl From<Call> for Packed {
    fn from(call: Call) -> Packed {
        let Call { part, input, objects, setting, swept, took_us } = call;
        (part, input, objects, setting, swept, took_us)
    }
}

/// Inputs of all modules at one time of a drive.
struct Input {
    scan: Scan,
    detections: Vec<Detection>,
    /// The tracker before the detections came.
    tracker: Tracker,
    /// The last one is the ego.
    tracks: Vec<Track>,
}

/// The drive that inputs are kept of, and what was computed of them on cores `factor` times slower
/// than this machine's.
pub(crate) fn replay(
    scenario: &Scenario,
    stack: Stack,
    factor: f64,
) -> Result<(DriveOutcome, Vec<Call>), Error> {
    let mut keeper = Keeper::default();
    let features = Policy::Oracle.features();
    let (costs, until) = (Policy::Oracle.costs(factor), Until::End);
    let show = &mut |world: &World| {
        keeper.look(scenario, world);
        unless_stopped()
    };
    let wrong = |source: drive::Error| {
        let (what, source) = (scenario.name.clone(), Box::new(source));
        Error::Drive { what, source }
    };
    let watched = drive::watch(scenario, stack, &features, costs, until, show);
    let outcome = watched.map_err(wrong)?;
    let Some(mission) = keeper.mission else { return Ok((outcome, Vec::new())) };
    let beside = Beside::start()?;
    let mut calls = Vec::new();
    for (number, input) in (0..).zip(&keeper.inputs) {
        if unless_stopped().is_break() {
            return Err(wrong(drive::Error::Stopped));
        }
        let calls = &mut calls;
        let mut bench = Bench { mission: &mission, number, input, factor, swept: 0.0, calls };
        bench.farther();
        for (swept, hogs) in &beside.hogs {
            bench.swept = *swept;
            sweep(hogs, || bench.usual());
        }
    }
    Ok((outcome, calls))
}

/// Keeps inputs while a drive is watched.
#[derive(Default)]
struct Keeper {
    mission: Option<Mission>,
    tracker: Tracker,
    inputs: Vec<Input>,
}

impl Keeper {
    fn look(&mut self, scenario: &Scenario, world: &World) {
        if !world.steps().is_multiple_of(TURN) {
            return;
        }
        let mission = self.mission.get_or_insert_with(|| mission(scenario, world));
        let (at, ego, turn) = (world.time(), drive::ego(world), world.steps() / TURN);
        let cloud = Lidar::default().scan(ego.pose, world.bodies(), turn);
        let segmented = Segmenter::default().segment(&cloud, ego.pose, &mut go_on);
        let Ok(detections) = segmented else { return };
        let tracker = self.tracker.clone();
        let mut tracks = self.tracker.update(at, ego.pose, &detections, &mission.road);
        if turn.is_multiple_of(EVERY) && turn > 0 {
            tracks.push(truth(&world.bodies()[0]));
            let scan = Scan { at, ego, cloud: cloud.into(), scores: None };
            self.inputs.push(Input { scan, detections, tracker, tracks });
        }
    }
}

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Hogs, all of a size, by what they sweep together.
struct Beside {
    hogs: Vec<(f64, Vec<Hog>)>,
}

/// Returns the size of the last-level cache that hogs sweep, and the number of cores on which they
/// do; none if there are no other cores or the machine does not say.
pub fn beside() -> Option<String> {
    let (cores, llc) = (thread::cores(), Caches::of(*thread::cores().first()?).ok()?.llc);
    let hogs = (cores.len() - 1).min(HOGS);
    (hogs > 0).then(|| {
        format!("hogs on {hogs} other cores, last-level cache of {:.1} MiB", llc as f64 / 1048576.0)
    })
}

impl Beside {
    /// Pins this thread to the first core; hogs, which do nothing yet, are on others.
    fn start() -> Result<Beside, Error> {
        let cores = thread::cores();
        let [own, others @ ..] = &cores[..] else { return Ok(Beside { hogs: Vec::new() }) };
        thread::pin(&[*own])?;
        let others = &others[..others.len().min(HOGS)];
        let llc = Caches::of(*own)?.llc as f64;
        let hogs = |swept: f64| {
            let bytes = Size::Bytes((swept * llc / others.len() as f64) as usize);
            let started = others.iter().map(|core| Hog::start(*core, Access::ReadWrite, bytes));
            Ok((swept, started.collect::<Result<Vec<Hog>, _>>()?))
        };
        let sizes = SWEPT.into_iter().filter(|_| !others.is_empty());
        Ok(Beside { hogs: sizes.map(hogs).collect::<Result<_, Error>>()? })
    }
}

/// Makes hogs sweep all their memory at least once, and then while `work` is done.
fn sweep<V>(hogs: &[Hog], work: impl FnOnce() -> V) -> V {
    let before: Vec<u64> = hogs.iter().map(Hog::bytes).collect();
    hogs.iter().for_each(Hog::resume);
    for (hog, before) in hogs.iter().zip(before) {
        while hog.bytes() < before + hog.array_bytes() as u64 {
            std::thread::yield_now();
        }
    }
    let done = work();
    hogs.iter().for_each(Hog::pause);
    done
}

/// Measures the parts of modules on an input.
struct Bench<'a> {
    mission: &'a Mission,
    number: u32,
    input: &'a Input,
    factor: f64,
    swept: f64,
    calls: &'a mut Vec<Call>,
}

impl Bench<'_> {
    /// Every part with nothing asked for, then farther and less far ahead.
    fn farther(&mut self) -> Option<()> {
        let (around, predictions) = self.usual()?;
        for horizon in HORIZONS.into_iter().filter(|at| *at != Part::Objects.usual()) {
            self.predicted(&Predictor { horizon, ..Predictor::default() }, &around)?;
        }
        for lookahead in LOOKAHEADS.into_iter().filter(|at| *at != Part::Planning.usual()) {
            self.planned(&Planner { lookahead, ..Planner::default() }, &predictions)?;
        }
        Some(())
    }

    /// Every part, as far ahead as it usually is; what prediction gave, with the road around. None
    /// if a computation stopped, although it is never told to.
    fn usual(&mut self) -> Option<(Arc<Surroundings>, Vec<Prediction>)> {
        let (input, road) = (self.input, &self.mission.road);
        let (segmenter, Ego { pose, .. }) = (Segmenter::default(), input.scan.ego);
        let cloud = &input.scan.cloud;
        let raised = self.time(Part::Ground, 0.0, || (), |()| segmenter.raised(cloud));
        let clusters = self.time(Part::Clusters, 0.0, || (), |()| segmenter.group(&raised));
        let shapes = |()| segmenter.detections(&clusters, 0..clusters.count(), pose, &mut go_on);
        self.time(Part::Shapes, 0.0, || (), shapes).ok()?;
        let found = &input.detections;
        let update = |mut it: Tracker| it.update(input.scan.at, pose, found, road);
        self.time(Part::Tracking, 0.0, || input.tracker.clone(), update);
        let around = |()| Surroundings::around(road, pose, WAYS, &mut go_on);
        let around = Arc::new(self.time(Part::Around, 0.0, || (), around).ok()?);
        let predictor = Predictor::default();
        let crowd = |tracks| predictor.crowd(tracks, &around, None);
        self.time(Part::Crowd, 0.0, || input.tracks.clone(), crowd);
        let predictions = self.predicted(&predictor, &around)?;
        self.planned(&Planner::default(), &predictions)?;
        Some((around, predictions))
    }

    fn predicted(
        &mut self,
        predictor: &Predictor,
        around: &Arc<Surroundings>,
    ) -> Option<Vec<Prediction>> {
        let (input, at) = (self.input, self.input.scan.at);
        // The ego is the last one, and is not predicted.
        let order: Vec<usize> = (0..input.tracks.len() - 1).collect();
        let crowd = || predictor.crowd(input.tracks.clone(), around, None);
        let predict = |crowd| predictor.predict_some(at, &crowd, &order, &mut go_on);
        self.time(Part::Objects, predictor.horizon, crowd, predict).ok()
    }

    fn planned(&mut self, planner: &Planner, predictions: &[Prediction]) -> Option<()> {
        let (Mission { route, .. }, Scan { at, ego, .. }) = (self.mission, &self.input.scan);
        let along = route.line().offset(ego.pose.position).along;
        let [others @ .., _] = &self.input.tracks[..] else { return None };
        let situation = Situation {
            at: *at,
            ego: *ego,
            length: ego::LENGTH,
            width: ego::WIDTH,
            reference: route.line(),
            limit: self.mission.limit(along),
            lanes: &self.mission.lanes(along),
            predictions,
            danger: dangerous(ego, others, route),
            holds: false,
            stood: 0.0,
        };
        let plan = |()| planner.plan(&situation, &mut go_on);
        self.time(Part::Planning, planner.lookahead, || (), plan).ok().map(|_| ())
    }

    /// Does `work` on what `prepare` gives, some times, and keeps the median of its times.
    fn time<S, V>(
        &mut self,
        part: Part,
        setting: f64,
        prepare: impl Fn() -> S,
        work: impl Fn(S) -> V,
    ) -> V {
        let once = || {
            let prepared = prepare();
            let before_ns = thread_cpu_ns();
            let value = work(prepared);
            (thread_cpu_ns() - before_ns, value)
        };
        let (first_ns, value) = once();
        let mut took_ns = vec![first_ns];
        took_ns.extend((1..AGAIN).map(|_| once().0));
        took_ns.sort_unstable();
        self.calls.push(Call {
            part,
            input: self.number,
            objects: self.input.tracks.len() as u32 - 1,
            setting,
            swept: self.swept,
            took_us: (took_ns[AGAIN / 2] as f64 * self.factor / 1e3).round(),
        });
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_computed_again_and_farther_ahead_takes_longer() {
        let mut scenario = world::suite::normal(7201);
        scenario.duration_s = 4.5;
        let (_, calls) = replay(&scenario, Stack::A, 7.0).unwrap();
        let sum = |part: Part, setting: f64, swept: f64| -> f64 {
            let same =
                |call: &&Call| (call.part, call.setting, call.swept) == (part, setting, swept);
            let found: Vec<&Call> = calls.iter().filter(same).collect();
            assert_eq!(found.len(), 2, "{part:?}, {setting}, {swept}: inputs at 2 s and at 4 s");
            found.iter().map(|call| call.took_us).sum()
        };
        for part in Part::ALL {
            assert!(sum(part, part.usual(), 0.0) > 0.0, "{part:?}");
            for swept in SWEPT.into_iter().filter(|_| beside().is_some()) {
                assert!(sum(part, part.usual(), swept) > 0.0, "{part:?} beside {swept}");
            }
        }
        let usual = |part: Part| sum(part, part.usual(), 0.0);
        assert!(sum(Part::Planning, LOOKAHEADS[0], 0.0) < usual(Part::Planning));
        assert!(sum(Part::Objects, HORIZONS[0], 0.0) < usual(Part::Objects));
    }
}
