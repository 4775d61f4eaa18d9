//! Times in nanoseconds as text: exact in tables, short in sentences.

use analysis::System;

/// The unit of every time in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Microsecond,
    Millisecond,
}

impl Unit {
    /// Milliseconds, unless every period is shorter than five of them.
    pub(crate) fn of(system: &System) -> Self {
        let longest_ns = system.chains.iter().map(|chain| chain.period_ns).max().unwrap_or(0);
        if longest_ns < 5_000_000 { Self::Microsecond } else { Self::Millisecond }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Microsecond => "us",
            Self::Millisecond => "ms",
        }
    }

    fn nanoseconds(self) -> u64 {
        match self {
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
        }
    }

    /// A thousandth of the unit, the last digit of a cell.
    fn step(self) -> u64 {
        self.nanoseconds() / 1_000
    }

    /// A cell of a table with three digits after the point, rounded up: a bound never looks
    /// shorter than it is.
    pub(crate) fn up(self, ns: u64) -> String {
        self.steps(ns.div_ceil(self.step()))
    }

    /// A cell rounded down: slack never looks larger than it is.
    pub(crate) fn down(self, ns: u64) -> String {
        self.steps(ns / self.step())
    }

    fn steps(self, steps: u64) -> String {
        format!("{}.{:03}", steps / 1_000, steps % 1_000)
    }
}

/// A time inside a sentence, three digits and the unit: `49.8 ms`, `391 us`.
pub(crate) fn words(ns: u64) -> String {
    let units = [("s", 10_000_000_000, 1e9), ("ms", 1_000_000, 1e6), ("us", 1_000, 1e3)];
    let found = units.into_iter().find(|(_, least_ns, _)| ns >= *least_ns);
    let (unit, _, factor) = found.unwrap_or(("ns", 0, 1.0));
    let time = ns as f64 / factor;
    let digits = match time {
        t if t >= 100.0 => 0,
        t if t >= 10.0 => 1,
        _ => 2,
    };
    format!("{} {unit}", trimmed(&format!("{time:.digits$}")))
}

/// Without zeros after the point that say nothing.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// `58 %`, rounded down.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    format!("{percent} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_rounded_up_and_slack_down() {
        assert_eq!(Unit::Millisecond.up(49_814_001), "49.815");
        assert_eq!(Unit::Millisecond.up(49_814_000), "49.814");
        assert_eq!(Unit::Millisecond.down(70_185_999), "70.185");
        assert_eq!(Unit::Microsecond.up(1_234_567), "1234.567");
        assert_eq!(percent(2, 3), "66 %");
    }

    #[test]
    fn times_in_sentences_carry_three_digits() {
        let texts = [48_912_300, 181_234_000, 1_234_000, 391_000, 120_000_000, 7, 1_500].map(words);
        assert_eq!(texts, ["48.9 ms", "181 ms", "1.23 ms", "391 us", "120 ms", "7 ns", "1.5 us"]);
        assert_eq!(words(12_000_000_000), "12 s");
        assert_eq!(words(100_000_000), "100 ms");
    }
}
