//! Time in a schedule, in units that its progress counts.

/// Least number of units of a schedule.
const LEAST: u64 = 1000;
/// Units of time, with their lengths in nanoseconds.
const UNITS: [(&str, u64); 4] = [
    ("s of the schedule", 1_000_000_000),
    ("ms of the schedule", 1_000_000),
    ("us of the schedule", 1_000),
    ("ns of the schedule", 1),
];

/// Clock of a schedule that ends at a known instant, but for the jobs that were released before.
pub(super) struct Clock {
    unit: (&'static str, u64),
    all: u64,
}

impl Clock {
    /// A clock that counts in the largest unit of which the schedule has a thousand.
    pub(super) fn of(horizon_ns: u64) -> Clock {
        let fits = UNITS.into_iter().find(|(_, ns)| horizon_ns / ns >= LEAST);
        let unit = fits.unwrap_or(UNITS[UNITS.len() - 1]);
        Clock { unit, all: horizon_ns / unit.1 }
    }

    /// Units that are over; not all of them, since the jobs that were released have to end.
    pub(super) fn at(&self, now_ns: u64) -> u64 {
        (now_ns / self.unit.1).min(self.all.saturating_sub(1))
    }

    /// Units of the whole schedule.
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// The name of the unit.
    pub(super) fn units(&self) -> &'static str {
        self.unit.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_counts_a_thousand_units_or_more() {
        let counted = |horizon_ns: u64, now_ns: u64| {
            let clock = Clock::of(horizon_ns);
            (clock.at(now_ns), clock.all(), clock.units())
        };
        let minute = 60_000_000_000;
        assert_eq!(counted(minute, minute / 2), (30_000, 60_000, "ms of the schedule"));
        assert_eq!(counted(minute, 2 * minute), (59_999, 60_000, "ms of the schedule"));
        assert_eq!(counted(minute * 60, minute), (60, 3600, "s of the schedule"));
        assert_eq!(counted(7, 9), (6, 7, "ns of the schedule"));
    }
}
