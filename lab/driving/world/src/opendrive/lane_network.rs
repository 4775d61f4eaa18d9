//! Lanes and what one can go on to from each of them.

use super::document::{Connection, Document, LaneElement, Link, Place};
use super::lanes::{Excess, lay};
use super::{Error, MAX_POINTS, MAX_STEPS, Map, Origin, Work};
use crate::geometry::wrapped;
use crate::line::Line;
use crate::road::{Lane, LaneId, Road};
use std::collections::{BTreeMap, BTreeSet};

/// A lane of the file: its road (by index), section and id.
type Key = (usize, usize, i32);

struct Network<'a> {
    document: &'a Document<'a>,
    /// Roads by id.
    roads: BTreeMap<&'a str, usize>,
    lanes: Vec<Lane>,
    keys: Vec<Key>,
    ids: BTreeMap<Key, LaneId>,
    /// Connections by junction and incoming road.
    connections: BTreeMap<(&'a str, &'a str), Vec<&'a Connection>>,
    work: Work,
}

/// Lays all lanes and connects them.
pub(super) fn build(document: &Document) -> Result<Map, Error> {
    let mut network = Network {
        document,
        roads: BTreeMap::new(),
        lanes: Vec::new(),
        keys: Vec::new(),
        ids: BTreeMap::new(),
        connections: BTreeMap::new(),
        work: Work::new(),
    };
    for (id, junction) in &document.junctions {
        for connection in &junction.connections {
            let key = (id.as_str(), connection.incoming.as_str());
            network.connections.entry(key).or_default().push(connection);
        }
    }
    for (index, road) in document.roads.iter().enumerate() {
        if network.roads.insert(&road.id, index).is_some() {
            let expected = "an id that no other road has";
            return Err(document.place(road.at).refuse("road id", &road.id, expected));
        }
    }
    network.lay()?;
    network.neighbours();
    network.connect()?;
    network.priorities()?;
    let origin = |&(road, section, lane): &Key| {
        let road = &document.roads[road];
        Origin { road: road.id.clone(), section, lane, in_junction: road.in_junction }
    };
    let origins = network.keys.iter().map(origin).collect();
    let refuse = |error: crate::RoadError| {
        let expected = "a road of drivable lanes";
        document.place(0).refuse("OpenDRIVE", error, expected)
    };
    let steps = network.work.done();
    Ok(Map { road: Road::new(network.lanes).map_err(refuse)?, origins, steps })
}

impl Network<'_> {
    fn lay(&mut self) -> Result<(), Error> {
        let mut left = MAX_POINTS;
        for (index, road) in self.document.roads.iter().enumerate() {
            for (section, it) in road.sections.iter().enumerate() {
                for lane in it.lanes().iter().filter(|lane| lane.drivable) {
                    let place = self.document.place(lane.at);
                    let laid = lay(road, section, lane.id, left, &mut self.work);
                    let Some(laid) = laid.map_err(|excess| refusal(place, excess))? else {
                        continue;
                    };
                    left -= laid.points.len();
                    let refuse = || place.refuse("lane", "a point", "a way from one to another");
                    let line = Line::new(laid.points).ok_or_else(refuse)?;
                    let key = (index, section, lane.id);
                    self.ids.insert(key, LaneId(self.lanes.len()));
                    self.keys.push(key);
                    self.lanes.push(Lane::new(line, laid.width, lane.limit));
                }
            }
        }
        Ok(())
    }

    /// Counts work that an element of the file makes.
    fn take(work: &mut Work, steps: usize, place: Place) -> Result<(), Error> {
        work.take(steps).ok_or_else(|| refusal(place, Excess::Work))
    }

    /// Lanes beside each other in a section; inside of a junction vehicles do not change lanes.
    fn neighbours(&mut self) {
        for (lane, (road, section, id)) in self.keys.iter().enumerate() {
            if self.document.roads[*road].in_junction {
                continue;
            }
            let beside = |step: i32| self.ids.get(&(*road, *section, id + step)).copied();
            let outwards = id.signum();
            // The neighbour on the other side of the middle drives the other way.
            self.lanes[lane].left = if id.abs() > 1 { beside(-outwards) } else { None };
            self.lanes[lane].right = beside(outwards);
        }
    }

    fn connect(&mut self) -> Result<(), Error> {
        for lane in 0..self.keys.len() {
            let mut next = Vec::new();
            let ahead = self.ahead(self.keys[lane])?;
            for key in ahead {
                next.extend(self.ids.get(&key));
            }
            next.sort_unstable();
            next.dedup();
            let end = heading_at_end(&self.lanes[lane].line);
            let turn = |id: &LaneId| wrapped(heading_at_end(&self.lanes[id.0].line) - end).abs();
            next.sort_by(|one, other| turn(one).total_cmp(&turn(other)));
            self.lanes[lane].next = next;
        }
        Ok(())
    }

    /// The lanes that a lane leads to.
    fn ahead(&mut self, (road, section, id): Key) -> Result<Vec<Key>, Error> {
        let document = self.document;
        let element = &document.roads[road];
        let it = element.sections[section].lane(id);
        let place = |it: Option<&LaneElement>| document.place(it.map_or(element.at, |it| it.at));
        let forward = id < 0;
        let linked = it.and_then(|it| if forward { it.successor } else { it.predecessor });
        let inside = if forward { Some(section + 1) } else { section.checked_sub(1) };
        if let Some(other) = inside.filter(|other| *other < element.sections.len()) {
            let Some(to) = linked else { return Ok(Vec::new()) };
            if element.sections[other].lane(to).is_none() || (to < 0) != forward {
                let expected = "a lane of the next section in the same direction";
                return Err(place(it).refuse("lane link", to, expected));
            }
            return Ok(vec![(road, other, to)]);
        }
        let link = if forward { &element.successor } else { &element.predecessor };
        match (link, linked) {
            (Some(Link::Road { id: next, at_end }), Some(to)) => {
                Ok(vec![self.enter(next, *at_end, to, place(it))?])
            }
            (Some(Link::Junction { id: junction }), _) => {
                if !document.junctions.contains_key(junction) {
                    return Err(place(None).refuse("road link", junction, "a junction's id"));
                }
                let own = self.connections.get(&(junction.as_str(), element.id.as_str()));
                let mut keys = Vec::new();
                for connection in own.into_iter().flatten() {
                    let place = document.place(connection.at);
                    Self::take(&mut self.work, 1 + connection.lanes.len(), place)?;
                    for (_, to) in connection.lanes.iter().filter(|(from, _)| *from == id) {
                        keys.push(self.enter(
                            &connection.connecting,
                            connection.at_end,
                            *to,
                            place,
                        )?);
                    }
                }
                Ok(keys)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// A lane that one comes into at an end of a road.
    fn enter(&self, id: &str, at_end: bool, to: i32, place: Place) -> Result<Key, Error> {
        let refuse = || place.refuse("link", format!("road {id:?}"), "the id of a road");
        let road = *self.roads.get(id).ok_or_else(refuse)?;
        let element = &self.document.roads[road];
        let section = if at_end { element.sections.len() - 1 } else { 0 };
        if element.sections[section].lane(to).is_none() || (to > 0) != at_end {
            let end = if at_end { "end" } else { "start" };
            let expected = format!("a lane that leads away from the {end} of road {id:?}");
            return Err(place.refuse("link", format!("lane {to}"), &expected));
        }
        Ok((road, section, to))
    }

    /// Lanes of roads that wait, and those that they wait for.
    fn priorities(&mut self) -> Result<(), Error> {
        let of_road = |id: &str| {
            let road = self.roads.get(id).copied();
            road.map(|road| self.ids.range((road, 0, i32::MIN)..(road + 1, 0, i32::MIN)))
        };
        let mut waits = BTreeSet::new();
        for (id, junction) in &self.document.junctions {
            for (high, low) in &junction.priorities {
                let place = self.document.place(0);
                let element = format!("junction {id:?} priority");
                let refuse = |road: &str| {
                    let found = format!("road {road:?}");
                    place.refuse(&element, found, "the id of a road")
                };
                let first = of_road(high).ok_or_else(|| refuse(high))?;
                for (_, waiting) in of_road(low).ok_or_else(|| refuse(low))? {
                    // Each pair costs as much as a few looks.
                    Self::take(&mut self.work, 8 * (1 + first.clone().count()), place)?;
                    waits.extend(first.clone().map(|(_, first)| (*waiting, *first)));
                    if waits.len() > MAX_POINTS {
                        let expected = format!("at most {MAX_POINTS} pairs of lanes");
                        return Err(place.refuse(&element, "more", &expected));
                    }
                }
            }
        }
        for (waiting, first) in waits {
            self.lanes[waiting.0].yields_to.push(first);
        }
        Ok(())
    }
}

/// Error that refuses the file at the element with the excess.
fn refusal(place: Place, excess: Excess) -> Error {
    match excess {
        Excess::Points => {
            let found = format!("more than {MAX_POINTS} points up to here");
            place.refuse("lane", found, "shorter roads, or fewer")
        }
        Excess::Work => {
            let found = format!("more than {MAX_STEPS} steps of work up to here");
            place.refuse("element", found, "fewer lanes beside each other, records or links")
        }
        Excess::Width(width, along) => {
            let found = format!("{width:.1} m at {along:.1} m along the road");
            place.refuse("lane width", found, "a width of at most 100 m")
        }
        Excess::Place(point) => {
            let found = format!("a point at {:e}, {:e}", point.x, point.y);
            place.refuse("lane", found, "points within 2e6 m of the origin")
        }
    }
}

fn heading_at_end(line: &Line) -> f64 {
    line.pose(line.length()).heading
}
