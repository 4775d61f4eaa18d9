//! The accessible name of a chart: its quantity, and the key values of each series and limit. A
//! reader of the screen says it instead of the drawing.

use super::chart::{drawn, limits, places};
use super::{Chart, Limit, Series, Shape};
use crate::number::{digits, plain};

/// Most places whose values are said one by one.
const FEW: usize = 6;
/// Most series whose values are said.
const MOST: usize = 12;

/// The name of a chart.
pub(super) fn name(chart: &Chart) -> String {
    let series = drawn(chart);
    let left_out = series.len().saturating_sub(MOST);
    let mut parts: Vec<String> =
        series.iter().take(MOST).map(|(one, _)| values(chart, one)).collect();
    parts.extend((left_out > 0).then(|| format!("{left_out} more series")));
    parts.extend(limits(chart).filter(|limit| !limit.name.is_empty()).map(marked));
    let title = if chart.title.is_empty() { String::new() } else { format!("{}: ", chart.title) };
    format!("{title}{} by {}. {}.", chart.y, chart.x, parts.join("; "))
}

/// A limit with its value, unless its name has it.
fn marked(limit: &Limit) -> String {
    match limit.name.contains(|letter: char| letter.is_ascii_digit()) {
        true => limit.name.clone(),
        false => format!("{} at {}", limit.name, digits(limit.at)),
    }
}

fn values(chart: &Chart, series: &Series) -> String {
    let name = if series.name.is_empty() { String::new() } else { format!("{} ", series.name) };
    let points: Vec<(f64, f64)> =
        series.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return name };
    let said = if chart.shape == Shape::Distribution {
        let half = points.iter().find(|(_, share)| *share >= 50.0).unwrap_or(last);
        format!("median {}, largest {}", digits(half.0), digits(last.0))
    } else if points.len() <= FEW {
        let point = |(x, y): &(f64, f64)| format!("{} at {}", digits(*y), place(chart, *x));
        points.iter().map(point).collect::<Vec<_>>().join(", ")
    } else {
        let most =
            points.iter().fold(first, |most, point| if point.1 > most.1 { point } else { most });
        let least = points.iter().fold(first, |least, it| if it.1 < least.1 { it } else { least });
        let [low, high] =
            [least, most].map(|(x, y)| format!("{} at {}", digits(*y), place(chart, *x)));
        format!("from {low} to {high}")
    };
    format!("{name}{said}")
}

/// The name of a place, or the number along x.
fn place(chart: &Chart, x: f64) -> String {
    let named = places(chart).get(x.max(0.0) as usize).cloned();
    named.unwrap_or_else(|| plain(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Class;

    #[test]
    fn name_has_the_quantity_and_the_key_values() {
        let samples: Vec<f64> = (1..=100).map(f64::from).collect();
        let limits = vec![
            Limit { name: "bound 120 ms".into(), at: 120.0, class: Class::Plain },
            Limit { name: "period".into(), at: 200.0, class: Class::Bad },
        ];
        let axes = ("response time in ms", "% of the jobs");
        let series = [Series::distribution("priority", &samples)];
        let chart = Chart { limits, ..Chart::new("brake", axes, Shape::Distribution, series) };
        let said = "brake: % of the jobs by response time in ms. priority median 50.0, largest \
                    100; bound 120 ms; period at 200.";
        assert_eq!(name(&chart), said);
    }

    #[test]
    fn bars_say_their_places_and_many_points_their_range() {
        let bars = Series::at_places("fifo", [("a", Some(3.0)), ("b", None), ("c", Some(7.5))]);
        let chart = Chart::new("", ("chain", "misses"), Shape::Bars, [bars]);
        assert_eq!(name(&chart), "misses by chain. fifo 3.00 at a, 7.50 at c.");
        let points = (0..50).map(|x| (f64::from(x), f64::from((x - 20) * (x - 20))));
        let chart = Chart::new("t", ("x", "y"), Shape::Lines, [Series::new("s", points)]);
        assert_eq!(name(&chart), "t: y by x. s from 0 at 20 to 841 at 49.");
    }
}
