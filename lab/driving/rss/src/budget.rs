//! Part of a frame's deadline that is left for one module.

use crate::Error;
use crate::error::positive;

/// Times before and after a module, s, none below 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Longest time from the frame's newest event to its capture: the sensor's period.
    pub sensor: f64,
    /// Time from a command to its effect.
    pub actuation: f64,
    /// Time from the capture of the frame until now.
    pub age: f64,
    /// Time of the modules after this one: the sum of their 99th percentiles.
    pub downstream: f64,
}

/// The time that a module has, s: `deadline` (of the frame, at its capture) less what is spent.
/// Below 0: it is late by this much. +infinity without a deadline.
///
/// # Errors
/// A `deadline` that is not a number; a time that is not one or is below 0.
pub fn budget(deadline: f64, spent: &Spent) -> Result<f64, Error> {
    if deadline.is_nan() {
        let expected = "a number or infinity";
        return Err(Error { what: "deadline, s", found: deadline, expected });
    }
    let times = [
        ("sensor, s", spent.sensor),
        ("actuation, s", spent.actuation),
        ("age, s", spent.age),
        ("downstream, s", spent.downstream),
    ];
    times.into_iter().try_fold(deadline, |left, (what, time)| Ok(left - positive(what, time)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_what_the_others_leave() {
        let spent = Spent { sensor: 0.1, actuation: 0.05, age: 0.02, downstream: 0.08 };
        assert!((budget(0.4, &spent).unwrap() - 0.15).abs() < 1e-12);
        assert!((budget(0.2, &spent).unwrap() + 0.05).abs() < 1e-12);
        assert_eq!(budget(f64::INFINITY, &spent), Ok(f64::INFINITY));
        assert_eq!(budget(f64::NEG_INFINITY, &spent), Ok(f64::NEG_INFINITY));
        assert_eq!(budget(f64::NAN, &spent).unwrap_err().what, "deadline, s");
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            let error = budget(1.0, &Spent { age: bad, ..spent }).unwrap_err();
            assert_eq!(error.what, "age, s");
        }
    }
}
