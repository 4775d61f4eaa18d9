//! The worst calls, each taken apart.

use super::late_headline::place;
use super::share::{Detail, shares};
use super::{Findings, Focus, Late, What};
use crate::number::{Scale, counted, show_tenths, tenths, time};
use anstyle::Style;
use terminal::page::Page;
use terminal::page::{BAD, FAINT, GOOD, HEAD, PLAIN, WARN};

/// Shares of one call that are listed, and details of one share; the rest is one line.
const SHARES: usize = 8;
const DETAILS: usize = 4;
/// The widest bar.
const BAR: usize = 16;
/// Eighths of a block.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A line of a call: a share, or one of its details.
pub(super) struct Line {
    pub(super) what: What,
    pub(super) detail: bool,
    pub(super) words: String,
    pub(super) time: String,
    pub(super) percent: String,
    pub(super) ns: u64,
}

/// The lines of one call. What is shown of the shares adds up to what is shown of the call, and
/// that of details to that of their share.
pub(super) fn lines(findings: &Findings<'_>, late: Late<'_>) -> Vec<Line> {
    let mut shares = shares(findings, late.explained);
    shares.iter_mut().for_each(|share| shorten(&mut share.details));
    let parts: Vec<u64> = shares.iter().flat_map(|s| &s.details).map(|detail| detail.ns).collect();
    let scale = Scale::of(late.call.duration_ns);
    let mut numbers = scale.steps(&parts).into_iter().zip(tenths(&parts));
    let line = |what, words: &str, ns, (steps, tenths)| Line {
        what,
        detail: false,
        words: words.to_owned(),
        time: scale.show(steps),
        percent: show_tenths(tenths),
        ns,
    };
    let add = |(a, b): (u128, u128), (c, d): (u128, u128)| (a + c, b + d);
    let mut lines = Vec::new();
    let mut rest = (0, 0, (0, 0));
    for (at, share) in shares.iter().enumerate() {
        let own: Vec<(u128, u128)> = numbers.by_ref().take(share.details.len()).collect();
        let sum = own.iter().copied().fold((0, 0), add);
        if at >= SHARES && shares.len() > SHARES + 1 {
            rest = (rest.0 + 1, rest.1 + share.ns, add(rest.2, sum));
            continue;
        }
        lines.push(line(share.what, &share.head, share.ns, sum));
        if share.details.len() > 1 {
            lines.extend(share.details.iter().zip(own).map(|(detail, numbers)| Line {
                detail: true,
                ..line(detail.what, &detail.words, detail.ns, numbers)
            }));
        }
    }
    if rest.0 > 0 {
        lines.push(line(What::Unexplained, &format!("{} smaller shares", rest.0), rest.1, rest.2));
    }
    lines
}

/// Puts the smallest details together where there are too many.
fn shorten(details: &mut Vec<Detail>) {
    if details.len() > DETAILS + 1 {
        let rest = details.split_off(DETAILS);
        details.push(Detail {
            what: rest[0].what,
            words: format!("{} smaller ones", rest.len()),
            ns: rest.iter().map(|detail| detail.ns).sum(),
            times: rest.iter().map(|detail| detail.times).sum(),
            who: Vec::new(),
            kept_off: false,
        });
    }
}

/// All lists of worst calls.
pub(super) fn blocks(page: &mut Page, findings: &Findings<'_>) {
    for (heading, list) in findings.lists() {
        page.heading(&heading);
        if list.is_empty() {
            page.paragraph(PLAIN, &none(findings), 2, 2);
        }
        for (rank, late) in list.into_iter().enumerate() {
            block(page, findings, rank + 1, late);
        }
    }
}

/// Reason why a list is empty.
pub(super) fn none(findings: &Findings<'_>) -> String {
    let Focus::Function(name) = &findings.focus else {
        return "No such call returned while its records are whole.".to_owned();
    };
    let kinds = || findings.survey.kinds.iter();
    let calls: u64 = kinds().filter(|kind| kind.function == *name).map(|kind| kind.count).sum();
    match calls {
        0 => format!("The trace has no whole call of {name}."),
        calls => format!(
            "None of its {} is among the latest of its group; --worst analyses more.",
            counted(calls, "call", "calls")
        ),
    }
}

fn block(page: &mut Page, findings: &Findings<'_>, rank: usize, late: Late<'_>) {
    let rank = format!("{rank:>3}  ");
    page.paint(FAINT, &rank);
    let title = title(findings, late);
    page.wrapped(HEAD, &title, rank.len(), rank.len() + 2);
    let particulars = findings.particulars(late.call).join(", ");
    if !particulars.is_empty() {
        page.paragraph(FAINT, &particulars, rank.len(), rank.len());
    }
    let lines = lines(findings, late);
    let widest = lines.iter().map(|line| line.time.len()).max().unwrap_or(0);
    let bar = match page.width() {
        0..64 => 0,
        64..90 => BAR / 2,
        _ => BAR,
    };
    let whole_ns = late.call.duration_ns;
    for line in lines {
        let indent = if line.detail { 2 } else { 0 };
        let numbers = format!("     {:>widest$}  {:>7}  ", line.time, line.percent);
        page.paint(if line.detail { FAINT } else { PLAIN }, &numbers);
        let mut from = numbers.len();
        if bar > 0 {
            let drawn = match line.detail {
                true => " ".repeat(bar),
                false => drawn(line.ns, whole_ns, bar),
            };
            page.paint(style(line.what), &drawn);
            page.paint(PLAIN, " ");
            from += bar + 1;
        }
        page.paint(PLAIN, &" ".repeat(indent));
        page.wrapped(PLAIN, &line.words, from + indent, from + indent + 2);
    }
}

/// `14.2 ms (usual 4.1 us): cuLaunchKernel in infer (4712), 1.23 s after the start`.
pub(super) fn title(findings: &Findings<'_>, late: Late<'_>) -> String {
    format!(
        "{} (usual {}): {}",
        time(late.call.duration_ns),
        time(late.call.usual_ns),
        place(findings, late)
    )
}

/// A bar filled to the width of `bar` columns.
fn drawn(part: u64, whole: u64, bar: usize) -> String {
    let eighths = u128::from(part) * (8 * bar as u128) / u128::from(whole.max(1));
    let eighths = (eighths as usize).clamp(usize::from(part > 0), 8 * bar);
    let (full, rest) = (eighths / 8, EIGHTHS[eighths % 8]);
    let empty = bar - full - usize::from(!rest.is_empty());
    format!("{}{rest}{}", "█".repeat(full), " ".repeat(empty))
}

fn style(what: What) -> Style {
    match what {
        What::Executing => GOOD,
        What::Lock | What::HandOver => BAD,
        What::Unexplained => FAINT,
        _ => WARN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn bars_have_one_width_and_show_the_least_share() {
        for part in [0, 1, 10, 500, 999, 1000] {
            assert_eq!(drawn(part, 1000, 8).width(), 8, "{part}");
        }
        assert_eq!(drawn(0, 1000, 8).trim(), "");
        assert_eq!(drawn(1, 1_000_000, 8).trim(), "▏");
        assert_eq!(drawn(1000, 1000, 8), "████████");
        assert_eq!(drawn(500, 1000, 3), "█▌ ");
        assert_eq!(drawn(1, 0, 2), "██");
    }
}
