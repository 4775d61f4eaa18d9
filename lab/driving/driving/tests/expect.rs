//! Prediction ahead of time: what was expected of the others is used where it came about, and nowhere
//! else.

use driving::predict::{Crowd, Prediction, Surroundings};
use driving::{Predictor, Track};
use glam::{DMat2, DVec2};
use std::ops::ControlFlow;
use std::sync::Arc;
use world::{Kind, Lane, LaneId, Line, Pose, Road};

/// A bend of two lanes.
fn around() -> Arc<Surroundings> {
    let lane = |radius: f64| {
        let point = |step: u32| radius * DVec2::from_angle(f64::from(step) / 80.0);
        Lane::new(Line::new((0..120).map(point)).unwrap(), 3.5, 13.9)
    };
    let (mut outer, mut inner) = (lane(150.0), lane(146.5));
    (outer.left, inner.right) = (Some(LaneId(1)), Some(LaneId(0)));
    let road = Arc::new(Road::new(vec![outer, inner]).unwrap());
    let go = &mut || ControlFlow::Continue(());
    Arc::new(Surroundings::around(&road, Pose::new(150.0, 10.0, 1.6), 3, go).unwrap())
}

fn car(id: u32, along: f64, speed: f64) -> Track {
    let place = DVec2::from_angle(along / 150.0);
    let pose = Pose { position: 150.0 * place, heading: place.perp().to_angle() };
    Track {
        id,
        kind: Kind::Car,
        pose,
        velocity: speed * pose.forward(),
        acceleration: DVec2::ZERO,
        doubt: DMat2::ZERO,
        length: 4.5,
        width: 1.8,
        seen: 10,
        at: 0.0,
    }
}

fn cars() -> Vec<Track> {
    vec![car(1, 10.0, 12.0), car(2, 40.0, 6.0), car(3, 60.0, 9.0)]
}

fn predicted(crowd: &Crowd) -> Vec<Prediction> {
    let order: Vec<usize> = (0..crowd.tracks().len()).collect();
    let go = &mut || ControlFlow::Continue(());
    Predictor::default().predict_some(0.0, crowd, &order, go).unwrap()
}

#[test]
fn what_comes_about_is_predicted_as_if_it_had_not_been_expected() {
    let (predictor, around) = (Predictor::default(), around());
    let go = &mut || ControlFlow::Continue(());
    let before = predictor.crowd(cars(), &around, None);
    let expected = predictor.expect(&before, &around, 0.1, go).unwrap();
    let now = expected.tracks().to_vec();
    assert_eq!(now[0].pose.position, cars()[0].pose.position + 0.1 * cars()[0].velocity);
    let anew = predictor.crowd(now.clone(), &around, None);
    let known = predictor.crowd(now, &around, Some(&expected));
    assert_eq!(predicted(&anew), predicted(&known));
}

#[test]
fn who_does_not_do_what_was_expected_is_looked_at_anew() {
    let (predictor, around) = (Predictor::default(), around());
    let go = &mut || ControlFlow::Continue(());
    let before = predictor.crowd(cars(), &around, None);
    let expected = predictor.expect(&before, &around, 0.1, go).unwrap();
    let mut tracks = expected.tracks().to_vec();
    // A little slower is still what was expected: others see the car where it was to be.
    tracks[1].velocity *= 0.96;
    let of = |tracks: &[Track], expected| {
        predicted(&predictor.crowd(tracks.to_vec(), &around, expected))
    };
    assert_ne!(of(&tracks, None)[0], of(&tracks, Some(&expected))[0]);
    tracks[1].velocity *= 0.5;
    assert_eq!(of(&tracks, None), of(&tracks, Some(&expected)));
    // Nor is somebody else with another number, or what was expected of another road.
    tracks = expected.tracks().to_vec();
    tracks[1].velocity *= 0.96;
    tracks[1].id = 9;
    assert_eq!(of(&tracks, None), of(&tracks, Some(&expected)));
    let elsewhere = predictor.expect(&before, &self::around(), 0.1, go).unwrap();
    tracks[1].id = 2;
    assert_eq!(of(&tracks, None), of(&tracks, Some(&elsewhere)));
}
