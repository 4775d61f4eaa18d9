//! Numbers as text: times, sizes, shares, counts and lists; parts that are rounded so that they still
//! add up.

use analysis::System;

/// The unit of every time in one table, so that columns can be compared at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Microsecond,
    Millisecond,
}

impl Unit {
    /// The unit for the chains of a system.
    pub(crate) fn of(system: &System) -> Self {
        Self::of_longest(system.chains.iter().map(|chain| chain.period_ns).max().unwrap_or(0))
    }

    /// Milliseconds, unless the longest period is shorter than five of them.
    pub(crate) fn of_longest(period_ns: u64) -> Self {
        if period_ns < 5_000_000 { Self::Microsecond } else { Self::Millisecond }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Microsecond => "us",
            Self::Millisecond => "ms",
        }
    }

    /// A thousandth of the unit in nanoseconds: the last digit of [`Unit::up`] and [`Unit::down`].
    fn step(self) -> u64 {
        match self {
            Self::Microsecond => 1,
            Self::Millisecond => 1_000,
        }
    }

    /// A bound in a table, rounded up: it never looks shorter than it is.
    pub(crate) fn up(self, ns: u64) -> String {
        thousandths(ns.div_ceil(self.step()))
    }

    /// Slack in a table, rounded down: it never looks larger than it is.
    pub(crate) fn down(self, ns: u64) -> String {
        thousandths(ns / self.step())
    }

    /// A time in this unit.
    pub(crate) fn convert(self, ns: u64) -> f64 {
        match self {
            Self::Microsecond => ns as f64 / 1e3,
            Self::Millisecond => ns as f64 / 1e6,
        }
    }

    /// A measured time in a table.
    pub(crate) fn cell(self, ns: u64) -> String {
        let digits = match self {
            Self::Microsecond => 1,
            Self::Millisecond => 2,
        };
        format!("{:.digits$}", self.convert(ns))
    }

    /// A measured time in a sentence, three or four digits and the unit: `48.9 ms`.
    pub(crate) fn words(self, ns: u64) -> String {
        let time = self.convert(ns);
        let digits = match time {
            t if t >= 100.0 => 0,
            t if t >= 10.0 => 1,
            _ => 2,
        };
        format!("{time:.digits$} {}", self.name())
    }
}

fn thousandths(steps: u64) -> String {
    format!("{}.{:03}", steps / 1_000, steps % 1_000)
}

/// The unit of the times of one call, so that its parts can be compared at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    name: &'static str,
    /// Nanoseconds of the last digit that is shown.
    step_ns: u64,
    /// Digits after the point.
    digits: u32,
}

impl Scale {
    /// The unit in which a time has one to four digits before the point.
    pub(crate) fn of(ns: u64) -> Scale {
        match ns {
            0..10_000 => Scale { name: "ns", step_ns: 1, digits: 0 },
            10_000..10_000_000 => Scale { name: "us", step_ns: 100, digits: 1 },
            10_000_000..10_000_000_000 => Scale { name: "ms", step_ns: 10_000, digits: 2 },
            _ => Scale { name: "s", step_ns: 10_000_000, digits: 2 },
        }
    }

    /// Converts each part to a multiple of the last digit, so that the parts add up to their sum.
    pub(crate) fn steps(self, parts_ns: &[u64]) -> Vec<u128> {
        let total: u128 = parts_ns.iter().map(|ns| u128::from(*ns)).sum();
        apportion(parts_ns, (total + u128::from(self.step_ns) / 2) / u128::from(self.step_ns))
    }

    /// Shows `steps` times the last digit.
    pub(crate) fn show(self, steps: u128) -> String {
        let one = 10u128.pow(self.digits);
        match self.digits as usize {
            0 => format!("{steps} {}", self.name),
            digits => format!("{}.{:0digits$} {}", steps / one, steps % one, self.name),
        }
    }
}

/// The shares of the parts in tenths of a percent, which add up to 100 %.
pub(crate) fn tenths(parts_ns: &[u64]) -> Vec<u128> {
    apportion(parts_ns, 1_000)
}

/// `84.0 %`.
pub(crate) fn show_tenths(tenths: u128) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// A time in a sentence: `36 ms`, `1.6 s`.
pub fn time(ns: u64) -> String {
    let cell = cell(ns);
    match cell.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => cell,
    }
}

/// An instant, so that it can be found again: `53.5 ms`, `1.602 s`.
pub(crate) fn instant(ns: u64) -> String {
    if ns < 1_000_000_000 { time(ns) } else { format!("{:.3} s", ns as f64 / 1e9) }
}

/// A time in a table, three digits and the unit: `36.0 ms`, `591 ns`.
pub fn cell(ns: u64) -> String {
    let units = [("s", 999_500_000, 1e9), ("ms", 999_500, 1e6), ("us", 1_000, 1e3)];
    let Some((unit, _, factor)) = units.into_iter().find(|(_, least_ns, _)| ns >= *least_ns) else {
        return format!("{ns} ns");
    };
    let number = ns as f64 / factor;
    let digits = match number {
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.digits$} {unit}")
}

/// Divides `whole` in proportion to the parts, by largest remainders: what is given out adds up to
/// `whole`, and no share is further than 1 from the exact one.
fn apportion(parts: &[u64], whole: u128) -> Vec<u128> {
    let total: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    if total == 0 {
        return vec![0; parts.len()];
    }
    let exact = |part: &u64| u128::from(*part) * whole;
    let mut shares: Vec<u128> = parts.iter().map(|part| exact(part) / total).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(exact(&parts[*at]) % total), *at));
    let left = whole - shares.iter().sum::<u128>();
    for at in order.into_iter().take(left as usize) {
        shares[at] += 1;
    }
    shares
}

/// `84 %`; `0.4 %` where it would else be 0, and `99.9 %` where it would else be all; a dash where
/// the whole is nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    debug_assert!(part <= whole || whole == 0, "{part} is no part of {whole}");
    if whole == 0 && part > 0 {
        return "-".to_owned();
    }
    let tenths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    match tenths {
        0 if part > 0 => "< 0.1 %".to_owned(),
        0..100 => format!("{}.{} %", tenths / 10, tenths % 10),
        100..995 => format!("{} %", (tenths + 5) / 10),
        995..1_000 => format!("{}.{} %", tenths / 10, tenths % 10),
        _ => format!("{} %", tenths / 10),
    }
}

/// `58 %`, rounded down.
pub(crate) fn percent_down(part: u64, whole: u64) -> String {
    format!("{} %", u128::from(part) * 100 / u128::from(whole.max(1)))
}

/// `4 MiB`, `1.5 KiB`, `512 B`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((unit, factor)) = units.into_iter().find(|(_, factor)| bytes >= *factor) else {
        return format!("{bytes} B");
    };
    let number = format!("{:.1}", bytes as f64 / factor as f64);
    format!("{} {unit}", number.strip_suffix(".0").unwrap_or(&number))
}

/// `up to 4 KiB`, `64 KiB to 1 MiB`, `1 to 16 MiB`, `over 16 MiB`: the bytes of a size class, whose
/// least one is one more than the most of the class before.
pub(crate) fn bytes_class((least, most): (u64, u64)) -> String {
    match (least, most) {
        (0, u64::MAX) => "any size".to_owned(),
        (0, most) => format!("up to {}", bytes(most)),
        (least, u64::MAX) => format!("over {}", bytes(least - 1)),
        (least, most) => {
            let (low, high) = (bytes(least - 1), bytes(most));
            let same = low.split(' ').next_back() == high.split(' ').next_back();
            let low = if same { low.split(' ').next().unwrap_or_default() } else { &low };
            format!("{low} to {high}")
        }
    }
}

/// A count in thin groups of three: `12 345`.
pub fn count(number: u64) -> String {
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

/// `1 call`, `12 345 calls`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {many}", count(number)) }
}

/// `a, b and c`.
pub fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A number with about three digits that say something: `123`, `1.23`, `3.7e-3`.
pub fn digits(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        small if small < 0.01 => format!("{value:.1e}"),
        small if small < 0.1 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}

/// A number without the noise of its last binary digits: `0.3`, `20`.
pub fn plain(value: f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

/// Microseconds of nanoseconds with one digit after the point: `12.3`.
pub fn us(ns: f64) -> String {
    // A value that rounds to zero has no sign.
    format!("{:.1}", (ns / 100.0).round() / 10.0 + 0.0)
}

/// The mark of a result that a signal has cut short.
pub(crate) fn partial(marks: &[String]) -> Option<&String> {
    marks.iter().find(|mark| mark.starts_with("PARTIAL: "))
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
        assert_eq!(percent_down(2, 3), "66 %");
    }

    #[test]
    fn measured_times_in_sentences_carry_three_digits() {
        let texts = [48_912_300, 181_234_000, 1_234_000].map(|ns| Unit::Millisecond.words(ns));
        assert_eq!(texts, ["48.9 ms", "181 ms", "1.23 ms"]);
        assert_eq!(Unit::Microsecond.words(12_340), "12.3 us");
    }

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [0.0, 123.4, 12.34, 1.234, 0.0123, 0.00374, -5.5].map(digits);
        assert_eq!(shown, ["0", "123", "12.3", "1.23", "0.0123", "3.7e-3", "-5.50"]);
        assert_eq!([0.1 + 0.2, 20.0].map(plain), ["0.3", "20"]);
        assert_eq!([0, 1234, 12_345, 1_234_567].map(count), ["0", "1234", "12 345", "1 234 567"]);
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn shown_parts_add_up_to_the_shown_sum() {
        let parts = [3_333_333, 3_333_333, 3_333_334];
        let shown = |scale: Scale, parts: &[u64]| -> Vec<String> {
            scale.steps(parts).into_iter().map(|steps| scale.show(steps)).collect()
        };
        let scale = Scale::of(9_999_999);
        assert_eq!(shown(scale, &parts), ["3333.3 us", "3333.3 us", "3333.4 us"]);
        assert_eq!(tenths(&parts), [333, 333, 334]);
        let parts = [12_345_000, 1_000, 0];
        assert_eq!(shown(Scale::of(12_346_000), &parts), ["12.35 ms", "0.00 ms", "0.00 ms"]);
        assert_eq!(shown(Scale::of(731), &[700, 31]), ["700 ns", "31 ns"]);
        assert_eq!(tenths(&[0, 0]), [0, 0]);
        assert_eq!(tenths(&[u64::MAX, u64::MAX]), [500, 500]);
        assert_eq!(show_tenths(1_000), "100.0 %");
    }

    #[test]
    fn cells_carry_three_digits() {
        let cells = [0, 999, 1_000, 9_994, 9_996, 36_000_000, 999_499, 999_500].map(cell);
        let expected =
            ["0 ns", "999 ns", "1.00 us", "9.99 us", "10.0 us", "36.0 ms", "999 us", "1.00 ms"];
        assert_eq!(cells, expected);
        let times = [36_000_000, 1_230, 100_000, 999_600_000, 1_602_345_678, 700].map(time);
        assert_eq!(times, ["36 ms", "1.23 us", "100 us", "1 s", "1.6 s", "700 ns"]);
        let instants = [53_500_000, 1_602_345_678].map(instant);
        assert_eq!(instants, ["53.5 ms", "1.602 s"]);
    }

    #[test]
    fn shares_are_neither_hidden_nor_rounded_to_all() {
        let shares = [(0, 10), (1, 100_000), (4, 1000), (96, 100), (9_999, 10_000), (7, 7)];
        let texts = shares.map(|(part, whole)| percent(part, whole));
        assert_eq!(texts, ["0.0 %", "< 0.1 %", "0.4 %", "96 %", "99.9 %", "100 %"]);
        assert_eq!([percent(3, 0), percent(0, 0)], ["-", "0.0 %"]);
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 512, 1 << 10, 1_600, 4 << 20, (3 << 30) + (1 << 29)].map(bytes);
        assert_eq!(sizes, ["0 B", "512 B", "1 KiB", "1.6 KiB", "4 MiB", "3.5 GiB"]);
        let classes = [
            (0, 4096),
            (4097, 65536),
            (65537, 1 << 20),
            ((1 << 20) + 1, 16 << 20),
            ((16 << 20) + 1, u64::MAX),
        ];
        let texts = classes.map(bytes_class);
        assert_eq!(
            texts,
            ["up to 4 KiB", "4 to 64 KiB", "64 KiB to 1 MiB", "1 to 16 MiB", "over 16 MiB"]
        );
    }
}
