//! The lanes of a section, beside the reference line.

use super::curve::cubic;
use super::document::{Record, RoadElement};
use glam::DVec2;

/// m, between the points of a lane that bends.
const STEP: f64 = 1.0;

/// What is narrower on the mean is no lane, m.
const NARROWEST: f64 = 0.1;

/// Where a lane lies.
pub struct Laid {
    /// Its middle, in the direction of travel.
    pub points: Vec<DVec2>,
    /// Its mean width, m.
    pub width: f64,
}

/// Lays a lane of a section. None if it is too narrow to be one, or has more than `most` points;
/// the second is told by the second value.
pub fn lay(road: &RoadElement, section: usize, lane: i32, most: usize) -> (Option<Laid>, bool) {
    let places = Beside::new(road, section, lane);
    let stations = places.stations(most);
    if stations.len() > most {
        return (None, true);
    }
    let length = places.end - places.start;
    let area =
        |pair: &[f64]| (places.width(pair[0]) + places.width(pair[1])) / 2.0 * (pair[1] - pair[0]);
    let width = stations.windows(2).map(area).sum::<f64>() / length;
    if width < NARROWEST {
        return (None, false);
    }
    let mut points: Vec<DVec2> = stations.iter().map(|station| places.middle(*station)).collect();
    if lane > 0 {
        points.reverse();
    }
    (Some(Laid { points, width }), false)
}

/// One lane's place beside its road's reference line.
struct Beside<'a> {
    road: &'a RoadElement,
    /// Its own widths last, those of the lanes between it and the reference line before.
    widths: Vec<&'a [Record]>,
    /// 1 left of the reference line, -1 right of it.
    side: f64,
    start: f64,
    end: f64,
}

impl Beside<'_> {
    fn new(road: &RoadElement, section: usize, lane: i32) -> Beside<'_> {
        let here = &road.sections[section];
        let inner = |id: i32| (id > 0) == (lane > 0) && id.abs() <= lane.abs();
        let lanes = here.lanes.iter().filter(|other| inner(other.id));
        Beside {
            road,
            widths: lanes.map(|lane| &lane.widths[..]).collect(),
            side: if lane > 0 { 1.0 } else { -1.0 },
            start: here.start,
            end: road.sections.get(section + 1).map_or(road.length, |next| next.start),
        }
    }

    /// The distances along the road at which the lane gets a point; stops beyond `most`.
    fn stations(&self, most: usize) -> Vec<f64> {
        let geometries = self.road.geometries.iter().map(|geometry| geometry.start);
        let offsets = self.road.offsets.iter().map(|record| record.start);
        let widths = self.widths.iter().copied().flatten().map(|it| self.start + it.start);
        let inside = |at: &f64| *at > self.start && *at < self.end;
        let mut ends: Vec<f64> = geometries.chain(offsets).chain(widths).filter(inside).collect();
        ends.extend([self.start, self.end]);
        ends.sort_by(f64::total_cmp);
        ends.dedup();
        let mut stations = vec![self.start];
        for pair in ends.windows(2) {
            let length = pair[1] - pair[0];
            let bends = self.bends((pair[0] + pair[1]) / 2.0);
            let pieces = if bends { (length / STEP).ceil().max(1.0) as usize } else { 1 };
            if stations.len() + pieces > most {
                stations.resize(most + 1, self.end);
                break;
            }
            let piece = length / pieces as f64;
            stations.extend((1..pieces).map(|index| pair[0] + index as f64 * piece));
            stations.push(pair[1]);
        }
        stations
    }

    /// Is the lane more than a straight line around here?
    fn bends(&self, along: f64) -> bool {
        let curved = |record: Option<&Record>| {
            record.is_some_and(|record| record.coefficients[2..] != [0.0, 0.0])
        };
        let geometry = self.road.geometries.iter().rfind(|geometry| geometry.start <= along);
        geometry.is_some_and(|geometry| geometry.bends())
            || curved(holding(&self.road.offsets, along))
            || self.widths.iter().any(|widths| curved(holding(widths, along - self.start)))
    }

    /// m.
    fn width(&self, along: f64) -> f64 {
        self.widths.last().map_or(0.0, |widths| value(widths, along - self.start).max(0.0))
    }

    fn middle(&self, along: f64) -> DVec2 {
        let all: f64 =
            self.widths.iter().map(|widths| value(widths, along - self.start).max(0.0)).sum();
        let beside = self.side * (all - self.width(along) / 2.0);
        let left = value(&self.road.offsets, along) + beside;
        let geometries = &self.road.geometries;
        let index = geometries.partition_point(|geometry| geometry.start <= along).max(1) - 1;
        let geometry = &geometries[index];
        let within = (along - geometry.start).clamp(0.0, geometry.length);
        geometry.at(within).point(0.0, left)
    }
}

/// The record that holds at a distance.
fn holding(records: &[Record], along: f64) -> Option<&Record> {
    let after = records.partition_point(|record| record.start <= along);
    records.get(after.checked_sub(1)?)
}

/// What it says there; 0 where none holds.
fn value(records: &[Record], along: f64) -> f64 {
    let record = holding(records, along);
    record.map_or(0.0, |record| cubic(&record.coefficients, along - record.start))
}
