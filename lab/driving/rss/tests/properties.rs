//! Properties that must hold in every situation.

mod random;

use random::Random;
use rss::{Across, Along, Assumptions, Crossing, Direction, Lateral, Model, Situation};

const CASES: u32 = 5_000;

/// The model in which the ego vehicle responds after `response` s.
fn responding(model: &Model, lateral: Lateral, response: f64) -> Model {
    let ego = Assumptions { response, ..*model.ego() };
    Model::new(ego, *model.other()).unwrap().with_lateral(lateral)
}

/// The largest response time below 100 s for which `safe` holds, found by bisection between a
/// safe time and an unsafe one. None if none is found on a grid; +infinity if 100 s is safe.
fn inverted(safe: impl Fn(f64) -> bool) -> Option<f64> {
    if safe(100.0) {
        return Some(f64::INFINITY);
    }
    let step = (0..5000).rev().find(|step| safe(f64::from(*step) * 0.02))?;
    let (mut low, mut high) = (f64::from(step) * 0.02, f64::from(step + 1) * 0.02);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if safe(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// Compares a closed form with the inversion; returns whether it was a time to be compared.
fn agrees(closed: f64, safe: impl Fn(f64) -> bool, case: &dyn std::fmt::Debug) -> bool {
    match inverted(safe) {
        Some(found) if found.is_finite() => {
            assert!((closed - found).abs() < 1e-7 * (1.0 + found), "{closed} {found} {case:?}");
            true
        }
        Some(_) => {
            assert!(closed > 99.9, "{closed}, safe at 100 s: {case:?}");
            false
        }
        // Safe for less than the grid's step, or never.
        None => {
            assert!(closed < 0.02, "{closed}, never safe: {case:?}");
            false
        }
    }
}

#[test]
fn deadline_along_is_the_response_time_at_which_the_safe_distance_is_the_gap() {
    let mut random = Random(1);
    let mut compared = 0;
    for _ in 0..CASES {
        let model = Model::new(random.assumptions(), random.assumptions()).unwrap();
        let along = random.along();
        let closed = model.deadline_along(&along).unwrap();
        if along.direction == Direction::Behind {
            assert_eq!(closed, f64::INFINITY);
            continue;
        }
        let safe = |response| {
            let model = responding(&model, Lateral::AdRss, response);
            model.distance_along(&along).unwrap() <= along.gap
        };
        compared += u32::from(agrees(closed, safe, &along));
    }
    assert!(compared > CASES / 5, "only {compared} cases had a deadline to compare");
}

#[test]
fn deadline_across_is_the_response_time_at_which_the_safe_distance_is_the_gap() {
    for lateral in [Lateral::Paper, Lateral::AdRss] {
        let mut random = Random(2);
        let mut compared = 0;
        for _ in 0..CASES {
            let model = Model::new(random.assumptions(), random.assumptions()).unwrap();
            let model = model.with_lateral(lateral);
            let across = random.across();
            let closed = model.deadline_across(&across).unwrap();
            if across.ego_speed < 0.0 && model.ego().lateral_acceleration == 0.0 {
                // It moves away, perhaps so slowly that no bisection finds it safe.
                let drift = (model.ego().fluctuation + model.other().fluctuation) / 2.0;
                let never = lateral == Lateral::Paper && across.gap < drift;
                let expected = if never { f64::NEG_INFINITY } else { f64::INFINITY };
                assert_eq!(closed, expected, "{across:?}");
                continue;
            }
            let safe = |response| {
                let model = responding(&model, lateral, response);
                model.distance_across(&across).unwrap() <= across.gap
            };
            compared += u32::from(agrees(closed, safe, &across));
        }
        assert!(compared > CASES / 4, "only {compared} cases had a deadline to compare");
    }
}

#[test]
fn deadline_before_a_crossing_is_the_response_time_that_still_lets_it_stop() {
    let mut random = Random(3);
    let mut compared = 0;
    for _ in 0..CASES {
        let model = Model::new(random.assumptions(), random.assumptions()).unwrap();
        let along = random.along();
        let (distance, ego_speed) = (along.gap, along.ego_speed);
        let (enters, leaves) = (0.0, f64::INFINITY);
        let crossing = Crossing { distance, length: 9.0, ego_speed, enters, leaves };
        let safe = |response| {
            let model = responding(&model, Lateral::AdRss, response);
            model.distance_to_stop(&crossing).unwrap() <= distance
        };
        let situation = Situation::Crossing(crossing);
        if ego_speed == 0.0 && model.ego().acceleration == 0.0 {
            assert_eq!(model.deadline(&situation), Ok(f64::INFINITY));
            continue;
        }
        compared += u32::from(agrees(model.deadline(&situation).unwrap(), safe, &crossing));
        let away = Situation::Crossing(Crossing { distance: -9.0, ..crossing });
        assert_eq!(model.deadline(&away), Ok(f64::INFINITY));
    }
    assert!(compared > CASES / 4, "only {compared} cases had a deadline to compare");
}

#[test]
fn deadlines_shrink_with_speed_and_grow_with_the_gap() {
    let mut random = Random(4);
    for _ in 0..CASES {
        let model = Model::new(random.assumptions(), random.assumptions()).unwrap();
        let (along, across) = (random.along(), random.across());
        let more = random.between(0.0, 5.0);
        let at = |along: Along| model.deadline_along(&along).unwrap();
        let from = at(along);
        assert!(at(Along { gap: along.gap + more, ..along }) >= from, "{along:?} +{more}");
        // An overlap so deep that no reaction helps stays one; otherwise a later start is later.
        if from > 0.0 {
            let faster = Along { ego_speed: along.ego_speed + more, ..along };
            assert!(at(faster) <= from, "{along:?} +{more}");
        }
        let other = Along { other_speed: along.other_speed + more, ..along };
        match along.direction {
            Direction::Ahead => assert!(at(other) >= from, "{along:?} +{more}"),
            _ => assert!(at(other) <= from, "{along:?} +{more}"),
        }
        let at = |across: Across| model.deadline_across(&across).unwrap();
        let from = at(across);
        assert!(at(Across { gap: across.gap + more, ..across }) >= from, "{across:?} +{more}");
        let nearer = Across { other_speed: across.other_speed + more, ..across };
        assert!(at(nearer) <= from, "{across:?} +{more}");
    }
}

#[test]
fn situation_is_dangerous_exactly_if_its_deadline_is_before_the_response() {
    let mut random = Random(5);
    let mut dangerous = 0;
    for _ in 0..CASES {
        let model = Model::new(random.assumptions(), random.assumptions()).unwrap();
        // Away from the other one the safe distance does not grow with the response time.
        let (mut along, mut across) = (random.along(), random.across());
        across.ego_speed = across.ego_speed.abs();
        if along.direction == Direction::Behind {
            along.direction = Direction::Ahead;
        }
        let situation = Situation::Lane { along, across };
        let late = model.deadline(&situation).unwrap() <= model.ego().response;
        assert_eq!(model.dangerous(&situation).unwrap(), late, "{situation:?} {model:?}");
        dangerous += u32::from(late);
    }
    assert!((CASES / 10..CASES * 9 / 10).contains(&dangerous), "{dangerous} dangerous ones");
}

#[test]
fn readings_of_the_distance_across_agree_when_both_come_nearer_and_only_then_always() {
    let mut random = Random(6);
    let mut different = 0;
    for _ in 0..CASES {
        let paper = Model::new(random.assumptions(), random.assumptions()).unwrap();
        let paper = paper.with_lateral(Lateral::Paper);
        let ad_rss = paper.with_lateral(Lateral::AdRss);
        let across = random.across();
        let of = |model: &Model, across| model.distance_across(across).unwrap();
        different += u32::from(of(&paper, &across) != of(&ad_rss, &across));
        assert!(of(&paper, &across) >= of(&ad_rss, &across), "{across:?}");
        let (ego_speed, other_speed) = (across.ego_speed.abs(), across.other_speed.abs());
        let nearer = Across { ego_speed, other_speed, ..across };
        assert!((of(&paper, &nearer) - of(&ad_rss, &nearer)).abs() < 1e-12, "{nearer:?}");
    }
    assert!(different > CASES / 4, "{different} differ");
}

#[test]
fn earliest_object_gives_the_frame_its_deadline_unless_the_horizon_ends_before() {
    let model = rss::Preset::AD_RSS.model();
    assert_eq!(model.frame_deadline(&[]), Ok(None));
    let at = |gap| Situation::Lane {
        along: Along { direction: Direction::Ahead, gap, ego_speed: 10.0, other_speed: 0.0 },
        across: Across { gap: 0.0, ego_speed: 0.0, other_speed: 0.0 },
    };
    let frame = [at(80.0), at(40.0), at(60.0), at(40.0)];
    let deadline = model.frame_deadline(&frame).unwrap().unwrap();
    assert_eq!((deadline.object, Ok(deadline.seconds)), (1, model.deadline(&frame[1])));
    let short = model.with_horizon(1.0).unwrap();
    assert_eq!(short.frame_deadline(&frame).unwrap().unwrap().seconds, f64::INFINITY);
    let beside = Across { gap: 3.0, ego_speed: 0.0, other_speed: 0.0 };
    let Situation::Lane { along, .. } = at(2.0) else { unreachable!() };
    let beside = Situation::Lane { along, across: beside };
    assert!(!model.dangerous(&beside).unwrap() && model.deadline(&beside).unwrap() > 1.0);
}

/// Every value that a float can be: finite ones of all sizes, and those that are none.
const VALUES: [f64; 15] = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1e-9,
    1.0,
    -1.0,
    30.0,
    1e9,
    -1e9,
    1.1e9,
    f64::MAX,
    f64::MIN,
    f64::INFINITY,
    f64::NAN,
];

#[test]
fn whatever_it_is_given_it_answers_with_a_number_or_an_error() {
    let mut models: Vec<Model> = rss::Preset::ALL.iter().map(rss::Preset::model).collect();
    let base = *models[0].ego();
    let extreme = [1e-3, 1e3].map(|value| Assumptions {
        response: 1e3 - value,
        acceleration: 5e-324,
        brake_min: value,
        brake_min_correct: value,
        brake_max: value,
        lateral_acceleration: 1e3,
        lateral_brake: value,
        ..base
    });
    models.push(Model::new(extreme[0], extreme[1]).unwrap());
    models.push(models[3].with_lateral(Lateral::Paper));
    let finite = |value: f64| value.abs() <= 1e9;
    for model in models {
        for (gap, ego_speed, other_speed) in triples() {
            let directions = [true, false].map(|own| Direction::Oncoming { ego_in_own_lane: own });
            let numbers = finite(gap) && finite(ego_speed) && finite(other_speed);
            for direction in directions.into_iter().chain([Direction::Ahead, Direction::Behind]) {
                let along = Along { direction, gap, ego_speed, other_speed };
                let ok = numbers && ego_speed >= 0.0 && other_speed >= 0.0;
                held(ok, [model.distance_along(&along), model.deadline_along(&along)], &along);
            }
            let across = Across { gap, ego_speed, other_speed };
            held(
                numbers,
                [model.distance_across(&across), model.deadline_across(&across)],
                &across,
            );
            let (distance, enters, leaves) = (gap, other_speed, f64::INFINITY);
            let crossing = Crossing { distance, length: 1.0, ego_speed, enters, leaves };
            let ok = numbers && ego_speed >= 0.0 && other_speed >= 0.0;
            let deadline = model.deadline(&Situation::Crossing(crossing));
            held(ok, [model.distance_to_stop(&crossing), deadline], &crossing);
        }
    }
}

fn triples() -> impl Iterator<Item = (f64, f64, f64)> {
    let pairs = VALUES.into_iter().flat_map(|one| VALUES.into_iter().map(move |two| (one, two)));
    pairs.flat_map(|(one, two)| VALUES.into_iter().map(move |three| (one, two, three)))
}

/// A distance that is a finite number, and a deadline that is one or infinite; or two errors.
fn held(ok: bool, answers: [Result<f64, rss::Error>; 2], case: &dyn std::fmt::Debug) {
    match answers {
        [Ok(distance), Ok(deadline)] => {
            assert!(ok && distance.is_finite() && !deadline.is_nan(), "{answers:?} {case:?}");
        }
        [Err(_), Err(_)] => assert!(!ok, "{answers:?} {case:?}"),
        _ => panic!("{answers:?} {case:?}"),
    }
}
