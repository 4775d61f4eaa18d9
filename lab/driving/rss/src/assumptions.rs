//! Assumptions about road users, and published sets of them.

use crate::Error;

/// Worst-case assumptions about one road user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumptions {
    /// Response time: the time for which it goes on before it brakes, s (rho).
    pub response: f64,
    /// Largest acceleration in the response time, m/s² (a_max,accel).
    pub acceleration: f64,
    /// Least braking after the response time, m/s², above 0 (a_min,brake).
    pub brake_min: f64,
    /// The same if it is in its own lane and another comes towards it there, m/s², above 0
    /// (a_min,brake,correct).
    pub brake_min_correct: f64,
    /// Strongest braking, m/s² (a_max,brake).
    pub brake_max: f64,
    /// Largest sideways acceleration in the response time, m/s².
    pub lateral_acceleration: f64,
    /// Least braking of the sideways movement after the response time, m/s², above 0.
    pub lateral_brake: f64,
    /// Distance that it may drift sideways without intent, m (mu).
    pub fluctuation: f64,
}

impl Assumptions {
    fn check(&self) -> Result<(), Error> {
        let in_range = |what, found: f64, low: f64, expected| {
            let ok = (low..=1e3).contains(&found);
            if ok { Ok(()) } else { Err(Error { what, found, expected }) }
        };
        let some = "a number between 0 and 1000";
        in_range("response, s", self.response, 0.0, some)?;
        in_range("acceleration, m/s²", self.acceleration, 0.0, some)?;
        in_range("lateral_acceleration, m/s²", self.lateral_acceleration, 0.0, some)?;
        in_range("fluctuation, m", self.fluctuation, 0.0, some)?;
        let above = "a number between 0.001 and 1000";
        in_range("brake_min_correct, m/s²", self.brake_min_correct, 1e-3, above)?;
        in_range("lateral_brake, m/s²", self.lateral_brake, 1e-3, above)?;
        let at_least = "brake_min_correct <= brake_min <= brake_max <= 1000";
        in_range("brake_min, m/s²", self.brake_min, self.brake_min_correct, at_least)?;
        in_range("brake_max, m/s²", self.brake_max, self.brake_min, at_least)
    }
}

/// Reading of the safe distance sideways. The two agree unless one moves away from the other,
/// or both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lateral {
    /// Formula of the RSS paper (definition 6): the way to brake counts wherever the movement
    /// points, and the drift is added to what is left above 0.
    Paper,
    /// Formula of Intel's ad-rss-lib: the way to brake counts only towards the other, and the
    /// drift is inside of what is cut at 0.
    #[default]
    AdRss,
}

/// Assumptions about the ego vehicle and about the other road user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    pub(crate) ego: Assumptions,
    pub(crate) other: Assumptions,
    pub(crate) lateral: Lateral,
    pub(crate) horizon: f64,
}

impl Model {
    /// The model with these assumptions, with the distance sideways as [`Lateral::AdRss`] has it
    /// and an unbounded horizon.
    ///
    /// # Errors
    /// An assumption that is not a number, is out of its range, or contradicts another one.
    pub fn new(ego: Assumptions, other: Assumptions) -> Result<Model, Error> {
        ego.check()?;
        other.check()?;
        Ok(Model { ego, other, lateral: Lateral::default(), horizon: f64::INFINITY })
    }

    /// The same with another reading of the distance sideways.
    pub fn with_lateral(self, lateral: Lateral) -> Model {
        Model { lateral, ..self }
    }

    /// The same with a horizon: a deadline later than `horizon` s is none, which is +infinity.
    ///
    /// # Errors
    /// A horizon that is below 0 or not a number; +infinity is one.
    pub fn with_horizon(self, horizon: f64) -> Result<Model, Error> {
        if horizon >= 0.0 {
            return Ok(Model { horizon, ..self });
        }
        Err(Error { what: "horizon, s", found: horizon, expected: "a number not below 0" })
    }

    /// Assumptions about the ego vehicle.
    pub fn ego(&self) -> &Assumptions {
        &self.ego
    }

    /// Assumptions about the other road user.
    pub fn other(&self) -> &Assumptions {
        &self.other
    }
}

/// A published set of assumptions. IEEE 2846-2022 says which assumptions must be made and gives
/// no values: none of these is "the standard's".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Name of the set, for users.
    pub name: &'static str,
    /// Source of the numbers.
    pub source: &'static str,
    /// Assumptions about the ego vehicle.
    pub ego: Assumptions,
    /// Assumptions about the others.
    pub other: Assumptions,
}

impl Preset {
    /// The values in the documentation of Intel's ad-rss-lib.
    pub const AD_RSS: Preset = {
        let ego = Assumptions {
            response: 1.0,
            acceleration: 3.5,
            brake_min: 4.0,
            brake_min_correct: 3.0,
            brake_max: 8.0,
            lateral_acceleration: 0.2,
            lateral_brake: 0.8,
            fluctuation: 0.1,
        };
        Preset {
            name: "ad-rss",
            source: "documentation of ad-rss-lib, parameter discussion",
            ego,
            other: Assumptions { response: 2.0, ..ego },
        }
    };

    /// Slow to respond, and prepared for others that accelerate and brake strongly.
    pub const CONSERVATIVE: Preset = {
        let any = Assumptions {
            response: 1.94,
            acceleration: 5.91,
            brake_min: 4.13,
            brake_min_correct: 1.86,
            brake_max: 9.50,
            lateral_acceleration: 0.45,
            lateral_brake: 0.86,
            fluctuation: 0.07,
        };
        Preset { name: "conservative", source: NINE_THREE, ego: any, other: any }
    };

    /// Quick to respond.
    pub const AGGRESSIVE: Preset = {
        let any = Assumptions {
            response: 0.53,
            acceleration: 4.10,
            brake_min: 4.64,
            brake_min_correct: 1.76,
            brake_max: 8.03,
            lateral_acceleration: 0.43,
            lateral_brake: 0.96,
            fluctuation: 0.07,
        };
        Preset { name: "aggressive", source: NINE_THREE, ego: any, other: any }
    };

    /// All of them.
    pub const ALL: [Preset; 3] = [Preset::AD_RSS, Preset::CONSERVATIVE, Preset::AGGRESSIVE];

    /// The model with these assumptions, as [`Model::new`] makes it.
    pub const fn model(&self) -> Model {
        let (lateral, horizon) = (Lateral::AdRss, f64::INFINITY);
        Model { ego: self.ego, other: self.other, lateral, horizon }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name == name)
    }
}

const NINE_THREE: &str = "public code, which names IEEE document 9304756 as its source; not \
                          checked against that document";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_pass_the_checks_that_users_numbers_must_pass() {
        for preset in Preset::ALL {
            assert_eq!(Model::new(preset.ego, preset.other), Ok(preset.model()), "{preset:?}");
            assert_eq!(Preset::named(preset.name), Some(preset));
        }
        assert_eq!(Preset::named("none"), None);
    }

    #[test]
    fn assumptions_that_contradict_themselves_are_refused_with_the_number() {
        let good = Preset::AD_RSS.ego;
        let refused = |bad: Assumptions, what: &str| {
            for error in [Model::new(bad, good), Model::new(good, bad)] {
                assert_eq!(error.unwrap_err().what, what);
            }
        };
        refused(Assumptions { response: f64::NAN, ..good }, "response, s");
        refused(Assumptions { acceleration: -0.1, ..good }, "acceleration, m/s²");
        refused(Assumptions { brake_min: 2.9, ..good }, "brake_min, m/s²");
        refused(Assumptions { brake_max: 3.9, ..good }, "brake_max, m/s²");
        refused(Assumptions { brake_max: f64::INFINITY, ..good }, "brake_max, m/s²");
        refused(Assumptions { brake_min_correct: 0.0, ..good }, "brake_min_correct, m/s²");
        refused(Assumptions { lateral_brake: 0.0, ..good }, "lateral_brake, m/s²");
        refused(Assumptions { lateral_acceleration: -1.0, ..good }, "lateral_acceleration, m/s²");
        refused(Assumptions { fluctuation: -1.0, ..good }, "fluctuation, m");
        let error = Preset::AD_RSS.model().with_horizon(f64::NAN).unwrap_err();
        assert_eq!(error.to_string(), "horizon, s: found NaN, expected a number not below 0");
    }
}
