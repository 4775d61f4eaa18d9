//! Nearest returns around the sensor, which hide objects beside a cluster.

use super::Return;
use glam::DVec2;

/// The distance of the nearest return in each direction, m.
#[derive(Clone, Debug, Default)]
pub(super) struct Skyline {
    nearest: Vec<f64>,
}

impl Skyline {
    const COLUMNS: usize = 1024;

    pub(super) fn of(standing: &[Return]) -> Skyline {
        let mut nearest = vec![f64::INFINITY; Skyline::COLUMNS];
        for point in standing {
            let column = &mut nearest[Skyline::column(point.flat())];
            *column = column.min(point.flat().length());
        }
        Skyline { nearest }
    }

    /// The nearest of several.
    pub(super) fn all<'a>(skylines: impl Iterator<Item = &'a Skyline>) -> Skyline {
        skylines.fold(Skyline::of(&[]), |mut all, skyline| {
            for (nearest, other) in all.nearest.iter_mut().zip(&skyline.nearest) {
                *nearest = nearest.min(*other);
            }
            all
        })
    }

    fn column(at: DVec2) -> usize {
        let turn = at.to_angle() / std::f64::consts::TAU;
        (turn * Skyline::COLUMNS as f64).round().rem_euclid(Skyline::COLUMNS as f64) as usize
            % Skyline::COLUMNS
    }

    /// Does something nearer stand beside the outermost points of a cluster, to the left and to the
    /// right?
    pub(super) fn hidden(&self, points: &[DVec2]) -> (bool, bool) {
        const NEARER: f64 = 0.5;
        let middle = points.iter().sum::<DVec2>();
        let turned: Vec<(f64, DVec2)> =
            points.iter().map(|point| (middle.angle_to(*point), *point)).collect();
        let order = |one: &&(f64, DVec2), other: &&(f64, DVec2)| one.0.total_cmp(&other.0);
        let hides = |end: Option<&(f64, DVec2)>, side: isize| {
            let end = end.map_or(middle, |(_, point)| *point);
            let beside = |far: isize| {
                let column = Skyline::column(end) as isize + side * far;
                self.nearest[column.rem_euclid(Skyline::COLUMNS as isize) as usize]
            };
            beside(1).min(beside(2)) < end.length() - NEARER
        };
        (hides(turned.iter().max_by(order), 1), hides(turned.iter().min_by(order), -1))
    }
}
