//! The kinds of calls: how long they take, how much of that is waiting, and how many locks one
//! call takes.

use super::name::kind_name;
use super::{Findings, plural};
use crate::number::{cell, count, counted, percent};
use late::result::CallKind;
use late::{Distribution, Family, Group, Host};
use terminal::page::{ALWAYS, Column, Page};
use terminal::page::{FAINT, PLAIN, WARN};

/// Other calls that are listed; the rest is counted.
const OTHERS: usize = 8;
/// A share of waiting that stands out, in percent.
const MUCH_PERCENT: u64 = 10;

/// The quantile of a distribution that has enough values for it: `values` is how many of them
/// make one beyond it.
pub(super) fn quantile(of: &Distribution, value_ns: u64, values: u64) -> Option<u64> {
    (of.count >= values).then_some(value_ns)
}

/// The 99th percentile in words, or a dash.
pub(super) fn p99(of: &Distribution) -> String {
    quantile(of, of.p99, 100).map_or("-".to_owned(), cell)
}

/// The 99.9th percentile in words, or a dash.
pub(super) fn p99_9(of: &Distribution) -> String {
    quantile(of, of.p99_9, 1_000).map_or("-".to_owned(), cell)
}

/// A value of a distribution, or a dash where it is empty.
pub(super) fn value(of: &Distribution, value_ns: u64) -> String {
    quantile(of, value_ns, 1).map_or("-".to_owned(), cell)
}

/// One kind of call in words.
pub(super) struct CallRow {
    pub(super) name: String,
    pub(super) group: &'static str,
    pub(super) count: String,
    pub(super) p50: String,
    pub(super) p99: String,
    pub(super) p99_9: String,
    pub(super) max: String,
    pub(super) locks: String,
    pub(super) waiting: String,
    pub(super) waits_much: bool,
    /// Further notes on the calls: failures, unknown calls.
    pub(super) notes: String,
}

/// The calls that a report lists: launches, copies and synchronisations, and of all others those
/// that took the most time.
pub(super) struct Calls<'f> {
    pub(super) listed: Vec<&'f CallKind>,
    pub(super) left_out: usize,
}

impl Findings<'_> {
    pub(super) fn calls(&self) -> Calls<'_> {
        let mut listed: Vec<&CallKind> = self.survey.kinds.iter().collect();
        let others = |kind: &CallKind| kind.group == Group::Other;
        listed.sort_by_key(|kind| {
            let weight = if others(kind) { kind.duration.total } else { kind.count };
            (kind.group, std::cmp::Reverse(weight))
        });
        let before = listed.len();
        let first_other = listed.iter().position(|kind| others(kind)).unwrap_or(before);
        listed.truncate(first_other + OTHERS);
        Calls { left_out: before - listed.len(), listed }
    }

    /// Kinds of calls of a group whose locking pattern is known: copies before memory sets, then
    /// the most frequent first. None where only locks that were waited for are known.
    pub(super) fn patterned(&self, group: Group) -> Vec<&CallKind> {
        if self.survey.contended_only {
            return Vec::new();
        }
        let kinds = self.survey.kinds.iter();
        let known =
            kinds.filter(|kind| kind.group == group && !kind.patterns.most_frequent.is_empty());
        let mut known: Vec<&CallKind> = known.collect();
        known.sort_by_key(|kind| {
            (kind.bytes_class.is_none(), std::cmp::Reverse(kind.patterns.calls))
        });
        known
    }
}

/// A kind of call in words. Numbers of locks say nothing where only `contended` ones are known.
pub(super) fn row(kind: &CallKind, contended: bool) -> CallRow {
    let (duration, wait) = (&kind.duration, &kind.lock_wait);
    let mut notes = Vec::new();
    let note = |number: u64, what: &str| (number > 0).then(|| format!("{} {what}", count(number)));
    notes.extend(note(kind.failed, "failed"));
    notes.extend(note(kind.captured, "captured"));
    notes.extend(note(kind.unknown, "unknown"));
    CallRow {
        name: kind_name(kind),
        group: plural(kind.group),
        count: count(kind.count),
        p50: value(duration, duration.p50),
        p99: p99(duration),
        p99_9: p99_9(duration),
        max: value(duration, duration.max),
        locks: if contended { String::new() } else { locks_per_call(&kind.locks_per_call) },
        waiting: percent(wait.total, duration.total),
        waits_much: wait.total * 100 >= duration.total * MUCH_PERCENT && wait.total > 0,
        notes: notes.join(", "),
    }
}

/// `9`, or `9 (max 12)`.
fn locks_per_call(locks: &Distribution) -> String {
    match locks {
        Distribution { count: 0, .. } => "-".to_owned(),
        Distribution { p50, max, .. } if p50 == max => p50.to_string(),
        Distribution { p50, max, .. } => format!("{p50} (max {max})"),
    }
}

const COLUMNS: [Column; 9] = [
    Column::name("call"),
    Column::number("calls", ALWAYS),
    Column::number("p50", ALWAYS),
    Column::number("p99", 4),
    Column::number("p99.9", 5),
    Column::number("max", ALWAYS),
    Column::number("locks", 2),
    Column::number("waiting", 6),
    Column::words("", 1),
];

/// The table of all kinds of calls.
pub(super) fn table(page: &mut Page, findings: &Findings<'_>) {
    let Calls { listed, left_out } = findings.calls();
    if listed.is_empty() {
        return;
    }
    page.heading("Calls");
    let rows = listed.iter().map(|kind| {
        let row = row(kind, findings.survey.contended_only);
        let waiting = if row.waits_much { WARN } else { PLAIN };
        vec![
            (row.name, PLAIN),
            (row.count, PLAIN),
            (row.p50, PLAIN),
            (row.p99, PLAIN),
            (row.p99_9, PLAIN),
            (row.max, PLAIN),
            (row.locks, PLAIN),
            (row.waiting, waiting),
            (row.notes, FAINT),
        ]
    });
    page.table(&COLUMNS, &rows.collect::<Vec<_>>());
    if left_out > 0 {
        let more = counted(left_out as u64, "other kind of call", "other kinds of calls");
        page.paragraph(FAINT, &format!("and {more} that took less time"), 2, 2);
    }
}

/// Locks that one call of a kind takes, by its most frequent pattern.
pub(super) struct LocksRow {
    /// `launch`, `copy` and so on.
    pub(super) role: &'static str,
    pub(super) name: String,
    pub(super) count: String,
    pub(super) p50: u64,
    pub(super) max: u64,
    pub(super) mutex: usize,
    pub(super) read: usize,
    pub(super) write: usize,
    pub(super) other: usize,
    /// Most locks held at the same time.
    pub(super) nested: u32,
    /// Share of all calls of this kind that have this pattern, and how many patterns there are.
    pub(super) share: String,
    pub(super) patterns: String,
}

/// Role of a kind of call for the reader: launch, graph launch, copy, waiting for a stream.
fn role(kind: &CallKind) -> Option<&'static str> {
    match kind.group {
        Group::Launch if kind.function.starts_with("cuGraphLaunch") => Some("graph launch"),
        Group::Launch => Some("launch"),
        Group::Copy if kind.bytes_class.is_some() => Some(match kind.host {
            Host::Unknown => "copy",
            Host::Pinned => "pinned copy",
            Host::Pageable => "pageable copy",
        }),
        Group::Copy => Some("memory set"),
        Group::Sync => Some("synchronise"),
        Group::Other => None,
    }
}

/// One row for each kind of launch, copy and synchronisation.
pub(super) fn locks_rows(findings: &Findings<'_>) -> Vec<LocksRow> {
    let kinds = findings.calls().listed.into_iter();
    kinds.filter_map(|kind| Some(locks_row(findings, role(kind)?, kind))).collect()
}

fn locks_row(findings: &Findings<'_>, role: &'static str, kind: &CallKind) -> LocksRow {
    let (locks, patterns) = (&kind.locks_per_call, &kind.patterns);
    let main = patterns.most_frequent.first();
    let steps = main.map_or(&[][..], |main| &main.steps);
    let taken = || steps.iter().filter(|step| step.acquired);
    let is = |lock: Option<u32>, family: Family| {
        let lock = lock.and_then(|lock| findings.survey.locks.get(lock as usize));
        lock.is_some_and(|lock| lock.family == family)
    };
    let mutex = taken().filter(|step| is(step.lock, Family::Mutex)).count();
    let read = taken().filter(|step| step.read).count();
    let write = taken().filter(|step| !step.read && is(step.lock, Family::ReadWrite)).count();
    let least = if patterns.distinct_is_least { "at least " } else { "" };
    LocksRow {
        role,
        name: kind_name(kind),
        count: count(kind.count),
        p50: locks.p50,
        max: locks.max,
        mutex,
        read,
        write,
        other: taken().count() - mutex - read - write,
        nested: steps.iter().map(|step| step.depth).max().unwrap_or(0),
        share: main.map_or(String::new(), |main| percent(main.count, kind.count)),
        patterns: format!("{least}{}", count(patterns.distinct)),
    }
}

const LOCKS_COLUMNS: [Column; 11] = [
    Column::words("", 8),
    Column::name("call"),
    Column::number("calls", 1),
    Column::number("locks p50", ALWAYS),
    Column::number("max", ALWAYS),
    Column::number("mutex", 7),
    Column::number("read", 6),
    Column::number("write", 6),
    Column::number("other", 3),
    Column::number("nested", 4),
    Column::number("of calls", 5),
];

/// The table of locks per call.
pub(super) fn locks_table(page: &mut Page, findings: &Findings<'_>) {
    let rows = locks_rows(findings);
    if findings.survey.contended_only || rows.iter().all(|row| row.max == 0) {
        return;
    }
    page.heading("Locks per call");
    let zero = |number: usize| if number == 0 { String::new() } else { number.to_string() };
    let cells = rows.iter().map(|row| {
        let LocksRow { role, name, count, p50, max, .. } = row;
        let texts = [
            (*role).to_owned(),
            name.clone(),
            count.clone(),
            p50.to_string(),
            max.to_string(),
            zero(row.mutex),
            zero(row.read),
            zero(row.write),
            zero(row.other),
            zero(row.nested as usize),
            row.share.clone(),
        ];
        texts.into_iter().map(|text| (text, PLAIN)).collect()
    });
    page.table(&LOCKS_COLUMNS, &cells.collect::<Vec<_>>());
    let about = "mutex, read, write and nested: of the most frequent pattern, which so many of the \
        calls have; nested is how many it holds at once.";
    page.paragraph(FAINT, about, 2, 2);
}
