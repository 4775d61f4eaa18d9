//! Roads from an OpenDRIVE file, and places on them.

use super::check::NoWorld;
use super::read::absolute;
use crate::line::Line;
use crate::opendrive::{self, Map, Origin};
use crate::road::{Lane, LaneId, Road};
use crate::route::Route;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Distance from the beginning of a junction to where people and parked cars beside the road may
/// be, m.
const CORNER: f64 = 15.0;

/// Roads of an OpenDRIVE file, and the way of the ego over them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenDrive {
    /// Path in a scenario's file, relative to it; absolute once it is read.
    pub file: PathBuf,
    /// The lane with whose beginning the ego's route begins.
    pub from: Place,
    /// Roads that the ego comes to after that, in this order. Between them it takes the way over the
    /// fewest lanes, after the last one it goes straight ahead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// Content of the file.
    #[serde(skip)]
    map: Option<Arc<Map>>,
}

/// A lane of an OpenDRIVE file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The road's id.
    pub road: String,
    /// The lane's id: below 0 along the road's reference line, above 0 against it.
    pub lane: i32,
    /// The lane section, from 0; none: the one in which the lane begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "lane {} of road {:?}", self.lane, self.road)?;
        self.section.map_or(Ok(()), |section| write!(formatter, ", section {section}"))
    }
}

impl Place {
    /// The lane of this name.
    pub fn find(&self, map: &Map) -> Option<LaneId> {
        let is = |it: &Origin| {
            let section = self.section.is_none_or(|section| section == it.section);
            it.road == self.road && it.lane == self.lane && section
        };
        let lanes = map.origins.iter().enumerate().filter(|(_, origin)| is(origin));
        // Lanes against the reference line begin in the last section.
        let first = lanes.min_by_key(|(_, it)| it.section as i64 * -i64::from(self.lane.signum()));
        first.map(|(index, _)| LaneId(index))
    }
}

impl OpenDrive {
    /// Reads the file, which `folder` is the place of.
    pub(crate) fn load(&mut self, folder: &Path) -> Result<(), opendrive::Error> {
        self.file = absolute(folder, &self.file);
        self.map = Some(Arc::new(opendrive::read(&self.file)?));
        Ok(())
    }

    /// Content of the file; None before it is read.
    pub fn map(&self) -> Option<&Map> {
        self.map.as_deref()
    }

    /// The lane with which the ego's route begins.
    pub(crate) fn first(&self) -> Option<&Lane> {
        let map = self.map()?;
        Some(map.road.lane(self.from.find(map)?))
    }

    /// Lanes in the ego's direction where its route begins.
    pub(crate) fn lanes(&self) -> usize {
        let Some(map) = self.map() else { return 0 };
        let beside = |side: fn(&Lane) -> Option<LaneId>| {
            let next = move |lane: &&Lane| side(lane).map(|id| map.road.lane(id));
            std::iter::successors(self.first(), next).count()
        };
        (beside(|lane| lane.left) + beside(|lane| lane.right)).saturating_sub(1)
    }

    /// The ego's route.
    ///
    /// # Errors
    /// With the key, what was found, and what was expected.
    pub(crate) fn route(&self) -> Result<Route, NoWorld> {
        let no = |key: &str, found: String, expected: &'static str| NoWorld::Value {
            key: format!("road.opendrive.{key}"),
            found,
            expected,
        };
        let unread = || no("file", "a file that was not read".to_owned(), "Scenario::read");
        let map = self.map().ok_or_else(unread)?;
        let lane = || no("from", self.from.to_string(), "a drivable lane of the file");
        let mut lanes = vec![self.from.find(map).ok_or_else(lane)?];
        let mut driven: BTreeSet<LaneId> = lanes.iter().copied().collect();
        for (index, road) in self.via.iter().enumerate() {
            let end = lanes[lanes.len() - 1];
            let way =
                way(map, end, road).filter(|way| way[1..].iter().all(|it| driven.insert(*it)));
            let expected = "a road that is reached from the one before without a change of lanes, \
                            and over no lane twice";
            let way = way.ok_or_else(|| no(&format!("via[{index}]"), road.clone(), expected))?;
            lanes.extend(&way[1..]);
        }
        Route::over(&map.road, &ahead(&map.road, lanes)).ok_or_else(lane)
    }

    /// The places on a lane and on those that are straight ahead of it.
    pub(crate) fn line(&self, place: &Place) -> Option<Line> {
        let map = self.map()?;
        let way = Route::over(&map.road, &ahead(&map.road, vec![place.find(map)?]));
        way.map(|way| way.line().clone())
    }

    /// Returns true for a lane in a junction.
    pub(crate) fn in_junction(&self, lane: LaneId) -> bool {
        self.map().is_some_and(|map| map.origins[lane.0].in_junction)
    }

    /// Length of the route that is free of junctions from its beginning on, m.
    pub(crate) fn free(&self, route: &Route) -> f64 {
        let junction = route.lanes().iter().find(|(_, lane)| self.in_junction(*lane));
        junction.map_or(route.line().length(), |(start, _)| start - CORNER)
    }

    /// The right edge of the road where the ego starts, m to the left of its lane.
    pub(crate) fn kerb(&self) -> f64 {
        let Some((map, first)) = self.map().zip(self.first()) else { return 0.0 };
        let right = std::iter::successors(first.right, |id| map.road.lane(*id).right);
        let beside: f64 = right.map(|id| map.road.lane(id).width).sum();
        -first.width / 2.0 - beside
    }

    /// The width of all lanes, in both directions, where the ego starts, m.
    pub(crate) fn width(&self) -> f64 {
        let Some((map, first)) = self.map().and_then(|map| Some((map, self.from.find(map)?)))
        else {
            return 0.0;
        };
        let here = &map.origins[first.0];
        let beside = |it: &&Origin| it.road == here.road && it.section == here.section;
        let lanes = map.origins.iter().zip(map.road.lanes()).filter(|(it, _)| beside(it));
        lanes.map(|(_, (_, lane))| lane.width).sum()
    }
}

/// The fewest lanes from one to the first of a road, without a change of lanes.
fn way(map: &Map, from: LaneId, road: &str) -> Option<Vec<LaneId>> {
    let mut before = vec![None; map.origins.len()];
    let mut open = VecDeque::from([from]);
    let mut found = (map.origins[from.0].road == road).then_some(from);
    while let Some(lane) = open.pop_front().filter(|_| found.is_none()) {
        for next in &map.road.lane(lane).next {
            if *next == from || before[next.0].is_some() {
                continue;
            }
            before[next.0] = Some(lane);
            if map.origins[next.0].road == road {
                found = found.or(Some(*next));
            }
            open.push_back(*next);
        }
    }
    let mut way: Vec<LaneId> = std::iter::successors(found, |lane| before[lane.0]).collect();
    way.reverse();
    (!way.is_empty()).then_some(way)
}

/// Lanes straight ahead to the end of the roads, but over no lane twice.
fn ahead(road: &Road, mut lanes: Vec<LaneId>) -> Vec<LaneId> {
    let mut driven: BTreeSet<LaneId> = lanes.iter().copied().collect();
    while let Some(next) = road.lane(lanes[lanes.len() - 1]).next.first() {
        if !driven.insert(*next) {
            break;
        }
        lanes.push(*next);
    }
    lanes
}
