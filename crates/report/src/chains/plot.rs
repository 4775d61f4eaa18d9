//! The plots of the page, as SVG.
//!
//! [`overview`] shows every chain under every policy against its own period; [`distribution`]
//! shows one chain: the share of its jobs that were done after a given time.

use super::theme::policy_inks;
use super::unit::Unit;
use super::{ChainInfo, ChainResult, ChainsRun};
use crate::Error;
use crate::drawing::{Area, Axis, Drawn, FINE, dashed, draw, line, text};
use crate::theme::{BAND, BOUND, GRID, Ink, LIMIT, MUTED, PAPER, SERIES, TEXT};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use stats::{Summary, ascending};

/// Most points of one distribution line; the largest samples are never left out.
const MAX_POINTS: usize = 600;
/// Most dots of one strip.
const MAX_DOTS: usize = 220;
/// Most letters of a chain's name in the overview.
const MAX_NAME: usize = 18;
/// Number of the largest samples that every plot shows one by one.
const TAIL: usize = 20;

/// Sizes of the overview, in pixels of the page.
mod lanes {
    pub const WIDTH: i32 = 1080;
    pub const RIGHT: i32 = 1050;
    pub const TOP: i32 = 34;
    pub const LANE: i32 = 19;
    pub const GAP: i32 = 18;
    pub const BOTTOM: i32 = 46;
}

/// Left end of the overview's axis: right of the names.
fn overview_left(run: &ChainsRun) -> i32 {
    let longest = run.chains.iter().map(|chain| chain.id.chars().count().min(MAX_NAME)).max();
    34 + 8 * i32::try_from(longest.unwrap_or(0)).unwrap_or(0)
}

/// Every chain under every policy: each job as a dot, a bar from the median to the 99th
/// percentile and a tick at the maximum, in percent of the chain's period.
pub(super) fn overview(run: &ChainsRun) -> Result<String, Error> {
    let policies = i32::try_from(run.policies.len()).unwrap_or(i32::MAX).min(32);
    let chains = i32::try_from(run.chains.len()).unwrap_or(i32::MAX).min(512);
    let group = policies * lanes::LANE + lanes::GAP;
    let height = lanes::TOP + chains * group + lanes::BOTTOM;
    let axis = overview_axis(run);
    draw("all chains", (lanes::WIDTH, height), |area| {
        let bottom = (lanes::TOP + chains * group) * FINE;
        overview_frame(area, run, &axis, (group, bottom))?;
        for (i, chain) in (0..chains).zip(&run.chains) {
            let top = lanes::TOP + i * group + lanes::GAP / 2;
            for ((j, policy), ink) in (0..policies).zip(&run.policies).zip(policy_inks(run)) {
                let middle = (top + j * lanes::LANE + lanes::LANE / 2) * FINE;
                if let Some(result) = policy.chain(&chain.id) {
                    strip(area, (chain, result), &axis, middle, SERIES[ink])?;
                }
            }
        }
        Ok(())
    })
}

fn percent_of_period(chain: &ChainInfo, time_us: f64) -> f64 {
    if chain.period_us > 0.0 { 100.0 * time_us / chain.period_us } else { 0.0 }
}

fn overview_axis(run: &ChainsRun) -> Axis {
    let (mut low, mut high) = (100.0_f64, 100.0_f64);
    for chain in &run.chains {
        for policy in &run.policies {
            let summary = policy.chain(&chain.id).and_then(|result| result.summary());
            if let Some(summary) = summary {
                let least = percent_of_period(chain, summary.min);
                low = if least > 0.0 { low.min(least) } else { low };
                high = high.max(percent_of_period(chain, summary.max));
            }
        }
    }
    Axis::new(low.max(high / 1e5), high, (overview_left(run), lanes::RIGHT))
}

fn overview_frame(
    area: &Area<'_>,
    run: &ChainsRun,
    axis: &Axis,
    (group, bottom): (i32, i32),
) -> Drawn {
    let top = lanes::TOP * FINE;
    for (i, chain) in (0..).zip(&run.chains) {
        let band = (lanes::TOP + i * group) * FINE;
        if i % 2 == 0 {
            let corners = [(0, band), (lanes::WIDTH * FINE, band + group * FINE)];
            area.draw(&Rectangle::new(corners, BAND.rgb().filled()))?;
        }
        let middle = band + group * FINE / 2;
        let ink = if chain.best_effort { MUTED } else { TEXT };
        let at = ((overview_left(run) - 14) * FINE, middle);
        text(area, &shortened(&chain.id, MAX_NAME), at, 13, ink, HPos::Right)?;
    }
    for tick in axis.ticks() {
        let x = axis.at(tick);
        line(area, (x, top), (x, bottom), GRID, 2)?;
        let label = format!("{} %", Unit::Microsecond.round(tick));
        text(area, &label, (x, bottom + 15 * FINE), 12, MUTED, HPos::Center)?;
    }
    let x = axis.at(100.0);
    line(area, (x, top - 6 * FINE), (x, bottom), LIMIT, 3)?;
    text(area, "period", (x, top - 15 * FINE), 12, LIMIT, HPos::Center)?;
    let middle = (overview_left(run) + lanes::RIGHT) / 2 * FINE;
    let scale = if axis.log { ", logarithmic" } else { "" };
    let label = format!("response time in percent of the chain's period{scale}");
    text(area, &label, (middle, bottom + 36 * FINE), 12, MUTED, HPos::Center)
}

fn strip(
    area: &Area<'_>,
    (chain, result): (&ChainInfo, &ChainResult),
    axis: &Axis,
    y: i32,
    ink: Ink,
) -> Drawn {
    let samples = ascending(&result.response_us);
    let Some(summary) = Summary::of_ascending(&samples) else {
        let at = (axis.at(axis.low) + 6 * FINE, y);
        return text(area, "no job completed", at, 11, MUTED, HPos::Left);
    };
    let at = |time_us: f64| axis.at(percent_of_period(chain, time_us));
    let dot = ink.rgb().mix(0.28).filled();
    for (i, time_us) in thinned(&samples, MAX_DOTS).into_iter().enumerate() {
        // A fixed scatter (multiples of the golden ratio): the same run gives the same page.
        let jitter = ((i as f64 * 0.618_034).fract() * 20.0) as i32 - 10;
        area.draw(&Circle::new((at(time_us), y + jitter), 3, dot))?;
    }
    let (p50, p99, max) = (at(summary.p50), at(summary.p99), at(summary.max));
    line(area, (p99, y), (max, y), ink, 2)?;
    let bar = [(p50, y - 7), (p99.max(p50 + 2), y + 7)];
    area.draw(&Rectangle::new(bar, ink.rgb().filled()))?;
    line(area, (max, y - 13), (max, y + 13), ink, 5)?;
    area.draw(&Circle::new((p50, y), 9, PAPER.rgb().filled()))?;
    area.draw(&Circle::new((p50, y), 9, ink.rgb().stroke_width(5)))
}

/// Sizes of one distribution, in pixels of the page.
mod small {
    pub const WIDTH: i32 = 520;
    pub const HEIGHT: i32 = 262;
    pub const LEFT: i32 = 50;
    pub const RIGHT: i32 = 502;
    /// Below at most three rows of labels.
    pub const TOP: i32 = 48;
    pub const ROW: i32 = 14;
    pub const BOTTOM: i32 = 214;
}

/// The share of a chain's jobs that were done after a given time, one line per policy.
pub(super) fn distribution(run: &ChainsRun, chain: &ChainInfo) -> Result<String, Error> {
    let lines: Vec<(Vec<f64>, Ink)> = run
        .policies
        .iter()
        .zip(policy_inks(run))
        .filter_map(|(policy, ink)| {
            Some((ascending(&policy.chain(&chain.id)?.response_us), SERIES[ink]))
        })
        .filter(|(samples, _)| !samples.is_empty())
        .collect();
    let limits = limits(chain);
    let low = lines.iter().map(|(samples, _)| samples[0]).fold(chain.deadline_us, f64::min);
    let most = limits.iter().map(|(_, at_us, _)| *at_us).fold(0.0, f64::max);
    let high = lines.iter().map(|(samples, _)| samples[samples.len() - 1]).fold(most, f64::max);
    let axis = Axis::new(low.max(high / 1e5), high, (small::LEFT, small::RIGHT));
    draw(&chain.id, (small::WIDTH, small::HEIGHT), |area| {
        distribution_frame(area, &axis, Unit::of(run))?;
        mark_limits(area, &axis, &limits, Unit::of(run))?;
        // The first policy is drawn last, on top.
        for (samples, ink) in lines.iter().rev() {
            let style = ink.rgb().stroke_width(5);
            area.draw(&PathElement::new(steps(samples, &axis), style))?;
            let end = (axis.at(samples[samples.len() - 1]), small::TOP * FINE);
            area.draw(&Circle::new(end, 8, ink.rgb().filled()))?;
        }
        Ok(())
    })
}

fn distribution_frame(area: &Area<'_>, axis: &Axis, unit: Unit) -> Drawn {
    let (top, bottom) = (small::TOP * FINE, small::BOTTOM * FINE);
    let (left, right) = (small::LEFT * FINE, small::RIGHT * FINE);
    for quarter in 0..=4 {
        let y = bottom - (bottom - top) * quarter / 4;
        line(area, (left, y), (right, y), GRID, 2)?;
        let label = format!("{} %", quarter * 25);
        text(area, &label, (left - 8 * FINE, y), 11, MUTED, HPos::Right)?;
    }
    for tick in axis.ticks() {
        let x = axis.at(tick);
        line(area, (x, bottom), (x, bottom + 4 * FINE), MUTED, 2)?;
        text(area, &unit.round(tick), (x, bottom + 15 * FINE), 12, MUTED, HPos::Center)?;
    }
    let scale = if axis.log { ", logarithmic" } else { "" };
    let label = format!("response time in {}{scale}", unit.name());
    text(area, &label, ((left + right) / 2, bottom + 36 * FINE), 12, MUTED, HPos::Center)
}

/// The vertical lines of a chain: name, place and colour.
fn limits(chain: &ChainInfo) -> Vec<(&'static str, f64, Ink)> {
    let mut limits = Vec::new();
    if let Some(bound_us) = chain.bound_us.filter(|bound| bound.is_finite()) {
        limits.push(("bound", bound_us, BOUND));
    }
    if (chain.deadline_us - chain.period_us).abs() < 1e-9 {
        limits.push(("period", chain.period_us, LIMIT));
    } else {
        limits.push(("deadline", chain.deadline_us, LIMIT));
        limits.push(("period", chain.period_us, MUTED));
    }
    limits
}

fn mark_limits(
    area: &Area<'_>,
    axis: &Axis,
    limits: &[(&'static str, f64, Ink)],
    unit: Unit,
) -> Drawn {
    let (top, bottom) = (small::TOP * FINE, small::BOTTOM * FINE);
    for (row, (name, at_us, ink)) in (0..).zip(limits) {
        let x = axis.at(*at_us);
        let y = top - (10 + small::ROW * row) * FINE;
        dashed(area, x, (y + 7 * FINE, bottom), *ink, if *name == "bound" { 4 } else { 12 })?;
        let words = format!("{name} {}", unit.words(*at_us));
        let half = i32::try_from(words.len()).unwrap_or(0) * 7 * FINE / 2;
        let (x, side) = match x {
            x if x + half > small::WIDTH * FINE => (small::WIDTH * FINE - 2, HPos::Right),
            x if x - half < 0 => (2, HPos::Left),
            x => (x, HPos::Center),
        };
        text(area, &words, (x, y), 12, *ink, side)?;
    }
    Ok(())
}

/// The staircase of the empirical distribution, from 0 to 1.
fn steps(samples: &[f64], axis: &Axis) -> Vec<(i32, i32)> {
    let (top, bottom) = (f64::from(small::TOP * FINE), f64::from(small::BOTTOM * FINE));
    let height = |done: usize| {
        let share = done as f64 / samples.len() as f64;
        (bottom - share * (bottom - top)).round() as i32
    };
    let mut points = vec![(axis.at(samples[0]), height(0))];
    for i in kept(samples.len(), MAX_POINTS) {
        let x = axis.at(samples[i]);
        if let Some(&(_, y)) = points.last() {
            points.push((x, y));
        }
        points.push((x, height(i + 1)));
    }
    points
}

/// At most about `most` of `count` indices, evenly spread, the last [`TAIL`] always among them.
fn kept(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let stride = count.div_ceil(most).max(1);
    (0..count).filter(move |i| i % stride == 0 || i + TAIL >= count)
}

fn thinned(samples: &[f64], most: usize) -> Vec<f64> {
    kept(samples.len(), most).map(|i| samples[i]).collect()
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_largest_samples() {
        let samples: Vec<f64> = (0..100_000).map(f64::from).collect();
        let thin = thinned(&samples, 200);
        assert!(thin.len() < 250);
        assert_eq!(&thin[thin.len() - TAIL..], &samples[100_000 - TAIL..]);
        assert_eq!(thinned(&samples[..50], 200), &samples[..50]);
    }
}
