//! An emergency brake: beside planning, from the tracked objects to the brake.
//!
//! It presses the brake as soon as the reaction to another (RSS, the assumptions of ad-rss) may
//! wait no longer than until the next frame. Held, it lets go when that may wait clearly longer
//! again, whatever planning says. Until planned, it is the fast path's last step: the stack does
//! not wait for a plan whose time is over before it is made. As soon as the plan for the same frame
//! is there it counts, but for as long as the reaction stays due it brakes at least as RSS asks
//! for, and as hard as it can while that would not suffice: RSS's proper response is one that
//! begins in time.

use super::danger::brake_deadline;
use super::{Brake, Localisation, Mission, Scene};
use dataflow::{Cx, Load, Message, Module, Path, Stop};
use rss::Preset;

/// A reaction that may wait no longer than this is due, s.
const DUE: f64 = 0.1;
/// Reaction time left, s, above which a reaction is not due any more.
const OVER: f64 = 0.3;
/// Speed of the ego, m/s, below which a brake until planned does not keep it from getting going: it
/// stops within a metre whenever it is told to.
const SLOW: f64 = 4.0;

/// Time for which a frame's answer counts, ns: until the next one, which has to be tracked first,
/// can say that a reaction is not due any more.
const STAYS_NS: u64 = 180_000_000;

impl Brake {
    /// Least braking of the vehicle that the brake asks for, m/s², `age_ns` after the capture of
    /// its frame; `planned` is true if there is a plan for that frame or a newer one. 0 if the
    /// brake does not count. A brake that is pressed until planned is RSS's proper response beside
    /// a plan, or, if it is too late for that, pressed still.
    pub fn asks(&self, age_ns: u64, planned: bool, hardest: f64) -> f64 {
        match (self.pressed, self.until_planned && planned) {
            (false, _) => 0.0,
            (true, false) => hardest,
            (true, true) if age_ns >= STAYS_NS => 0.0,
            (true, true) if self.overdue => hardest,
            (true, true) => Preset::AD_RSS.ego.brake_min,
        }
    }
}

/// Scenes to the brake.
pub(super) struct EmergencyBrake {
    mission: Mission,
    /// True if planning may let go of the brake.
    until_planned: bool,
    pressed: bool,
}

impl EmergencyBrake {
    pub(super) fn new(mission: Mission, until_planned: bool) -> EmergencyBrake {
        EmergencyBrake { mission, until_planned, pressed: false }
    }
}

impl Module for EmergencyBrake {
    type In = (Message<Scene>, Option<Message<Localisation>>);
    type Out = Brake;

    fn estimate(&self, (scene, _): &Self::In, _: Path) -> Load {
        Load::of(&[scene.tracks.len() as f64])
    }

    /// Says nothing while the brake is not needed, so that it is in no other command's provenance.
    fn run(
        &mut self,
        _: &mut Cx<'_, Brake>,
        (scene, localisation): &Self::In,
        _: Path,
    ) -> Result<Brake, Stop> {
        let ego = localisation.as_ref().map_or(scene.ego, |newest| newest.ego);
        let least = brake_deadline(&ego, &scene.tracks, &self.mission.route);
        let before = self.pressed;
        self.pressed = match self.until_planned {
            true => least <= DUE && ego.speed > SLOW,
            false => least <= if before { OVER } else { DUE },
        };
        // Planning lets go of a brake that is pressed until then.
        if before && !self.until_planned || self.pressed {
            let (pressed, until_planned) = (self.pressed, self.until_planned);
            Ok(Brake { pressed, until_planned, overdue: least < 0.0 })
        } else {
            Err(Stop::Nothing)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::tests::two_lanes;
    use crate::{Ego, Track};
    use glam::{DMat2, DVec2};
    use std::sync::Arc;
    use world::scenario::Turn;
    use world::{Kind, LaneId, Pose, Route};

    fn brake(until_planned: bool) -> EmergencyBrake {
        let road = Arc::new(two_lanes());
        let route = Arc::new(Route::new(&road, LaneId(0), Turn::Straight).unwrap());
        EmergencyBrake::new(Mission { road, route, desired: f64::INFINITY }, until_planned)
    }

    /// Answer of the brake for an ego at so many m/s, somebody standing `gap` m ahead of its front.
    fn says(brake: &mut EmergencyBrake, speed: f64, gap: f64) -> Option<bool> {
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed, ..Ego::default() };
        let ahead = Track {
            id: 1,
            kind: Kind::Car,
            pose: Pose::new(50.0 + 4.5 + gap, 0.0, 0.0),
            velocity: DVec2::ZERO,
            acceleration: DVec2::ZERO,
            doubt: DMat2::ZERO,
            length: 4.5,
            width: 1.8,
            seen: 9,
            at: 1.0,
        };
        let scene = Scene { at: 1.0, ego, tracks: vec![ahead] };
        let input = (Message::alone(scene), Some(Message::alone(Localisation { at: 1.0, ego })));
        let said = dataflow::alone(brake, &input, Path::Normal, u64::MAX).result;
        let overdue = said.as_ref().is_ok_and(|brake| brake.overdue);
        assert_eq!(overdue, gap < speed * speed / (2.0 * 4.0) && said.is_ok());
        said.ok().map(|brake| brake.pressed)
    }

    #[test]
    fn it_is_pressed_when_a_reaction_is_due_and_let_go_when_it_is_not() {
        for until_planned in [false, true] {
            let mut brake = brake(until_planned);
            assert_eq!(says(&mut brake, 12.0, 60.0), None);
            assert_eq!(says(&mut brake, 12.0, 20.0), Some(true));
            let then = if until_planned { None } else { Some(false) };
            assert_eq!(says(&mut brake, 12.0, 60.0), then, "a plan lets go of it");
            assert_eq!(says(&mut brake, 12.0, 60.0), None);
        }
    }

    #[test]
    fn beside_a_plan_it_asks_for_what_rss_does_until_the_next_frame() {
        let said = |pressed, until_planned, overdue, (age_ms, planned): (u64, bool)| {
            let brake = Brake { pressed, until_planned, overdue };
            brake.asks(age_ms * 1_000_000, planned, 8.0)
        };
        let asks = |pressed, until_planned, moment| said(pressed, until_planned, false, moment);
        let moments = [(20, false), (20, true), (170, true), (190, true), (190, false)];
        assert_eq!(moments.map(|moment| asks(true, true, moment)), [8.0, 4.0, 4.0, 0.0, 8.0]);
        let late = moments.map(|moment| said(true, true, true, moment));
        assert_eq!(late, [8.0, 8.0, 8.0, 0.0, 8.0]);
        assert_eq!(moments.map(|moment| asks(true, false, moment)), [8.0; 5]);
        assert_eq!(moments.map(|moment| asks(false, false, moment)), [0.0; 5]);
    }

    #[test]
    fn until_planned_it_keeps_nobody_from_getting_going() {
        assert_eq!(says(&mut brake(true), 3.9, 0.3), None);
        assert_eq!(says(&mut brake(true), 4.1, 0.3), Some(true));
        assert_eq!(says(&mut brake(false), 1.0, 0.3), Some(true));
    }
}
