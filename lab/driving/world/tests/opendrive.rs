//! The example files in `examples/drive`, and files that are wrong in one place.

use glam::DVec2;
use std::path::PathBuf;
use world::opendrive::{self, Error, Map, Origin};
use world::{Lane, LaneId, Pose};

fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../examples/drive").join(name)
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

/// A road from the west to the east, of this length, with lanes and junctions as they stand here.
fn straight(length: f64, sections: &str, rest: &str) -> String {
    format!(
        "<OpenDRIVE><road id=\"r\" length=\"{length}\" junction=\"-1\"><planView>\
         <geometry s=\"0\" x=\"0\" y=\"0\" hdg=\"0\" length=\"{length}\"><line/></geometry></planView>\
         <lanes>{sections}</lanes></road>{rest}</OpenDRIVE>"
    )
}

/// A lane with a first width, and more of them.
fn lane_of(id: i32, widths: usize) -> String {
    let width = |n: usize| format!("<width sOffset=\"{n}\" a=\"0.2\" b=\"0\" c=\"0\" d=\"0\"/>");
    let widths: String = (0..widths).map(width).collect();
    format!("<lane id=\"{id}\" type=\"driving\">{widths}</lane>")
}

fn right(start: usize, lanes: &str) -> String {
    format!("<laneSection s=\"{start}\"><right>{lanes}</right></laneSection>")
}

fn refusal(text: &str) -> String {
    opendrive::parse(text, "f.xodr").unwrap_err().to_string()
}

#[test]
fn lane_wider_than_lanes_are_is_refused_with_its_width_and_place() {
    // As wide as this, one end lies 96,000 km beside the road.
    let inner = lane_of(-1, 1);
    let wide = inner.replace("-1", "-2").replace("c=\"0\"", "c=\"1986\"");
    let error = refusal(&straight(220.0, &right(0, &[&inner[..], &wide].concat()), ""));
    assert!(error.contains("lane width: found 1986.2 m at 1.0 m along the road"), "{error}");
    assert!(error.ends_with("expected a width of at most 100 m"), "{error}");
    // Also if it is a lane between the middle and one that vehicles drive on.
    let none = inner.replace("driving", "none").replace("a=\"0.2\"", "a=\"101\"");
    let error = refusal(&straight(220.0, &right(0, &(none + &lane_of(-2, 1))), ""));
    assert!(error.contains("found 101.0 m at 0.0 m along the road"), "{error}");
    let far = right(0, &inner) + "<laneOffset s=\"0\" a=\"0\" b=\"9e5\" c=\"0\" d=\"0\"/>";
    let error = refusal(&straight(220.0, &far, ""));
    assert!(error.contains("found a point at ") && error.ends_with("of the origin"), "{error}");
}

#[test]
fn element_with_more_attributes_than_any_has_is_refused_before_they_are_compared() {
    let many: String = (0..100_000).map(|n| format!(" a{n}=\"\"")).collect();
    let error = refusal(&format!("<OpenDRIVE>\n<road{many}/></OpenDRIVE>"));
    let expected = "found more attributes, expected at most 64 in a file of OpenDRIVE";
    assert_eq!(error, format!("f.xodr:2: road: {expected}"));
    let nested: String = (0..50_000).map(|n| format!("<a xmlns:n{n}=\"{n}\">")).collect();
    let error = refusal(&nested);
    assert!(error.contains("found more namespaces, expected at most 16"), "{error}");
}

/// Files of twice the length, in one respect each: the work may double, and not more.
#[test]
fn work_grows_with_the_file_and_not_faster() {
    let sections = |n: usize| {
        let all: String = (0..n).map(|start| right(start, &lane_of(-1, 1))).collect();
        straight(n as f64, &all, "")
    };
    let geometries = |n: usize| {
        let of = |s: usize| {
            let s = s as f64 / 10.0;
            format!(
                "<geometry s=\"{s}\" x=\"{s}\" y=\"0\" hdg=\"0\" length=\"0.1\"><line/></geometry>"
            )
        };
        let geometries: String = (0..n).map(of).collect();
        let road = sections(n / 10);
        let from = road.find("<geometry").unwrap()..road.find("</planView>").unwrap();
        road.replace(&road[from], &geometries)
    };
    let connections = |n: usize| {
        let of = |c: usize| {
            format!(
                "<connection id=\"{c}\" incomingRoad=\"x{c}\" connectingRoad=\"r\" \
                 contactPoint=\"start\"><laneLink from=\"-1\" to=\"-1\"/></connection>"
            )
        };
        let connections: String = (0..n).map(of).collect();
        let junction = format!("<junction id=\"j\">{connections}</junction>");
        let link = "<link><successor elementType=\"junction\" elementId=\"j\"/></link><planView>";
        let road =
            straight(100.0, &right(0, &(1..100).map(|n| lane_of(-n, 1)).collect::<String>()), "");
        road.replace("<planView>", link).replace("</OpenDRIVE>", &(junction + "</OpenDRIVE>"))
    };
    let files: [(&str, &dyn Fn(usize) -> String); 3] =
        [("sections", &sections), ("geometries", &geometries), ("connections", &connections)];
    for (name, file) in files {
        let steps =
            |n| opendrive::parse(&file(n), "f.xodr").map_err(|e| e.to_string()).unwrap().steps;
        let (once, twice) = (steps(2_000), steps(4_000));
        assert!(0 < once && once <= twice && twice <= 2 * once + 1_000, "{name}: {once}, {twice}");
    }
}

#[test]
fn file_that_makes_more_work_than_there_may_be_is_refused_with_its_place() {
    // 900 lanes beside each other, with many widths each: all inner ones are looked at for each.
    let lanes: String = (1..900).map(|n| lane_of(-n, 300)).collect();
    let error = refusal(&straight(1000.0, &right(0, &lanes), ""));
    assert!(error.starts_with("f.xodr:1: element: found more than 50000000 steps"), "{error}");
    // The same pairs of lanes again and again.
    let lanes: String = (1..700).map(|n| lane_of(-n, 1)).collect();
    let again = "<priority high=\"r\" low=\"r\"/>".repeat(1000);
    let junction = format!("<junction id=\"j\">{again}</junction>");
    let error = refusal(&straight(10.0, &right(0, &lanes), &junction));
    assert!(error.contains("steps of work up to here"), "{error}");
}

#[test]
fn device_and_pipe_are_no_files_of_roads() {
    let error = opendrive::read(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("expected a regular file of at most"), "{error}");
}
