//! An emergency brake: beside planning, from the tracked objects to the brake.
//!
//! It presses the brake as soon as the reaction to somebody (RSS, the assumptions of ad-rss) may
//! wait no longer than until the next frame, and lets go when it may wait clearly longer again.

use super::danger::deadlines;
use super::{Brake, Localisation, Mission, Scene};
use dataflow::{Cx, Load, Message, Module, Path, Stop};

/// A reaction that may wait no longer than this is due, s.
const DUE: f64 = 0.1;
/// One that may wait so long is not any more, s.
const OVER: f64 = 0.3;

/// Scenes to the brake.
pub struct EmergencyBrake {
    mission: Mission,
    pressed: bool,
}

impl EmergencyBrake {
    pub fn new(mission: Mission) -> EmergencyBrake {
        EmergencyBrake { mission, pressed: false }
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
        let left = deadlines(&ego, &scene.tracks, &self.mission.route);
        let least = left.into_iter().fold(f64::INFINITY, f64::min);
        let before = self.pressed;
        self.pressed = least <= if before { OVER } else { DUE };
        if before || self.pressed {
            Ok(Brake { pressed: self.pressed })
        } else {
            Err(Stop::Nothing)
        }
    }
}
