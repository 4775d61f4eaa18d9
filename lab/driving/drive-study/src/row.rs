//! Results that are kept of a drive.

use crate::replay::Call;
use crate::{Frame, Group, Suite, Times};
use driving::Cause;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The clock of a drive.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The virtual one.
    #[default]
    Virtual,
    /// The wall clock.
    Wall,
    /// The virtual one; what the stack sees and takes is what it saw and took on the wall clock.
    Again,
}

impl Clock {
    /// Name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Virtual => "virtual",
            Clock::Wall => "wall",
            Clock::Again => "virtual, as on the wall",
        }
    }

    fn is_virtual(&self) -> bool {
        *self == Clock::Virtual
    }
}

/// Key of a drive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Suite of the scenario.
    pub suite: Suite,
    /// Its number there.
    pub index: usize,
    /// `a` or `b`.
    pub stack: String,
    /// The policy's name.
    pub policy: String,
    /// Clock of the drive.
    #[serde(default, skip_serializing_if = "Clock::is_virtual")]
    pub clock: Clock,
    /// Number of times that it had been driven so before.
    #[serde(default, skip_serializing_if = "is_first")]
    pub repeat: u32,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Key { suite, index, stack, policy, clock, repeat } = self;
        write!(f, "{} {index}, stack {stack}, {policy}", suite.name())?;
        match clock {
            Clock::Virtual => {}
            Clock::Wall => f.write_str(", on the wall clock")?,
            Clock::Again => f.write_str(", as on the wall clock")?,
        }
        match repeat {
            0 => Ok(()),
            repeat => write!(f, ", repeat {repeat}"),
        }
    }
}

/// Results of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Key of the drive.
    pub key: Key,
    /// The scenario's name.
    pub scenario: String,
    /// Longest time that a reaction may take, s; none if there is no such time.
    pub critical_s: Option<f64>,
    /// Time for which it was driven, s of the scenario.
    pub driven_s: f64,
    /// The collision that ended it.
    pub collision: Option<Hit>,
    /// Time for which another road user ahead was nearer than RSS allows, s.
    pub violation_s: f64,
    /// Number of these violations.
    pub violations: usize,
    /// The seconds by what it came to that by: see [`driving::Cause`].
    pub violation_by: BTreeMap<String, f64>,
    /// Time for which another road user ahead was nearer than RSS allows with the assumptions
    /// called aggressive, s.
    pub violation_aggressive_s: f64,
    /// Progress of the ego, m.
    pub progress_m: f64,
    /// Time at which it had reached its destination, s; none if it has none, or did not.
    pub arrived_s: Option<f64>,
    /// The reaction to the hazard; none if there was none.
    pub reaction: Option<Reaction>,
    /// Frames of the lidar that led to no command.
    pub unanswered: usize,
    /// Answered frames whose command came later than 125 ms, or the policy's own deadline for
    /// each frame, after their capture.
    pub late: usize,
    /// Late frames that took a fast path.
    pub late_fast: usize,
    /// Late frames on a fast path that no path could have saved: perception, which has no fast one,
    /// left less time than the fastest frame of the drive took from there on.
    #[serde(default)]
    pub late_perception: usize,
    /// Time for which the cores computed, all together, s.
    pub busy_s: f64,
    /// Number of cores.
    pub cores: usize,
    /// Guests that were let in.
    pub guests: u64,
    /// Hosts' runs that had to wait for one.
    pub host_violations: u64,
    /// Total delay of these runs, s.
    pub host_delay_s: f64,
    /// Frames that came in late on the wall clock: the world was not ready.
    #[serde(default, skip_serializing_if = "is_none")]
    pub late_frames: usize,
    /// Chunks of runs with the cost that they had on the wall clock; on the virtual clock as on the
    /// wall clock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub chunks_observed: u64,
    /// The same, chunks that were not run there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub chunks_missing: u64,
    /// Durations, by what they are of: see [`TIMES`].
    pub times: BTreeMap<String, Times>,
    /// Time that the drive took on this machine, s.
    pub took_s: f64,
    /// Time for which a run of segmentation or prediction, of which pieces may be guests, was under
    /// way, s.
    #[serde(default)]
    pub sends_s: f64,
    /// Time for which the cores computed meanwhile, all together, s.
    #[serde(default)]
    pub sends_busy_s: f64,
    /// Frames that led to a command, in the experiment `characterise`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
    /// Groups of cores, in the same experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Parts of modules by themselves, in the experiment `modules`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
}

fn is_first(repeat: &u32) -> bool {
    *repeat == 0
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Names and meanings of the durations that are kept of each drive.
pub const TIMES: [(&str, &str); 16] = [
    ("frames", "from a frame's capture to the first command that takes it into account"),
    ("frames_fast", "the same, of frames for which a module took its fast path"),
    ("frames_normal", "the same, of all other frames"),
    ("prediction", "time for which a run of prediction had a core"),
    ("planning", "time for which a run of planning had a core"),
    ("guest", "from the arrival of a scan to the end of its segmentation, which may be a guest"),
    (
        "hosts",
        "from the arrival to the end in tracking, planning and control, which are never guests",
    ),
    (
        "segmentation",
        "time for which a run had a core; of the experiment characterise, as the following ones",
    ),
    ("tracking", "the same"),
    ("control", "the same"),
    ("segmentation_waits", "from the arrival of its message to the beginning of a run"),
    ("tracking_waits", "the same"),
    ("prediction_waits", "the same"),
    ("planning_waits", "the same"),
    ("control_waits", "the same"),
    (
        "middleware",
        "from a frame to its command, serialisation, deserialisation and transfer of messages; \
         only with serialised messages",
    ),
];

/// A collision of the ego.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hit {
    /// s of the scenario.
    pub at_s: f64,
    /// Kind of the other body: car, truck, cyclist, pedestrian or obstacle.
    pub kind: String,
    /// True if it is the body that the scenario's hazard is about.
    pub hazard: bool,
    /// Side on which the ego was hit: front, rear, left or right.
    pub side: String,
    /// m/s.
    pub ego_speed: f64,
    /// m/s.
    pub other_speed: f64,
    /// The ego's strongest braking in the two seconds before, m/s².
    pub braked: f64,
}

impl Hit {
    /// Was the ego struck from behind after it had braked?
    pub fn from_behind(&self) -> bool {
        self.side == "rear" && self.braked >= BRAKED
    }
}

/// Deceleration from which the ego counts as having braked, m/s².
const BRAKED: f64 = 2.0;

/// Time from the moment when the hazard could be seen to the command that answers it (COLA,
/// equation 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reaction {
    /// Time until the frame that was reacted to came in, ns.
    pub sensor_ns: u64,
    /// Part of that from the first frame that shows the hazard, ns.
    pub confirm_ns: u64,
    /// Modules computed, ns.
    pub module_ns: u64,
    /// Time in which nothing was computed for it, ns.
    pub bubble_ns: u64,
}

impl Reaction {
    /// Total time, ns.
    pub fn total_ns(&self) -> u64 {
        self.sensor_ns + self.module_ns + self.bubble_ns
    }
}

impl Row {
    /// Time for which another road user ahead was nearer than RSS allows because of the ego
    /// ([`Cause::is_the_egos`]), s.
    pub fn own_violation_s(&self) -> f64 {
        let own = Cause::ALL.iter().filter(|(cause, _)| cause.is_the_egos());
        own.filter_map(|(_, name)| self.violation_by.get(*name)).fold(0.0, |sum, s| sum + s)
    }

    /// Durations of this name; none were kept: none.
    pub fn times(&self, name: &str) -> Times {
        self.times.get(name).cloned().unwrap_or_default()
    }

    /// Returns the number of durations of this name.
    pub fn count(&self, name: &str) -> u64 {
        self.times.get(name).map_or(0, Times::count)
    }

    /// Returns true for values that a drive can produce.
    pub(crate) fn is_possible(&self) -> bool {
        let seconds = [
            self.driven_s,
            self.violation_s,
            self.violation_aggressive_s,
            self.busy_s,
            self.host_delay_s,
            self.took_s,
            self.arrived_s.unwrap_or(0.0),
            self.critical_s.unwrap_or(0.0),
            self.sends_s,
            self.sends_busy_s,
        ];
        let known = |name: &String| TIMES.iter().any(|(known, _)| known == name);
        seconds.iter().all(|seconds| seconds.is_finite() && *seconds >= 0.0)
            && self.progress_m.is_finite()
            && self.violation_by.iter().all(|(cause, seconds)| {
                Cause::ALL.iter().any(|(_, name)| name == cause) && (0.0..=1e9).contains(seconds)
            })
            && self.times.iter().all(|(name, times)| known(name) && times.is_possible())
            && self.groups.iter().all(|group| group.idle_s.is_finite())
            && self.calls.iter().all(Call::is_possible)
    }
}
