//! Growth of one number with another: means in bins, and the straight line through all points.

use crate::Interval;
use crate::statistics::bootstrap;

/// Sums of the points of a scenario, from which means, a least-squares line and the correlation of
/// any scenarios together come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Sums {
    pub(super) fn of(points: impl IntoIterator<Item = (f64, f64)>) -> Sums {
        points.into_iter().fold(Sums::default(), |sums, (x, y)| {
            sums.and(&Sums { count: 1.0, x, y, xx: x * x, xy: x * y, yy: y * y })
        })
    }

    fn and(self, other: &Sums) -> Sums {
        Sums {
            count: self.count + other.count,
            x: self.x + other.x,
            y: self.y + other.y,
            xx: self.xx + other.xx,
            xy: self.xy + other.xy,
            yy: self.yy + other.yy,
        }
    }

    fn all<'a>(sums: impl IntoIterator<Item = &'a Sums>) -> Sums {
        sums.into_iter().fold(Sums::default(), Sums::and)
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.y / self.count)
    }

    /// Deviations: of x with itself, of both, of y with itself.
    fn deviations(&self) -> Option<[f64; 3]> {
        let spread = |product: f64, one: f64, other: f64| product - one * other / self.count;
        let xx = spread(self.xx, self.x, self.x);
        (self.count > 1.0 && xx > 1e-9 * self.xx)
            .then(|| [xx, spread(self.xy, self.x, self.y), spread(self.yy, self.y, self.y)])
    }

    pub(super) fn slope(&self) -> Option<f64> {
        self.deviations().map(|[xx, xy, _]| xy / xx)
    }

    fn correlation(&self) -> Option<f64> {
        let [xx, xy, yy] = self.deviations()?;
        (yy > 0.0).then(|| xy / (xx * yy).sqrt())
    }
}

/// The mean of y, from each scenario's sums.
pub(super) fn mean(scenarios: &[Sums]) -> Option<Interval> {
    bootstrap(scenarios, |drawn| Sums::all(drawn.iter().copied()).mean())
}

/// Slope of y over x.
pub(super) fn slope(scenarios: &[Sums]) -> Option<Interval> {
    bootstrap(scenarios, |drawn| Sums::all(drawn.iter().copied()).slope())
}

/// Returns the correlation of y with x (Pearson).
pub(super) fn correlation(scenarios: &[Sums]) -> Option<Interval> {
    bootstrap(scenarios, |drawn| Sums::all(drawn.iter().copied()).correlation())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_have_its_slope_and_are_correlated() {
        let line = |from: u32| {
            Sums::of((from..from + 4).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))))
        };
        let scenarios: Vec<Sums> = (0..8).map(line).collect();
        let near = |found: Option<Interval>, expected: f64| {
            let found = found.unwrap();
            [found.value, found.low, found.high].iter().all(|it| (it - expected).abs() < 1e-9)
        };
        assert!(near(slope(&scenarios), 2.0) && near(correlation(&scenarios), 1.0));
        assert!((mean(&scenarios).unwrap().value - 13.0).abs() < 1e-9);
        assert_eq!(slope(&[Sums::of([(1.0, 2.0), (1.0, 3.0)])]), None, "one place has no slope");
    }
}
