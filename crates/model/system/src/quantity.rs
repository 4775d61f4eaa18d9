//! Times and sizes in words: `"10 ms"`, `"1.5 s"`, `"64 MiB"`.
//!
//! Decimal digits are shifted, never converted by way of a float, so that `"0.1 ms"` is exactly
//! 100000 ns and a value that is no whole number of nanoseconds is refused.

use analysis::MAX_TIME_NS;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeUnit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanosecond,
    /// Microseconds.
    #[serde(rename = "us")]
    Microsecond,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millisecond,
    /// Seconds.
    #[serde(rename = "s")]
    Second,
}

/// Units with their names and their nanoseconds, the largest first.
const UNITS: [(TimeUnit, &str, u64); 4] = [
    (TimeUnit::Second, "s", 1_000_000_000),
    (TimeUnit::Millisecond, "ms", 1_000_000),
    (TimeUnit::Microsecond, "us", 1_000),
    (TimeUnit::Nanosecond, "ns", 1),
];

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = UNITS.iter().find(|(unit, ..)| unit == self).map_or("", |(_, name, _)| name);
        f.write_str(name)
    }
}

thread_local! {
    /// Unit of bare integers in the file that this thread reads: serde gives the types that it
    /// reads nothing beside their values.
    static BARE_UNIT: Cell<Option<TimeUnit>> = const { Cell::new(None) };
}

/// The unit of bare integers in the file that this thread reads, if the file names one.
pub(crate) fn bare_unit() -> Option<TimeUnit> {
    BARE_UNIT.get()
}

/// Reads something in which bare integers have this unit.
pub(crate) fn with_bare_unit<T>(unit: Option<TimeUnit>, read: impl FnOnce() -> T) -> T {
    let before = BARE_UNIT.replace(unit);
    let value = read();
    BARE_UNIT.set(before);
    value
}

/// A time in the largest unit that writes it as a whole number: `"391 us"`.
pub fn format_time(time_ns: u64) -> String {
    let whole = |(_, _, ns): &&(TimeUnit, &str, u64)| time_ns != 0 && time_ns % ns == 0;
    let (_, name, ns) = UNITS.iter().find(whole).unwrap_or(&UNITS[3]);
    format!("{} {name}", time_ns / ns)
}

/// A size in the largest unit that writes it as a whole number: `"64 MiB"`.
pub(crate) fn format_bytes(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let fits = |unit: &(&str, u64)| bytes != 0 && bytes % unit.1 == 0;
    let (unit, factor) = units.into_iter().find(fits).unwrap_or(("B", 1));
    format!("{} {unit}", bytes / factor)
}

/// Expected form of a refused quantity, as the end of the sentence "found ..., expected ...".
pub(crate) type Expected = String;

/// A time in nanoseconds, at most [`MAX_TIME_NS`], so that sums of thousands of them cannot
/// overflow. A bare integer is in `bare`; without it only 0 needs no unit.
pub(crate) fn time_ns(text: &str, bare: Option<TimeUnit>) -> Result<u64, Expected> {
    let (number, unit) = split(text);
    let form = || {
        let bare = bare.map_or(String::new(), |bare| format!(" or a whole number of {bare}"));
        format!("a time such as \"10 ms\" (ns, us, ms, s){bare}")
    };
    if unit.is_empty() && bare.is_none() {
        return without_unit(number, ["us", "ms"]).unwrap_or_else(|| Err(form()));
    }
    let is_named = |(of, name, _): &&(TimeUnit, &str, u64)| match unit {
        "" => Some(*of) == bare,
        unit => *name == unit,
    };
    let factor = UNITS.iter().find(is_named).map(|(.., ns)| *ns);
    let factor = factor.filter(|_| !unit.is_empty() || !number.contains('.')).ok_or_else(form)?;
    let limit = || format!("a time of at most {MAX_TIME_NS} ns (104 days)");
    match scaled(number, factor) {
        Ok(time_ns) if time_ns <= MAX_TIME_NS => Ok(time_ns),
        Ok(_) | Err(Problem::Overflow) => Err(limit()),
        Err(Problem::Form) => Err(form()),
        Err(Problem::Fraction) => Err("a whole number of nanoseconds".to_owned()),
    }
}

/// A size in bytes; only 0 needs no unit.
pub(crate) fn bytes(text: &str) -> Result<u64, Expected> {
    let (number, unit) = split(text);
    let form = || "a size such as \"64 MiB\" (B, KiB, MiB, GiB)".to_owned();
    let factor = match unit {
        "" => return without_unit(number, ["KiB", "MiB"]).unwrap_or_else(|| Err(form())),
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(form()),
    };
    scaled(number, factor).map_err(|problem| match problem {
        Problem::Form => form(),
        Problem::Fraction => "a whole number of bytes".to_owned(),
        Problem::Overflow => format!("a size of at most {} bytes", u64::MAX),
    })
}

/// A number without a unit: 0, or refused with units that it may have been meant in. `None` for
/// what is no number.
fn without_unit(number: &str, units: [&str; 2]) -> Option<Result<u64, Expected>> {
    match scaled(number, 1) {
        Ok(0) => Some(Ok(0)),
        Err(Problem::Form) => None,
        _ => Some(Err(format!(
            "a number with its unit: \"{number}{}\" or \"{number}{}\"",
            units[0], units[1]
        ))),
    }
}

/// `"10 ms"` -> `("10", "ms")`
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// The most digits after the point, trailing zeros aside. No time and no size of use needs more,
/// and the product with any factor fits into 128 bits.
const MAX_FRACTION: usize = 18;

enum Problem {
    Form,
    Fraction,
    Overflow,
}

/// `number * factor`, exactly, where `number` is decimal digits with at most one point inside.
fn scaled(number: &str, factor: u64) -> Result<u64, Problem> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(Problem::Form);
    }
    let whole: u64 = whole.parse().map_err(|_| Problem::Overflow)?;
    let whole = whole.checked_mul(factor).ok_or(Problem::Overflow)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Ok(whole);
    }
    if fraction.len() > MAX_FRACTION {
        return Err(Problem::Fraction);
    }
    let scale = 10_u128.pow(fraction.len() as u32);
    let numerator: u128 = fraction.parse().map_err(|_| Problem::Fraction)?;
    let product = numerator * u128::from(factor);
    if product % scale != 0 {
        return Err(Problem::Fraction);
    }
    let part = u64::try_from(product / scale).map_err(|_| Problem::Overflow)?;
    whole.checked_add(part).ok_or(Problem::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_words_are_exact() {
        let us = Some(TimeUnit::Microsecond);
        for (text, expected_ns) in [
            ("10 ms", 10_000_000),
            ("10ms", 10_000_000),
            ("391 us", 391_000),
            ("1 s", 1_000_000_000),
            ("250 ns", 250),
            ("1.5 ms", 1_500_000),
            ("0.1 ms", 100_000),
            ("0.000000001 s", 1),
            ("1.50000000000000000000000000000000000000 us", 1_500),
            ("120000", 120_000_000),
            ("0", 0),
            ("9007199254740992 ns", MAX_TIME_NS),
            ("104 s", 104_000_000_000),
        ] {
            assert_eq!(time_ns(text, us), Ok(expected_ns), "{text}");
        }
        assert_eq!(time_ns("3", Some(TimeUnit::Second)), Ok(3_000_000_000));
    }

    #[test]
    fn times_that_mean_nothing_are_refused() {
        for text in ["", "ms", "-1 ms", "+1 ms", "1e3", "1.5", ".5 ms", "1. ms", "1.2.3 ms", "1 h"]
        {
            let expected = time_ns(text, Some(TimeUnit::Microsecond)).unwrap_err();
            assert!(expected.starts_with("a time such as"), "{text}: {expected}");
        }
        let expected = time_ns("1.5 ns", None).unwrap_err();
        assert_eq!(expected, "a whole number of nanoseconds");
        for text in [
            "9007199254740993 ns",
            "9007199.254740993 s",
            "18446744073709551616 ns",
            "18446744074 s",
            "99999999999999999999999 s",
        ] {
            let expected = time_ns(text, Some(TimeUnit::Microsecond)).unwrap_err();
            assert_eq!(expected, "a time of at most 9007199254740992 ns (104 days)", "{text}");
        }
    }

    #[test]
    fn sizes_in_words_are_exact() {
        for (text, expected) in [
            ("64 MiB", 64 << 20),
            ("4 KiB", 4096),
            ("0", 0),
            ("4096 B", 4096),
            ("1.5 KiB", 1536),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["64 MB", "lots", "1.0001 KiB", "17179869184 GiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_the_units_it_may_have_been_meant_in() {
        let time = |text| time_ns(text, None).unwrap_err();
        assert_eq!(time("500"), "a number with its unit: \"500us\" or \"500ms\"");
        assert_eq!(time("1.5"), "a number with its unit: \"1.5us\" or \"1.5ms\"");
        assert_eq!(time("1e3"), "a time such as \"10 ms\" (ns, us, ms, s)");
        let expected = "a number with its unit: \"64KiB\" or \"64MiB\"";
        assert_eq!(bytes("64").unwrap_err(), expected);
        assert_eq!((time_ns("0", None), bytes("0")), (Ok(0), Ok(0)));
    }

    #[test]
    fn a_time_is_shown_in_its_largest_whole_unit() {
        assert_eq!(format_time(10_000_000), "10 ms");
        assert_eq!(format_time(391_000), "391 us");
        assert_eq!(format_time(1_500_000), "1500 us");
        assert_eq!(format_time(0), "0 ns");
        assert_eq!([64 << 20, 1536, 3 << 30].map(format_bytes), ["64 MiB", "1536 B", "3 GiB"]);
    }
}
