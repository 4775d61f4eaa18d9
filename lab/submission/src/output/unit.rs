//! Times, factors and sizes as text.

use crate::network::Shape;
use report::number;

/// A time in a sentence or a cell: three digits and the unit that suits it.
pub(super) fn time(ns: f64) -> String {
    number::cell(ns.round() as u64)
}

/// A factor: two digits, three from 100 on.
pub(super) fn factor(times: f64) -> String {
    let digits = match times {
        t if t >= 9.95 => 0,
        t if t >= 0.995 => 1,
        _ => 2,
    };
    format!("{times:.digits$}")
}

/// A range of factors.
pub(super) fn factors(low: f64, high: f64) -> String {
    let (low, high) = (factor(low), factor(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// A size in a sentence.
pub(super) fn shape(shape: Shape) -> String {
    format!("k = {}, l = {}", shape.k, shape.l)
}

/// A number with the noun it counts.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_short() {
        assert_eq!([0.5, 1.04, 9.96, 123.4].map(factor), ["0.50", "1.0", "10", "123"]);
        assert_eq!((factors(1.01, 1.02), factors(1.0, 11.2)), ("1.0".into(), "1.0 to 11".into()));
    }
}
