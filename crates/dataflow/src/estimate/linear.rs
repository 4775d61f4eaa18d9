//! The linear predictor of execution times (COLA, equation 3):
//! `Latency = sum of Time_i * Number_i + Offset`.
//!
//! The coefficients are learned while the graph runs: least squares with coefficients that are not
//! negative, by coordinate descent on the sums of products, which is exact in the limit because the
//! problem is convex. A bound adds a high quantile of what the predictions were too small by. The
//! predictor says nothing of an input with more of a category than it has seen.

use crate::Load;
use crate::estimate::Window;

/// Categories, and the offset as the last one.
const TERMS: usize = Load::CATEGORIES + 1;
/// Runs after which the coefficients are fitted anew.
const REFIT: u64 = 8;
/// Number of runs before the predictor gives a bound.
const CALIBRATED: u64 = 32;

pub(crate) struct Linear {
    products: [[f64; TERMS]; TERMS],
    targets: [f64; TERMS],
    coefficients: [f64; TERMS],
    largest: [f64; TERMS],
    runs: u64,
    residuals: Window,
}

impl Linear {
    pub(crate) fn new() -> Self {
        Linear {
            products: [[0.0; TERMS]; TERMS],
            targets: [0.0; TERMS],
            coefficients: [0.0; TERMS],
            largest: [0.0; TERMS],
            runs: 0,
            residuals: Window::new(u64::MAX),
        }
    }

    /// A run of `load` took `service_ns`.
    pub(crate) fn add(&mut self, now_ns: u64, load: &Load, service_ns: u64) {
        let row = row(load);
        let residual = service_ns as f64 - self.predict(&row);
        if self.runs >= CALIBRATED / 2 {
            self.residuals.add(now_ns, residual.ceil() as i64);
        }
        for (i, &term) in row.iter().enumerate() {
            self.targets[i] += term * service_ns as f64;
            self.largest[i] = self.largest[i].max(term);
            for (j, &other) in row.iter().enumerate() {
                self.products[i][j] += term * other;
            }
        }
        self.runs += 1;
        if self.runs % REFIT == 0 {
            self.fit();
        }
    }

    /// Returns the longest time of a run of `load`, but for a share of `1 - quantile` of all runs.
    /// `None` outside the range that was seen, and before `CALIBRATED` runs.
    pub(crate) fn bound_ns(&mut self, now_ns: u64, load: &Load, quantile: f64) -> Option<u64> {
        let row = row(load);
        let inside = row.iter().zip(&self.largest).all(|(term, largest)| term <= largest);
        if self.runs < CALIBRATED || !inside {
            return None;
        }
        let margin = self.residuals.quantile(now_ns, quantile)?.max(0);
        Some(self.predict(&row).ceil() as u64 + margin as u64)
    }

    fn predict(&self, row: &[f64; TERMS]) -> f64 {
        row.iter().zip(&self.coefficients).map(|(term, coefficient)| term * coefficient).sum()
    }

    fn fit(&mut self) {
        for _ in 0..64 {
            for i in 0..TERMS {
                if self.products[i][i] == 0.0 {
                    continue;
                }
                let others: f64 = (0..TERMS)
                    .filter(|&j| j != i)
                    .map(|j| self.products[i][j] * self.coefficients[j])
                    .sum();
                self.coefficients[i] = ((self.targets[i] - others) / self.products[i][i]).max(0.0);
            }
        }
    }
}

fn row(load: &Load) -> [f64; TERMS] {
    let mut row = [0.0; TERMS];
    row[..load.counts.len()].copy_from_slice(&load.counts);
    row[TERMS - 1] = 1.0;
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(linear: &mut Linear, noise: impl Fn(u64) -> u64) {
        for run in 0..200 {
            let (cars, people) = (run % 11, run * 7 % 5);
            let service = 300_000 * cars + 120_000 * people + 1_000_000 + noise(run);
            linear.add(run, &Load::of(&[cars as f64, people as f64]), service);
        }
    }

    #[test]
    fn coefficients_of_exact_data_are_found() {
        let mut linear = Linear::new();
        train(&mut linear, |_| 0);
        let found = linear.coefficients;
        assert!((found[0] - 300_000.0).abs() < 300.0, "{found:?}");
        assert!((found[1] - 120_000.0).abs() < 300.0, "{found:?}");
        assert!((found[TERMS - 1] - 1_000_000.0).abs() < 2_000.0, "{found:?}");
    }

    #[test]
    fn bound_covers_the_quantile_and_not_much_more() {
        let mut linear = Linear::new();
        let noise = |run: u64| run * 2_654_435_761 % 500_000;
        train(&mut linear, noise);
        let mut above = 0;
        for run in 0..1_000 {
            let (cars, people) = (run % 11, run % 5);
            let load = Load::of(&[cars as f64, people as f64]);
            let bound = linear.bound_ns(200, &load, 0.99).unwrap();
            let service = 300_000 * cars + 120_000 * people + 1_000_000 + noise(run * 13 + 5);
            above += u64::from(service > bound);
            assert!(bound < service + 1_500_000);
        }
        assert!(above <= 40, "{above} of 1000 above a bound of 99 %");
    }

    #[test]
    fn coefficients_are_not_negative() {
        let mut linear = Linear::new();
        for run in 0..200_u64 {
            linear.add(run, &Load::of(&[(run % 10) as f64]), 1_000_000 - run % 10 * 50_000);
        }
        assert!(linear.coefficients.iter().all(|&coefficient| coefficient >= 0.0));
        assert_eq!(linear.coefficients[0], 0.0);
    }

    #[test]
    fn nothing_is_said_outside_what_was_seen() {
        let mut linear = Linear::new();
        assert_eq!(linear.bound_ns(0, &Load::of(&[1.0]), 0.99), None);
        train(&mut linear, |_| 0);
        assert!(linear.bound_ns(0, &Load::of(&[10.0, 4.0]), 0.99).is_some());
        assert_eq!(linear.bound_ns(0, &Load::of(&[11.0, 0.0]), 0.99), None);
        assert_eq!(linear.bound_ns(0, &Load::of(&[0.0, 0.0, 1.0]), 0.99), None);
    }
}
