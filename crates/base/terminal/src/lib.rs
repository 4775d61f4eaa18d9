//! The terminal of a command: what both programs write, and how they read what is typed.
//!
//! - [`tell!`] writes messages, [`output`] results and the files that options name.
//! - [`page`] lays out text and tables for a width, in colours; [`table`] has columns of text as wide
//!   as they need to be.
//! - [`progress`] says how far a command is, [`signals`] end it early.
//! - [`command_line`] has commands as they would be typed.
//! - [`time`] reads a time, as in 1ms.
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
    humantime::parse_duration(text).map_err(|error| format!("{error}; expected a time, as in 1ms"))
}
