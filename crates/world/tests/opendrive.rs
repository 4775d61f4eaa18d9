//! The example files in `examples/drive`, and files that are wrong in one place.

use glam::DVec2;
use std::path::PathBuf;
use world::opendrive::{self, Error, Map, Origin};
use world::{Lane, LaneId, Pose};

fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/drive").join(name)
}

fn id(map: &Map, road: &str, section: usize, lane: i32) -> LaneId {
    let is = |it: &Origin| it.road == road && it.section == section && it.lane == lane;
    LaneId(map.origins.iter().position(is).unwrap())
}

fn lane<'a>(map: &'a Map, road: &str, section: usize, lane: i32) -> &'a Lane {
    map.road.lane(id(map, road, section, lane))
}

fn near(found: DVec2, x: f64, y: f64) -> bool {
    found.distance(DVec2::new(x, y)) < 1e-3
}

#[test]
fn bend_has_the_lanes_of_its_file_in_their_directions() {
    let map = opendrive::read(&example("bend.xodr")).unwrap();
    assert_eq!(map.origins.len(), 7, "{:?}", map.origins);
    let first = lane(&map, "1", 0, -1);
    assert!(near(first.line.points()[0], 0.0, -1.75), "{:?}", first.line.points()[0]);
    assert_eq!((first.width, first.limit), (3.5, 50.0 / 3.6));
    assert_eq!(lane(&map, "1", 0, -2).limit, 30.0 / 3.6);
    assert_eq!((first.left, first.right), (None, Some(id(&map, "1", 0, -2))));
    assert_eq!(lane(&map, "1", 0, -2).left, Some(id(&map, "1", 0, -1)));
    assert_eq!(lane(&map, "1", 0, -2).right, None);
    assert_eq!(first.next, [id(&map, "1", 1, -1)]);
    // The lane back begins at the road's end.
    let back = lane(&map, "1", 0, 1);
    assert_eq!((back.left, &back.next), (None, &vec![]));
    assert!(near(*back.line.points().last().unwrap(), 0.0, 1.75));
    assert_eq!(lane(&map, "1", 1, 1).next, [id(&map, "1", 0, 1)]);
    // The lane opens evenly over 30 m to 3.25 m: half of that on the mean.
    let opens = lane(&map, "1", 1, -3);
    let area = 30.0 * 3.25 / 2.0 + 53.75 * 3.25;
    assert!((opens.width - area / 83.75).abs() < 1e-3, "{}", opens.width);
}

#[test]
fn bend_bends_as_its_geometries_say() {
    let map = opendrive::read(&example("bend.xodr")).unwrap();
    let first = &lane(&map, "1", 0, -1).line;
    // 1.75 m outside of the reference line: as much longer as that turns, 1.4 rad.
    assert!((first.length() - (200.0 + 1.4 * 1.75)).abs() < 0.01, "{}", first.length());
    // The straights; the arc around its centre; a spiral half-way, where a quarter of its turn is
    // done.
    assert!(first.curvature(30.0).abs() < 1e-9 && first.curvature(190.0).abs() < 1e-6);
    let centre = Pose::new(89.7311227, 2.9807694, 0.3).point(0.0, 50.0);
    let on_the_arc = first.points().iter().filter(|it| (it.distance(centre) - 51.75).abs() < 1e-5);
    assert_eq!(on_the_arc.count(), 41);
    let heading = first.pose(75.0 + 0.075 * 1.75).heading;
    assert!((heading - 0.075).abs() < 0.006, "{heading}");
    // No corner where one geometry ends and the next begins.
    for pair in first.points().windows(3) {
        let turn = (pair[1] - pair[0]).angle_to(pair[2] - pair[1]).abs();
        assert!(turn < 0.025, "{turn} at {}", pair[1]);
    }
    // The cubic ends 4 m to the left of where it began, looking the same way.
    let last = &lane(&map, "1", 1, -1).line;
    let start = last.pose(0.0);
    let end = start.local(last.pose(last.length()).position);
    assert!((end.y - 4.0).abs() < 0.01, "{end}");
}

#[test]
fn junction_leads_from_each_road_to_the_next_and_straight_ahead_first() {
    let map = opendrive::read(&example("junction.xodr")).unwrap();
    let lane = |road, number| lane(&map, road, 0, number);
    let id = |road, number| id(&map, road, 0, number);
    assert_eq!(lane("west", -1).next, [id("straight", -1), id("right", -1)]);
    assert_eq!(lane("straight", -1).next, [id("east", 1)]);
    assert_eq!(lane("right", -1).next, [id("south", -1)]);
    assert_eq!(lane("south", 1).next, [id("merge", -1)]);
    assert_eq!(lane("merge", -1).next, [id("east", 1)]);
    assert!(lane("west", 1).next.is_empty() && lane("east", 1).next.is_empty());
    assert_eq!(lane("merge", -1).yields_to, [id("straight", -1)]);
    // One lane ends where the next begins, looking the same way.
    for (_, from) in map.road.lanes() {
        for to in &from.next {
            let (end, start) =
                (from.line.pose(from.line.length()), map.road.lane(*to).line.pose(0.0));
            assert!(end.position.distance(start.position) < 1e-6, "{end:?} {start:?}");
            assert!(end.forward().dot(start.forward()) > 0.99, "{end:?} {start:?}");
        }
    }
}

#[test]
fn wrong_files_are_refused_with_line_element_value_and_expectation() {
    let good = std::fs::read_to_string(example("junction.xodr")).unwrap();
    let refused = |from: &str, to: &str, expected: &str| {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let error = opendrive::parse(&text, "j.xodr").unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    refused(
        "length=\"80\"",
        "length=\"eighty\"",
        "j.xodr:7: road length: found \"eighty\", expected a number from 0e0 to 1e6",
    );
    refused(
        "length=\"80\" junction",
        "junction",
        "j.xodr:7: road length: found nothing, expected a value",
    );
    refused(
        "<line/>",
        "<poly3 a=\"0\"/>",
        "j.xodr:10: geometry: found <poly3>, expected line, arc, spiral or paramPoly3",
    );
    refused(
        "a=\"3.5\"",
        "a=\"NaN\"",
        "j.xodr:12: width a: found \"NaN\", expected a number from -1e6 to 1e6",
    );
    refused(
        "<lane id=\"-1\" type=\"driving\"><width sOffset=\"0\" a=\"3.5\" b=\"0\" c=\"0\" d=\"0\"/>",
        "<lane id=\"-1\" type=\"driving\">",
        "j.xodr:14: lane width sOffset: found nothing, expected a first width, at 0",
    );
    refused(
        "<laneLink from=\"-1\" to=\"-1\"/>",
        "<laneLink from=\"-1\" to=\"2\"/>",
        "j.xodr:66: link: found lane 2, expected a lane that leads away from the start of road \"right\"",
    );
    refused(
        "connectingRoad=\"merge\"",
        "connectingRoad=\"ring\"",
        "j.xodr:68: link: found road \"ring\", expected the id of a road",
    );
    refused(
        "<road id=\"east\"",
        "<road id=\"west\"",
        "j.xodr:17: road id: found west, expected an id that no other road has",
    );
    refused(
        "length=\"80\" junction=\"-1\"",
        "length=\"80\" junction=\"-1\" rule=\"LHT\"",
        "j.xodr:7: road rule: found LHT, expected RHT: traffic on the right",
    );
    let other = opendrive::parse("<a/>", "a.xml").unwrap_err().to_string();
    assert_eq!(other, "a.xml:1: a: found <a>, expected <OpenDRIVE>");
    let error = opendrive::parse("", "e.xml").unwrap_err();
    assert!(matches!(error, Error::Form { .. }) && error.to_string().starts_with("e.xml: "));
    let error = opendrive::read(&example("none.xodr")).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
}

#[test]
fn file_that_wants_more_points_than_there_may_be_is_refused() {
    let good = std::fs::read_to_string(example("bend.xodr")).unwrap();
    let bent = "length=\"90000\"><arc curvature=\"0.00001\"/></geometry></planView>";
    let shape = good.find("length=\"63.75\"").unwrap()..good.find("</planView>").unwrap() + 11;
    let mut text = good.clone();
    text.replace_range(shape, bent);
    let text = text.replace("length=\"283.75\"", "length=\"900000\"");
    let error = opendrive::parse(&text, "long.xodr").unwrap_err().to_string();
    let expected =
        "lane: found more than 500000 points up to here, expected shorter roads, or fewer";
    assert!(error.ends_with(expected), "{error}");
}
