//! The locks: what they are and were made as, who takes them, how long they are waited for and
//! held.

use super::calls::{p99, value};
use super::name::{attributes, families};
use super::{Findings, plural};
use crate::number::{count, counted, listed, percent, time};
use late::result::{Lock, Use};
use late::{Distribution, Family, Group};
use std::collections::HashSet;
use terminal::page::{ALWAYS, Cell, Column, Page};
use terminal::page::{BAD, FAINT, PLAIN, WARN};

/// Locks that are listed in a terminal; the rest is counted.
const LISTED: usize = 16;
/// Functions that are listed with a lock; the rest is counted.
const TAKERS: usize = 4;

/// Use of a lock, in words: readers and others apart.
pub(super) struct UseRow {
    pub(super) lock: String,
    /// `read`, `write`, or nothing.
    pub(super) mode: &'static str,
    pub(super) taken: String,
    pub(super) waited: String,
    pub(super) waited_share: String,
    /// p50, p99, max.
    pub(super) wait: [String; 3],
    pub(super) hold: [String; 3],
    pub(super) contended: bool,
}

/// Waiting for a lock, altogether.
pub(super) fn waited_ns(lock: &Lock) -> u64 {
    if !lock.family.held() {
        return lock.relock.total;
    }
    lock.readers.wait.total + lock.others.wait.total + lock.in_vain.total
}

impl Findings<'_> {
    /// The locks worth a row: those waited for, the longest waits first, and those of the pattern
    /// of a launch; in the order of their names.
    pub(super) fn notable_locks(&self, most: usize) -> Vec<(u32, &Lock)> {
        let locks = (0u32..).zip(&self.survey.locks);
        // A condition that no call waits for belongs to the driver's own threads.
        let called = |lock: &Lock| lock.kinds.iter().any(|(kind, _)| kind.is_some());
        let waited = |lock: &Lock| waited_ns(lock) > 0 && (lock.family.held() || called(lock));
        let open: HashSet<u32> = self.survey.open_waits.iter().map(|wait| wait.lock).collect();
        let stood_still = |at: u32, lock: &Lock| lock.family.held() && open.contains(&at);
        let notable = locks.filter(|(at, lock)| {
            waited(lock) || stood_still(*at, lock) || self.in_main_pattern(*at)
        });
        let mut notable: Vec<(u32, &Lock)> = notable.collect();
        notable.sort_by_key(|(place, lock)| (std::cmp::Reverse(waited_ns(lock)), *place));
        notable.truncate(most);
        notable.sort_by_key(|(place, _)| *place);
        notable
    }

    /// Groups of calls that take a lock.
    pub(super) fn groups_of(&self, lock: &Lock) -> Vec<Group> {
        let kinds = lock.kinds.iter().filter_map(|(kind, _)| *kind);
        let mut groups: Vec<Group> =
            kinds.filter_map(|kind| Some(self.survey.kinds.get(kind as usize)?.group)).collect();
        groups.sort();
        groups.dedup();
        groups
    }

    /// Returns true if launches share a lock with other groups of calls: such a lock lets a copy
    /// delay a launch.
    pub(super) fn is_shared(&self, lock: &Lock) -> bool {
        let groups = self.groups_of(lock);
        groups.contains(&Group::Launch) && groups.len() > 1
    }

    /// `cuLaunchKernel 4 000, cuMemcpyHtoDAsync 312`: size classes of copies put together, and at
    /// most so many.
    pub(super) fn takers(&self, lock: &Lock, most: usize) -> String {
        let mut takers: Vec<(&str, u64)> = Vec::new();
        for (kind, times) in &lock.kinds {
            let kind = kind.and_then(|kind| self.survey.kinds.get(kind as usize));
            let name = kind.map_or("outside of calls", |kind| kind.function.as_str());
            match takers.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum += times,
                None => takers.push((name, *times)),
            }
        }
        takers.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        let taker = |(name, times): &(&str, u64)| format!("{name} {}", count(*times));
        let mut names: Vec<String> = takers.iter().take(most).map(taker).collect();
        let more = takers.len() - names.len();
        names.extend((more > 0).then(|| format!("{more} more")));
        names.join(", ")
    }

    /// The audit: how many locks of each kind there are, and what protects them.
    pub(super) fn audit(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.survey.contended_only {
            sentences.push("Only locks that were waited for are known.".to_owned());
        }
        let locks_of =
            |family: Family| self.survey.locks.iter().filter(move |l| l.family == family);
        let known = |family: Family| locks_of(family).filter_map(|lock| lock.attributes.as_ref());
        let mutexes = known(Family::Mutex).count() as u64;
        if mutexes > 0 {
            let inherit = known(Family::Mutex).filter(|a| a.inherit || a.protect).count() as u64;
            sentences.push(format!(
                "{}: {} priority inheritance{}.",
                families(Family::Mutex, mutexes),
                match inherit {
                    0 => "none has".to_owned(),
                    all if all == mutexes => "all have".to_owned(),
                    some => format!("{} have", count(some)),
                },
                if inherit < mutexes {
                    "; a holder that is preempted keeps the others out"
                } else {
                    ""
                }
            ));
        }
        let mut kinds: Vec<(&str, u64)> = Vec::new();
        for lock in known(Family::ReadWrite) {
            match kinds.iter_mut().find(|(kind, _)| *kind == lock.kind) {
                Some((_, number)) => *number += 1,
                None => kinds.push((lock.kind, 1)),
            }
        }
        if !kinds.is_empty() {
            let all = kinds.iter().map(|(_, number)| number).sum();
            // `1 prefers readers`, `76 prefer readers`.
            let verb = |number: u64| if number == 1 { "prefers" } else { "prefer" };
            let kinds = kinds.iter().map(|(kind, number)| {
                format!("{} {}", count(*number), kind.replacen("prefers", verb(*number), 1))
            });
            let kinds = listed(&kinds.collect::<Vec<_>>());
            sentences.push(format!("{}: {kinds}.", families(Family::ReadWrite, all)));
        }
        let forgotten = self.survey.forgotten;
        if forgotten.locks > 0 {
            sentences.push(format!(
                "{} more, taken {}, were destroyed without ever having been waited for.",
                counted(forgotten.locks, "lock", "locks"),
                counted(forgotten.acquisitions, "time", "times")
            ));
        }
        sentences
    }
}

/// The rows of a lock: readers and writers apart, and a condition's signal apart from its mutex.
pub(super) fn use_rows(lock: &Lock) -> Vec<UseRow> {
    let nothing = Distribution::default();
    match lock.family {
        Family::ReadWrite => [("read", &lock.readers), ("write", &lock.others)]
            .into_iter()
            .filter(|(_, of)| of.acquisitions + of.wait.count > 0)
            .map(|(mode, of)| use_row(lock, mode, of, &of.wait, &of.hold))
            .collect(),
        Family::Condition => vec![
            use_row(lock, "signal", &lock.others, &lock.others.wait, &nothing),
            use_row(lock, "mutex again", &lock.others, &lock.relock, &nothing),
        ],
        _ => vec![use_row(lock, "", &lock.others, &lock.others.wait, &lock.others.hold)],
    }
}

fn use_row(
    lock: &Lock,
    mode: &'static str,
    of: &Use,
    wait: &Distribution,
    hold: &Distribution,
) -> UseRow {
    let three = |d: &Distribution| [value(d, d.p50), p99(d), value(d, d.max)];
    UseRow {
        lock: lock.name.clone(),
        mode,
        taken: count(of.acquisitions),
        waited: count(of.contended),
        waited_share: percent(of.contended, of.acquisitions),
        wait: three(wait),
        hold: three(hold),
        contended: of.contended > 0,
    }
}

const AUDIT: [Column; 3] =
    [Column::label("lock"), Column::words("kind", 3), Column::wrapped("taken by")];

const USES: [Column; 10] = [
    Column::label("lock"),
    Column::label(""),
    Column::number("taken", 3),
    Column::number("waited", 7),
    Column::number("wait p50", 6),
    Column::number("p99", 4),
    Column::number("max", ALWAYS),
    Column::number("hold p50", 5),
    Column::number("p99", 2),
    Column::number("max", 8),
];

/// Both tables of locks.
pub(super) fn tables(page: &mut Page, findings: &Findings<'_>) {
    if findings.survey.locks.is_empty() {
        return;
    }
    page.heading("Locks");
    for sentence in findings.audit() {
        page.paragraph(PLAIN, &sentence, 2, 2);
    }
    let notable = findings.notable_locks(LISTED);
    if notable.is_empty() {
        page.paragraph(PLAIN, "No launch took one, and none was waited for.", 2, 2);
        return;
    }
    page.end();
    let audit = notable.iter().map(|(_, lock)| audit_row(findings, lock));
    page.table(&AUDIT, &audit.collect::<Vec<_>>());
    page.end();
    let uses = notable.iter().flat_map(|(_, lock)| use_rows(lock)).map(cells);
    page.table(&USES, &uses.collect::<Vec<_>>());
    let rest = findings.survey.locks.len() - notable.len();
    if rest > 0 {
        let rest = counted(rest as u64, "other lock", "other locks");
        page.paragraph(FAINT, &format!("and {rest} with shorter waits or none"), 2, 2);
    }
    if notable.iter().any(|(_, lock)| findings.is_shared(lock)) {
        page.paragraph(FAINT, "* shared by launches and other calls", 2, 2);
    }
    for sentence in given_up(findings).into_iter().chain(handed_over(findings)) {
        page.paragraph(PLAIN, &sentence, 2, 2);
    }
}

/// `Waits that ended without the lock: 3 for M1 (the longest 7 ms; 2 by their time limit).`
pub(super) fn given_up(findings: &Findings<'_>) -> Option<String> {
    let in_vain = |lock: &&Lock| lock.gave_up > 0;
    let mut locks: Vec<&Lock> = findings.survey.locks.iter().filter(in_vain).collect();
    locks.sort_by_key(|lock| std::cmp::Reverse(lock.in_vain.total));
    let one = |lock: &&Lock| {
        let limit = match lock.timed_out {
            0 => String::new(),
            times => format!("; {} by their time limit", count(times)),
        };
        let longest = time(lock.in_vain.max);
        format!("{} for {} (the longest {longest}{limit})", count(lock.gave_up), lock.name)
    };
    let mut said: Vec<String> = locks.iter().take(TAKERS).map(one).collect();
    let more = locks.len() - said.len();
    said.extend((more > 0).then(|| counted(more as u64, "other lock", "other locks")));
    (!said.is_empty()).then(|| format!("Waits that ended without the lock: {}.", listed(&said)))
}

/// `The guard handed over M3 1 076 times and M1 once.`
pub(super) fn handed_over(findings: &Findings<'_>) -> Option<String> {
    let mut locks: Vec<&Lock> =
        findings.survey.locks.iter().filter(|lock| lock.handed_over > 0).collect();
    locks.sort_by_key(|lock| std::cmp::Reverse(lock.handed_over));
    let times = |lock: &&Lock| match lock.handed_over {
        1 => format!("{} once", lock.name),
        times => format!("{} {} times", lock.name, count(times)),
    };
    let mut said: Vec<String> = locks.iter().take(TAKERS).map(times).collect();
    let more = locks.len() - said.len();
    said.extend((more > 0).then(|| counted(more as u64, "other lock", "other locks")));
    (!said.is_empty()).then(|| format!("The guard handed over {}.", listed(&said)))
}

fn audit_row(findings: &Findings<'_>, lock: &Lock) -> Vec<Cell> {
    let shared = findings.is_shared(lock);
    let name = format!("{}{}", lock.name, if shared { "*" } else { "" });
    vec![
        (name, if shared { WARN } else { PLAIN }),
        (attributes(lock), PLAIN),
        (findings.takers(lock, TAKERS), PLAIN),
    ]
}

fn cells(row: UseRow) -> Vec<Cell> {
    let UseRow { lock, mode, taken, waited, wait, hold, contended, .. } = row;
    let [wait_p50, wait_p99, wait_max] = wait;
    let [hold_p50, hold_p99, hold_max] = hold;
    vec![
        (lock, PLAIN),
        (mode.to_owned(), PLAIN),
        (taken, PLAIN),
        (waited, PLAIN),
        (wait_p50, PLAIN),
        (wait_p99, PLAIN),
        (wait_max, if contended { BAD } else { PLAIN }),
        (hold_p50, PLAIN),
        (hold_p99, PLAIN),
        (hold_max, PLAIN),
    ]
}

/// `launches and copies`.
pub(super) fn groups_words(groups: &[Group]) -> String {
    listed(&groups.iter().map(|group| plural(*group).to_owned()).collect::<Vec<_>>())
}
