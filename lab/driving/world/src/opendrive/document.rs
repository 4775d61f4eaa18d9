//! Plain values read from XML, each of them checked.

use super::curve::{Geometry, Shape, Spiral};
use super::{DEFAULT_LIMIT, Error, scan};
use crate::geometry::Pose;
use roxmltree::{Node, ParsingOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// More elements than any file of the subset has.
const MAX_NODES: u32 = 2_000_000;

/// More than all roads of a file are long, m: it bounds what is kept of spirals.
const MAX_METRES: f64 = 1e6;

/// m, and m of a coordinate.
const SIZE: RangeInclusive<f64> = -1e6..=1e6;

/// An OpenDRIVE file.
pub(super) struct Document<'a> {
    file: &'a str,
    text: &'a str,
    /// Roads in the file's order.
    pub roads: Vec<RoadElement>,
    /// Junctions by id.
    pub junctions: BTreeMap<String, Junction>,
}

/// Place of an element in a file, for errors.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    file: &'a str,
    text: &'a str,
    /// Bytes before it.
    at: usize,
}

pub(super) struct RoadElement {
    pub id: String,
    pub at: usize,
    pub length: f64,
    pub in_junction: bool,
    pub predecessor: Option<Link>,
    pub successor: Option<Link>,
    pub geometries: Vec<Geometry>,
    pub offsets: Vec<Record>,
    pub sections: Vec<Section>,
}

/// Road or junction that a road is connected with.
pub(super) enum Link {
    Road { id: String, at_end: bool },
    Junction { id: String },
}

/// A cubic that holds from a distance on.
pub(super) struct Record {
    pub start: f64,
    pub coefficients: [f64; 4],
}

pub(super) struct Section {
    pub start: f64,
    /// Lanes from the middle outwards, the right side first.
    lanes: Vec<LaneElement>,
}

impl Section {
    pub(super) fn lanes(&self) -> &[LaneElement] {
        &self.lanes
    }

    /// The lane of this id.
    pub(super) fn lane(&self, id: i32) -> Option<&LaneElement> {
        self.index(id).ok().map(|index| &self.lanes[index])
    }

    /// A lane and those between it and the middle, from there outwards.
    pub(super) fn inner(&self, id: i32) -> &[LaneElement] {
        let end = self.index(id).map_or_else(|end| end, |index| index + 1);
        let start = if id > 0 { self.lanes.partition_point(|lane| lane.id < 0) } else { 0 };
        &self.lanes[start..end]
    }

    fn index(&self, id: i32) -> Result<usize, usize> {
        let order = |id: i32| (id > 0, id.abs());
        self.lanes.binary_search_by_key(&order(id), |lane| order(lane.id))
    }
}

pub(super) struct LaneElement {
    pub id: i32,
    pub at: usize,
    pub drivable: bool,
    pub predecessor: Option<i32>,
    pub successor: Option<i32>,
    /// Widths from the section's start.
    pub widths: Vec<Record>,
    /// m/s.
    pub limit: f64,
}

#[derive(Default)]
pub(super) struct Junction {
    pub connections: Vec<Connection>,
    /// Roads that go first, with those that wait for them.
    pub priorities: Vec<(String, String)>,
}

pub(super) struct Connection {
    pub at: usize,
    pub incoming: String,
    pub connecting: String,
    pub at_end: bool,
    /// Links from a lane of the incoming road to one of the connecting road.
    pub lanes: Vec<(i32, i32)>,
}

impl Place<'_> {
    pub(super) fn refuse(self, element: &str, found: impl ToString, expected: &str) -> Error {
        Error::Value {
            file: self.file.to_owned(),
            line: 1 + self.text[..self.at].matches('\n').count(),
            element: shortened(element),
            found: shortened(&found.to_string()),
            expected: expected.to_owned(),
        }
    }
}

/// The text, which may have any length, shortened to 120 characters for an error.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// An element, with the file that it stands in.
#[derive(Clone, Copy)]
struct Element<'a, 'input> {
    file: &'a str,
    node: Node<'a, 'input>,
}

impl<'a, 'input> Element<'a, 'input> {
    fn at(self) -> usize {
        self.node.range().start
    }

    fn name(self) -> &'a str {
        self.node.tag_name().name()
    }

    fn refuse(self, attribute: &str, found: impl ToString, expected: &str) -> Error {
        let text = self.node.document().input_text();
        let place = Place { file: self.file, text, at: self.at() };
        let element = format!("{} {attribute}", self.name());
        place.refuse(element.trim_end(), found, expected)
    }

    fn children(self, name: &'static str) -> impl Iterator<Item = Element<'a, 'input>> {
        let of_name = move |node: &Node| node.is_element() && node.tag_name().name() == name;
        let element = move |node| Element { node, ..self };
        self.node.children().filter(of_name).map(element)
    }

    fn child(self, name: &'static str) -> Option<Element<'a, 'input>> {
        self.children(name).next()
    }

    fn text(self, attribute: &str) -> Result<&'a str, Error> {
        let text = self.node.attribute(attribute);
        text.ok_or_else(|| self.refuse(attribute, "nothing", "a value"))
    }

    fn number(self, attribute: &str, range: RangeInclusive<f64>) -> Result<f64, Error> {
        let text = self.text(attribute)?;
        match text.trim().parse() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => {
                let expected = format!("a number from {:e} to {:e}", range.start(), range.end());
                Err(self.refuse(attribute, format!("{text:?}"), &expected))
            }
        }
    }

    fn lane_id(self, attribute: &str) -> Result<i32, Error> {
        let text = self.text(attribute)?;
        let refuse = || self.refuse(attribute, format!("{text:?}"), "the number of a lane");
        text.trim().parse().ok().filter(|id: &i32| id.abs() < 1000).ok_or_else(refuse)
    }

    fn at_end(self) -> Result<bool, Error> {
        match self.text("contactPoint")? {
            "start" => Ok(false),
            "end" => Ok(true),
            other => Err(self.refuse("contactPoint", format!("{other:?}"), "start or end")),
        }
    }

    fn coefficients(self, names: [&str; 4]) -> Result<[f64; 4], Error> {
        let mut coefficients = [0.0; 4];
        for (coefficient, name) in coefficients.iter_mut().zip(names) {
            *coefficient = self.number(name, SIZE)?;
        }
        Ok(coefficients)
    }

    /// Cubics that hold one after the other.
    fn records(self, name: &'static str, start: &str) -> Result<Vec<Record>, Error> {
        let record = |record: Element| {
            let coefficients = record.coefficients(["a", "b", "c", "d"])?;
            Ok(Record { start: record.number(start, 0.0..=1e6)?, coefficients })
        };
        let records: Vec<Record> = self.children(name).map(record).collect::<Result<_, _>>()?;
        let disorder = records.windows(2).find(|pair| pair[1].start < pair[0].start);
        match disorder {
            Some(pair) => {
                let expected = format!("not less than {} before it", pair[0].start);
                Err(self.refuse(&format!("{name} {start}"), pair[1].start, &expected))
            }
            None => Ok(records),
        }
    }
}

impl<'a> Document<'a> {
    pub(super) fn parse(text: &'a str, file: &'a str) -> Result<Document<'a>, Error> {
        if let Some(excess) = scan::excess(text) {
            let place = Place { file, text, at: excess.at };
            let expected = format!("at most {} in a file of OpenDRIVE", excess.most);
            return Err(place.refuse(excess.element, format!("more {}", excess.found), &expected));
        }
        let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
        let parsed = roxmltree::Document::parse_with_options(text, options);
        let xml = parsed.map_err(|reason| Error::Form { file: file.to_owned(), reason })?;
        let root = Element { file, node: xml.root_element() };
        if root.name() != "OpenDRIVE" {
            return Err(root.refuse("", format!("<{}>", root.name()), "<OpenDRIVE>"));
        }
        let mut metres = MAX_METRES;
        let read = |element| road(element, &mut metres);
        let roads = root.children("road").map(read).collect::<Result<_, _>>()?;
        let mut junctions = BTreeMap::new();
        for element in root.children("junction") {
            junctions.insert(element.text("id")?.to_owned(), junction(element)?);
        }
        Ok(Document { file, text, roads, junctions })
    }

    /// Line and column of a byte.
    pub(super) fn place(&self, at: usize) -> Place<'_> {
        Place { file: self.file, text: self.text, at }
    }
}

/// `metres`: how long all geometries that are still to come may be.
fn road(element: Element, metres: &mut f64) -> Result<RoadElement, Error> {
    if let Some(rule @ "LHT") = element.node.attribute("rule") {
        return Err(element.refuse("rule", rule, "RHT: traffic on the right"));
    }
    let length = element.number("length", 0.0..=1e6)?;
    let link = element.child("link");
    let linked = |name| link.and_then(|link| link.child(name)).map(road_link).transpose();
    let plan = element.child("planView");
    let plan = plan.ok_or_else(|| element.refuse("planView", "nothing", "a reference line"))?;
    let geometries = plan.children("geometry").map(|it| geometry(it, metres));
    let geometries: Vec<Geometry> = geometries.collect::<Result<_, _>>()?;
    if geometries.is_empty() {
        return Err(plan.refuse("geometry", "nothing", "at least one"));
    }
    if let Some(pair) = geometries.windows(2).find(|pair| pair[1].start < pair[0].start) {
        let expected = format!("not less than {} before it", pair[0].start);
        return Err(plan.refuse("geometry s", pair[1].start, &expected));
    }
    let lanes = element.child("lanes");
    let lanes = lanes.ok_or_else(|| element.refuse("lanes", "nothing", "lane sections"))?;
    let limits = road_limits(element)?;
    let limit = |start: f64| {
        let after = limits.partition_point(|(from, _)| *from <= start + 1e-9);
        limits[..after].last().map_or(DEFAULT_LIMIT, |(_, limit)| *limit)
    };
    let sections: Vec<Section> =
        lanes.children("laneSection").map(|it| section(it, limit)).collect::<Result<_, _>>()?;
    if sections.is_empty() {
        return Err(lanes.refuse("laneSection", "nothing", "at least one"));
    }
    let disorder = sections.windows(2).find(|pair| pair[0].start >= pair[1].start);
    let beyond = sections.last().filter(|last| last.start >= length);
    if let Some(section) = disorder.map(|pair| &pair[1]).or(beyond) {
        let expected = format!("numbers that rise, below the road's length of {length}");
        return Err(lanes.refuse("laneSection s", section.start, &expected));
    }
    Ok(RoadElement {
        id: element.text("id")?.to_owned(),
        at: element.at(),
        length,
        in_junction: !matches!(element.node.attribute("junction"), None | Some("-1")),
        predecessor: linked("predecessor")?,
        successor: linked("successor")?,
        geometries,
        offsets: lanes.records("laneOffset", "s")?,
        sections,
    })
}

fn road_link(element: Element) -> Result<Link, Error> {
    let id = element.text("elementId")?.to_owned();
    match element.text("elementType")? {
        "road" => Ok(Link::Road { id, at_end: element.at_end()? }),
        "junction" => Ok(Link::Junction { id }),
        other => Err(element.refuse("elementType", format!("{other:?}"), "road or junction")),
    }
}

fn geometry(element: Element, metres: &mut f64) -> Result<Geometry, Error> {
    let length = element.number("length", 1e-6..=1e5)?;
    *metres -= length;
    if *metres < 0.0 {
        let expected = format!("at most {MAX_METRES:e} m of geometries in a file");
        return Err(element.refuse("length", "more", &expected));
    }
    let curvature = |shape: Element, name| shape.number(name, -10.0..=10.0);
    let mut shapes = element.node.children().filter(Node::is_element);
    let Some(node) = shapes.next() else {
        return Err(element.refuse("", "no shape", "line, arc, spiral or paramPoly3"));
    };
    let shape = Element { node, ..element };
    let shape = match shape.name() {
        "line" => Shape::Line,
        "arc" => Shape::Arc(curvature(shape, "curvature")?),
        "spiral" => {
            let (start, end) = (curvature(shape, "curvStart")?, curvature(shape, "curvEnd")?);
            Shape::Spiral(Spiral::new(start, end, length))
        }
        "paramPoly3" => {
            let range = match shape.node.attribute("pRange") {
                Some("arcLength") => length,
                None | Some("normalized") => 1.0,
                Some(other) => {
                    let found = format!("{other:?}");
                    return Err(shape.refuse("pRange", found, "arcLength or normalized"));
                }
            };
            let along = shape.coefficients(["aU", "bU", "cU", "dU"])?;
            let left = shape.coefficients(["aV", "bV", "cV", "dV"])?;
            Shape::Cubic { along, left, range }
        }
        other => {
            let found = format!("<{other}>");
            return Err(element.refuse("", found, "line, arc, spiral or paramPoly3"));
        }
    };
    let (x, y) = (element.number("x", SIZE)?, element.number("y", SIZE)?);
    let pose = Pose::new(x, y, element.number("hdg", -1e3..=1e3)?);
    Ok(Geometry { start: element.number("s", 0.0..=1e6)?, length, pose, shape })
}

/// Start of each speed limit of a road, m, and the limit, m/s.
fn road_limits(element: Element) -> Result<Vec<(f64, f64)>, Error> {
    let mut limits = Vec::new();
    for kind in element.children("type") {
        let speed = kind.child("speed");
        let limited = |speed: &Element| {
            !matches!(speed.node.attribute("max"), Some("no limit" | "undefined"))
        };
        if let Some(speed) = speed.filter(limited) {
            limits.push((kind.number("s", 0.0..=1e6)?, speed_limit(speed)?));
        }
    }
    limits.sort_by(|one: &(f64, f64), other| one.0.total_cmp(&other.0));
    Ok(limits)
}

fn speed_limit(element: Element) -> Result<f64, Error> {
    let unit = match element.node.attribute("unit") {
        None | Some("m/s") => 1.0,
        Some("km/h") => 1.0 / 3.6,
        Some("mph") => 0.447_04,
        Some(other) => {
            return Err(element.refuse("unit", format!("{other:?}"), "m/s, km/h or mph"));
        }
    };
    Ok(element.number("max", 0.1..=1e3)? * unit)
}

fn section(element: Element, limit: impl Fn(f64) -> f64) -> Result<Section, Error> {
    let start = element.number("s", 0.0..=1e6)?;
    let sides = ["left", "right"].into_iter().filter_map(|side| element.child(side));
    let (mut lanes, mut ids) = (Vec::new(), BTreeSet::new());
    for (side, it) in sides.flat_map(|side| side.children("lane").map(move |it| (side, it))) {
        let found = lane(it, limit(start))?;
        let right = side.name() == "right";
        if found.id == 0 || right != (found.id < 0) {
            let expected = if right { "a number below 0" } else { "a number above 0" };
            return Err(it.refuse("id", found.id, expected));
        }
        if !ids.insert(found.id) {
            return Err(it.refuse("id", found.id, "one that no other lane of the section has"));
        }
        lanes.push(found);
    }
    lanes.sort_by_key(|lane| (lane.id > 0, lane.id.abs()));
    Ok(Section { start, lanes })
}

fn lane(element: Element, limit: f64) -> Result<LaneElement, Error> {
    const DRIVABLE: [&str; 8] =
        ["driving", "entry", "exit", "onRamp", "offRamp", "connectingRamp", "slipLane", "bus"];
    let link = element.child("link");
    let linked = |name| {
        let neighbour = link.and_then(|link| link.child(name));
        neighbour.map(|neighbour| neighbour.lane_id("id")).transpose()
    };
    let widths = element.records("width", "sOffset")?;
    if widths.first().is_none_or(|first| first.start > 0.0) {
        let found = widths.first().map_or("nothing".to_owned(), |first| first.start.to_string());
        return Err(element.refuse("width sOffset", found, "a first width, at 0"));
    }
    Ok(LaneElement {
        id: element.lane_id("id")?,
        at: element.at(),
        drivable: DRIVABLE.contains(&element.text("type")?),
        predecessor: linked("predecessor")?,
        successor: linked("successor")?,
        widths,
        limit: element.child("speed").map_or(Ok(limit), speed_limit)?,
    })
}

fn junction(element: Element) -> Result<Junction, Error> {
    let mut junction = Junction::default();
    for it in element.children("connection") {
        let link = |link: Element| Ok((link.lane_id("from")?, link.lane_id("to")?));
        junction.connections.push(Connection {
            at: it.at(),
            incoming: it.text("incomingRoad")?.to_owned(),
            connecting: it.text("connectingRoad")?.to_owned(),
            at_end: it.at_end()?,
            lanes: it.children("laneLink").map(link).collect::<Result<_, _>>()?,
        });
    }
    for it in element.children("priority") {
        junction.priorities.push((it.text("high")?.to_owned(), it.text("low")?.to_owned()));
    }
    Ok(junction)
}
