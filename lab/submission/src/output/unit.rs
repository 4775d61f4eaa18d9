//! Times, factors and sizes as text.

use crate::network::Shape;

/// A time in a sentence or a cell: three digits and the unit that suits it.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = scaled(ns);
    let digits = match value {
        v if unit == "ns" || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// A round time at an axis: no digits that say nothing.
pub(super) fn round(ns: f64) -> String {
    let (value, unit) = scaled(ns);
    let text = format!("{value:.3}");
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn scaled(ns: f64) -> (f64, &'static str) {
    let units = [(999.5, 1.0, "ns"), (999_500.0, 1e3, "µs"), (999_500_000.0, 1e6, "ms")];
    let unit = units.into_iter().find(|(below, _, _)| ns < *below);
    let (_, size, name) = unit.unwrap_or((f64::INFINITY, 1e9, "s"));
    (ns / size, name)
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

/// "a, b and c"
pub(super) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_three_digits_and_the_unit_that_suits_them() {
        let texts = [940.0, 1_234.0, 45_600.0, 999_700.0, 123_400_000.0, 2.5e9].map(time);
        assert_eq!(texts, ["940 ns", "1.23 µs", "45.6 µs", "1.00 ms", "123 ms", "2.50 s"]);
        assert_eq!([10_000.0, 500.0, 2e6].map(round), ["10 µs", "500 ns", "2 ms"]);
    }

    #[test]
    fn factors_are_short_and_lists_are_read_aloud() {
        assert_eq!([0.5, 1.04, 9.96, 123.4].map(factor), ["0.50", "1.0", "10", "123"]);
        assert_eq!((factors(1.01, 1.02), factors(1.0, 11.2)), ("1.0".into(), "1.0 to 11".into()));
        let parts = ["a", "b", "c"].map(String::from);
        assert_eq!(list(&parts), "a, b and c");
        assert_eq!(list(&parts[..1]), "a");
    }
}
