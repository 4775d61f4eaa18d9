//! The locking pattern of a kind of call: which locks one call holds when, and how they nest.
//!
//! The steps of the most frequent pattern become spans, from lock to unlock, at the median times
//! since the call's begin. An unlock ends the latest span of its lock that is open. Runs of spans
//! that repeat, as a large copy has them for each of its pieces, are folded into one run with a
//! factor.

use super::locks::groups_words;
use super::name::{family, kind_name};
use super::{Findings, plural};
use crate::number::{count, counted, percent, time};
use late::result::{CallKind, Pattern};
use late::{Family, Group};
use terminal::page::{FAINT, PLAIN, WARN};
use terminal::page::{Page, cut};
use unicode_width::UnicodeWidthStr;

/// The longest run of spans that is looked for as a repeated one.
const LONGEST_RUN: usize = 12;
/// Rows of one pattern in a terminal.
const ROWS: usize = 40;
/// The widest name of a lock, and the columns of the times beside it.
const MAX_NAME: usize = 28;
const NUMBERS: usize = 26;
/// The narrowest and the widest time axis.
const LEAST_AXIS: usize = 16;
const MOST_AXIS: usize = 60;

/// A lock held by a call for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// Its place in the survey; none if it was forgotten.
    pub(super) lock: Option<u32>,
    pub(super) read: bool,
    /// Locks held before it was taken.
    pub(super) depth: u32,
    pub(super) from_ns: u64,
    /// None if the call returned with it.
    pub(super) to_ns: Option<u64>,
    /// The call released what it had not taken.
    pub(super) taken_before: bool,
}

impl Span {
    fn is_like(&self, other: &Span) -> bool {
        let shape = |span: &Span| (span.lock, span.read, span.depth, span.to_ns.is_some());
        shape(self) == shape(other)
    }
}

/// Spans that follow each other, so many times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// The spans of the first time.
    pub(super) spans: Vec<Span>,
    pub(super) times: usize,
    /// End of the last time.
    pub(super) until_ns: u64,
}

/// The pattern that most calls of a kind have.
pub(super) struct Shown<'f> {
    pub(super) kind: &'f CallKind,
    pub(super) spans: Vec<Span>,
    /// End of the time axis.
    pub(super) end_ns: u64,
    pub(super) about: String,
}

impl Findings<'_> {
    /// The pattern to be shown of a kind of call.
    pub(super) fn pattern_of<'f>(&'f self, kind: &'f CallKind) -> Option<Shown<'f>> {
        let pattern = kind.patterns.most_frequent.first()?;
        let last = pattern.steps.iter().map(|step| step.median_ns).max().unwrap_or(0);
        Some(Shown {
            kind,
            spans: spans(pattern),
            end_ns: kind.duration.p50.max(last).max(1),
            about: about(kind, pattern),
        })
    }

    /// The patterns of a launch and of a copy: the most frequent kind of each.
    pub(super) fn main_patterns(&self) -> Vec<Shown<'_>> {
        let groups = [Group::Launch, Group::Copy].into_iter();
        groups.filter_map(|group| self.pattern_of(self.patterned(group).first()?)).collect()
    }

    /// Returns true if the pattern of a launch has this lock.
    pub(super) fn in_main_pattern(&self, lock: u32) -> bool {
        let kinds = self.patterned(Group::Launch);
        let mut patterns = kinds.iter().filter_map(|kind| kind.patterns.most_frequent.first());
        patterns.any(|pattern| pattern.steps.iter().any(|step| step.lock == Some(lock)))
    }

    /// `M4*` and what it is shared with.
    pub(super) fn span_name(&self, span: &Span) -> String {
        let lock = span.lock.and_then(|lock| self.survey.locks.get(lock as usize));
        let Some(lock) = lock else { return "forgotten".to_owned() };
        let star = if self.is_shared(lock) { "*" } else { "" };
        let mode = match (lock.family, span.read) {
            (Family::ReadWrite, true) => " read",
            (Family::ReadWrite, false) => " write",
            _ => "",
        };
        format!("{}{star}{mode}", lock.name)
    }
}

/// `812 of 1 000 calls, the others have 2 patterns`.
fn about(kind: &CallKind, pattern: &Pattern) -> String {
    let patterns = &kind.patterns;
    let others = patterns.distinct.saturating_sub(1);
    let share = percent(pattern.count, patterns.calls);
    let calls = counted(patterns.calls, "call", "calls");
    match others {
        0 => format!("the same for {calls} that took a lock"),
        others => {
            let least = if patterns.distinct_is_least { "at least " } else { "" };
            let others = counted(others, "other pattern", "other patterns");
            format!("{share} of {calls} that took a lock; {least}{others}")
        }
    }
}

/// The spans of a pattern, in the order of their begin.
pub(super) fn spans(pattern: &Pattern) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for step in &pattern.steps {
        let (lock, at_ns) = (step.lock, step.median_ns);
        let span = Span {
            lock,
            read: step.read,
            depth: open.len() as u32,
            from_ns: at_ns,
            to_ns: None,
            taken_before: false,
        };
        if step.acquired {
            open.push(spans.len());
            spans.push(span);
            continue;
        }
        match open.iter().rposition(|at| spans[*at].lock == lock) {
            Some(at) => spans[open.remove(at)].to_ns = Some(at_ns.max(span.from_ns)),
            None => spans.push(Span { from_ns: 0, to_ns: Some(at_ns), taken_before: true, ..span }),
        }
    }
    spans
}

/// Folds what repeats. The shortest run that repeats at a place is taken.
pub(super) fn fold(spans: &[Span]) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut at = 0;
    while at < spans.len() {
        let (length, times) = repeated(&spans[at..]);
        let all = &spans[at..at + length * times];
        let until_ns = all.iter().filter_map(|span| span.to_ns).max().unwrap_or(0);
        runs.push(Run { spans: all[..length].to_vec(), times, until_ns });
        at += length * times;
    }
    runs
}

/// Length of a run at the begin of these spans, and how often it comes.
fn repeated(spans: &[Span]) -> (usize, usize) {
    for length in 1..=LONGEST_RUN.min(spans.len() / 2) {
        // A run begins and ends with the same locks held; else it is a piece of a longer one.
        if spans[..length].iter().any(|span| span.depth < spans[0].depth) {
            break;
        }
        let like = |at: usize| spans[at].is_like(&spans[at % length]);
        let same = (length..spans.len()).take_while(|at| like(*at)).count() + length;
        if same / length >= 2 {
            return (length, same / length);
        }
    }
    (1, 1)
}

/// The patterns of a launch and of a copy.
pub(super) fn blocks(page: &mut Page, findings: &Findings<'_>) {
    let shown = findings.main_patterns();
    if shown.is_empty() {
        return;
    }
    page.heading("Locking pattern");
    for shown in &shown {
        block(page, findings, shown);
    }
    let legend = legend(findings, &shown);
    if !legend.is_empty() {
        page.end();
        page.paragraph(WARN, &legend, 2, 4);
    }
}

/// Lists the locks of the shown patterns that are shared, and the groups of calls that share them.
pub(super) fn legend(findings: &Findings<'_>, shown: &[Shown<'_>]) -> String {
    let mut places: Vec<u32> =
        shown.iter().flat_map(|shown| &shown.spans).filter_map(|span| span.lock).collect();
    places.sort_unstable();
    places.dedup();
    let locks = places.iter().filter_map(|place| findings.survey.locks.get(*place as usize));
    let shared = locks.filter(|lock| findings.is_shared(lock)).map(|lock| {
        let by = groups_words(&findings.groups_of(lock));
        format!("{} {} by {by}", family(lock.family), lock.name)
    });
    let shared: Vec<String> = shared.collect();
    if shared.is_empty() { String::new() } else { format!("* shared: {}", shared.join("; ")) }
}

fn block(page: &mut Page, findings: &Findings<'_>, shown: &Shown<'_>) {
    page.end();
    let title = format!("{} of {}", plural(shown.kind.group), kind_name(shown.kind));
    page.paragraph(PLAIN, &format!("{title}: {}", shown.about), 2, 4);
    let runs = fold(&shown.spans);
    let rows: Vec<Row<'_>> = runs.iter().flat_map(|run| Row::all(findings, run)).collect();
    let names = rows.iter().map(|row| row.name.width()).max().unwrap_or(0).clamp(4, MAX_NAME);
    // A narrow terminal has room for the times only.
    let room = page.width().saturating_sub(names + NUMBERS);
    let axis =
        (room >= LEAST_AXIS).then(|| Axis { end_ns: shown.end_ns, width: room.min(MOST_AXIS) });
    page.paint(FAINT, &format!("  {:names$}  {:>9}  {:>9}", "lock", "from", "to"));
    page.paint(FAINT, &axis.as_ref().map_or(String::new(), |axis| format!("  {}", axis.heading())));
    page.end();
    for row in rows.iter().take(ROWS) {
        let style = if row.shared { WARN } else { PLAIN };
        let name = cut(&row.name, names);
        let fill = " ".repeat(names - name.width());
        page.paint(style, &format!("  {name}{fill}"));
        let Span { from_ns, to_ns, taken_before, .. } = *row.span;
        let to = to_ns.map_or("kept".to_owned(), time);
        let from = if taken_before { "before".to_owned() } else { time(from_ns) };
        page.paint(PLAIN, &format!("  {from:>9}  {to:>9}  "));
        page.paint(style, &axis.as_ref().map_or(String::new(), |a| a.bar(row.span, row.until_ns)));
        page.end();
    }
    if rows.len() > ROWS {
        let more = counted((rows.len() - ROWS) as u64, "lock more", "locks more");
        page.paragraph(FAINT, &format!("and {more}"), 2, 2);
    }
}

/// A line of a pattern.
struct Row<'s> {
    name: String,
    shared: bool,
    span: &'s Span,
    /// End of the last repetition, for the first span of a run that is repeated.
    until_ns: Option<u64>,
}

impl<'s> Row<'s> {
    fn all(findings: &Findings<'_>, run: &'s Run) -> Vec<Row<'s>> {
        let row = |(at, span): (usize, &'s Span)| {
            let again = (run.times > 1 && at == 0).then_some(run);
            let name = findings.span_name(span);
            Row {
                shared: name.contains('*'),
                name: format!(
                    "{}{name}{}",
                    "  ".repeat(span.depth as usize),
                    again.map_or(String::new(), factor)
                ),
                span,
                until_ns: again.map(|run| run.until_ns),
            }
        };
        run.spans.iter().enumerate().map(row).collect()
    }
}

/// ` x12`, with how many locks the run has, where it is more than one.
fn factor(run: &Run) -> String {
    match run.spans.len() {
        1 => format!(" x{}", count(run.times as u64)),
        locks => format!(" x{} (with the next {})", count(run.times as u64), locks - 1),
    }
}

/// A time axis in a terminal.
struct Axis {
    end_ns: u64,
    width: usize,
}

impl Axis {
    fn at(&self, ns: u64) -> usize {
        let columns = u128::from(ns) * self.width as u128 / u128::from(self.end_ns.max(1));
        (columns as usize).min(self.width - 1)
    }

    /// `0      4.1 us`.
    fn heading(&self) -> String {
        let end = time(self.end_ns);
        let fill = self.width.saturating_sub(1 + end.len());
        format!("0{}{end}", " ".repeat(fill))
    }

    /// `   [====]`, `   [====.....]` for one that is repeated until the end of the dots.
    fn bar(&self, span: &Span, until_ns: Option<u64>) -> String {
        let from = self.at(span.from_ns);
        let to = span.to_ns.map_or(self.width - 1, |to| self.at(to)).max(from);
        let mut bar = " ".repeat(from);
        match to - from {
            0 => bar.push('|'),
            length => bar += &format!("[{}]", "=".repeat(length - 1)),
        }
        if let Some(until) = until_ns.map(|until| self.at(until)).filter(|until| *until > to) {
            bar += &".".repeat(until - to);
        }
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use late::result::PatternStep;

    /// `+1` takes lock 1, `-1` releases it; one nanosecond between two steps.
    fn pattern(steps: &[i32]) -> Pattern {
        let step = |(at, step): (u64, &i32)| PatternStep {
            lock: Some(step.unsigned_abs()),
            read: false,
            acquired: *step > 0,
            depth: 0,
            median_ns: at,
        };
        Pattern { count: 1, steps: (0..).zip(steps).map(step).collect() }
    }

    fn plain(spans: &[Span]) -> Vec<(u32, u32, u64, Option<u64>)> {
        spans.iter().map(|s| (s.lock.unwrap_or(0), s.depth, s.from_ns, s.to_ns)).collect()
    }

    #[test]
    fn unlock_ends_the_latest_span_of_its_lock() {
        let nested = spans(&pattern(&[1, 2, 1, -1, -2, -1]));
        assert_eq!(plain(&nested), [(1, 0, 0, Some(5)), (2, 1, 1, Some(4)), (1, 2, 2, Some(3))]);
        let over = spans(&pattern(&[1, 2, -1, 3, -2, -3]));
        assert_eq!(plain(&over), [(1, 0, 0, Some(2)), (2, 1, 1, Some(4)), (3, 1, 3, Some(5))]);
    }

    #[test]
    fn lock_that_is_kept_has_no_end_and_one_from_before_no_begin() {
        let open = spans(&pattern(&[-7, 1]));
        assert_eq!(plain(&open), [(7, 0, 0, Some(0)), (1, 0, 1, None)]);
        assert!(open[0].taken_before && !open[1].taken_before);
    }

    #[test]
    fn repeated_runs_are_folded() {
        let piece = [2, -2, 3, -3];
        let steps: Vec<i32> = [1].into_iter().chain(piece.repeat(4)).chain([-1]).collect();
        let runs = fold(&spans(&pattern(&steps)));
        let shape: Vec<(usize, usize)> = runs.iter().map(|r| (r.spans.len(), r.times)).collect();
        assert_eq!(shape, [(1, 1), (2, 4)]);
        assert_eq!(runs[1].until_ns, 16);
    }

    #[test]
    fn nothing_is_folded_across_different_nesting() {
        let steps = [1, 2, -2, -1, 2, -2];
        let runs = fold(&spans(&pattern(&steps)));
        assert!(runs.iter().all(|run| run.times == 1), "{runs:?}");
        assert_eq!(runs.len(), 3);
    }

    #[test]
    fn bars_stand_where_the_lock_is_held() {
        let axis = Axis { end_ns: 100, width: 20 };
        let span = |from_ns, to_ns| Span {
            lock: None,
            read: false,
            depth: 0,
            from_ns,
            to_ns,
            taken_before: false,
        };
        assert_eq!(axis.bar(&span(10, Some(30)), None), "  [===]");
        assert_eq!(axis.bar(&span(50, Some(50)), Some(80)), "          |......");
        assert_eq!(axis.bar(&span(95, None), None), " ".repeat(19) + "|");
        assert_eq!(axis.heading(), "0             100 ns");
    }
}
