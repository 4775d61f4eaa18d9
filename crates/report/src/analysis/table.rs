//! The bounds in a terminal: one line per chain; and what each bound is made of.

use super::words::variant_name;
use super::{Addend, Bounds, WIDTH};
use crate::number::{Unit, percent_down};
use analysis::{Refusal, Status, Variant};
use anstyle::Style;
use terminal::page::{BAD, Cell, FAINT, GOOD, HEAD, PLAIN, Page, WARN, clean};

/// Addends of one chain that are shown; smaller ones are summed.
const MAX_ADDENDS: usize = 6;
/// Columns of the bar of an addend that is all of the bound.
const BAR: u64 = 24;

/// Verdict, marks, and one line per chain. With `color`, what is guaranteed and what is not stand
/// out by ANSI colours as well.
pub fn table(bounds: &Bounds, color: bool) -> String {
    let mut page = Page::new(WIDTH, color);
    head(&mut page, bounds);
    page.end();
    page.line(FAINT, &format!("  times in {}", Unit::of(&bounds.system).name()));
    let columns = [
        ("chain", true),
        ("priority", false),
        ("period", false),
        ("deadline", false),
        ("bound", false),
        ("slack", false),
        ("", false),
        ("status", true),
    ];
    let rows: Vec<Vec<Cell>> = (0..bounds.system.chains.len()).map(|i| row(bounds, i)).collect();
    page.table(&columns, &rows);
    page.finish()
}

/// Addends of the bound of every chain, the largest first. Chains whose bucket allows no bound are
/// left out.
pub fn composition(bounds: &Bounds, color: bool) -> String {
    let mut page = Page::new(WIDTH, color);
    let concurrent = |chain: &usize| {
        matches!(bounds.analysis.chains[*chain].refusal, Some(Refusal::Concurrent { .. }))
    };
    let chains = (0..bounds.system.chains.len()).filter(|chain| !concurrent(chain));
    for (i, chain) in chains.enumerate() {
        if i > 0 {
            page.line(PLAIN, "");
        }
        made_of(&mut page, bounds, chain, MAX_ADDENDS);
    }
    page.finish()
}

fn head(page: &mut Page, bounds: &Bounds) {
    let analysis = &bounds.analysis;
    let (verdict, style) = match (analysis.schedulable, analysis.variant) {
        (true, Variant::Published) => ("accepted, but that means nothing", WARN),
        (true, _) => ("schedulable", GOOD),
        (false, _) => ("not schedulable", BAD),
    };
    page.paint(HEAD, &format!("{}: ", clean(&bounds.file)));
    page.paint(style, verdict);
    page.line(HEAD, &format!(" ({} analysis)", variant_name(analysis.variant)));
    if let Some(warning) = bounds.warning() {
        page.paragraph(BAD, &format!("! {warning}"), 0, 2);
    }
    notes(page, &bounds.marks);
}

fn notes(page: &mut Page, marks: &[String]) {
    for mark in marks {
        page.paragraph(WARN, &format!("! {}", clean(mark)), 0, 2);
    }
}

/// Marks of a result without bounds.
pub fn unbounded(file: &str, marks: &[String], color: bool) -> String {
    let mut page = Page::new(WIDTH, color);
    page.line(HEAD, &clean(file));
    notes(&mut page, marks);
    page.finish()
}

fn row(bounds: &Bounds, index: usize) -> Vec<Cell> {
    let unit = Unit::of(&bounds.system);
    let (chain, bound, name) = bounds.chain(index);
    let style = status_style(bounds, index);
    let name_style = if chain.best_effort { FAINT } else { PLAIN };
    let slack = bounds.slack_ns(index);
    vec![
        (clean(name), name_style),
        (chain.priority.to_string(), PLAIN),
        (unit.up(chain.period_ns), PLAIN),
        (unit.up(chain.deadline_ns), PLAIN),
        match (bound.response_ns, bound.status) {
            (Some(ns), Status::Ok) => (unit.up(ns), PLAIN),
            (Some(ns), _) => (format!("({})", unit.up(ns)), FAINT),
            (None, _) => ("-".to_owned(), PLAIN),
        },
        (slack.map_or("-".to_owned(), |ns| unit.down(ns)), PLAIN),
        (slack.map_or(String::new(), |ns| percent_down(ns, chain.deadline_ns)), FAINT),
        (bounds.status_words(index), style),
    ]
}

pub(super) fn status_style(bounds: &Bounds, chain: usize) -> Style {
    let best_effort = bounds.system.chains[chain].best_effort;
    match bounds.analysis.chains[chain].status {
        Status::Ok if bounds.analysis.variant == Variant::Published => WARN,
        Status::Ok => GOOD,
        _ if best_effort => FAINT,
        Status::Dependent => WARN,
        Status::Miss => BAD,
    }
}

/// The addends of one chain, at most `most` of them one by one.
pub(super) fn made_of(page: &mut Page, bounds: &Bounds, chain: usize, most: usize) {
    let unit = Unit::of(&bounds.system);
    let (model, bound, name) = bounds.chain(chain);
    let mut addends = bounds.addends(chain);
    let total_ns = addends.iter().map(|addend| addend.ns).sum();
    page.paint(HEAD, &format!("{}: ", clean(name)));
    let deadline = unit.up(model.deadline_ns);
    let sum = match (bound.response_ns, bound.status) {
        (Some(ns), Status::Ok) => format!("{} {}, deadline {deadline}", unit.up(ns), unit.name()),
        (Some(ns), _) => format!("({}) {}, deadline {deadline}", unit.up(ns), unit.name()),
        (None, _) if total_ns > 0 => {
            format!("no bound; beyond {} {}, deadline {deadline}", unit.down(total_ns), unit.name())
        }
        (None, _) => format!("no bound, deadline {deadline} {}", unit.name()),
    };
    page.paint(PLAIN, &format!("{sum}, "));
    page.line(status_style(bounds, chain), &bounds.status_words(chain));
    let rest = summed_rest(&mut addends, most);
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for addend in addends.iter().chain(&rest) {
        let style = if addend.culprit.is_some() { PLAIN } else { FAINT };
        rows.push(vec![
            (unit.up(addend.ns), PLAIN),
            (percent_down(addend.ns, total_ns), FAINT),
            (bar(addend.ns, total_ns), style),
            (addend.words.clone(), style),
        ]);
    }
    page.table(&[false, false, true, true].map(|left| ("", left)), &rows);
}

fn bar(ns: u64, total_ns: u64) -> String {
    let columns = u128::from(ns) * u128::from(BAR) / u128::from(total_ns.max(1));
    "█".repeat(usize::try_from(columns).unwrap_or(0).max(1))
}

/// Cuts the list after `most` and sums what was cut.
fn summed_rest(addends: &mut Vec<Addend>, most: usize) -> Option<Addend> {
    if addends.len() <= most + 1 {
        return None;
    }
    let rest = addends.split_off(most);
    let words = format!("{} smaller ones", rest.len());
    let culprit = rest.iter().find_map(|addend| addend.culprit);
    Some(Addend { words, ns: rest.iter().map(|addend| addend.ns).sum(), culprit })
}
