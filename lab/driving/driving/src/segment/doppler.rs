//! Velocity of an object from the radial speeds of its returns.
//!
//! A body that does not turn has one velocity v, and a return in direction d the speed v · d: least
//! squares over the returns (after Kellner, Barjenbruch, Klappstein, Dickmann and Dietmayer, 2013,
//! who do so for radar). Of what is narrow as seen from the sensor only the part along the line of
//! sight is known; of what is wide, or near, the other one too.

use glam::DVec2;
use serde::{Deserialize, Serialize};

/// A measured velocity, along the line of sight and across.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doppler {
    /// The direction in which the velocity is known best, in the world: about that of sight.
    pub along: DVec2,
    /// Along that direction and to the left of it, m/s.
    pub speeds: DVec2,
    /// Their standard deviations, m/s.
    pub noise: DVec2,
}

/// The returns of one object are no better together than this number of independent ones.
const INDEPENDENT: f64 = 50.0;
/// No speed is known better, m/s.
const BEST: f64 = 0.02;
/// Nor one across the line of sight: people swing their arms, wheels turn.
const BEST_ACROSS: f64 = 0.3;
/// Uncertainty above which the speed across is not measured at all, m/s.
const USELESS: f64 = 4.0;

impl Doppler {
    /// Velocity from directions and speeds of returns, in the sensor's axes, each with a standard
    /// deviation of `noise` m/s; `heading` (rad) turns them into the world. None without a speed.
    pub fn fit(
        returns: impl Iterator<Item = (DVec2, f64)> + Clone,
        noise: f64,
        heading: f64,
    ) -> Option<Doppler> {
        let known = returns.filter(|(_, speed)| speed.is_finite());
        let count = known.clone().count() as f64;
        if count == 0.0 {
            return None;
        }
        // The mean direction and the one across: nearly the principal axes.
        let along = known.clone().map(|(to, _)| to).sum::<DVec2>().normalize_or(DVec2::X);
        let across = along.perp();
        let (mut near, mut mixed, mut far, mut right) = (0.0, 0.0, 0.0, DVec2::ZERO);
        for (to, speed) in known {
            let (x, y) = (to.dot(along), to.dot(across));
            (near, mixed, far) = (near + x * x, mixed + x * y, far + y * y);
            right += speed * DVec2::new(x, y);
        }
        let variance = noise * noise * count / count.min(INDEPENDENT);
        let left = far - mixed * mixed / near;
        let sideways = (variance / left.max(1e-9)).sqrt().max(BEST_ACROSS);
        let (speeds, sideways) = if sideways < USELESS {
            let y = (right.y - mixed / near * right.x) / left;
            (DVec2::new((right.x - mixed * y) / near, y), sideways)
        } else {
            (DVec2::new(right.x / near, 0.0), f64::INFINITY)
        };
        let noise = DVec2::new((variance / near).sqrt().max(BEST), sideways);
        Some(Doppler { along: DVec2::from_angle(heading).rotate(along), speeds, noise })
    }

    /// The same without what is known across.
    pub fn narrow(self) -> Doppler {
        let (speeds, noise) = (self.speeds, self.noise);
        Doppler {
            speeds: DVec2::new(speeds.x, 0.0),
            noise: DVec2::new(noise.x, f64::INFINITY),
            ..self
        }
    }

    /// Does it certainly move?
    pub fn moves(&self) -> bool {
        self.speeds.x.abs() > SURE * self.noise.x
    }
}

/// Number of standard deviations that rules out chance.
pub(super) const SURE: f64 = 4.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn returns(velocity: DVec2, width: f64) -> Vec<(DVec2, f64)> {
        let at = |step: i32| DVec2::new(20.0, 5.0 + width * f64::from(step) / 40.0).normalize();
        (-20..=20).map(at).map(|to| (to, velocity.dot(to))).collect()
    }

    #[test]
    fn a_wide_thing_has_its_whole_velocity_a_narrow_one_that_along_the_line_of_sight() {
        let velocity = DVec2::new(-3.0, 2.0);
        let fit = |width| Doppler::fit(returns(velocity, width).into_iter(), 0.05, 0.3).unwrap();
        let wide = fit(8.0);
        let found = wide.speeds.x * wide.along + wide.speeds.y * wide.along.perp();
        assert!(found.distance(DVec2::from_angle(0.3).rotate(velocity)) < 1e-6, "{wide:?}");
        let narrow = fit(0.1);
        let sight = DVec2::new(20.0, 5.0).normalize();
        assert!((narrow.speeds.x - velocity.dot(sight)).abs() < 1e-3, "{narrow:?}");
        assert!(narrow.noise.y.is_infinite() && narrow.moves(), "{narrow:?}");
    }

    #[test]
    fn without_a_speed_nothing_is_known() {
        assert_eq!(Doppler::fit([(DVec2::X, f64::NAN)].into_iter(), 0.1, 0.0), None);
    }
}
