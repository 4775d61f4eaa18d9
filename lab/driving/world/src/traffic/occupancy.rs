//! Bodies on each lane, in order, as drivers see them when they look around.

use super::model::Ahead;
use crate::body::Body;
use crate::road::{Lane, LaneId, Road};

/// Distance that drivers look ahead, m.
const LOOK: f64 = 150.0;
/// The share of a lane's width in which one is in the way of its traffic.
const CORRIDOR: f64 = 0.8;

/// A body on a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Occupant {
    pub(crate) id: u32,
    /// Distance of its centre from the lane's beginning, m.
    pub(crate) along: f64,
    /// Half of what it takes of the lane's length, m.
    pub(crate) half: f64,
    /// Along the lane, m/s.
    pub(crate) speed: f64,
}

/// The occupants of each lane, sorted by their place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occupancy {
    lanes: Vec<Vec<Occupant>>,
    /// Corners of each lane's bounding box, wider by a half lane and a body.
    boxes: Vec<[glam::DVec2; 2]>,
}

impl Occupancy {
    pub(crate) fn new(road: &Road) -> Occupancy {
        let around = |lane: &Lane| {
            let points = lane.line.points();
            let low = points.iter().copied().reduce(glam::DVec2::min).unwrap_or_default();
            let high = points.iter().copied().reduce(glam::DVec2::max).unwrap_or_default();
            let margin = glam::DVec2::splat(lane.width / 2.0 + 6.0);
            [low - margin, high + margin]
        };
        let boxes = road.lanes().map(|(_, lane)| around(lane)).collect();
        Occupancy { lanes: vec![Vec::new(); road.lanes().len()], boxes }
    }

    pub(crate) fn clear(&mut self) {
        self.lanes.iter_mut().for_each(Vec::clear);
    }

    pub(crate) fn sort(&mut self) {
        let order = |one: &Occupant, other: &Occupant| {
            one.along.total_cmp(&other.along).then(one.id.cmp(&other.id))
        };
        self.lanes.iter_mut().for_each(|lane| lane.sort_unstable_by(order));
    }

    /// A body that is in the middle of this lane and nowhere else.
    pub(crate) fn put(&mut self, lane: LaneId, occupant: Occupant) {
        self.lanes[lane.0].push(occupant);
    }

    /// A body wherever it is.
    pub(crate) fn find(&mut self, road: &Road, body: &Body) {
        let place = body.pose.position;
        for (id, lane) in road.lanes() {
            let [low, high] = self.boxes[id.0];
            if place.cmplt(low).any() || place.cmpgt(high).any() {
                continue;
            }
            let offset = lane.line.offset(place);
            let direction = lane.line.pose(offset.along);
            let (ahead, aside) = (direction.forward(), body.pose.forward());
            let (cos, sin) = (ahead.dot(aside), ahead.perp_dot(aside));
            let half = (cos.abs() * body.length + sin.abs() * body.width) / 2.0;
            let across = (sin.abs() * body.length + cos.abs() * body.width) / 2.0;
            let beside = offset.left.abs() - across > CORRIDOR * lane.width / 2.0;
            if beside || offset.along < -half || offset.along > lane.line.length() + half {
                continue;
            }
            let (along, speed) = (offset.along, body.speed * cos);
            self.put(id, Occupant { id: body.id, along, half, speed });
        }
    }

    /// The first one on a lane beyond `along` m that is not `id`.
    pub(crate) fn next(&self, lane: LaneId, along: f64, id: u32) -> Option<&Occupant> {
        let lane = &self.lanes[lane.0];
        let from = lane.partition_point(|other| other.along <= along);
        lane[from..].iter().find(|other| other.id != id)
    }

    /// The last one on a lane before `along` m that is not `id`.
    pub(crate) fn previous(&self, lane: LaneId, along: f64, id: u32) -> Option<&Occupant> {
        let lane = &self.lanes[lane.0];
        let to = lane.partition_point(|other| other.along < along);
        lane[..to].iter().rfind(|other| other.id != id)
    }

    /// All occupants of a lane.
    pub(crate) fn on(&self, lane: LaneId) -> &[Occupant] {
        &self.lanes[lane.0]
    }

    /// Nearest body ahead of `me`, on its lane or on those after it.
    pub(crate) fn ahead(
        &self,
        road: &Road,
        me: &Occupant,
        lane: LaneId,
        next: Option<LaneId>,
    ) -> Option<Ahead> {
        let (mut at, mut following) = (lane, next);
        let (mut from, mut distance) = (me.along, -me.along);
        while distance < LOOK {
            if let Some(other) = self.next(at, from, me.id) {
                let gap = distance + other.along - other.half - me.half;
                return Some(Ahead { gap, speed: other.speed });
            }
            distance += road.lane(at).line.length();
            at = following?;
            following = road.lane(at).next.first().copied();
            from = f64::NEG_INFINITY;
        }
        None
    }
}
