//! Random situations, the same in every run.

use rss::{Across, Along, Assumptions, Direction};

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(pub u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.bits() % count
    }

    /// One in eight has no acceleration at all.
    pub(crate) fn assumptions(&mut self) -> Assumptions {
        let moving = if self.below(8) == 0 { 0.0 } else { 1.0 };
        let brake_min = self.between(2.0, 5.0);
        Assumptions {
            response: self.between(0.05, 2.5),
            acceleration: moving * self.between(0.05, 6.0),
            brake_min,
            brake_min_correct: self.between(1.0, brake_min),
            brake_max: self.between(5.5, 10.0),
            lateral_acceleration: moving * self.between(0.05, 0.6),
            lateral_brake: self.between(0.3, 1.2),
            fluctuation: self.between(0.0, 0.3),
        }
    }

    /// Up to 180 km/h; one in eight stands.
    fn speed(&mut self) -> f64 {
        if self.below(8) == 0 { 0.0 } else { self.between(0.0, 50.0) }
    }

    pub(crate) fn along(&mut self) -> Along {
        let direction = match self.below(4) {
            0 => Direction::Ahead,
            1 => Direction::Behind,
            which => Direction::Oncoming { ego_in_own_lane: which == 2 },
        };
        let gap = self.between(0.0, 150.0);
        Along { direction, gap, ego_speed: self.speed(), other_speed: self.speed() }
    }

    pub(crate) fn across(&mut self) -> Across {
        Across {
            gap: self.between(0.0, 6.0),
            ego_speed: self.between(-2.0, 2.0),
            other_speed: self.between(-2.0, 2.0),
        }
    }
}
