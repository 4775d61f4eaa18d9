//! Times in which the ego was nearer to another ahead than is safe (RSS), and their causes.
//!
//! Both the distance along the lane and that across it must be too small. The cause is that of the
//! distance which became too small last. Across: the vehicle that moves to the side faster caused
//! it. Along: the ego follows too closely. Time in which several are too near counts once, for the
//! first of them as long as it is too near.

use crate::stack::{self, Nearness};
use crate::{Ego, Track};
use rss::Preset;
use std::collections::HashMap;
use world::{Kind, Route};

/// Cause of a distance that is not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The drive began so.
    Start,
    /// Behind a vehicle that drives the same way.
    Follows,
    /// Behind a vehicle that stands.
    Stands,
    /// A vehicle came from beside.
    CutIn,
    /// The ego went aside.
    ChangesLanes,
    /// A vehicle drives across.
    Crosses,
    /// A vehicle that comes towards the ego moved aside.
    Oncoming,
    /// A vehicle comes towards the ego, and was in its way before.
    Meets,
    /// The other walks or cycles, wherever.
    Bare,
}

impl Cause {
    /// All causes with their names.
    pub const ALL: [(Cause, &'static str); 9] = [
        (Cause::Start, "start"),
        (Cause::Follows, "follows"),
        (Cause::Stands, "stands"),
        (Cause::CutIn, "cut-in"),
        (Cause::ChangesLanes, "changes-lanes"),
        (Cause::Crosses, "crosses"),
        (Cause::Oncoming, "oncoming"),
        (Cause::Meets, "meets"),
        (Cause::Bare, "bare"),
    ];

    /// Returns true if the ego made it, or let it come to that: it is too near because of how it
    /// drives, or did not keep away from a body that was there. A distance that others make unsafe
    /// by moving into its way is theirs, as in RSS, where the distance that became unsafe last says
    /// whose response it was (Shalev-Shwartz et al., "On a Formal Model of Safe and Scalable
    /// Self-driving Cars", section 3); how a drive begins is caused by neither. If the other
    /// crosses, walks or cycles, it does not count who was first.
    pub fn is_the_egos(self) -> bool {
        !matches!(self, Cause::Start | Cause::CutIn | Cause::Oncoming)
    }

    /// Name in files and tables.
    pub fn name(self) -> &'static str {
        Cause::ALL.iter().find(|(cause, _)| *cause == self).map_or("", |(_, name)| name)
    }
}

/// A time in which another was too near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Violation {
    /// Number of the body, as in the world.
    pub body: u32,
    /// s of the scenario.
    pub from: f64,
    /// Duration, s.
    pub seconds: f64,
    /// Cause.
    pub cause: Cause,
}

/// The times in which another was nearer than some assumptions allow.
#[derive(Clone, Debug, PartialEq)]
pub struct Violations {
    /// The name of the assumptions.
    pub preset: &'static str,
    /// Violations in the order of time; no two at once.
    pub all: Vec<Violation>,
}

impl Violations {
    /// Total time, s.
    pub fn seconds(&self) -> f64 {
        self.all.iter().fold(0.0, |sum, violation| sum + violation.seconds)
    }

    /// Total time of one cause, s.
    pub fn by(&self, cause: Cause) -> f64 {
        let of = self.all.iter().filter(|violation| violation.cause == cause);
        of.fold(0.0, |sum, violation| sum + violation.seconds)
    }

    /// The causes that there were, each with its time in s.
    pub fn causes(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = Cause::ALL.into_iter().map(|(cause, name)| (name, self.by(cause)));
        all.filter(|(_, seconds)| *seconds > 0.0)
    }
}

/// Looks at a drive step after step.
pub struct Watch {
    preset: Preset,
    found: Violations,
    /// Nearness of each body at the last step; None before the first.
    last: Option<HashMap<u32, Nearness>>,
    /// The body of the violation that goes on.
    open: Option<u32>,
}

impl Watch {
    /// Watch with the assumptions of a preset.
    pub fn new(preset: Preset) -> Watch {
        let found = Violations { preset: preset.name, all: Vec::new() };
        Watch { preset, found, last: None, open: None }
    }

    /// The others at time `at` s, for `step` s.
    pub fn look(&mut self, at: f64, step: f64, ego: &Ego, others: &[Track], route: &Route) {
        let near = stack::nearness(&self.preset, ego, others, route);
        let is_open = |near: &Nearness| near.dangerous && Some(near.body) == self.open;
        if near.iter().any(is_open) {
            if let Some(violation) = self.found.all.last_mut() {
                violation.seconds += step;
            }
        } else {
            let first = near.iter().find(|near| near.dangerous);
            self.open = first.map(|near| near.body);
            if let Some(near) = first {
                let kind = others.iter().find(|other| other.id == near.body).map(|it| it.kind);
                let cause = self.cause(near, kind);
                self.found.all.push(Violation { body: near.body, from: at, seconds: step, cause });
            }
        }
        self.last = Some(near.into_iter().map(|near| (near.body, near)).collect());
    }

    /// The violations found.
    pub fn found(self) -> Violations {
        self.found
    }

    fn cause(&self, near: &Nearness, kind: Option<Kind>) -> Cause {
        const STANDS: f64 = 0.5;
        let Some(last) = &self.last else { return Cause::Start };
        let was_short = last.get(&near.body).is_none_or(|before| before.short);
        match kind {
            Some(Kind::Pedestrian | Kind::Cyclist) => Cause::Bare,
            _ if near.crosses => Cause::Crosses,
            _ if was_short && near.ego_aside > near.aside => Cause::ChangesLanes,
            _ if near.speed < -STANDS && was_short => Cause::Oncoming,
            _ if near.speed < -STANDS => Cause::Meets,
            _ if was_short && near.aside > 0.0 => Cause::CutIn,
            _ if near.speed < STANDS => Cause::Stands,
            _ => Cause::Follows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::tests::two_lanes;
    use glam::{DMat2, DVec2};
    use std::f64::consts::{FRAC_PI_2, PI};
    use world::scenario::Turn;
    use world::{LaneId, Pose};

    fn car(id: u32, x: f64, y: f64, velocity: DVec2) -> Track {
        Track {
            id,
            kind: Kind::Car,
            pose: Pose::new(x, y, 0.0),
            velocity,
            acceleration: DVec2::ZERO,
            doubt: DMat2::ZERO,
            length: 4.5,
            width: 1.8,
            seen: 9,
            at: 0.0,
        }
    }

    fn ahead(speed: f64) -> DVec2 {
        DVec2::new(speed, 0.0)
    }

    /// Of what is seen in each second, beginning with nobody.
    fn watch(heading: f64, scenes: &[Vec<Track>]) -> Violations {
        let route = Route::new(&two_lanes(), LaneId(0), Turn::Straight).unwrap();
        let mut watch = Watch::new(Preset::AD_RSS);
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 10.0, ..Ego::default() };
        watch.look(0.0, 1.0, &ego, &[], &route);
        for (scene, at) in scenes.iter().zip(1..) {
            let ego = Ego { pose: Pose { heading, ..ego.pose }, ..ego };
            watch.look(f64::from(at), 1.0, &ego, scene, &route);
        }
        watch.found()
    }

    #[test]
    fn whoever_moved_last_is_the_cause() {
        let cause = |heading, scenes: &[Track]| {
            let scenes: Vec<Vec<Track>> = scenes.iter().map(|one| vec![one.clone()]).collect();
            let found = watch(heading, &scenes);
            assert_eq!((found.all.len(), found.seconds()), (1, 1.0), "{found:?}");
            found.all[0].cause
        };
        let far = |speed| car(1, 95.0, 0.0, ahead(speed));
        let near = |speed| car(1, 75.0, 0.0, ahead(speed));
        let beside = car(1, 75.0, 3.5, ahead(10.0));
        let comes = car(1, 75.0, 3.0, DVec2::new(10.0, -1.0));
        assert_eq!(cause(0.0, &[far(10.0), near(10.0)]), Cause::Follows);
        assert_eq!(cause(0.0, &[far(0.0), near(0.0)]), Cause::Stands);
        assert_eq!(cause(0.0, &[beside, comes]), Cause::CutIn);
        let drifts = car(1, 75.0, 2.2, ahead(10.0));
        assert_eq!(cause(0.1, &[car(1, 75.0, 6.0, ahead(10.0)), drifts]), Cause::ChangesLanes);
        let comes = |x, y, velocity| Track { pose: Pose::new(x, y, PI), ..car(1, x, y, velocity) };
        let straight = DVec2::new(-10.0, 0.0);
        let drifts = comes(110.0, 3.0, DVec2::new(-10.0, -1.0));
        assert_eq!(cause(0.0, &[comes(120.0, 3.5, straight), drifts]), Cause::Oncoming);
        let far = comes(400.0, 0.0, straight);
        assert_eq!(cause(0.0, &[far, comes(110.0, 0.0, straight)]), Cause::Meets);
        let beside = comes(110.0, 2.2, straight);
        assert_eq!(cause(0.1, &[comes(120.0, 6.0, straight), beside]), Cause::ChangesLanes);
        let walks = Track { kind: Kind::Pedestrian, length: 0.5, width: 0.5, ..near(0.0) };
        assert_eq!(cause(0.0, &[walks]), Cause::Bare);
        let crosses = Track {
            pose: Pose::new(70.0, -12.0, FRAC_PI_2),
            velocity: DVec2::new(0.0, 8.0),
            ..near(0.0)
        };
        assert_eq!(cause(0.0, &[crosses]), Cause::Crosses);
    }

    #[test]
    fn a_drive_may_begin_too_near() {
        let route = Route::new(&two_lanes(), LaneId(0), Turn::Straight).unwrap();
        let mut watch = Watch::new(Preset::AD_RSS);
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 10.0, ..Ego::default() };
        watch.look(0.0, 0.5, &ego, &[car(1, 70.0, 0.0, ahead(10.0))], &route);
        let found = watch.found();
        assert_eq!((found.by(Cause::Start), found.by(Cause::Follows)), (0.5, 0.0));
    }

    #[test]
    fn time_near_to_two_counts_once_and_as_that_of_the_first_while_he_is_near() {
        let one = car(1, 80.0, 0.0, ahead(9.0));
        let two = car(2, 72.0, 0.0, ahead(9.0));
        let scenes =
            [vec![one.clone()], vec![one.clone(), two.clone()], vec![two], vec![], vec![one]];
        let found = watch(0.0, &scenes);
        let all: Vec<_> = found.all.iter().map(|it| (it.body, it.from, it.seconds)).collect();
        assert_eq!(all, [(1, 1.0, 2.0), (2, 3.0, 1.0), (1, 5.0, 1.0)]);
        assert_eq!(found.seconds(), 4.0);
    }

    #[test]
    fn other_assumptions_ask_for_other_distances() {
        let route = Route::new(&two_lanes(), LaneId(0), Turn::Straight).unwrap();
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 10.0, ..Ego::default() };
        // 28 m, 16 m and 82 m are safe behind somebody as fast.
        let seconds = |preset, gap| {
            let mut watch = Watch::new(preset);
            let others = [car(1, 50.0 + 4.5 + gap, 0.0, ahead(10.0))];
            watch.look(0.0, 1.0, &ego, &others, &route);
            watch.found().seconds()
        };
        let all = [Preset::AGGRESSIVE, Preset::AD_RSS, Preset::CONSERVATIVE];
        assert_eq!(all.map(|preset| seconds(preset, 10.0)), [1.0, 1.0, 1.0]);
        assert_eq!(all.map(|preset| seconds(preset, 20.0)), [0.0, 1.0, 1.0]);
        assert_eq!(all.map(|preset| seconds(preset, 40.0)), [0.0, 0.0, 1.0]);
    }
}
