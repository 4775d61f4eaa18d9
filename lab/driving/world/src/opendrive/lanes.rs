//! The lanes of a section, beside the reference line.

use super::Work;
use super::curve::cubic;
use super::document::{Record, RoadElement};
use glam::DVec2;

/// m, between the points of a lane that bends.
const STEP: f64 = 1.0;

/// Smallest mean width of a lane, m.
const NARROWEST: f64 = 0.1;

/// Middle and width of a lane.
pub(super) struct Laid {
    /// Its middle, in the direction of travel.
    pub points: Vec<DVec2>,
    /// Its mean width, m.
    pub width: f64,
}

/// Wider is no lane, m: OpenDRIVE's own parking lots and lanes of borders are below 30 m.
const WIDEST: f64 = 100.0;

/// Largest coordinate that a point of a lane may have, m.
const FARTHEST: f64 = 2e6;

/// Reason for which a lane cannot be laid.
pub(super) enum Excess {
    /// The lane has too many points.
    Points,
    /// Laying it takes more work than there may be.
    Work,
    /// The lane, or a lane between it and the middle, is too wide: its width, m, and where
    /// along its road.
    Width(f64, f64),
    /// The lane has a point that is farther from the origin than places on the Earth are.
    Place(DVec2),
}

/// Lays a lane of a section, with at most so many points; none if it is too narrow to be one.
pub(super) fn lay(
    road: &RoadElement,
    section: usize,
    lane: i32,
    most: usize,
    work: &mut Work,
) -> Result<Option<Laid>, Excess> {
    let places = Beside::new(road, section, lane);
    let stations = places.stations(most, work)?;
    // Each lane between it and the reference line is looked at for its width, and for the middle.
    work.take(3 * stations.len() * (1 + places.widths.len())).ok_or(Excess::Work)?;
    let widest = stations.iter().map(|station| (places.widest(*station), *station));
    if let Some((width, at)) = { widest }.find(|(width, _)| *width > WIDEST) {
        return Err(Excess::Width(width, at));
    }
    let widths: Vec<f64> = stations.iter().map(|station| places.width(*station)).collect();
    let length = places.end - places.start;
    let pieces = stations.windows(2).zip(widths.windows(2));
    let area = |(at, width): (&[f64], &[f64])| (width[0] + width[1]) / 2.0 * (at[1] - at[0]);
    let width = pieces.map(area).sum::<f64>() / length;
    if width < NARROWEST {
        return Ok(None);
    }
    let mut points: Vec<DVec2> = stations.iter().map(|station| places.middle(*station)).collect();
    // None of no number is.
    let is_near = |point: &DVec2| point.abs().max_element() <= FARTHEST;
    if let Some(far) = points.iter().find(|point| !is_near(point)) {
        return Err(Excess::Place(*far));
    }
    if lane > 0 {
        points.reverse();
    }
    Ok(Some(Laid { points, width }))
}

/// Place of a lane beside its road's reference line.
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
        Beside {
            road,
            widths: here.inner(lane).iter().map(|lane| &lane.widths[..]).collect(),
            side: if lane > 0 { 1.0 } else { -1.0 },
            start: here.start,
            end: road.sections.get(section + 1).map_or(road.length, |next| next.start),
        }
    }

    /// The distances along the road at which the lane gets a point, at most `most`.
    fn stations(&self, most: usize, work: &mut Work) -> Result<Vec<f64>, Excess> {
        let geometries = between(&self.road.geometries, |it| it.start, self.start, self.end);
        let offsets = between(&self.road.offsets, |it| it.start, self.start, self.end);
        let length = self.end - self.start;
        let widths = self.widths.iter().map(|records| between(records, |it| it.start, 0.0, length));
        let records: usize = widths.clone().map(<[Record]>::len).sum();
        let all = geometries.len() + offsets.len() + records;
        work.take((1 + all) * (1 + self.widths.len())).ok_or(Excess::Work)?;
        let mut ends = Vec::with_capacity(all + 2);
        ends.extend(geometries.iter().map(|geometry| geometry.start));
        ends.extend(offsets.iter().map(|record| record.start));
        ends.extend(widths.flatten().map(|record| self.start + record.start));
        // Sums may be rounded to the end.
        ends.retain(|at| *at > self.start && *at < self.end);
        ends.extend([self.start, self.end]);
        ends.sort_by(f64::total_cmp);
        ends.dedup();
        let mut stations = vec![self.start];
        for pair in ends.windows(2) {
            let length = pair[1] - pair[0];
            let bends = self.bends((pair[0] + pair[1]) / 2.0);
            let pieces = if bends { (length / STEP).ceil().max(1.0) as usize } else { 1 };
            if stations.len() + pieces > most {
                return Err(Excess::Points);
            }
            let piece = length / pieces as f64;
            stations.extend((1..pieces).map(|index| pair[0] + index as f64 * piece));
            stations.push(pair[1]);
        }
        Ok(stations)
    }

    /// Returns true if the lane is more than a straight line around here.
    fn bends(&self, along: f64) -> bool {
        let curved = |record: Option<&Record>| {
            record.is_some_and(|record| record.coefficients[2..] != [0.0, 0.0])
        };
        let geometries = &self.road.geometries;
        let after = geometries.partition_point(|geometry| geometry.start <= along);
        geometries[..after].last().is_some_and(|geometry| geometry.bends())
            || curved(holding(&self.road.offsets, along))
            || self.widths.iter().any(|widths| curved(holding(widths, along - self.start)))
    }

    /// m.
    fn width(&self, along: f64) -> f64 {
        self.widths.last().map_or(0.0, |widths| value(widths, along - self.start).max(0.0))
    }

    /// Largest width of all lanes from the middle to this one, m.
    fn widest(&self, along: f64) -> f64 {
        let widths = self.widths.iter().map(|widths| value(widths, along - self.start));
        widths.fold(0.0, f64::max)
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

/// Elements of a sorted list that begin between two distances.
fn between<T>(list: &[T], start: impl Fn(&T) -> f64, low: f64, high: f64) -> &[T] {
    let from = list.partition_point(|it| start(it) <= low);
    let to = list.partition_point(|it| start(it) < high).max(from);
    &list[from..to]
}

/// The record that holds at a distance.
fn holding(records: &[Record], along: f64) -> Option<&Record> {
    let after = records.partition_point(|record| record.start <= along);
    records.get(after.checked_sub(1)?)
}

/// Value of the records at a distance; 0 where none holds.
fn value(records: &[Record], along: f64) -> f64 {
    let record = holding(records, along);
    record.map_or(0.0, |record| cubic(&record.coefficients, along - record.start))
}
