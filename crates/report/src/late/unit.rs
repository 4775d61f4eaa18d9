//! Times, sizes and shares as text; parts that are rounded so that they still add up.

pub(super) use crate::chains::unit::count;

/// The unit of the times of one call, so that its parts can be compared at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    name: &'static str,
    /// Nanoseconds of the last digit that is shown.
    step_ns: u64,
    /// Digits after the point.
    digits: u32,
}

impl Scale {
    /// The unit in which a time has one to four digits before the point.
    pub(super) fn of(ns: u64) -> Scale {
        match ns {
            0..10_000 => Scale { name: "ns", step_ns: 1, digits: 0 },
            10_000..10_000_000 => Scale { name: "us", step_ns: 100, digits: 1 },
            10_000_000..10_000_000_000 => Scale { name: "ms", step_ns: 10_000, digits: 2 },
            _ => Scale { name: "s", step_ns: 10_000_000, digits: 2 },
        }
    }

    /// Converts each part to a multiple of the last digit, so that the parts add up to their sum.
    pub(super) fn steps(self, parts_ns: &[u64]) -> Vec<u128> {
        let total: u128 = parts_ns.iter().map(|ns| u128::from(*ns)).sum();
        apportion(parts_ns, (total + u128::from(self.step_ns) / 2) / u128::from(self.step_ns))
    }

    /// So many times the last digit.
    pub(super) fn show(self, steps: u128) -> String {
        let one = 10u128.pow(self.digits);
        match self.digits as usize {
            0 => format!("{steps} {}", self.name),
            digits => format!("{}.{:0digits$} {}", steps / one, steps % one, self.name),
        }
    }
}

/// The shares of the parts in tenths of a percent, which add up to 100 %.
pub(super) fn tenths(parts_ns: &[u64]) -> Vec<u128> {
    apportion(parts_ns, 1_000)
}

/// `84.0 %`.
pub(super) fn show_tenths(tenths: u128) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// A time in a sentence: `36 ms`, `1.6 s`.
pub(super) fn time(ns: u64) -> String {
    let cell = cell(ns);
    match cell.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => cell,
    }
}

/// An instant, so that it can be found again: `53.5 ms`, `1.602 s`.
pub(super) fn instant(ns: u64) -> String {
    if ns < 1_000_000_000 { time(ns) } else { format!("{:.3} s", ns as f64 / 1e9) }
}

/// A time in a table, three digits and the unit: `36.0 ms`, `591 ns`.
pub(super) fn cell(ns: u64) -> String {
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

/// `84 %`; `0.4 %` where it would else be 0, and `99.9 %` where it would else be all.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    match tenths {
        0 if part > 0 => "< 0.1 %".to_owned(),
        0..100 => format!("{}.{} %", tenths / 10, tenths % 10),
        100..995 => format!("{} %", (tenths + 5) / 10),
        995..1_000 => format!("{}.{} %", tenths / 10, tenths % 10),
        _ => format!("{} %", tenths / 10),
    }
}

/// `4 MiB`, `1.5 KiB`, `512 B`.
pub(super) fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((unit, factor)) = units.into_iter().find(|(_, factor)| bytes >= *factor) else {
        return format!("{bytes} B");
    };
    let number = format!("{:.1}", bytes as f64 / factor as f64);
    format!("{} {unit}", number.strip_suffix(".0").unwrap_or(&number))
}

/// `up to 4 KiB`, `64 KiB to 1 MiB`, `1 to 16 MiB`, `over 16 MiB`: the bytes of a size class, whose
/// least one is one more than the most of the class before.
pub(super) fn bytes_class((least, most): (u64, u64)) -> String {
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

/// `1 call`, `12 345 calls`.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {many}", count(number)) }
}

/// `a, b and c`.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(percent(3, 0), "300 %");
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
