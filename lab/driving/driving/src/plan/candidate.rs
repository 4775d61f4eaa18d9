//! The two halves of a candidate: a path beside the reference line, and speeds along it.

use super::Planner;
use super::scene::Start;

/// Distances to the left of the reference line, by the distance along it.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Coefficients of the polynomial in the distance from the start, from the constant on.
    terms: [f64; 6],
    /// Distance from the start beyond which it is `end` m beside the line, m.
    station: f64,
    end: f64,
}

/// Place of a path beside the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// Offset to the left of the line, m.
    pub left: f64,
    /// Change of `left` along the line.
    pub slope: f64,
    /// Change of the slope along the line, 1/m.
    pub change: f64,
}

impl Path {
    /// The smoothest path that is `end` m left of the line, and along it, after `station` m.
    pub(super) fn to(start: &Start, end: f64, station: f64) -> Path {
        let Start { left, slope, bend, .. } = *start;
        let s = station;
        // Parts of place, slope and bend that are missing at the station.
        let place = end - left - slope * s - bend * s * s / 2.0;
        let turn = -slope - bend * s;
        let terms = [
            left,
            slope,
            bend / 2.0,
            (10.0 * place - 4.0 * turn * s - bend * s * s / 2.0) / s.powi(3),
            (-15.0 * place + 7.0 * turn * s + bend * s * s) / s.powi(4),
            (6.0 * place - 3.0 * turn * s - bend * s * s / 2.0) / s.powi(5),
        ];
        Path { terms, station, end }
    }

    /// Path as far beside the line as now; a slope ends over 10 m.
    pub(super) fn hold(start: &Start) -> Path {
        Path::to(start, start.left + 4.0 * start.slope, 10.0)
    }

    /// Distance beside the line at which it ends, m.
    pub(super) fn end(&self) -> f64 {
        self.end
    }

    /// m, with its first and second derivative by the distance along the line.
    pub(super) fn beside(&self, along: f64) -> Beside {
        let (slope, change) = self.slopes(along);
        Beside { left: self.left(along), slope, change }
    }

    /// m.
    fn left(&self, along: f64) -> f64 {
        if along >= self.station {
            return self.end;
        }
        self.terms.iter().rev().fold(0.0, |sum, term| sum * along + term)
    }

    /// The first and the second derivative by the distance along the line.
    fn slopes(&self, along: f64) -> (f64, f64) {
        if along >= self.station {
            return (0.0, 0.0);
        }
        let [_, one, two, three, four, five] = self.terms;
        let s = along;
        let first = one + s * (2.0 * two + s * (3.0 * three + s * (4.0 * four + s * 5.0 * five)));
        let second = 2.0 * two + s * (6.0 * three + s * (12.0 * four + s * 20.0 * five));
        (first, second)
    }
}

/// Speeds by time.
#[derive(Clone, Debug)]
pub(super) enum Profile {
    /// A polynomial of third degree that ends without acceleration.
    Smooth {
        /// Coefficients from the constant on.
        terms: [f64; 4],
        /// Time at which it ends, s.
        time: f64,
        /// Speed at its end, m/s.
        end: f64,
    },
    /// Constant acceleration, up to a speed.
    Steady {
        /// m/s.
        from: f64,
        /// m/s².
        acceleration: f64,
        /// m/s.
        end: f64,
    },
}

/// Progress of a profile that is driven.
#[derive(Clone, Copy, Debug)]
pub(super) struct Driven {
    /// s.
    pub time: f64,
    /// m along the line.
    pub along: f64,
    /// m/s.
    pub speed: f64,
    /// m/s².
    pub acceleration: f64,
}

impl Profile {
    /// Profile from a speed and an acceleration to another speed.
    pub(super) fn smooth(from: f64, acceleration: f64, end: f64, time: f64) -> Profile {
        let more = end - from;
        let second = (3.0 * more - 2.0 * acceleration * time) / time.powi(2);
        let third = (-2.0 * more + acceleration * time) / time.powi(3);
        Profile::Smooth { terms: [from, acceleration, second, third], time, end }
    }

    /// A brake to a standstill, m/s² above 0.
    pub(super) fn brake(from: f64, brake: f64) -> Profile {
        Profile::Steady { from, acceleration: -brake, end: 0.0 }
    }

    pub(super) fn begin(&self) -> Driven {
        let (speed, acceleration) = match self {
            Profile::Smooth { terms, .. } => (terms[0], terms[1]),
            Profile::Steady { from, acceleration, .. } => (*from, *acceleration),
        };
        Driven { time: 0.0, along: 0.0, speed, acceleration }
    }

    /// The state one step later; none if it would go backwards.
    pub(super) fn advance(&self, from: Driven, step: f64) -> Option<Driven> {
        let time = from.time + step;
        let (speed, acceleration) = match self {
            Profile::Smooth { terms: [zero, one, two, three], time: last, end } => {
                if time >= *last {
                    (*end, 0.0)
                } else {
                    let speed = zero + time * (one + time * (two + time * three));
                    (speed, one + time * (2.0 * two + time * 3.0 * three))
                }
            }
            Profile::Steady { acceleration, end, .. } => {
                let speed = from.speed + acceleration * step;
                let over = (speed - end) * acceleration.signum() >= 0.0;
                if over { (*end, 0.0) } else { (speed, *acceleration) }
            }
        };
        let along = from.along + (from.speed + speed) / 2.0 * step;
        (speed >= -0.05).then_some(Driven { time, along, speed: speed.max(0.0), acceleration })
    }
}

/// A profile driven step by step, as every candidate with it is.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// Its number among the profiles.
    pub number: usize,
    pub profile: Profile,
    /// After each step, until the horizon or the lookahead is passed.
    pub driven: Vec<Driven>,
    /// Continuation to a standstill.
    pub stop: Vec<Driven>,
}

impl Course {
    /// None if it would go backwards, or if the vehicle can neither accelerate nor brake so.
    pub(super) fn of(planner: &Planner, number: usize, profile: Profile) -> Option<Course> {
        let steps = planner.steps();
        let (mut driven, mut now) = (Vec::with_capacity(steps), profile.begin());
        while driven.len() < steps && now.along <= planner.lookahead {
            now = profile.advance(now, planner.step)?;
            planner.accelerates(now.acceleration).then_some(())?;
            driven.push(now);
        }
        let brake = Profile::brake(now.speed, planner.last_brake);
        let mut stop = Vec::new();
        while now.speed > 0.0 {
            now = brake.advance(now, planner.step)?;
            stop.push(now);
        }
        Some(Course { number, profile, driven, stop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_as_the_vehicle_drives_and_ends_where_it_shall() {
        let start = Start { left: 0.4, slope: 0.1, bend: -0.01, speed: 10.0 };
        let path = Path::to(&start, 3.5, 40.0);
        assert!(
            (path.left(0.0) - 0.4).abs() < 1e-12 && (path.left(40.0 - 1e-9) - 3.5).abs() < 1e-6
        );
        let (slope, bend) = path.slopes(0.0);
        assert!((slope - 0.1).abs() < 1e-12 && (bend + 0.01).abs() < 1e-12);
        let (slope, bend) = path.slopes(40.0 - 1e-9);
        assert!(slope.abs() < 1e-6 && bend.abs() < 1e-6, "{slope} {bend}");
        assert_eq!((path.left(50.0), path.slopes(50.0)), (3.5, (0.0, 0.0)));
    }

    #[test]
    fn a_smooth_profile_goes_as_far_as_its_integral() {
        let profile = Profile::smooth(10.0, -1.0, 4.0, 5.0);
        let mut driven = profile.begin();
        for _ in 0..500 {
            driven = profile.advance(driven, 0.01).unwrap();
        }
        // The integral of 10 - t + c2 t² + c3 t³ with c2 = -0.32, c3 = 0.056 over 5 s.
        let integral = 50.0 - 12.5 - 0.32 * 125.0 / 3.0 + 0.056 * 625.0 / 4.0;
        assert!((driven.along - integral).abs() < 1e-3, "{driven:?}, {integral}");
        assert!((driven.speed - 4.0).abs() < 1e-9 && driven.acceleration.abs() < 1e-9);
    }
}
