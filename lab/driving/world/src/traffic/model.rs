//! The intelligent driver model (Treiber, Hennecke, Helbing 2000) and the lane change model MOBIL
//! (Kesting, Treiber, Helbing 2007).

/// Acceleration that drivers like, m/s².
const ACCELERATION: f64 = 1.5;
/// Braking that they like, m/s².
const BRAKING: f64 = 2.0;
/// The strongest that they are capable of, m/s².
const HARDEST: f64 = 8.0;
/// Gap that they leave to a vehicle that stands, m.
pub(crate) const STANDSTILL: f64 = 2.0;
/// Headway behind others, s.
pub(crate) const HEADWAY: f64 = 1.2;
/// Weight of others' disadvantage.
const POLITENESS: f64 = 0.3;
/// Smallest gain for which a change is made, m/s².
const THRESHOLD: f64 = 0.2;
/// Strongest braking that a change may cost the follower in the new lane, m/s².
const SAFE: f64 = 2.0;

/// The vehicle ahead: metres from bumper to bumper, and its speed in m/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ahead {
    pub(crate) gap: f64,
    pub(crate) speed: f64,
}

/// Acceleration of a driver at `speed` who wants `desired` (m/s) and stays `headway` s behind,
/// m/s².
pub(crate) fn follow(speed: f64, desired: f64, ahead: Option<Ahead>, headway: f64) -> f64 {
    let free = (ACCELERATION * (1.0 - (speed / desired.max(0.1)).powi(4))).max(-BRAKING);
    let Some(ahead) = ahead else { return free };
    let closing = speed * (speed - ahead.speed) / (2.0 * (ACCELERATION * BRAKING).sqrt());
    let wanted = STANDSTILL + (speed * headway + closing).max(0.0);
    let interaction = ACCELERATION * (wanted / ahead.gap.max(0.1)).powi(2);
    (free - interaction).max(-HARDEST)
}

/// A change of lanes, by the accelerations (m/s²) of who changes and of those behind in the new
/// and in the old lane, each before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) own: (f64, f64),
    pub(crate) new_follower: (f64, f64),
    pub(crate) old_follower: (f64, f64),
}

impl Change {
    /// Returns true if it is safe for the one behind then, and worth it.
    pub(crate) fn pays(&self) -> bool {
        let gain = |(before, after): (f64, f64)| after - before;
        let others = gain(self.new_follower) + gain(self.old_follower);
        self.new_follower.1 > -SAFE && gain(self.own) + POLITENESS * others > THRESHOLD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_in_equilibrium_keeps_speed() {
        let (speed, desired): (f64, f64) = (10.0, 15.0);
        let free = 1.0 - (speed / desired).powi(4);
        let gap = (STANDSTILL + speed * HEADWAY) / free.sqrt();
        let acceleration = follow(speed, desired, Some(Ahead { gap, speed }), HEADWAY);
        assert!(acceleration.abs() < 1e-12, "{acceleration}");
        assert!(follow(speed, desired, Some(Ahead { gap: gap - 1.0, speed }), HEADWAY) < 0.0);
    }

    #[test]
    fn driver_never_brakes_harder_than_the_vehicle_can() {
        let wall = Some(Ahead { gap: 1.0, speed: 0.0 });
        assert_eq!(follow(30.0, 30.0, wall, HEADWAY), -HARDEST);
        assert_eq!(follow(30.0, 10.0, None, HEADWAY), -BRAKING);
    }

    #[test]
    fn change_that_makes_a_follower_brake_hard_does_not_pay() {
        let change =
            Change { own: (-1.0, 1.0), new_follower: (0.0, 0.0), old_follower: (0.0, 0.0) };
        assert!(change.pays());
        assert!(!Change { new_follower: (0.0, -3.0), ..change }.pays());
        assert!(!Change { own: (1.0, 1.1), ..change }.pays());
    }
}
