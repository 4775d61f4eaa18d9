//! Published numbers of COLA: its Table 1, and the two latencies of its reference 59.
//!
//! Rows 1 and 3 of the table follow from one law: an ego vehicle that goes on at its speed until it
//! reacts, then brakes by 7.87 m/s² for something that stands. No such law gives the other two; the
//! last test holds what they would need.

use rss::{Across, Along, Assumptions, Direction, Model, Preset, Situation};

/// km/h, m, ms.
const TABLE_1: [(f64, f64, f64); 4] =
    [(35.0, 10.0, 411.2), (20.0, 10.0, 621.8), (25.0, 4.7, 235.5), (25.0, 3.9, 159.5)];

const METRES_PER_SECOND: f64 = 1.0 / 3.6;

/// In ms, for something straight ahead that drives at `other_speed` m/s.
fn deadline(model: &Model, speed: f64, other_speed: f64, gap: f64) -> f64 {
    let along = Along { direction: Direction::Ahead, gap, ego_speed: speed, other_speed };
    let across = Across { gap: 0.0, ego_speed: 0.0, other_speed: 0.0 };
    1e3 * model.deadline(&Situation::Lane { along, across }).unwrap()
}

/// Without acceleration, with one brake at least and one at most.
fn steady(brake_min: f64, brake_max: f64) -> Model {
    let brake_min_correct = brake_min;
    let base = Assumptions { acceleration: 0.0, ..Preset::AD_RSS.ego };
    let any = Assumptions { brake_min, brake_min_correct, brake_max, ..base };
    Model::new(any, any).unwrap()
}

fn row(of: impl Fn(f64, f64) -> f64) -> [f64; 4] {
    TABLE_1.map(|(speed, gap, _)| of(speed * METRES_PER_SECOND, gap).round())
}

#[test]
fn rows_1_and_3_of_table_1_follow_from_one_deceleration_within_3_percent() {
    let law = steady(7.87, 7.87);
    for (speed, gap, published) in [TABLE_1[0], TABLE_1[2]] {
        let ours = deadline(&law, speed * METRES_PER_SECOND, 0.0, gap);
        let error = (ours - published).abs() / published;
        assert!(error < 0.003, "{speed} km/h, {gap} m: {ours} ms, published {published} ms");
    }
}

#[test]
fn deadlines_of_table_1_under_other_assumptions_are_those_worked_out_by_hand() {
    let stands = steady(7.87, 7.87);
    assert_eq!(row(|speed, gap| deadline(&stands, speed, 0.0, gap)), [411.0, 1447.0, 236.0, 120.0]);
    // The one in front brakes by 8, the ego vehicle by 4: as if something stood, and 8 were braked.
    let follows = steady(4.0, 8.0);
    let expected = [421.0, 1453.0, 243.0, 128.0];
    assert_eq!(row(|speed, gap| deadline(&follows, speed, speed, gap)), expected);
    let preset = |preset: Preset| row(|speed, gap| deadline(&preset.model(), speed, speed, gap));
    assert_eq!(preset(Preset::AD_RSS), [216.0, 644.0, 126.0, 67.0]);
    assert_eq!(preset(Preset::AGGRESSIVE), [293.0, 660.0, 182.0, 126.0]);
    assert_eq!(preset(Preset::CONSERVATIVE), [143.0, 468.0, 80.0, 35.0]);
}

#[test]
fn rows_2_and_4_of_table_1_each_need_an_assumption_of_their_own() {
    let (speed, gap, published) = TABLE_1[1];
    let weak = deadline(&steady(2.36, 2.36), speed * METRES_PER_SECOND, 0.0, gap);
    assert!((weak - published).abs() < 0.03 * published, "row 2 with 2.36 m/s²: {weak} ms");
    let (speed, gap, published) = TABLE_1[3];
    let strong = deadline(&steady(8.64, 8.64), speed * METRES_PER_SECOND, 0.0, gap);
    assert!((strong - published).abs() < 0.03 * published, "row 4 with 8.64 m/s²: {strong} ms");
}

#[test]
fn latencies_of_reference_59_follow_from_a_stop_by_3_8_metres_per_second_squared() {
    for (brake, gap, published) in [(3.84, 5.0, 164.0), (3.77, 8.3, 740.0)] {
        let ours = deadline(&steady(brake, brake), 5.6, 0.0, gap);
        assert!((ours - published).abs() < 1.0, "{gap} m: {ours} ms, published {published} ms");
    }
}
