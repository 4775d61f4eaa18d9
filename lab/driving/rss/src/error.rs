//! Error of a number that is not valid.

/// Reason for which a function gives no answer: a value that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{what}: found {found}, expected {expected}")]
pub struct Error {
    /// Name of the value.
    pub what: &'static str,
    /// The value.
    pub found: f64,
    /// Description of the valid values.
    pub expected: &'static str,
}

/// Far beyond any distance (m), speed (m/s) or time (s) of a road, and small enough that no square
/// of it overflows.
const LARGEST: f64 = 1e9;

/// A distance, speed or time of any sign.
pub(crate) fn number(what: &'static str, found: f64) -> Result<f64, Error> {
    let expected = "a number between -1e9 and 1e9";
    if found.abs() <= LARGEST { Ok(found) } else { Err(Error { what, found, expected }) }
}

/// A distance, speed or time that is not below 0.
pub(crate) fn positive(what: &'static str, found: f64) -> Result<f64, Error> {
    let expected = "a number between 0 and 1e9";
    if (0.0..=LARGEST).contains(&found) { Ok(found) } else { Err(Error { what, found, expected }) }
}
