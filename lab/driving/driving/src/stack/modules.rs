//! The modules: each takes messages, calls the plain computation, and passes its checkpoints on.

use super::danger::{dangerous, deadlines};
use super::short::Usual;
use super::{
    Brake, Deadlines, Detections, Features, Localisation, Mission, Order, Predicted, STATE, Scene,
    anytime,
};
use crate::plan::Situation;
use crate::predict::{Crowd, Hypothesis, Intent, State, Surroundings, by_urgency};
use crate::{Ego, Follower, Planner, Prediction, Predictor, Track, Tracker, Trajectory};
use dataflow::{Checkpoint, Cx, Load, Message, Module, ObjectDeadline, Part, Path, Stop, WorkCx};
use glam::{DMat2, DVec2};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use world::{Command, Kind, Pose, Road, ego};

/// Runs a computation with the checkpoints of a module's run.
pub(super) fn with<O, V>(
    cx: &mut Cx<'_, O>,
    work: impl FnOnce(crate::Checkpoint) -> Result<V, crate::Stopped>,
) -> Result<V, Stop>
where
    O: Send + Sync + 'static,
{
    let found = work(&mut || match cx.checkpoint() {
        Checkpoint::Go | Checkpoint::Yielded => ControlFlow::Continue(()),
        Checkpoint::Cancel => ControlFlow::Break(()),
    });
    found.map_err(|_| Stop::Cancelled)
}

/// Runs a computation with a checkpoint that may be an error.
pub(super) fn ahead<V>(
    go_on: &mut dyn FnMut() -> Result<(), Stop>,
    work: impl FnOnce(crate::Checkpoint) -> Result<V, crate::Stopped>,
) -> Result<V, Stop> {
    let found = work(&mut || match go_on() {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    });
    found.map_err(|_| Stop::Cancelled)
}

/// Prediction's state: the road around the ego.
pub(super) fn surroundings(
    road: &Arc<Road>,
    pose: Pose,
    go_on: &mut dyn FnMut() -> Result<(), Stop>,
) -> Result<Surroundings, Stop> {
    const WAYS: usize = 3;
    ahead(go_on, |checkpoint| Surroundings::around(road, pose, WAYS, checkpoint))
}

/// Ranges of `count` things, so many in each.
fn grains(count: usize, grain: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(grain).map(move |from| from..(from + grain).min(count))
}

/// Detections to objects with deadlines.
pub(super) struct Tracking {
    tracker: Tracker,
    mission: Mission,
    deadlines: Deadlines,
}

impl Tracking {
    pub(super) fn new(mission: Mission, features: &Features) -> Tracking {
        let mut tracker = Tracker::default();
        tracker.confirm_frames = features.confirm_frames;
        Tracking { tracker, mission, deadlines: features.object_deadlines }
    }
}

impl Module for Tracking {
    type In = Message<Detections>;
    type Out = Scene;

    fn estimate(&self, detections: &Self::In, _: Path) -> Load {
        Load::of(&[detections.found.len() as f64])
    }

    fn run(
        &mut self,
        cx: &mut Cx<'_, Scene>,
        detections: &Self::In,
        _: Path,
    ) -> Result<Scene, Stop> {
        let Detections { at, ego, found } = &**detections;
        let tracks = self.tracker.update(*at, ego.pose, found, &self.mission.road);
        if self.deadlines != Deadlines::None {
            let seconds = match self.deadlines {
                Deadlines::EgoSpeed => vec![by_speed(ego.speed); tracks.len()],
                _ => deadlines(ego, &tracks, &self.mission.route),
            };
            let captured_ns = cx.header().map_or(0, |header| header.captured_ns);
            let objects = seconds.into_iter().zip(&tracks).filter(|(left, _)| left.is_finite());
            let objects = objects.map(|(left, track)| {
                let left_ns = (left.max(0.0) * 1e9) as u64;
                ObjectDeadline { id: track.id, deadline_ns: captured_ns.saturating_add(left_ns) }
            });
            cx.set_objects(objects.collect());
        }
        Ok(Scene { at: *at, ego: *ego, tracks })
    }
}

/// The deadline of Pylot (D3): by the ego's speed, in m/s, alone; s.
fn by_speed(speed: f64) -> f64 {
    (0.4 - 0.01 * (speed - 10.0).max(0.0)).max(0.0)
}

/// Objects to what they may do. They are predicted in pieces of a few.
pub(super) struct PredictionModule {
    predictor: Predictor,
    mission: Mission,
    features: Features,
    /// The frame after which the next one was expected.
    expects: u64,
    /// Last prediction of each object.
    known: HashMap<u32, Prediction>,
}

/// Work that prediction has done ahead of the next frame: the road around the ego, and all objects
/// where they will be.
struct Expected {
    around: Arc<Surroundings>,
    crowd: Crowd,
}

impl PredictionModule {
    pub(super) fn new(mission: Mission, features: &Features) -> PredictionModule {
        let (predictor, features) = (Predictor::default(), features.clone());
        PredictionModule { predictor, mission, features, expects: 0, known: HashMap::new() }
    }

    /// Predictions of some of a scene's objects.
    fn predict(
        &self,
        cx: &mut Cx<'_, Predicted>,
        at: f64,
        crowd: &Arc<Crowd>,
        order: &[usize],
    ) -> Result<Vec<Prediction>, Stop> {
        let piece = |range: Range<usize>| {
            let (predictor, some) = (self.predictor.clone(), order[range].to_vec());
            let crowd = crowd.clone();
            let load = Load::of(&counts(some.iter().map(|index| &crowd.tracks()[*index])));
            let work = move |cx: &mut WorkCx| {
                ahead(&mut || cx.go_on(), |go| predictor.predict_some(at, &crowd, &some, go))
            };
            (load, work)
        };
        let pieces = grains(order.len(), OBJECTS).map(piece).collect();
        Ok(cx.divide(pieces)?.into_iter().flatten().collect())
    }

    /// An object that is not urgent does what it was found to do when it was last predicted, if
    /// that is not long ago and it is where it should be then; else it goes on as it does.
    fn last_known(&self, track: &Track, at: f64) -> Prediction {
        const OLD: f64 = 0.5;
        const ASIDE: f64 = 0.7;
        let keeps_to = |known: &&Prediction| {
            let age = at - known.at;
            let is_near = |hypothesis: &Hypothesis| {
                let there = known.footprint(hypothesis, age).pose.position;
                there.distance(track.pose.position) < ASIDE
            };
            age < OLD && known.kind == track.kind && known.hypotheses.iter().any(is_near)
        };
        self.known.get(&track.id).filter(keeps_to).map_or_else(|| going_on(track, at), Clone::clone)
    }

    fn know(&mut self, predictions: &[Prediction]) {
        // The behaviour last found for an object on the usual path is not used.
        if !self.features.fast_path {
            return;
        }
        self.known.extend(predictions.iter().map(|one| (one.id, one.clone())));
    }

    /// Updates the state for the frame after `frame` ahead of it.
    fn expect(&mut self, cx: &mut Cx<'_, Predicted>, frame: u64, pose: Pose, crowd: Arc<Crowd>) {
        self.expects = frame;
        let (predictor, road) = (self.predictor.clone(), self.mission.road.clone());
        cx.ahead(STATE, frame, move |cx: &mut WorkCx| {
            let around = Arc::new(surroundings(&road, pose, &mut || cx.go_on())?);
            let expects = |go: crate::Checkpoint<'_>| predictor.expect(&crowd, &around, FRAME, go);
            let crowd = ahead(&mut || cx.go_on(), expects)?;
            Ok(Expected { around, crowd })
        });
    }

    /// Number of objects, the first in the order, that are urgent.
    fn urgent(&self, scene: &Scene, tracks: &[Track], order: &[usize]) -> usize {
        let far = |index: &usize| tracks[*index].pose.position.distance(scene.ego.pose.position);
        let near = order.iter().filter(|index| far(index) <= self.features.near).count();
        near.max(self.features.urgent).min(order.len())
    }
}

impl Module for PredictionModule {
    type In = (Message<Scene>, Option<Message<Localisation>>);
    type Out = Predicted;

    fn estimate(&self, (scene, _): &Self::In, path: Path) -> Load {
        let counts = counts(scene.tracks.iter());
        match path {
            Path::Normal => Load::of(&counts),
            Path::Fast => Load::of(&counts.map(|count| count.min(self.features.urgent as f64))),
        }
    }

    fn run(
        &mut self,
        cx: &mut Cx<'_, Predicted>,
        (scene, localisation): &Self::In,
        path: Path,
    ) -> Result<Predicted, Stop> {
        let ego = localisation.as_ref().map_or(scene.ego, |newest| newest.ego);
        let expected = cx.take::<Expected>(STATE, self.expects);
        let around = match &expected {
            Some(expected) => expected.around.clone(),
            None => Arc::new(surroundings(&self.mission.road, ego.pose, &mut || cx.go_on())?),
        };
        let danger = dangerous(&scene.ego, &scene.tracks, &self.mission.route);
        let mut tracks = scene.tracks.clone();
        tracks.push(own(&scene.ego, scene.at));
        let expected = expected.as_ref().map(|expected| &expected.crowd);
        let crowd = Arc::new(self.predictor.crowd(tracks, &around, expected));
        let tracks = crowd.tracks();
        let order = match self.features.order {
            Order::Deadline => by_urgency(tracks, |track| cx.object_deadline_ns(track.id) as f64),
            Order::Distance => {
                by_urgency(tracks, |track| track.pose.position.distance(scene.ego.pose.position))
            }
        };
        if let Some(budget) = self.features.budget {
            let work = (scene.at, tracks, order.as_slice());
            let predictions = anytime::predict(cx, ns(budget), &self.predictor, work, &around)?;
            return Ok(Predicted { at: scene.at, predictions, danger });
        }
        let first = match path {
            Path::Normal => order.len(),
            Path::Fast => self.urgent(scene, tracks, &order),
        };
        let (urgent, rest) = order.split_at(first);
        let at = scene.at;
        self.known.retain(|id, _| tracks.iter().any(|track| track.id == *id));
        let mut predictions = self.predict(cx, at, &crowd, urgent)?;
        self.know(&predictions);
        if path == Path::Fast && !rest.is_empty() {
            let others = rest.iter().map(|index| self.last_known(&tracks[*index], at));
            let part = predictions.iter().cloned().chain(others).collect();
            let first = Predicted { at, predictions: part, danger };
            cx.publish_partial(first, Part::first(2));
        }
        let later = self.predict(cx, at, &crowd, rest)?;
        self.know(&later);
        predictions.extend(later);
        self.expect(cx, scene.header.frame, ego.pose, crowd);
        Ok(Predicted { at, predictions, danger })
    }
}

/// Time from one frame to the next, s.
const FRAME: f64 = 0.1;

/// Objects in a piece of prediction.
const OBJECTS: usize = 3;

/// Vehicles and people.
fn counts<'a>(tracks: impl Iterator<Item = &'a Track>) -> [f64; 2] {
    tracks.fold([0.0, 0.0], |[driving, walking], track| match track.kind {
        Kind::Pedestrian => [driving, walking + 1.0],
        _ => [driving + 1.0, walking],
    })
}

/// The ego as others see it.
fn own(ego: &Ego, at: f64) -> Track {
    Track {
        id: 0,
        kind: Kind::Car,
        pose: ego.pose,
        velocity: ego.speed * ego.pose.forward(),
        acceleration: DVec2::ZERO,
        doubt: DMat2::ZERO,
        length: ego::LENGTH,
        width: ego::WIDTH,
        seen: 1,
        at,
    }
}

/// An object that is not urgent goes on as it does.
pub(super) fn going_on(track: &Track, at: f64) -> Prediction {
    let moves = track.velocity.length() > 0.5;
    let heading = if moves { track.velocity.to_angle() } else { track.pose.heading };
    let speed = if moves { track.velocity.length() } else { 0.0 };
    let pose = Pose { heading, ..track.pose };
    let states = vec![State { pose, speed }];
    Prediction {
        id: track.id,
        kind: track.kind,
        length: track.length,
        width: track.width,
        at,
        step: 0.1,
        hypotheses: vec![Hypothesis { intent: Intent::Keep, probability: 1.0, states }],
    }
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Module that makes a trajectory from the predictions of all objects.
pub(super) struct Planning {
    normal: Planner,
    fast: Planner,
    mission: Mission,
    /// The lanes beside are planned for at the same time as its own, not after it.
    at_once: bool,
    /// Behind a short plan comes the usual one for the same frame.
    goes_on: bool,
    budget: Option<f64>,
    /// Time at which it last began to brake as hard as it can, s.
    braked: Option<f64>,
    /// Newest plan that was not short; None if there are no short plans.
    usual: Option<Usual>,
    stands: Stands,
}

/// Since when the ego stands, or does not get going.
#[derive(Default)]
struct Stands {
    /// Period in which it was seen to, s.
    seen: Option<(f64, f64)>,
}

impl Stands {
    /// Time for which it has stood, s. An ego that has hardly begun to move may stop again in the
    /// next frame.
    fn look(&mut self, now: &Localisation) -> f64 {
        const SLOW: f64 = 1.5;
        // An instance of planning that has not run for longer does not know what was meanwhile.
        const UNSEEN: f64 = 1.0;
        let before = self.seen.filter(|(_, last)| now.at - last < UNSEEN);
        let since = before.map_or(now.at, |(since, _)| since);
        self.seen = (now.ego.speed < SLOW).then_some((since, now.at));
        self.seen.map_or(0.0, |(since, last)| last - since)
    }
}

/// Time for which an emergency brake is not let go because of the next frame, if it is dangerous as
/// before, s: the intent of an object flickers from frame to frame.
const HOLD: f64 = 0.35;

impl Planning {
    /// `goes_on`: behind a short plan comes the usual one for the same frame, unless it brakes as
    /// hard as it can or a newer frame waits.
    pub(super) fn new(
        mission: Mission,
        features: &Features,
        goes_on: bool,
        usual: &Usual,
    ) -> Planning {
        let normal = Planner::default();
        let fast = normal.fast(features.lookahead, features.horizon);
        Planning {
            normal,
            fast,
            mission,
            at_once: features.proactive || features.stealing,
            goes_on,
            budget: features.budget,
            braked: None,
            usual: features.fast_path.then(|| usual.clone()),
            stands: Stands::default(),
        }
    }
}

impl Module for Planning {
    type In = (Message<Predicted>, Option<Message<Localisation>>);
    type Out = Trajectory;

    fn estimate(&self, (predicted, _): &Self::In, path: Path) -> Load {
        let planner = if path == Path::Fast { &self.fast } else { &self.normal };
        Load::of(&[hypotheses(predicted), planner.lookahead])
    }

    fn run(
        &mut self,
        cx: &mut Cx<'_, Trajectory>,
        (predicted, localisation): &Self::In,
        path: Path,
    ) -> Result<Trajectory, Stop> {
        let newest = localisation.as_ref().ok_or(Stop::Nothing)?;
        let planner = if path == Path::Fast { &self.fast } else { &self.normal };
        let mut task = Task {
            planner: planner.clone(),
            mission: self.mission.clone(),
            predicted: predicted.clone(),
            now: **newest,
            holds: self.braked.is_some_and(|began| newest.at - began < HOLD),
            stood: self.stands.look(newest),
        };
        let mut trajectory = self.plan(cx, &task)?;
        let brakes = planner.brakes_hardest(&trajectory);
        if path == Path::Fast && !brakes {
            if let Some(usual) = &self.usual {
                trajectory = usual.bound(trajectory);
            }
            if self.goes_on {
                cx.publish_partial(trajectory, Part::first(2));
                task.planner = self.normal.clone();
                trajectory = self.plan(cx, &task)?;
            }
        }
        if !task.holds && planner.brakes_hardest(&trajectory) {
            self.braked = Some(newest.at);
        }
        if let Some(usual) = self.usual.as_ref().filter(|_| task.planner == self.normal) {
            usual.keep(&trajectory);
        }
        Ok(trajectory)
    }
}

impl Planning {
    fn plan(&self, cx: &mut Cx<'_, Trajectory>, task: &Task) -> Result<Trajectory, Stop> {
        if let Some(budget) = self.budget {
            let levels = anytime::levels(&self.fast, &self.normal);
            return anytime::plan(cx, ns(budget), &levels, |planner, go| {
                task.situated(|situation| planner.plan(situation, go))
            });
        }
        let Task { planner, predicted, .. } = task;
        let (lanes, view) = task
            .situated(|situation| (situation.lanes.to_vec(), Arc::new(planner.view(situation))));
        let choices = if self.at_once {
            let piece = |lane: f64| {
                let (planner, view) = (planner.clone(), view.clone());
                let load = Load::of(&[hypotheses(predicted), planner.lookahead]);
                let work = move |cx: &mut WorkCx| {
                    ahead(&mut || cx.go_on(), |checkpoint| planner.choose(&view, lane, checkpoint))
                };
                (load, work)
            };
            cx.divide(lanes.into_iter().map(piece).collect())?
        } else {
            let choose = |lane| with(cx, |checkpoint| planner.choose(&view, lane, checkpoint));
            lanes.into_iter().map(choose).collect::<Result<_, _>>()?
        };
        Ok(planner.decide(&view, choices.into_iter().flatten()))
    }
}

/// Number of hypotheses of all objects.
fn hypotheses(predicted: &Predicted) -> f64 {
    predicted.predictions.iter().map(|one| one.hypotheses.len()).sum::<usize>() as f64
}

/// Task of planning, for all lanes.
struct Task {
    planner: Planner,
    mission: Mission,
    predicted: Message<Predicted>,
    now: Localisation,
    holds: bool,
    stood: f64,
}

impl Task {
    fn situated<V>(&self, then: impl FnOnce(&Situation) -> V) -> V {
        let Mission { route, .. } = &self.mission;
        let along = route.line().offset(self.now.ego.pose.position).along;
        then(&Situation {
            at: self.now.at,
            ego: self.now.ego,
            length: ego::LENGTH,
            width: ego::WIDTH,
            reference: route.line(),
            limit: self.mission.limit(along),
            lanes: &self.mission.lanes(along),
            predictions: &self.predicted.predictions,
            danger: self.predicted.danger,
            holds: self.holds,
            stood: self.stood,
        })
    }
}

/// Trajectories to commands, as often as localisation comes.
#[derive(Default)]
pub(super) struct Control {
    follower: Follower,
}

impl Module for Control {
    type In = (Message<Localisation>, Option<Message<Trajectory>>, Option<Message<Brake>>);
    type Out = Command;

    fn run(
        &mut self,
        _: &mut Cx<'_, Command>,
        (now, trajectory, brake): &Self::In,
        _: Path,
    ) -> Result<Command, Stop> {
        let asked = brake.as_ref().map_or(0.0, |brake| {
            let since_ns = brake.header.captured_ns;
            let is_newer = |plan: &Message<Trajectory>| plan.header.captured_ns >= since_ns;
            let planned = trajectory.as_ref().is_some_and(is_newer);
            let age_ns = now.header.captured_ns.saturating_sub(since_ns);
            brake.asks(age_ns, planned, self.follower.brake)
        });
        let command = match trajectory {
            Some(trajectory) => self.follower.command(trajectory, &now.ego, now.at),
            None if asked > 0.0 => Command::default(),
            None => return Err(Stop::Nothing),
        };
        let acceleration = match asked {
            0.0 => command.acceleration,
            asked => command.acceleration.min(-asked),
        };
        Ok(Command { acceleration, ..command })
    }
}
