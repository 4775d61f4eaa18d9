//! The result in a terminal, at most 100 columns.

use super::{GraphRun, MethodRun, above, ms};
use crate::text::{clean, pad};
use anstyle::{AnsiColor, Style};
use stats::Summary;
use unicode_width::UnicodeWidthStr;

/// The widest name of a callback; longer ones are cut.
const MAX_NAME: usize = 45;
/// Width of the name of a method.
const METHOD: usize = 10;

const BAD: Style = AnsiColor::Red.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const HEAD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// The key indicators of all methods, then the callbacks of each. Drops and marks stand out by
/// ANSI colours.
pub fn table(run: &GraphRun) -> String {
    let mut text = String::new();
    head(&mut text, run);
    paths(&mut text, run);
    cycles(&mut text, run);
    for method in &run.methods {
        callbacks(&mut text, method);
    }
    text
}

fn line(text: &mut String, style: Style, words: &str) {
    *text += &format!("{style}{}{style:#}\n", words.trim_end());
}

fn head(text: &mut String, run: &GraphRun) {
    let about = [&run.system_name, &run.machine, &format!("{} s per method", run.duration_s)];
    line(text, HEAD, &about.map(|part| clean(part)).join(", "));
    let margin = run.margin.iter().map(|margin| format!(", {margin}")).collect::<String>();
    line(text, FAINT, &format!("{}, {}{margin}", run.threads, run.transport));
    for mark in &run.marks {
        line(text, WARN, &format!("! {}", clean(mark)));
    }
}

fn row(cells: &[(&str, usize)]) -> String {
    cells.iter().map(|(cell, width)| format!("{cell:>width$}")).collect()
}

fn summary_cells(summary: Option<Summary>) -> [String; 4] {
    let cell = |pick: fn(Summary) -> f64| summary.map_or("-".to_owned(), |s| ms(pick(s)));
    [cell(|s| s.min), cell(|s| s.p50), cell(|s| s.p99), cell(|s| s.max)]
}

fn paths(text: &mut String, run: &GraphRun) {
    for path in &run.paths {
        let (roots, sink) = (path.roots.join(" and "), &path.sink);
        text.push('\n');
        line(text, HEAD, &clean(&format!("path {}: {roots} to {sink}  (times in ms)", path.id)));
        let heading = [
            ("instances", 13),
            ("min", 9),
            ("p50", 9),
            ("p99", 9),
            ("max", 10),
            ("bound", 10),
            ("dropped", 8),
            ("most", 5),
            ("reported max", 13),
        ];
        line(text, FAINT, &format!("  {}{}", pad("method", METHOD), row(&heading)));
        for method in &run.methods {
            let result = method.path(&path.id);
            let [min, p50, p99, max] = summary_cells(result.and_then(|result| result.summary()));
            let instances = result.map_or(0, |result| result.latency_us.len());
            let instances = format!("{instances} of {}", path.releases);
            let (all, most) = result.map_or((0, 0), |result| result.drops());
            let reported = path.reported.iter().find(|r| r.method == method.method);
            let reported = reported.map_or(String::new(), |r| ms(r.max_us));
            let times = [(instances.as_str(), 13), (&min, 9), (&p50, 9), (&p99, 9)];
            let name = pad(&clean(&method.method), METHOD);
            *text += &format!("  {name}{}", row(&times));
            let over = if run.over(path, method) > 0 { BAD } else { Style::new() };
            *text += &format!("{over}{max:>10}{over:#}");
            let bound = run.bound_us(path, &method.method).map_or(String::new(), above);
            let style = if all > 0 { BAD } else { GOOD };
            let drops = row(&[(&all.to_string(), 8), (&most.to_string(), 5)]);
            *text += &format!("{bound:>10}{style}{drops}{style:#}{}", row(&[(&reported, 13)]));
            *text = text.trim_end_matches(' ').to_owned();
            text.push('\n');
        }
        if let Some(reason) = &path.no_bound {
            line(text, FAINT, &format!("  no bound: {}", clean(reason)));
        }
    }
}

fn cycles(text: &mut String, run: &GraphRun) {
    for (id, nominal_us) in &run.cycles {
        text.push('\n');
        let title = format!("period of {id}, nominally {} ms", ms(*nominal_us));
        line(text, HEAD, &clean(&title));
        let heading =
            [("periods", 14), ("min", 10), ("p50", 10), ("p99", 10), ("max", 10), ("farthest", 10)];
        line(text, FAINT, &format!("  {}{}", pad("method", METHOD), row(&heading)));
        for method in &run.methods {
            let result = method.cycle(id);
            let [min, p50, p99, max] = summary_cells(result.and_then(|result| result.summary()));
            let count = result.map_or(0, |result| result.period_us.len()).to_string();
            let share = result.and_then(|result| result.deviation(*nominal_us));
            let share = share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
            let name = pad(&clean(&method.method), METHOD);
            let cells = [
                (count.as_str(), 14),
                (&min, 10),
                (&p50, 10),
                (&p99, 10),
                (&max, 10),
                (&share, 10),
            ];
            line(text, Style::new(), &format!("  {name}{}", row(&cells)));
        }
    }
}

fn callbacks(text: &mut String, method: &MethodRun) {
    text.push('\n');
    line(text, HEAD, &clean(&method.method));
    for mark in &method.marks {
        line(text, WARN, &format!("  ! {}", clean(mark)));
    }
    let widest = method.callbacks.iter().map(|callback| clean(&callback.id).width()).max();
    let width = widest.unwrap_or(0).clamp("callback".len(), MAX_NAME);
    let heading = [
        ("prio", 6),
        ("count", 8),
        ("dropped", 9),
        ("p50", 8),
        ("max", 9),
        ("own p50", 9),
        ("own max", 9),
    ];
    line(text, FAINT, &format!("  {}{}", pad("callback", width), row(&heading)));
    for callback in &method.callbacks {
        let cell = |times: Option<super::Times>, pick: fn(super::Times) -> f64| {
            times.map_or("-".to_owned(), |times| ms(pick(times)))
        };
        let (response, own) = (callback.response_us, callback.execution_us);
        let cells = [
            (callback.priority.to_string(), 6),
            (callback.count.to_string(), 8),
            (callback.dropped.to_string(), 9),
            (cell(response, |t| t.p50), 8),
            (cell(response, |t| t.max), 9),
            (cell(own, |t| t.p50), 9),
            (cell(own, |t| t.max), 9),
        ];
        let cells: Vec<(&str, usize)> = cells.iter().map(|(c, w)| (c.as_str(), *w)).collect();
        let name = pad(&clean(&callback.id), width);
        let style = if callback.dropped > 0 { WARN } else { Style::new() };
        line(text, style, &format!("  {name}{}", row(&cells)));
    }
    for (name, value) in &method.facts {
        line(text, FAINT, &format!("  {}: {}", clean(name), clean(value)));
    }
}
