//! The locking pattern of a kind of call as a picture: a row for each lock, a block for each time
//! it is held, over the time since the call's begin.
//!
//! Rows are in the order of first use, so that a lock taken inside another one stands below it.
//! Locks that launches share with other calls have a colour, the same in every picture of a page;
//! the others are grey. Read locks are pale. The geometry is computed here, in pixels of the page;
//! the template `pattern.svg` beside this file draws it.

use super::Findings;
use super::name::{attributes, kind_name};
use super::pattern::{Shown, Span};
use crate::number::{counted, time};
use crate::theme::{BOUND, Ink, LIMIT, SERIES};
use crate::{Error, page};
use minijinja::{Value, context};

const TEMPLATE: &str = "pattern.xml";
const WIDTH: f64 = 1_080.0;
const LEFT: f64 = 144.0;
const RIGHT: f64 = 1_060.0;
const TOP: f64 = 26.0;
const ROW: f64 = 22.0;
/// The narrowest block that can be seen.
const NARROW: f64 = 1.5;
/// Most rows of a picture, and most blocks.
const ROWS: usize = 32;
const BLOCKS: usize = 2_000;
/// The colours of locks that are shared, and of the others.
const SHARED: [Ink; 7] = [SERIES[0], SERIES[1], SERIES[2], SERIES[3], SERIES[4], LIMIT, BOUND];
const GREY: Ink = SERIES[5];

/// A row of the picture while it is laid out.
struct Row<'s> {
    lock: Option<u32>,
    spans: Vec<&'s Span>,
}

/// The picture as SVG, to stand in a page.
///
/// # Errors
/// [`Error::Template`].
pub(super) fn diagram(findings: &Findings<'_>, shown: &Shown<'_>) -> Result<String, Error> {
    let rows = rows(&shown.spans);
    let left_out = rows.len().saturating_sub(ROWS);
    let rows = &rows[..rows.len() - left_out];
    let bottom = TOP + ROW * rows.len() as f64;
    let drawn = rows.iter().zip(0u32..).map(|(row, at)| {
        let y = TOP + ROW * f64::from(at);
        context! {
            y,
            middle => y + ROW / 2.0 + 4.0,
            name => row_name(findings, row.lock),
            ink => ink(findings, row.lock).light,
            shared => is_shared(findings, row.lock),
        }
    });
    let blocks = rows.iter().zip(0u32..).flat_map(|(row, at)| {
        let y = TOP + ROW * f64::from(at);
        row.spans.iter().map(move |span| block(findings, shown, span, y))
    });
    let content = context! {
        title => format!("Locks that {} holds, and when", kind_name(shown.kind)),
        width => WIDTH,
        height => bottom + 40.0,
        left => LEFT,
        right => RIGHT,
        top => TOP,
        bottom,
        row_height => ROW,
        rows => drawn.collect::<Vec<_>>(),
        blocks => blocks.take(BLOCKS).collect::<Vec<_>>(),
        ticks => ticks(shown.end_ns),
        usual => (shown.kind.duration.p50 == shown.end_ns).then(|| x(shown.end_ns, shown.end_ns)),
        left_out => (left_out > 0).then(|| counted(left_out as u64, "lock more", "locks more")),
    };
    page::render(TEMPLATE, include_str!("pattern.svg"), content)
}

fn rows(spans: &[Span]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for span in spans {
        match rows.iter_mut().find(|row| row.lock == span.lock) {
            Some(row) => row.spans.push(span),
            None => rows.push(Row { lock: span.lock, spans: vec![span] }),
        }
    }
    rows
}

fn row_name(findings: &Findings<'_>, lock: Option<u32>) -> String {
    let star = if is_shared(findings, lock) { "*" } else { "" };
    match lock {
        Some(_) => format!("{}{star}", findings.lock_name(lock)),
        None => "forgotten".to_owned(),
    }
}

fn is_shared(findings: &Findings<'_>, lock: Option<u32>) -> bool {
    let lock = lock.and_then(|lock| findings.survey.locks.get(lock as usize));
    lock.is_some_and(|lock| findings.is_shared(lock))
}

/// The colour of a lock: that of its place among the shared ones, or grey.
fn ink(findings: &Findings<'_>, lock: Option<u32>) -> Ink {
    let Some(lock) = lock.filter(|_| is_shared(findings, lock)) else { return GREY };
    let before = findings.survey.locks[..lock as usize].iter();
    SHARED[before.filter(|lock| findings.is_shared(lock)).count() % SHARED.len()]
}

fn x(ns: u64, end_ns: u64) -> f64 {
    let share = ns.min(end_ns) as f64 / end_ns.max(1) as f64;
    ((LEFT + share * (RIGHT - LEFT)) * 10.0).round() / 10.0
}

fn block(findings: &Findings<'_>, shown: &Shown<'_>, span: &Span, y: f64) -> Value {
    let from = x(span.from_ns, shown.end_ns);
    let to = x(span.to_ns.unwrap_or(shown.end_ns), shown.end_ns);
    let lock = span.lock.and_then(|lock| findings.survey.locks.get(lock as usize));
    let what = lock.map_or("a forgotten lock".to_owned(), attributes);
    let until = span.to_ns.map_or("kept after the return".to_owned(), |to| {
        format!("to {}, held {}", time(to), time(to - span.from_ns.min(to)))
    });
    let inside = match span.depth {
        0 => String::new(),
        depth => format!(", inside {}", counted(u64::from(depth), "other lock", "other locks")),
    };
    let name = findings.span_name(span);
    context! {
        x => from,
        y => y + 4.0,
        width => (to - from).max(NARROW),
        height => ROW - 8.0,
        ink => ink(findings, span.lock).light,
        read => span.read,
        title => format!("{name} ({what}): from {} {until}{inside}", time(span.from_ns)),
    }
}

/// Round times, about six of them.
fn ticks(end_ns: u64) -> Vec<Value> {
    let rough = end_ns as f64 / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= rough);
    let step = (step.unwrap_or(rough).round() as u64).max(1);
    let ticks = (0..=end_ns / step).map(|at| at * step);
    let label = |ns: u64| if ns == 0 { "0".to_owned() } else { time(ns) };
    ticks.map(|ns| context! { x => x(ns, end_ns), label => label(ns) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_inside() {
        for end_ns in [1, 7, 4_100, 350_000, 14_200_000, u64::MAX / 2] {
            let ticks = ticks(end_ns);
            assert!((1..=8).contains(&ticks.len()), "{end_ns}: {}", ticks.len());
        }
    }

    #[test]
    fn spans_of_one_lock_are_one_row_in_the_order_of_first_use() {
        let span = |lock: u32, from_ns: u64| Span {
            lock: Some(lock),
            read: false,
            depth: 0,
            from_ns,
            to_ns: None,
            taken_before: false,
        };
        let spans = [span(5, 0), span(2, 1), span(5, 2)];
        let rows = rows(&spans);
        let shape: Vec<_> = rows.iter().map(|row| (row.lock, row.spans.len())).collect();
        assert_eq!(shape, [(Some(5), 2), (Some(2), 1)]);
    }
}
