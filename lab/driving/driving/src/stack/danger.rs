//! Situations of objects relative to the ego in the sense of responsibility-sensitive safety: the
//! time that the reaction to each may take, and whether one is dangerous.

use crate::predict::doubtful;
use crate::{Ego, Track};
use rss::{Across, Along, Crossing, Direction, Model, Preset, Situation};
use world::{Kind, Route, ego, geometry::wrapped};

/// Time within which an object has to be met if it is to have a deadline, s.
const HORIZON: f64 = 8.0;

/// Time for each track for which the ego may go on before it must react to it, s; infinite if it
/// need not. With the assumptions of ad-rss.
pub fn deadlines(ego: &Ego, tracks: &[Track], route: &Route) -> Vec<f64> {
    let model = model();
    tracks.iter().map(|track| deadline(&model, ego, track, route)).collect()
}

/// The earliest of these deadlines, s, but for those of who comes towards the ego well beside it:
/// between the two the distance along the road is hardly ever safe, nor does a brake make it so. They
/// keep apart across.
pub(super) fn brake_deadline(ego: &Ego, tracks: &[Track], route: &Route) -> f64 {
    const WELL_BESIDE: f64 = 2.0;
    let model = model();
    let left = tracks.iter().map(|track| match situation(ego, track, route) {
        Some(Situation::Lane { along, across })
            if matches!(along.direction, Direction::Oncoming { .. })
                && across.gap > WELL_BESIDE =>
        {
            f64::INFINITY
        }
        _ => deadline(&model, ego, track, route),
    });
    left.fold(f64::INFINITY, f64::min)
}

fn model() -> Model {
    let model = Preset::AD_RSS.model();
    model.with_horizon(HORIZON).expect("the horizon is a number above 0")
}

fn deadline(model: &Model, ego: &Ego, track: &Track, route: &Route) -> f64 {
    let track = &worst(track, route);
    // An object with an invalid number has no time left: its deadline is 0.
    situation(ego, track, route)
        .map_or(f64::INFINITY, |situation| model.deadline(&situation).unwrap_or(0.0))
}

/// Track of an object that has just come into view as if it were on the way to where the ego will
/// be, as far as is known. A vehicle that drives goes in the direction of its heading.
fn worst(track: &Track, route: &Route) -> Track {
    const WALKS: f64 = 1.5;
    const DRIVES: f64 = 3.0;
    if !doubtful::is(track) || track.kind != Kind::Pedestrian && track.velocity.length() > DRIVES {
        return track.clone();
    }
    let offset = route.line().offset(track.pose.position);
    let toward = -offset.left.signum() * route.line().pose(offset.along).left();
    let velocity = track.velocity + track.uncertainty().min(WALKS) * toward;
    Track { velocity, ..track.clone() }
}

/// Returns true if one of these is dangerous: nearer, along and across, than is safe. With the
/// assumptions of ad-rss. The one behind has to keep its distance itself.
pub fn dangerous(ego: &Ego, tracks: &[Track], route: &Route) -> bool {
    let model = Preset::AD_RSS.model();
    let danger = |track: &Track| {
        situation(ego, track, route)
            .is_some_and(|situation| model.dangerous(&situation).unwrap_or(true))
    };
    tracks.iter().any(danger)
}

/// Nearness of another ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nearness {
    /// Number of the body.
    pub body: u32,
    /// Nearer along the route than is safe; of who crosses it, than the ego can stop.
    pub short: bool,
    /// Nearer, along and across, than is safe.
    pub dangerous: bool,
    /// He drives across the route.
    pub crosses: bool,
    /// Speed of the body along the route, m/s.
    pub speed: f64,
    /// Speed at which the body comes nearer across the route, m/s.
    pub aside: f64,
    /// Speed at which the ego comes nearer across the route, m/s.
    pub ego_aside: f64,
}

/// Nearness of those who are ahead, with the assumptions of a preset. The nearest first.
pub fn nearness(preset: &Preset, ego: &Ego, tracks: &[Track], route: &Route) -> Vec<Nearness> {
    let model = preset.model();
    let near = |track: &Track| {
        let situation = situation(ego, track, route)?;
        let dangerous = model.dangerous(&situation).unwrap_or(true);
        let of = Nearness {
            body: track.id,
            short: true,
            dangerous,
            crosses: true,
            speed: 0.0,
            aside: 0.0,
            ego_aside: 0.0,
        };
        Some(match situation {
            Situation::Lane { along, across } => {
                let comes = matches!(along.direction, Direction::Oncoming { .. });
                let short = model.distance_along(&along).is_ok_and(|safe| along.gap <= safe);
                let near = Nearness {
                    short,
                    crosses: false,
                    speed: if comes { -along.other_speed } else { along.other_speed },
                    aside: across.other_speed,
                    ego_aside: across.ego_speed,
                    ..of
                };
                (along.gap, near)
            }
            Situation::Crossing(crossing) => {
                let needs = model.distance_to_stop(&crossing);
                let short = needs.is_ok_and(|needs| crossing.distance <= needs);
                (crossing.distance, Nearness { short, ..of })
            }
        })
    };
    let mut found: Vec<(f64, Nearness)> = tracks.iter().filter_map(near).collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    found.into_iter().map(|(_, near)| near).collect()
}

/// Situation of a track relative to the ego along its route; none if it is behind.
fn situation(ego: &Ego, track: &Track, route: &Route) -> Option<Situation> {
    let line = route.line();
    let (own, other) = (line.offset(ego.pose.position), line.offset(track.pose.position));
    let place = line.pose(other.along);
    let turn = wrapped(track.pose.heading - place.heading);
    // The half of what it covers along and across the route.
    let (cos, sin) = (turn.cos().abs(), turn.sin().abs());
    let along = (track.length * cos + track.width * sin) / 2.0;
    let across = (track.length * sin + track.width * cos) / 2.0;
    let distance = other.along - own.along;
    if distance < 0.0 {
        return None;
    }
    let velocity = (track.velocity.dot(place.forward()), track.velocity.dot(place.left()));
    let direction = if velocity.0 < -0.5 {
        Direction::Oncoming { ego_in_own_lane: true }
    } else {
        Direction::Ahead
    };
    let side = (other.left - own.left).signum();
    let beside = (other.left - own.left).abs() - ego::WIDTH / 2.0 - across;
    if crosses(track, turn) {
        let gap = distance - ego::LENGTH / 2.0 - along;
        return crossing(gap, along, beside, across, -velocity.1 * side, ego.speed);
    }
    let line_pose = line.pose(own.along);
    let sideways = ego.speed * wrapped(ego.pose.heading - line_pose.heading).sin();
    Some(Situation::Lane {
        along: Along {
            direction,
            gap: distance - ego::LENGTH / 2.0 - along,
            ego_speed: ego.speed,
            other_speed: velocity.0.abs(),
        },
        across: Across { gap: beside, ego_speed: sideways * side, other_speed: -velocity.1 * side },
    })
}

/// Does a vehicle drive across the route? It will not swerve onto it, as one in a lane beside may.
fn crosses(track: &Track, turn: f64) -> bool {
    const ACROSS: f64 = 0.8;
    const DRIVES: f64 = 1.0;
    track.kind != Kind::Pedestrian && turn.sin().abs() > ACROSS && track.speed().abs() > DRIVES
}

/// Another that crosses as fast as now, `gap` m ahead and `beside` m beside the ego's way at a
/// speed `toward` it; `along` and `across` are the halves of what it covers.
fn crossing(
    gap: f64,
    along: f64,
    beside: f64,
    across: f64,
    toward: f64,
    ego_speed: f64,
) -> Option<Situation> {
    let way = beside + 2.0 * across + ego::WIDTH;
    let (enters, leaves) = if toward > 0.0 {
        ((beside / toward).max(0.0), way / toward)
    } else if beside < 0.0 {
        // Half of it is through, at least.
        (0.0, -beside / -toward)
    } else {
        return None;
    };
    let length = 2.0 * along + ego::LENGTH;
    Some(Situation::Crossing(Crossing { distance: gap, length, ego_speed, enters, leaves }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::tests::two_lanes;
    use glam::{DMat2, DVec2};
    use std::f64::consts::{FRAC_PI_2, PI};
    use world::scenario::Turn;
    use world::{Kind, LaneId, Pose};

    fn track(id: u32, pose: Pose, speed: f64) -> Track {
        Track {
            id,
            kind: Kind::Car,
            pose,
            velocity: speed * pose.forward(),
            acceleration: DVec2::ZERO,
            doubt: DMat2::ZERO,
            length: 4.5,
            width: 1.8,
            seen: 9,
            at: 0.0,
        }
    }

    #[test]
    fn who_is_nearer_has_the_earlier_deadline_who_is_beside_a_late_one_who_is_behind_none() {
        let route = Route::new(&two_lanes(), LaneId(0), Turn::Straight).unwrap();
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 12.0, ..Ego::default() };
        let tracks = [
            track(1, Pose::new(90.0, 0.0, 0.0), 0.0),
            track(2, Pose::new(75.0, 0.0, 0.0), 0.0),
            track(3, Pose::new(90.0, 3.5, 0.0), 0.0),
            track(4, Pose::new(30.0, 0.0, 0.0), 20.0),
            track(5, Pose::new(80.0, -4.0, FRAC_PI_2), 1.4),
        ];
        let found = deadlines(&ego, &tracks, &route);
        assert!(found[1] < found[0] && found[0] < 2.0, "{found:?}");
        // The ego may drift for so long before it is too near to whoever is beside it.
        assert!(found[2] > 2.5 && found[3] == f64::INFINITY, "{found:?}");
        assert!(found[4].is_finite(), "{found:?}");
        assert!(dangerous(&ego, &tracks[1..2], &route));
        assert!(!dangerous(&ego, &tracks[2..4], &route));
    }

    #[test]
    fn who_crosses_is_dangerous_only_if_both_would_be_there_at_once() {
        let route = Route::new(&two_lanes(), LaneId(0), Turn::Straight).unwrap();
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 12.0, ..Ego::default() };
        // 20 m ahead of the ego's front, which is there after 1.5 s.
        let at = |left: f64, speed: f64| track(1, Pose::new(73.0, left, -FRAC_PI_2), speed);
        let dangerous = |track: Track| dangerous(&ego, &[track], &route);
        assert!(dangerous(at(15.0, 8.0)));
        assert!(!dangerous(at(60.0, 8.0)), "it comes long after the ego");
        assert!(!dangerous(at(-4.0, 8.0)), "it has passed");
    }

    #[test]
    fn who_has_just_come_into_view_beside_the_way_is_not_put_off() {
        let route = Route::new(&two_lanes(), LaneId(0), Turn::Straight).unwrap();
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 12.0, ..Ego::default() };
        let stands = Track {
            kind: Kind::Pedestrian,
            length: 0.5,
            width: 0.5,
            ..track(1, Pose::new(73.0, -3.5, 0.0), 0.0)
        };
        let glimpsed = Track { doubt: DMat2::from_diagonal(DVec2::splat(9.0)), ..stands.clone() };
        let found = deadlines(&ego, &[stands, glimpsed.clone()], &route);
        assert!(found[1] < 1.0 && found[1] < found[0], "{found:?}");
        let drives = Track { kind: Kind::Car, velocity: DVec2::new(12.0, 0.0), ..glimpsed };
        let known = Track { doubt: DMat2::ZERO, ..drives.clone() };
        let found = deadlines(&ego, &[drives, known], &route);
        assert_eq!(found[0], found[1], "it goes where it looks to");
    }

    #[test]
    fn no_brake_is_due_for_who_comes_towards_the_ego_well_beside_it() {
        let route = Route::new(&two_lanes(), LaneId(0), Turn::Straight).unwrap();
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 12.0, ..Ego::default() };
        // It drifts to the lane beside the ego's.
        let at = |left: f64| track(1, Pose::new(90.0, left, -PI + 0.15), 12.0);
        let brake = |left| brake_deadline(&ego, &[at(left)], &route);
        assert!(deadlines(&ego, &[at(7.0)], &route)[0] < 0.1);
        assert_eq!(brake(7.0), f64::INFINITY);
        assert!(brake(3.0) < 0.1, "{}", brake(3.0));
    }
}
