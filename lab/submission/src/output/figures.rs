//! The figures.

use super::compare::comparisons;
use super::contender::{Contender, contenders, depths, shapes, widths};
use super::unit::shape as size;
use super::{Error, words};
use crate::measure::Sample;
use crate::network::Shape;
use crate::study::Study;
use crate::summary::Time;
use report::document::{Chart, Class, Limit, Line, Series, sheet};

/// Repetitions that the figure of the warm-up shows.
const FIRST: usize = 50;

/// A figure: charts that are compared with each other.
pub(super) struct Figure {
    /// The name of its file.
    pub(super) file: String,
    /// Description of the figure, in words.
    pub(super) caption: String,
    /// The charts.
    pub(super) charts: Vec<Chart>,
}

impl Figure {
    fn new(name: &str, caption: impl Into<String>, charts: Vec<Chart>) -> Figure {
        Figure { file: format!("figure-{name}.svg"), caption: caption.into(), charts }
    }

    /// The figure as a drawing that stands alone; none if it has nothing to show.
    pub(super) fn svg(&self) -> Result<Option<String>, Error> {
        Ok(sheet(&self.file, &self.charts, 2)?)
    }
}

/// The medians of one of the times, with whiskers up to the 99th percentile.
pub(super) fn over_depth(study: &Study, time: Time) -> Figure {
    let (contenders, shapes) = (contenders(study), shapes(study));
    let charts = widths(&shapes).into_iter().map(|k| {
        let y = format!("{}, us", time.name());
        chart(side(k), y, &contenders, (&shapes, k), |one, shape| {
            let spread = one.spread(shape, time)?;
            Some((spread.median_ns / 1e3, Some(spread.p99_ns / 1e3)))
        })
    });
    let name = time.name();
    let caption = format!(
        "{}{} time over the depth of the network: medians, with whiskers up to the 99th percentile.",
        name[..1].to_uppercase(),
        &name[1..]
    );
    Figure::new(name, caption, charts.collect())
}

/// The longest less the shortest time of each case.
pub(super) fn jitter(study: &Study) -> Figure {
    let (contenders, shapes) = (contenders(study), shapes(study));
    let charts = each_width_and_time(&shapes, |k, time| {
        let title = format!("{}, k = {k}", time.name());
        chart(title, "jitter, us".into(), &contenders, (&shapes, k), |one, shape| {
            let jitter_ns = one.spread(shape, time)?.jitter_ns;
            // A logarithm shows no zero.
            (jitter_ns > 0.0).then_some((jitter_ns / 1e3, None))
        })
    });
    let caption = "Jitter, the longest less the shortest time of a case, of the submission and of the \
                   completion.";
    Figure::new("jitter", caption, charts)
}

/// The factors over streams on the same GPU.
pub(super) fn speed_up(study: &Study) -> Figure {
    let (contenders, shapes) = (contenders(study), shapes(study));
    let comparisons = comparisons(study, &contenders);
    let charts = each_width_and_time(&shapes, |k, time| {
        let series = comparisons.iter().map(|one| {
            let gain = |shape: Shape| one.gains(time).iter().find(|gain| gain.shape == shape);
            series(one.contender, (&shapes, k), |shape| Some((gain(shape)?.times, None)))
        });
        let even = Limit { name: String::new(), at: 1.0, class: Class::Faint };
        Chart {
            title: format!("{}, k = {k}", time.name()),
            y: "times as fast".into(),
            series: series.collect(),
            limits: vec![even],
            ..over_layers()
        }
    });
    let caption = "How many times faster than streams on the same GPU, at the median. Above the line \
                   at 1 a method is faster than streams.";
    Figure::new("speed-up", caption, charts)
}

/// Costs that are paid once.
pub(super) fn once(study: &Study) -> Figure {
    let (contenders, shapes) = (contenders(study), shapes(study));
    let charts = widths(&shapes).into_iter().map(|k| {
        chart(side(k), "once, us".into(), &contenders, (&shapes, k), |one, shape| {
            one.once(shape).filter(|ns| *ns > 0.0).map(|ns| (ns / 1e3, None))
        })
    });
    let caption = "One-time costs of a network: the sum of all steps before the first submission.";
    Figure::new("once", caption, charts.collect())
}

/// The first repetitions.
pub(super) fn warm_up(study: &Study) -> Figure {
    let (contenders, example) = (contenders(study), words::example(study));
    let cases = contenders.iter().filter_map(|one| Some((one, *one.cases.get(&example?)?)));
    let cases: Vec<_> = cases.collect();
    let warm = cases.iter().map(|(_, case)| case.samples.iter().filter(|one| one.warm_up).count());
    let warm = warm.max().unwrap_or(0);
    let charts = Time::ALL.map(|time| {
        let series = cases.iter().map(|(contender, case)| {
            let first = case.samples.iter().take(FIRST).zip(1..);
            let point =
                |(sample, at): (&Sample, i32)| (f64::from(at), time.of(sample) as f64 / 1e3);
            Series { points: first.map(point).collect(), ..look(contender) }
        });
        Chart {
            title: time.name().into(),
            x: "repetition".into(),
            y: format!("{}, us", time.name()),
            series: series.collect(),
            log: true,
            ..Chart::default()
        }
    });
    let at = example.map(size).unwrap_or_default();
    let caption = format!(
        "The first repetitions, at {at}: where the lines fall, a driver warms up. The first {warm} do \
         not count."
    );
    Figure::new("warm-up", caption, charts.into())
}

fn each_width_and_time(shapes: &[Shape], chart: impl Fn(usize, Time) -> Chart) -> Vec<Chart> {
    let widths = widths(shapes).into_iter();
    widths.flat_map(|k| Time::ALL.map(|time| chart(k, time))).collect()
}

/// A chart over the depth, without series.
fn over_layers() -> Chart {
    Chart { x: "l, layers of three kernels each".into(), log: true, ..Chart::default() }
}

/// A chart over the depth at one width.
fn chart<'s>(
    title: String,
    y: String,
    contenders: &[Contender<'s>],
    at: (&[Shape], usize),
    point: impl Fn(&Contender<'s>, Shape) -> Option<(f64, Option<f64>)>,
) -> Chart {
    let series = contenders.iter().map(|one| series(one, at, |shape| point(one, shape)));
    Chart { title, y, series: series.collect(), ..over_layers() }
}

/// The look of a contender: the method says the colour, the accelerator the line.
fn look(contender: &Contender<'_>) -> Series {
    let line = if contender.look.turn > 0 { Line::Dashed } else { Line::Solid };
    let ink = Some(contender.look.method);
    Series { name: contender.name.clone(), ink, line, ..Series::default() }
}

/// Values of a contender over the depths at one width, each with the upper end of its range.
fn series(
    contender: &Contender<'_>,
    (shapes, k): (&[Shape], usize),
    point: impl Fn(Shape) -> Option<(f64, Option<f64>)>,
) -> Series {
    let points = depths(shapes).into_iter().map(|l| (l.to_string(), point(Shape { k, l })));
    let points: Vec<_> = points.collect();
    let ranges = points.iter().filter_map(|(_, point)| *point);
    let spread = ranges.filter_map(|(value, up)| Some((value, up?))).collect();
    let values = points.into_iter().map(|(l, point)| (l, point.map(|(value, _)| value)));
    let Series { points, places, .. } = Series::at_places("", values);
    Series { points, places, spread, ..look(contender) }
}

fn side(k: usize) -> String {
    format!("k = {k}, matrices of {side} × {side}", side = Shape { k, l: 1 }.side())
}
