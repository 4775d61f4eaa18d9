//! An OpenDRIVE file: any text may come from another program.

use world::opendrive::{self, MAX_POINTS, MAX_STEPS};

/// Panics when the parser does, or when it accepts lanes that break what the simulator takes for
/// granted.
pub fn check(text: &str) {
    match opendrive::parse(text, "fuzz.xodr") {
        Ok(map) => check_map(&map),
        Err(error) => assert!(error.to_string().starts_with("fuzz.xodr"), "{error}"),
    }
}

fn check_map(map: &opendrive::Map) {
    let lanes = map.road.lanes().len();
    assert!(lanes > 0 && map.origins.len() == lanes);
    let mut points = 0;
    for (id, lane) in map.road.lanes() {
        points += lane.line.points().len();
        assert!(lane.line.length() > 0.0 && lane.line.length().is_finite(), "{id:?}");
        assert!(lane.width > 0.0 && lane.limit > 0.0, "{id:?}");
        assert!(lane.left != Some(id) && lane.right != Some(id), "{id:?}");
        let named = lane.left.iter().chain(&lane.right).chain(&lane.next).chain(&lane.yields_to);
        assert!(named.into_iter().all(|other| other.0 < lanes), "{id:?}");
        // Neighbours know each other.
        if let Some(beside) = lane.left {
            assert_eq!(map.road.lane(beside).right, Some(id));
        }
    }
    assert!(points <= MAX_POINTS, "{points}");
    assert!(map.steps <= MAX_STEPS, "{} steps", map.steps);
}
