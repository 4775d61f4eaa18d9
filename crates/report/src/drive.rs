//! One scenario, driven under one policy after another: what happened, and why the vehicle reacted
//! when it did.
//!
//! [`DriveRun`] is filled by `keeptime-lab drive`. [`document`] shows it in a terminal,
//! [`json`](json()) to machines, [`html`](html()) as one page: what happened as a moving picture,
//! and the modules' work around the reaction.

mod conclusion;
mod drive_json;
mod drive_timeline;
mod policies;
mod scene;

pub use drive_json::json;
pub use policies::{document, html};

use serde::Serialize;
use stats::Summary;

/// A scenario and how it was driven.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DriveRun {
    /// The scenario's name.
    pub scenario: String,
    /// Events of the scenario, in one sentence.
    pub about: String,
    /// The stack.
    pub stack: String,
    /// The command that made this result.
    pub command: String,
    /// Date of the run.
    pub date: String,
    /// Clock, cores, processor and the like: name and value.
    pub machine: Vec<(String, String)>,
    /// Notes on the validity of the results.
    pub marks: Vec<String>,
    /// The road.
    pub lanes: Vec<Lane>,
    /// Hazard that the vehicle has to react to.
    pub hazard: Option<Hazard>,
    /// Once for each policy.
    pub drives: Vec<Drive>,
}

/// The edges of a lane, m.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Lane {
    /// The left edge, in its direction.
    pub left: Vec<[f64; 2]>,
    /// The right edge.
    pub right: Vec<[f64; 2]>,
}

/// Event that the vehicle has to react to.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Hazard {
    /// Description of the hazard.
    pub about: String,
    /// The body that it is about.
    pub body: u32,
    /// Begin of the hazard, s of the scenario.
    pub began_s: f64,
    /// The longest reaction that avoids a crash, s; none if it is not known.
    pub critical_s: Option<f64>,
}

/// A scenario driven under one policy.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Drive {
    /// The policy.
    pub policy: String,
    /// Time for which the vehicle drove, s.
    pub duration_s: f64,
    /// Everything that moved or stood; the vehicle that is driven is 0.
    pub bodies: Vec<Path>,
    /// The first collision of the driven vehicle.
    pub collision: Option<Collision>,
    /// Reaction of the vehicle to the hazard.
    pub reaction: Option<Reaction>,
    /// The sensor frames that led to a command.
    pub frames: Vec<Frame>,
    /// Runs of the modules around the reaction.
    pub spans: Vec<Span>,
    /// Time for which the vehicle was closer to others than RSS allows with the assumptions of the
    /// stack, s.
    pub violation_s: f64,
    /// The same by what it came to that by, those that there were.
    pub violation_by: Vec<(String, f64)>,
    /// The same with the assumptions called aggressive, s.
    pub violation_aggressive_s: f64,
    /// Distance that the vehicle covered, m.
    pub progress_m: f64,
}

/// Positions of a body over time.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Path {
    /// Its number.
    pub id: u32,
    /// Kind of the body.
    pub kind: String,
    /// m.
    pub length: f64,
    /// m.
    pub width: f64,
    /// Time in s, x and y in m, heading in rad; times ascend.
    pub poses: Vec<[f64; 4]>,
}

/// Two bodies that touched.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Collision {
    /// s of the scenario.
    pub at_s: f64,
    /// The other body.
    pub body: u32,
    /// Side on which the driven vehicle was hit: front, rear, left or right.
    pub side: String,
    /// Speed of the driven vehicle, m/s.
    pub speed: f64,
    /// Speed of the other one, m/s.
    pub other_speed: f64,
}

/// The reaction, from the beginning of a hazard to the command that answers it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Reaction {
    /// Time at which a sensor could first see the hazard, s.
    pub visible_s: f64,
    /// Time at which the command reached the vehicle, s.
    pub acted_s: f64,
    /// Parts of the time between these two, in order; they sum to it.
    pub parts: Vec<Part>,
}

/// A part of a reaction.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// Kind of the part.
    pub kind: PartKind,
    /// The module, or what was waited for.
    pub name: String,
    /// Length of the part, ns.
    pub ns: u64,
}

/// The terms of COLA's equation 2, and the frames that a tracker needs beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// Time until a sensor's frame shows it.
    Sensor,
    /// Further frames until it is believed.
    Confirm,
    /// A module computes.
    Module,
    /// Nothing is computed for it.
    Bubble,
}

impl PartKind {
    /// All, in the order of a reaction.
    pub const ALL: [PartKind; 4] =
        [PartKind::Sensor, PartKind::Confirm, PartKind::Module, PartKind::Bubble];

    /// Name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            PartKind::Sensor => "sensor",
            PartKind::Confirm => "confirmation",
            PartKind::Module => "modules",
            PartKind::Bubble => "waiting",
        }
    }
}

impl Reaction {
    /// Time from the first possible sight to the command, s.
    pub fn seconds(&self) -> f64 {
        self.parts.iter().map(|part| part.ns as f64).sum::<f64>() / 1e9
    }

    /// All parts of a kind, ns.
    pub fn of(&self, kind: PartKind) -> u64 {
        self.parts.iter().filter(|part| part.kind == kind).map(|part| part.ns).sum()
    }
}

/// A sensor frame that led to a command.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Frame {
    /// Time of its capture, s.
    pub captured_s: f64,
    /// Time from its capture to the command, ms.
    pub latency_ms: f64,
    /// True if a module took its fast path.
    pub fast: bool,
}

/// One run of a module.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Span {
    /// The module.
    pub module: String,
    /// The sensor frame that it worked on.
    pub frame: u64,
    /// s of the scenario.
    pub start_s: f64,
    /// s of the scenario.
    pub end_s: f64,
    /// True on its fast path.
    pub fast: bool,
    /// Ended early, because what it worked on was no longer needed.
    pub cancelled: bool,
    /// True on cores of another group, or ahead of time.
    pub guest: bool,
    /// The reaction went through it.
    pub critical: bool,
}

impl Drive {
    /// Order statistics of the latencies of its frames, ms; none without frames.
    pub fn latency_ms(&self) -> Option<Summary> {
        let latencies: Vec<f64> = self.frames.iter().map(|frame| frame.latency_ms).collect();
        Summary::of(&latencies)
    }

    /// The mean of the latencies of its frames, ms; none without frames.
    pub fn mean_ms(&self) -> Option<f64> {
        let sum: f64 = self.frames.iter().map(|frame| frame.latency_ms).sum();
        (!self.frames.is_empty()).then(|| sum / self.frames.len() as f64)
    }

    /// The vehicle that is driven.
    fn ego(&self) -> Option<&Path> {
        self.bodies.iter().find(|body| body.id == 0)
    }
}

impl Path {
    /// x, y and heading at a time, between two poses on the straight line; its first or last one
    /// before and after them.
    fn at(&self, time_s: f64) -> Option<[f64; 3]> {
        let after = self.poses.partition_point(|pose| pose[0] <= time_s);
        let (Some(from), to) = (self.poses.get(after.saturating_sub(1)), self.poses.get(after))
        else {
            return None;
        };
        let Some(to) = to.filter(|_| after > 0) else { return Some([from[1], from[2], from[3]]) };
        let share = (time_s - from[0]) / (to[0] - from[0]);
        let turn = (to[3] - from[3] + std::f64::consts::PI).rem_euclid(std::f64::consts::TAU)
            - std::f64::consts::PI;
        Some([
            from[1] + share * (to[1] - from[1]),
            from[2] + share * (to[2] - from[2]),
            from[3] + share * turn,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_between_two_poses_turns_the_short_way() {
        let poses = vec![[0.0, 0.0, 0.0, 3.1], [1.0, 2.0, 4.0, -3.1]];
        let path = Path { poses, ..Path::default() };
        let [x, y, heading] = path.at(0.5).unwrap();
        assert_eq!((x, y), (1.0, 2.0));
        assert!((heading.abs() - std::f64::consts::PI).abs() < 1e-9, "{heading}");
        assert_eq!(path.at(-1.0), Some([0.0, 0.0, 3.1]));
        assert_eq!(path.at(9.0), Some([2.0, 4.0, -3.1]));
        assert_eq!(Path::default().at(0.0), None);
    }
}
