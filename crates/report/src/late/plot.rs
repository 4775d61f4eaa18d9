//! The distributions of the page, as SVG: which share of calls, waits or holds took longer than a
//! given time, both axes logarithmic. A late launch is far to the right and far down.

use crate::Error;
use crate::drawing::{Area, Axis, Drawn, FINE, draw, line, text};
use crate::number::time;
use crate::theme::{GRID, Ink, MUTED};
use late::Distribution;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Sizes, in pixels of the page.
const WIDTH: i32 = 520;
const HEIGHT: i32 = 250;
const LEFT: i32 = 62;
const RIGHT: i32 = 502;
const TOP: i32 = 14;
const BOTTOM: i32 = 204;

/// One line of a plot.
pub(super) struct Curve<'d> {
    pub(super) name: &'static str,
    pub(super) of: &'d Distribution,
    /// Number of calls that the shares are of, which may be more than the distribution has: most
    /// calls do not wait at all.
    pub(super) whole: u64,
    pub(super) ink: Ink,
}

/// The curves of one panel; none without a value.
pub(super) fn panel(title: &str, curves: &[Curve<'_>]) -> Result<Option<String>, Error> {
    let curves: Vec<&Curve<'_>> = curves.iter().filter(|curve| curve.of.count > 0).collect();
    let low = curves.iter().map(|curve| curve.of.min).min();
    let high = curves.iter().map(|curve| curve.of.max).max();
    let most = curves.iter().map(|curve| curve.whole.max(curve.of.count)).max();
    let (Some(low), Some(high), Some(most)) = (low, high, most) else { return Ok(None) };
    // A decade at least, so that a single value does not fill the plot.
    let (low, high) = (low.max(1) as f64, (high as f64).max(low.max(1) as f64 * 12.0));
    let axis = Axis::new(low, high, (LEFT, RIGHT));
    let shares = Shares { least: 0.7 / most as f64 };
    let svg = draw(&name(title, &curves), (WIDTH, HEIGHT), |area| {
        frame(area, &axis, &shares)?;
        curves.iter().try_for_each(|curve| curve.draw(area, &axis, &shares))
    })?;
    Ok(Some(svg))
}

/// The accessible name: the quantity, and the key values of each curve.
fn name(title: &str, curves: &[&Curve<'_>]) -> String {
    let curves = curves.iter().map(|Curve { name, of, .. }| {
        format!("{name} median {}, largest {}", time(of.p50), time(of.max))
    });
    let curves = curves.collect::<Vec<_>>().join("; ");
    format!("{title}: share that took longer than a given time. {curves}.")
}

/// The vertical axis: from everything down to less than one of all.
struct Shares {
    least: f64,
}

impl Shares {
    fn at(&self, share: f64) -> i32 {
        let part = share.max(self.least).ln() / self.least.ln().min(-0.1);
        let (top, bottom) = (f64::from(TOP * FINE), f64::from(BOTTOM * FINE));
        (top + part.clamp(0.0, 1.0) * (bottom - top)).round() as i32
    }

    /// Powers of ten, thinned where there are many.
    fn ticks(&self) -> Vec<(f64, String)> {
        let decades = (-self.least.log10()).floor().max(0.0) as i32;
        let every = decades as usize / 7 + 1;
        let ticks = (0..=decades).step_by(every);
        ticks.map(|decade| (10_f64.powi(-decade), percent(decade))).collect()
    }
}

/// `100 %`, `1 %`, `0.01 %`: ten to the power of minus `decade`.
fn percent(decade: i32) -> String {
    match decade {
        0 => "100 %".to_owned(),
        1 => "10 %".to_owned(),
        _ => format!("{:.*} %", (decade - 2) as usize, 10_f64.powi(2 - decade)),
    }
}

fn frame(area: &Area<'_>, axis: &Axis, shares: &Shares) -> Drawn {
    let (left, right, bottom) = (LEFT * FINE, RIGHT * FINE, BOTTOM * FINE);
    for (share, label) in shares.ticks() {
        let y = shares.at(share);
        line(area, (left, y), (right, y), GRID, 2)?;
        text(area, &label, (left - 8 * FINE, y), 11, MUTED, HPos::Right)?;
    }
    let decades = |tick: &f64| (tick.log10() - tick.log10().round()).abs() < 1e-6;
    let mut ticks = axis.ticks();
    if ticks.iter().filter(|tick| decades(tick)).count() >= 3 {
        ticks.retain(decades);
    }
    let every = ticks.len().div_ceil(7).max(1);
    for tick in ticks.into_iter().step_by(every) {
        let x = axis.at(tick);
        line(area, (x, bottom), (x, bottom + 4 * FINE), MUTED, 2)?;
        let label = time(tick.round() as u64);
        text(area, &label, (x, bottom + 15 * FINE), 12, MUTED, HPos::Center)?;
    }
    let middle = (left + right) / 2;
    text(area, "longer than", (middle, bottom + 34 * FINE), 12, MUTED, HPos::Center)
}

impl Curve<'_> {
    fn draw(&self, area: &Area<'_>, axis: &Axis, shares: &Shares) -> Drawn {
        let points = self.steps(axis, shares);
        let style = self.ink.rgb().stroke_width(5);
        area.draw(&PathElement::new(points, style))?;
        let end = (axis.at(self.of.max as f64), BOTTOM * FINE);
        area.draw(&Circle::new(end, 8, self.ink.rgb().filled()))
    }

    /// Down by the count of each bucket, at its upper edge, but at the exact maximum for the last.
    fn steps(&self, axis: &Axis, shares: &Shares) -> Vec<(i32, i32)> {
        let whole = self.whole.max(self.of.count).max(1) as f64;
        let mut left = self.of.count;
        let y = |left: u64| shares.at(left as f64 / whole);
        let mut points = vec![(axis.at(self.of.min as f64), y(left))];
        for (edge, count) in &self.of.buckets {
            let x = axis.at((*edge).clamp(self.of.min, self.of.max) as f64);
            points.push((x, y(left)));
            left = left.saturating_sub(*count);
            points.push((x, if left == 0 { BOTTOM * FINE } else { y(left) }));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::SERIES;

    fn distribution() -> Distribution {
        let buckets = vec![(1_000, 900), (2_000, 99), (4_194_303, 1)];
        Distribution { count: 1_000, min: 800, max: 4_000_000, buckets, ..Distribution::default() }
    }

    #[test]
    fn curve_ends_at_the_exact_maximum_and_never_rises() {
        let of = distribution();
        let axis = Axis::new(800.0, 4e6, (LEFT, RIGHT));
        let shares = Shares { least: 0.7e-3 };
        let steps =
            Curve { name: "held", of: &of, whole: 1_000, ink: SERIES[0] }.steps(&axis, &shares);
        assert_eq!(steps.last(), Some(&(axis.at(4e6), BOTTOM * FINE)));
        assert!(steps.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(steps[0], (axis.at(800.0), TOP * FINE));
    }

    #[test]
    fn share_of_those_that_waited_is_of_all() {
        let of = distribution();
        let axis = Axis::new(800.0, 4e6, (LEFT, RIGHT));
        let shares = Shares { least: 0.7e-5 };
        let curve = Curve { name: "held", of: &of, whole: 100_000, ink: SERIES[0] };
        assert_eq!(curve.steps(&axis, &shares)[0].1, shares.at(0.01));
    }

    #[test]
    fn ticks_are_powers_of_ten() {
        let labels: Vec<String> =
            Shares { least: 0.7e-3 }.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["100 %", "10 %", "1 %", "0.1 %"]);
        assert_eq!(Shares { least: 0.7 }.ticks().len(), 1);
        assert!(Shares { least: 1e-12 }.ticks().len() <= 8);
    }

    #[test]
    fn nothing_makes_no_plot() {
        let of = Distribution::default();
        assert!(
            panel("x", &[Curve { name: "held", of: &of, whole: 0, ink: SERIES[0] }])
                .unwrap()
                .is_none()
        );
        let one = Distribution { count: 1, buckets: vec![(0, 1)], ..Distribution::default() };
        assert!(
            panel("x", &[Curve { name: "held", of: &one, whole: 1, ink: SERIES[0] }])
                .unwrap()
                .is_some()
        );
    }
}
