//! The figures.

mod chart;
mod mark;

use super::compare::{Comparison, comparisons};
use super::contender::{Contender, contenders, depths, shapes, widths};
use super::unit::shape as size;
use super::{Error, words};
use crate::network::Shape;
use crate::study::Study;
use crate::summary::{Gain, Spread, Time};
use chart::{Chart, Line, Panel, Point, Quantity};

/// Repetitions that the figure of the warm-up shows.
const FIRST: usize = 50;

/// Kind of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Submission,
    Completion,
    Jitter,
    SpeedUp,
    Once,
    WarmUp,
}

/// A figure and what is said of it.
pub(super) struct Figure {
    /// Kind of the figure.
    pub(super) kind: Kind,
    /// The name of its file.
    pub(super) file: String,
    /// Description of the figure, in words.
    pub(super) caption: String,
    /// The drawing.
    pub(super) svg: String,
}

const OVER_DEPTH: &str = "l, layers of three kernels each";

/// All figures that have something to show.
pub(super) fn all(study: &Study) -> Result<Vec<Figure>, Error> {
    let contenders = contenders(study);
    let shapes = shapes(study);
    let figures = [
        (Kind::Submission, "submission", over_depth(&contenders, &shapes, Time::Submission)),
        (Kind::Completion, "completion", over_depth(&contenders, &shapes, Time::Completion)),
        (Kind::Jitter, "jitter", jitter(&contenders, &shapes)),
        (Kind::SpeedUp, "speed-up", speed_up(study, &contenders, &shapes)),
        (Kind::Once, "once", once(&contenders, &shapes)),
        (Kind::WarmUp, "warm-up", warm_up(study, &contenders)),
    ];
    let shown = figures.into_iter().filter(|(_, _, chart)| {
        chart.panels.iter().flat_map(|panel| &panel.lines).any(|line| !line.points.is_empty())
    });
    let figure = |(kind, name, chart): (Kind, &str, Chart)| {
        let svg = chart.svg(name)?;
        let caption = caption(kind, study);
        Ok(Figure { kind, file: format!("figure-{name}.svg"), caption, svg })
    };
    shown.map(figure).collect()
}

fn caption(kind: Kind, study: &Study) -> String {
    match kind {
        Kind::Submission => {
            "Submission time over the depth of the network: medians, with whiskers \
                             up to the 99th percentile."
                .into()
        }
        Kind::Completion => {
            "Completion time over the depth of the network: medians, with whiskers \
                             up to the 99th percentile."
                .into()
        }
        Kind::Jitter => "Jitter, the longest less the shortest time of a case, of the submission \
                         and of the completion."
            .into(),
        Kind::SpeedUp => {
            "How many times faster than streams on the same GPU, at the median. Above \
                          the line at 1× a method is faster than streams."
                .into()
        }
        Kind::Once => "What is done once for a network: the sum of all steps before the first \
                       submission."
            .into(),
        Kind::WarmUp => {
            let shape = words::example(study).map(size).unwrap_or_default();
            format!("The first repetitions, at {shape}: where the lines fall, a driver warms up.")
        }
    }
}

/// A chart over the depth.
fn chart(legend: Vec<&Contender<'_>>, shapes: &[Shape], y: Quantity, panels: Vec<Panel>) -> Chart {
    let legend = legend.into_iter().map(|one| (one.name.clone(), one.look)).collect();
    Chart {
        legend,
        columns: if panels.len() == 1 { 1 } else { 2 },
        panels,
        x: OVER_DEPTH,
        log: true,
        ticks: depths(shapes).into_iter().map(|l| l as f64).collect(),
        y,
        apart: false,
        border: None,
    }
}

/// The line of a contender at one width.
fn line(
    contender: &Contender<'_>,
    (shapes, k): (&[Shape], usize),
    point: impl Fn(Shape) -> Option<(f64, Option<f64>)>,
) -> Line {
    let shapes = shapes.iter().filter(|shape| shape.k == k);
    let points =
        shapes.filter_map(|shape| point(*shape).map(|(y, up)| Point { x: shape.l as f64, y, up }));
    Line { look: contender.look, points: points.collect() }
}

/// A panel with all contenders at one width.
fn panel<'a>(
    title: String,
    contenders: &[&Contender<'a>],
    at: (&[Shape], usize),
    point: impl Fn(&Contender<'a>, Shape) -> Option<(f64, Option<f64>)>,
) -> Panel {
    let lines = contenders.iter().map(|one| line(one, at, |shape| point(one, shape)));
    Panel { title, lines: lines.collect() }
}

fn side(k: usize) -> String {
    format!("k = {k}, matrices of {side} × {side}", side = Shape { k, l: 1 }.side())
}

fn over_depth(contenders: &[Contender<'_>], shapes: &[Shape], time: Time) -> Chart {
    let all: Vec<&Contender<'_>> = contenders.iter().collect();
    let of_width = |k| {
        panel(side(k), &all, (shapes, k), |one, shape| {
            one.spread(shape, time).map(|spread| (spread.median_ns, Some(spread.p99_ns)))
        })
    };
    let panels = widths(shapes).into_iter().map(of_width).collect();
    chart(all.clone(), shapes, Quantity::Time, panels)
}

fn jitter(contenders: &[Contender<'_>], shapes: &[Shape]) -> Chart {
    let all: Vec<&Contender<'_>> = contenders.iter().collect();
    let of = |k, time: Time| {
        let title = format!("{}, k = {k}", time.name());
        panel(title, &all, (shapes, k), |one, shape| {
            // A logarithm shows no zero.
            let jitter = |spread: Spread| (spread.jitter_ns > 0.0).then_some(spread.jitter_ns);
            Some((one.spread(shape, time).and_then(jitter)?, None))
        })
    };
    let widths = widths(shapes).into_iter();
    let panels = widths.flat_map(|k| Time::ALL.map(|time| of(k, time))).collect();
    Chart { apart: true, ..chart(all.clone(), shapes, Quantity::Time, panels) }
}

fn speed_up(study: &Study, contenders: &[Contender<'_>], shapes: &[Shape]) -> Chart {
    let comparisons = comparisons(study, contenders);
    let of = |k: usize, time: Time| {
        let of_one = |one: &Comparison<'_>| {
            let gains = one.gains(time).iter().filter(|gain| gain.shape.k == k);
            let point = |gain: &Gain| Point { x: gain.shape.l as f64, y: gain.times, up: None };
            Line { look: one.contender.look, points: gains.map(point).collect() }
        };
        let title = format!("{}, k = {k}", time.name());
        Panel { title, lines: comparisons.iter().map(of_one).collect() }
    };
    let widths = widths(shapes).into_iter();
    let panels = widths.flat_map(|k| Time::ALL.map(|time| of(k, time))).collect();
    let legend = comparisons.iter().map(|one| one.contender).collect();
    Chart { apart: true, ..chart(legend, shapes, Quantity::Factor, panels) }
}

fn once(contenders: &[Contender<'_>], shapes: &[Shape]) -> Chart {
    let all: Vec<&Contender<'_>> = contenders.iter().collect();
    let of_width = |k| {
        panel(side(k), &all, (shapes, k), |one, shape| {
            one.once(shape).filter(|ns| *ns > 0.0).map(|ns| (ns, None))
        })
    };
    let panels = widths(shapes).into_iter().map(of_width).collect();
    chart(all.clone(), shapes, Quantity::Time, panels)
}

fn warm_up(study: &Study, contenders: &[Contender<'_>]) -> Chart {
    let shape = words::example(study);
    let mut warm = 0;
    let mut of = |time: Time| {
        let mut lines = Vec::new();
        for one in contenders {
            let Some(case) = shape.and_then(|shape| one.cases.get(&shape)) else { continue };
            let first = case.samples.iter().take(FIRST).zip(1..);
            warm = warm.max(case.samples.iter().filter(|sample| sample.warm_up).count());
            let point = |(sample, number): (_, i32)| Point {
                x: f64::from(number),
                y: time.of(sample) as f64,
                up: None,
            };
            lines.push(Line { look: one.look, points: first.map(point).collect() });
        }
        Panel { title: time.name().to_owned(), lines }
    };
    let panels: Vec<Panel> = Time::ALL.into_iter().map(&mut of).collect();
    let longest = panels.iter().flat_map(|panel| &panel.lines).map(|line| line.points.len());
    let longest = longest.max().unwrap_or(0);
    let step = if longest > 20 { 10 } else { 5 };
    let ticks = std::iter::once(1.0).chain((1..=longest / step).map(|i| (i * step) as f64));
    Chart {
        x: "repetition",
        log: false,
        apart: true,
        ticks: ticks.collect(),
        border: (warm > 0 && warm < longest).then_some((warm as f64 + 0.5, "counts from here on")),
        ..chart(contenders.iter().collect(), &[], Quantity::Time, panels)
    }
}
