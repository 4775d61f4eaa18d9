//! Objects over time: which detection is which object, and how fast each one is.
//!
//! Each object has a Kalman filter of constant acceleration in the plane. It is told where the
//! object is and, if the sensor measures radial speeds, how fast it moves along the line of sight;
//! so an object has a speed in its first frame, and how certain it is travels with it. Detections
//! are assigned to objects by the assignment of least total distance (Hungarian method) within a
//! gate. The seen part of an object is seldom all of it: its size only grows, and its centre is
//! measured from the side that the sensor sees.

use crate::map::lanes_at;
use crate::segment::{Detection, Doppler, extent};
use glam::{DMat2, DVec2};
use motion::Motion;
use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_PI_2, PI};
use world::road::{LaneId, Road};
use world::{Kind, Offset, Pose, Rectangle, geometry::wrapped};

mod assign;
mod motion;

/// An object as the stack believes it to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Track {
    /// Its number, which no other object gets.
    pub id: u32,
    /// Kind that it seems to be, by size and speed.
    pub kind: Kind,
    /// Its centre, and where it looks.
    pub pose: Pose,
    /// m/s.
    pub velocity: DVec2,
    /// m/s².
    pub acceleration: DVec2,
    /// Uncertainty of the velocity: its covariance, m²/s².
    pub doubt: DMat2,
    /// m.
    pub length: f64,
    /// m.
    pub width: f64,
    /// Number of frames in which it has been seen.
    pub seen: u32,
    /// Time at which it was seen last, s.
    pub at: f64,
}

impl Track {
    /// The ground that it covers.
    pub fn footprint(&self) -> Rectangle {
        Rectangle { pose: self.pose, length: self.length, width: self.width }
    }

    /// Along its heading, m/s.
    pub fn speed(&self) -> f64 {
        self.velocity.dot(self.pose.forward())
    }

    /// May it stand, by what is known of its velocity?
    pub fn may_stand(&self) -> bool {
        const SURE: f64 = 3.0;
        self.velocity.length() < 1e-9
            || self.velocity.dot(self.doubt.inverse() * self.velocity) < SURE * SURE
    }

    /// The standard deviation of its velocity in the direction in which that is least certain,
    /// m/s.
    pub fn uncertainty(&self) -> f64 {
        let (one, other) = (self.doubt.x_axis, self.doubt.y_axis);
        let (middle, half) = ((one.x + other.y) / 2.0, (one.x - other.y) / 2.0);
        (middle + half.hypot(one.y)).sqrt()
    }
}

/// The objects, and how they are followed.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// An object is reported once it has been seen in this number of frames.
    pub confirm_frames: u32,
    /// An object that has not been seen for so long is forgotten, s; one that was seen in a few
    /// frames only, earlier.
    pub keep: f64,
    /// No object is looked for farther from where it should be, m.
    pub gate: f64,
    /// Uncertainty of a measured centre: standard deviation, m.
    pub noise: f64,
    /// Change of the accelerations of vehicles: standard deviation over a second, m/s³. Those of
    /// people change half as fast.
    pub jerk: f64,
    objects: Vec<Object>,
    next: u32,
}

impl Default for Tracker {
    fn default() -> Tracker {
        Tracker {
            confirm_frames: 1,
            keep: 0.45,
            gate: 3.0,
            noise: 0.06,
            jerk: 6.0,
            objects: Vec::new(),
            next: 1,
        }
    }
}

/// A track with its filters.
#[derive(Clone, Debug)]
struct Object {
    track: Track,
    motion: Motion,
    /// The heading was told by motion.
    moved: bool,
    /// The object was seen to move in its last frame, whatever the filter makes of it.
    moves: bool,
}

impl Tracker {
    /// Takes what a frame shows that was captured at time `at` s by a sensor at `from`, and gives
    /// the confirmed objects as they are then. A frame that is not newer than the last one of an
    /// object does not move it.
    pub fn update(
        &mut self,
        at: f64,
        from: Pose,
        detections: &[Detection],
        road: &Road,
    ) -> Vec<Track> {
        for object in &mut self.objects {
            let jerk = if small(object.track.kind) { self.jerk / 2.0 } else { self.jerk };
            object.predict(at, jerk);
        }
        let costs = self.costs(detections);
        let assigned = assign::least(&costs, detections.len());
        let mut taken = vec![false; detections.len()];
        for (object, detection) in self.objects.iter_mut().zip(assigned) {
            if let Some(index) =
                detection.filter(|index| object.distance(&detections[*index]) <= self.gate)
            {
                taken[index] = true;
                object.measure(at, from, &detections[index], self.noise);
            }
        }
        for (detection, _) in detections.iter().zip(&taken).filter(|(_, taken)| !**taken) {
            // The far end of a long vehicle may look like a thing of its own.
            let middle = detection.rectangle.pose.position;
            let state_of = |object: &Object| {
                let near = if object.drives_as(detection) { AROUND } else { NEARLY };
                object.covers(middle, near) && !object.strange(detection)
            };
            if self.objects.iter().any(state_of) {
                continue;
            }
            self.objects.push(Object::new(self.next, at, from, detection, self.noise, road));
            self.next += 1;
        }
        let kept = |object: &Object| {
            let keep = self.keep.min(KEEP * f64::from(object.track.seen - 1));
            at - object.track.at <= keep
        };
        self.objects.retain(kept);
        self.forget_parts();
        let confirmed = |object: &&Object| object.track.seen >= self.confirm_frames;
        let told = |object: &Object| {
            // An object that is not seen is not known to brake or to turn.
            let seen = object.track.at >= at;
            let acceleration = if seen { object.track.acceleration } else { DVec2::ZERO };
            Track { acceleration, ..object.track.clone() }
        };
        self.objects.iter().filter(confirmed).map(told).collect()
    }

    /// Forgets parts: an object within a larger one is a part of it; of two vehicles in one place
    /// that drive alike, the one that was seen later or, if not, known earlier stays: the parts of
    /// one were taken for two.
    fn forget_parts(&mut self) {
        let larger: Vec<Object> = self.objects.clone();
        self.objects.retain(|part| {
            let part_of = |whole: &Object| {
                let alike = whole.track.velocity.distance(part.track.velocity) < ALIKE
                    && whole.track.velocity.length() > DRIVES;
                let near = if alike { AROUND } else { NEARLY };
                whole.track.id != part.track.id
                    && (whole.track.length > part.track.length || alike && whole.replaces(part))
                    && whole.moves == part.moves
                    && whole.covers(part.track.pose.position, near)
            };
            !larger.iter().any(part_of)
        });
    }

    /// Costs by object and detection, m; beyond the gate as if it were twice as far.
    fn costs(&self, detections: &[Detection]) -> Vec<Vec<f64>> {
        let row = |object: &Object| {
            let distances = detections.iter().map(|detection| object.distance(detection));
            distances.map(|far| if far <= self.gate { far } else { 2.0 * self.gate }).collect()
        };
        self.objects.iter().map(row).collect()
    }
}

impl Object {
    fn new(id: u32, at: f64, from: Pose, detection: &Detection, noise: f64, road: &Road) -> Object {
        let sized = kind_by_size(detection);
        let part = detection.class.is_none()
            && (part_of_car(detection, from) || small(sized.0) && rushes(detection));
        let (kind, length, width) = if part {
            let Rectangle { length, width, .. } = detection.rectangle;
            (Kind::Car, length.max(4.5), width.max(1.8))
        } else {
            sized
        };
        let (heading, aside) = first_heading(detection, kind, road);
        let position = detection.rectangle.pose.position;
        let pose = Pose { position, heading };
        let mut track = Track {
            id,
            kind,
            pose,
            velocity: DVec2::ZERO,
            acceleration: DVec2::ZERO,
            doubt: DMat2::ZERO,
            length,
            width,
            seen: 1,
            at,
        };
        grow(&mut track, detection);
        let (centre, _) = place(&track, from, detection);
        // Vehicles go where they look.
        let spread = if small(kind) { DVec2::splat(4.0) } else { DVec2::new(12.0, aside) };
        let motion = Motion::at(centre, at, noise, heading, spread);
        let mut object = Object { track, motion, moved: false, moves: false };
        object.listen(detection);
        object.copy();
        object
    }

    fn predict(&mut self, at: f64, jerk: f64) {
        if self.motion.predict(at, jerk) {
            self.copy();
        }
    }

    /// Takes the measured speeds, if there are any.
    fn listen(&mut self, detection: &Detection) {
        let Some(doppler) = detection.doppler else { return };
        // A pedestrian who begins to walk may do so in any direction.
        if doppler.moves() && !self.moves && small(self.track.kind) {
            self.motion.doubt_velocity(STARTS);
        }
        self.moves = doppler.moves();
        self.motion.measure_speed(doppler.along, doppler.speeds.x, doppler.noise.x);
        if doppler.noise.y.is_finite() {
            self.motion.measure_speed(doppler.along.perp(), doppler.speeds.y, doppler.noise.y);
        }
    }

    /// Can the detection not be of this object, as it moves otherwise?
    fn strange(&self, detection: &Detection) -> bool {
        let Some(doppler) = detection.doppler else { return false };
        let Doppler { along, speeds, noise } = doppler;
        let expected = self.track.velocity.dot(along);
        let spread = (along.dot(self.track.doubt * along) + noise.x.powi(2)).sqrt();
        let apart = (speeds.x - expected).abs();
        let walks = doppler.moves() && detection.rectangle.length < LONG / 2.0;
        let parked = !small(self.track.kind) && !self.moves && expected.abs() < 0.1;
        let much: f64 = if small(self.track.kind) { 0.25 } else { 2.0 };
        apart > much.max(4.0 * spread) || walks && parked
    }

    /// Was it seen later or, if not, known earlier?
    fn replaces(&self, other: &Object) -> bool {
        let (one, other) = (&self.track, &other.track);
        one.at > other.at || one.at == other.at && one.id < other.id
    }

    /// Distance of the detection from the expected place, m: between the two rectangles' centres,
    /// less the distance that the object hides of itself; infinite if it moves otherwise.
    fn distance(&self, detection: &Detection) -> f64 {
        let pose = self.track.pose;
        let local = pose.local(detection.rectangle.pose.position).abs();
        let half = DVec2::new(self.track.length, self.track.width) / 2.0;
        let inside = local.min(half);
        let far = (local - inside).length() + 0.25 * inside.length();
        if self.strange(detection) { f64::INFINITY } else { far }
    }

    /// Do both drive, and alike?
    fn drives_as(&self, detection: &Detection) -> bool {
        detection.doppler.is_some_and(|doppler| {
            let expected = self.track.velocity.dot(doppler.along);
            expected.abs() > DRIVES && (expected - doppler.speeds.x).abs() < ALIKE / 4.0
        })
    }

    /// Returns true if the point is within the vehicle, or outside by at most this distance, m.
    fn covers(&self, point: DVec2, nearly: f64) -> bool {
        let local = self.track.pose.local(point).abs();
        let half = DVec2::new(self.track.length, self.track.width) / 2.0 + nearly;
        !small(self.track.kind) && local.cmple(half).all()
    }

    fn measure(&mut self, at: f64, from: Pose, detection: &Detection, noise: f64) {
        // It always was as large as it is now known to be, and looked there.
        let (believed, _) = place(&self.track, from, detection);
        self.align(&detection.rectangle);
        grow(&mut self.track, detection);
        let (measured, known) = place(&self.track, from, detection);
        self.motion.shift(measured - believed);
        self.listen(detection);
        let axes = [self.track.pose.forward(), self.track.pose.left()];
        for (axis, known) in axes.into_iter().zip(known) {
            if known.is_finite() {
                self.motion.measure_place(axis, axis.dot(measured), known * noise);
            }
        }
        self.track.seen += 1;
        self.track.at = at;
        self.copy();
        // An object that turns about its seen end does not move aside by that.
        let (before, _) = place(&self.track, from, detection);
        self.turn();
        let (after, _) = place(&self.track, from, detection);
        self.motion.shift(after - before);
        self.copy();
        self.classify(detection.class);
    }

    fn copy(&mut self) {
        self.track.pose.position = self.motion.position();
        self.track.velocity = self.motion.velocity();
        self.track.acceleration = self.motion.acceleration();
        self.track.doubt = self.motion.doubt();
    }

    /// A vehicle looks along its long side, once that is seen.
    fn align(&mut self, seen: &Rectangle) {
        if small(self.track.kind) || seen.length < LONG {
            return;
        }
        let turn = wrapped(seen.pose.heading - self.track.pose.heading);
        let turn = if turn.abs() > FRAC_PI_2 { wrapped(turn + PI) } else { turn };
        if self.moved && self.track.velocity.length() > 1.0 {
            // It cannot turn by much from frame to frame, but its direction is seen earlier there
            // than in its velocity.
            if turn.abs() < 0.3 && seen.width > 0.5 {
                self.track.pose.heading = wrapped(self.track.pose.heading + 0.5 * turn);
            }
            return;
        }
        if turn.abs() > 0.2 {
            (self.track.length, self.track.width) = (seen.length.max(4.5), seen.width.max(1.8));
        }
        self.track.pose.heading = wrapped(self.track.pose.heading + turn);
    }

    /// Once it clearly moves, an object looks where it goes.
    fn turn(&mut self) {
        let speed = self.track.velocity.length();
        let least = if small(self.track.kind) { 0.5 } else { 2.5 };
        if speed < least || self.track.uncertainty() > TURNS * speed {
            return;
        }
        let turn = wrapped(self.track.velocity.to_angle() - self.track.pose.heading);
        let bare = small(self.track.kind);
        if bare && !self.moved {
            // The former side may be the front.
            if turn.sin().abs() > turn.cos().abs() {
                (self.track.length, self.track.width) = (self.track.width, self.track.length);
            }
            self.track.pose.heading = wrapped(self.track.pose.heading + turn);
        } else {
            // A vehicle's direction is better known than that of its velocity is at first.
            let flip = turn.abs() > FRAC_PI_2 && !bare;
            let gain = if self.moved { 0.5 } else { 0.2 };
            let turn = if flip { wrapped(turn + PI) } else { turn };
            let back = if flip { PI } else { 0.0 };
            self.track.pose.heading = wrapped(self.track.pose.heading + back + gain * turn);
        }
        self.moved = true;
    }

    fn classify(&mut self, class: Option<Kind>) {
        if let Some(kind) = class {
            self.track.kind = kind;
            return;
        }
        let (one, other) = (self.track.length, self.track.width);
        let (length, width) = (one.max(other), one.min(other));
        let speed = self.track.velocity.length();
        self.track.kind = match (length, width) {
            (6.0.., _) => Kind::Truck,
            (2.6.., _) | (_, 1.2..) => Kind::Car,
            _ if length > 1.1 || self.track.seen > 5 && speed > 3.5 => Kind::Cyclist,
            _ => Kind::Pedestrian,
        };
    }
}

/// Distance beside a lane up to which cars are parked along it, m.
const KERB: f64 = 3.0;

/// Distance outside up to which something may be a part of a vehicle; if it drives as that does, m.
const NEARLY: f64 = 0.1;
const AROUND: f64 = 1.5;
/// Speed above which an object drives; largest difference between the speeds of its parts, m/s.
const DRIVES: f64 = 2.5;
const ALIKE: f64 = 2.0;

/// Length above which an object is the side of a vehicle, m.
const LONG: f64 = 2.6;

/// Time to keep an object, for each frame but the first in which it was seen, s.
const KEEP: f64 = 0.11;

/// Speed of an object that has just begun to move: standard deviation, m/s.
const STARTS: f64 = 1.5;

/// A velocity this uncertain, as a share of itself, has no direction.
const TURNS: f64 = 0.15;

fn small(kind: Kind) -> bool {
    matches!(kind, Kind::Pedestrian | Kind::Cyclist)
}

/// Returns true if it is as low as a car, and too low for a pedestrian. Only near the sensor do its
/// rows tell.
fn part_of_car(detection: &Detection, from: Pose) -> bool {
    const NEAR: f64 = 25.0;
    const LOW: f64 = 1.53;
    let distance = detection.rectangle.pose.position.distance(from.position);
    distance < NEAR && detection.height < LOW && detection.rectangle.length < LONG
}

/// Returns true if it is faster than a pedestrian or cyclist. However little of it is seen, it is a
/// vehicle.
fn rushes(detection: &Detection) -> bool {
    const RUSHES: f64 = 8.0;
    detection.doppler.is_some_and(|doppler| doppler.speeds.x.abs() > RUSHES)
}

impl Detection {
    /// Kind that it is taken for when it is seen first: by the network if that answered, else by
    /// its dimensions.
    pub fn kind(&self) -> Kind {
        kind_by_size(self).0
    }
}

/// Kind that an object of which this is seen is taken for, with its assumed length and width, m.
fn kind_by_size(detection: &Detection) -> (Kind, f64, f64) {
    let (length, width) = (detection.rectangle.length, detection.rectangle.width);
    if let Some(kind) = detection.class {
        let least = least_size(kind);
        return (kind, length.max(least.x), width.max(least.y));
    }
    match (length, width) {
        (6.0.., _) => (Kind::Truck, length, width.max(2.5)),
        (2.1.., _) | (_, 1.2..) if detection.height > 2.2 => (Kind::Truck, length.max(10.0), 2.5),
        (2.1.., _) => (Kind::Car, length.max(4.5), width.max(1.8)),
        (1.3.., _) if detection.height <= 1.6 => (Kind::Car, 4.5, length.max(1.8)),
        (1.1.., _) => (Kind::Cyclist, length.max(1.8), width.max(0.6)),
        _ => (Kind::Pedestrian, length.max(0.5), width.max(0.5)),
    }
}

/// The least length and width that what is of a class is taken to have, m.
fn least_size(kind: Kind) -> DVec2 {
    match kind {
        Kind::Car | Kind::Obstacle => DVec2::new(4.5, 1.8),
        Kind::Truck => DVec2::new(10.0, 2.5),
        Kind::Cyclist => DVec2::new(1.8, 0.6),
        Kind::Pedestrian => DVec2::new(0.5, 0.5),
    }
}

/// A vehicle in a lane looks along it, unless what is seen of it says otherwise; another one looks
/// along what is seen. And how fast it may move aside for all that: standard deviation, m/s.
fn first_heading(detection: &Detection, kind: Kind, road: &Road) -> (f64, f64) {
    let pose = detection.rectangle.pose;
    let ends = [0.0, FRAC_PI_2, PI, -FRAC_PI_2]
        .map(|turn| Pose { position: pose.position, heading: wrapped(pose.heading + turn) });
    // A short side is the front or the rear.
    let long = detection.rectangle.length > LONG || small(kind);
    let across = wrapped(pose.heading + if long { 0.0 } else { FRAC_PI_2 });
    // In a lane, and elsewhere.
    let aside = if long { (1.0, 1.0) } else { (4.0, 12.0) };
    let sides = if long { vec![ends[0], ends[2]] } else { ends.into() };
    let aligned = |pose: &Pose| -> Option<(f64, f64)> {
        let lanes = lanes_at(road, *pose, KERB);
        let direction =
            |(lane, offset): (LaneId, Offset)| road.lane(lane).line.pose(offset.along).heading;
        let turn = |heading: f64| (wrapped(pose.heading - heading).abs(), heading);
        lanes.into_iter().map(direction).map(turn).min_by(|one, other| one.0.total_cmp(&other.0))
    };
    let nearest = sides.iter().filter_map(aligned).min_by(|one, other| one.0.total_cmp(&other.0));
    match nearest {
        Some((turn, heading)) if turn < 0.35 && !small(kind) => (heading, aside.0),
        _ => (across, aside.1),
    }
}

/// An object is at least as large as what is seen of it.
fn grow(track: &mut Track, detection: &Detection) {
    let (low, high) = extent(detection.hull.iter().copied(), track.pose.heading);
    let size = high - low;
    // No vehicle is wider than 2.6 m, and a car is not as wide as that.
    let most = match track.kind {
        Kind::Pedestrian | Kind::Cyclist => DVec2::splat(2.6),
        Kind::Truck => DVec2::new(18.0, 2.6),
        Kind::Car | Kind::Obstacle => DVec2::new(18.0, 2.1),
    };
    track.length = track.length.max(size.x.min(most.x));
    track.width = track.width.max(size.y.min(most.y));
}

/// Centre of an object of which this is seen, and its uncertainty along it and across: so many
/// times more than of one that is seen well; infinite if it is not known.
fn place(track: &Track, from: Pose, detection: &Detection) -> (DVec2, [f64; 2]) {
    let turned = |point: DVec2| DVec2::from_angle(-track.pose.heading).rotate(point);
    let (low, high) = extent(detection.hull.iter().copied(), track.pose.heading);
    let (sensor, expected) = (turned(from.position), turned(track.pose.position));
    let sight = turned(detection.rectangle.pose.position) - sensor;
    let left = sight.normalize_or(DVec2::X).perp();
    let axis = |of: fn(DVec2) -> f64, whole: f64| {
        // Along the line of sight nothing is hidden but by itself.
        let hidden = match of(left) {
            ACROSS.. => (detection.hidden.1, detection.hidden.0),
            ..MIRRORED => detection.hidden,
            _ => (false, false),
        };
        let expected = (track.seen > 1).then_some(of(expected));
        Seen { low: of(low), high: of(high), hidden, expected }.centre(of(sensor), whole)
    };
    let x = axis(|point| point.x, track.length);
    let y = axis(|point| point.y, track.width);
    let centre = DVec2::from_angle(track.pose.heading).rotate(DVec2::new(x.0, y.0));
    (centre, [x.1, y.1])
}

/// The least sine between an axis and the line of sight whose ends lie to the left and right.
const ACROSS: f64 = 0.3;
const MIRRORED: f64 = -ACROSS;

/// Seen part of an object along one axis.
struct Seen {
    low: f64,
    high: f64,
    /// May it go on beyond these ends?
    hidden: (bool, bool),
    /// Expected place of its centre, if it is known.
    expected: Option<f64>,
}

impl Seen {
    /// The centre of what is `whole` m long. An end that the sensor looks at is its own, unless
    /// something hides it. With a hidden end, all is right that covers what is seen; then it is
    /// where it should be, and that is not known.
    fn centre(&self, sensor: f64, whole: f64) -> (f64, f64) {
        // It may be longer than it is known to be.
        const VAGUE: f64 = 8.0;
        let Seen { low, high, hidden, expected } = *self;
        if sensor < low && !hidden.0 {
            return (low + whole / 2.0, 1.0);
        }
        if sensor > high && !hidden.1 {
            return (high - whole / 2.0, 1.0);
        }
        let (least, most) = (high - whole / 2.0, low + whole / 2.0);
        match (hidden, expected) {
            ((false, false), _) | (_, None) if hidden.0 == hidden.1 => ((low + high) / 2.0, 1.0),
            (_, Some(expected)) if least < most => {
                let centre = expected.clamp(least, most);
                (centre, if centre == expected { f64::INFINITY } else { VAGUE })
            }
            ((true, _), _) => (least, VAGUE),
            _ => (most, VAGUE),
        }
    }
}

#[cfg(test)]
mod track_tests;
