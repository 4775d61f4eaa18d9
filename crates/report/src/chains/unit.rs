//! Times as text, in one unit per report so that columns can be compared at a glance.

use super::ChainsRun;

/// The unit of every time in one report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Microsecond,
    Millisecond,
}

impl Unit {
    /// Milliseconds, unless every period is shorter than five of them.
    pub(super) fn of(run: &ChainsRun) -> Self {
        let longest_us = run.chains.iter().map(|chain| chain.period_us).fold(0.0, f64::max);
        if longest_us < 5_000.0 { Self::Microsecond } else { Self::Millisecond }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Microsecond => "us",
            Self::Millisecond => "ms",
        }
    }

    pub(super) fn convert(self, time_us: f64) -> f64 {
        match self {
            Self::Microsecond => time_us,
            Self::Millisecond => time_us / 1_000.0,
        }
    }

    /// A cell of a table: the number alone.
    pub(super) fn cell(self, time_us: f64) -> String {
        match self {
            Self::Microsecond => format!("{:.1}", self.convert(time_us)),
            Self::Millisecond => format!("{:.2}", self.convert(time_us)),
        }
    }

    /// A time inside a sentence: three or four digits and the unit.
    pub(super) fn words(self, time_us: f64) -> String {
        let time = self.convert(time_us);
        let digits = match time {
            t if t >= 100.0 => 0,
            t if t >= 10.0 => 1,
            _ => 2,
        };
        format!("{time:.digits$} {}", self.name())
    }

    /// A round number, as on an axis: no digits that say nothing.
    pub(super) fn round(self, time_us: f64) -> String {
        let text = format!("{:.3}", self.convert(time_us));
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A count with thin groups of three: `12 345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 && digits.len() > 4 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_sentences_carry_three_digits() {
        let texts = [48_912.3, 181_234.0, 1_234.0].map(|us| Unit::Millisecond.words(us));
        assert_eq!(texts, ["48.9 ms", "181 ms", "1.23 ms"]);
        assert_eq!(Unit::Microsecond.words(12.34), "12.3 us");
    }

    #[test]
    fn long_counts_are_grouped() {
        assert_eq!([0, 1234, 12_345, 1_234_567].map(count), ["0", "1234", "12 345", "1 234 567"]);
    }
}
