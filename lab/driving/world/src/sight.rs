//! View from the ego: sight lines that no other body's ground stops. Bodies have no height, so that
//! a parked car hides a pedestrian behind it.

use crate::body::Body;
use glam::DVec2;

/// Range of sight, m.
pub const RANGE: f64 = 120.0;

/// Corners and middles of the sides, a little inside, of what is looked for.
const PLACES: [(f64, f64); 8] = [
    (1.0, 1.0),
    (1.0, 0.0),
    (1.0, -1.0),
    (0.0, -1.0),
    (-1.0, -1.0),
    (-1.0, 0.0),
    (-1.0, 1.0),
    (0.0, 1.0),
];

/// Can one see any of eight places of `target` from `eye`, past all `bodies`?
pub(crate) fn sees(eye: DVec2, viewer: u32, target: &Body, bodies: &[Body]) -> bool {
    let (length, width) = (0.98 * target.length / 2.0, 0.98 * target.width / 2.0);
    PLACES.iter().any(|(ahead, left)| {
        let place = target.pose.point(ahead * length, left * width);
        let way = place - eye;
        let distance = way.length();
        if distance > RANGE {
            return false;
        }
        let direction = way / distance.max(1e-9);
        let hides = |body: &Body| {
            body.id != viewer
                && body.id != target.id
                && near(eye, direction, distance, body)
                && body.footprint().hit(eye, direction).is_some_and(|at| at < distance)
        };
        !bodies.iter().any(hides)
    })
}

/// Can the sight line meet the circle around a body at all?
fn near(eye: DVec2, direction: DVec2, distance: f64, body: &Body) -> bool {
    let from = body.pose.position - eye;
    let radius = (body.length + body.width) / 2.0;
    let along = from.dot(direction);
    let aside = direction.perp_dot(from).abs();
    aside <= radius && along >= -radius && along <= distance + radius
}
