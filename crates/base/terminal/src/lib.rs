//! The terminal of a command: what both programs write, and how they read what is typed.
//!
//! - [`tell!`] writes messages, [`output`] results and the files that options name.
//! - [`page`] lays out text and tables for a width, in colours; [`table`] has columns of text as wide
//!   as they need to be.
//! - [`progress`] says how far a command is, [`signals`] end it early.
//! - [`command_line`] has commands as they would be typed.
//! - [`time`] reads a time, as in 1ms, [`size`] a size, as in 64MiB.
#![forbid(unsafe_code)]
// They panic where the output is closed or full.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod command_line;
pub mod output;
pub mod page;
pub mod progress;
pub mod signals;
pub mod table;

use std::time::Duration;

/// Writes a message to standard error, as [`output::tell`] does.
#[macro_export]
macro_rules! tell {
    ($($part:tt)*) => { $crate::output::tell(format_args!($($part)*)) };
}

/// Reads a time from an option, as in 1ms.
///
/// # Errors
/// Says what is wrong with it, and what was expected.
pub fn time(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(Duration::ZERO),
        Ok(_) => Err(format!("expected a number with its unit: {text}us or {text}ms")),
        Err(_) => humantime::parse_duration(text)
            .map_err(|error| format!("{error}; expected a time, as in 1ms")),
    }
}

/// Reads a size in bytes from an option, as in 64MiB.
///
/// # Errors
/// Says what was expected.
pub fn size(text: &str) -> Result<u64, String> {
    let expected = || "expected a whole number with B, KiB, MiB or GiB, as in 64MiB".to_owned();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let factor: u64 = match unit.trim_start() {
        "" if number > 0 => {
            return Err(format!("expected a number with its unit: {number}KiB or {number}MiB"));
        }
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(expected()),
    };
    number.checked_mul(factor).ok_or_else(|| format!("expected at most {} bytes", u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(time("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(time("0"), Ok(Duration::ZERO));
        let expected = "expected a number with its unit: 500us or 500ms";
        assert_eq!(time("500"), Err(expected.to_owned()));
        assert!(time("").is_err() && time("ms").is_err());
        let sizes = ["0", "17B", "3 KiB", "256MiB", "2GiB"].map(|text| size(text).ok());
        assert_eq!(sizes, [0, 17, 3 << 10, 256 << 20, 2 << 30].map(Some));
        let expected = "expected a number with its unit: 64KiB or 64MiB";
        assert_eq!(size("64"), Err(expected.to_owned()));
        for wrong in ["", "MiB", "1.5MiB", "1 MB", "-1", "99999999999GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
