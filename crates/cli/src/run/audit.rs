//! `keeptime run --guard audit`: which locks a guard would take care of, which not, and why.
//!
//! The program runs as it is. Its locks are recorded, those taken from the libraries that would be
//! guarded, and each lock is judged by the same rules as the guard's.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use guard::mutex::{Unfit, fitness_of};
use late::result::{ForgottenLocks, Lock};
use late::{Family, Options};
use serde::Serialize;
use trace::Trace;
use trace::session::bandwidth::Bandwidth;

/// Locks that are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Row {
    /// File name of the library that takes them most.
    library: String,
    /// Kind of the locks: mutex or read-write lock.
    lock: &'static str,
    /// Mutexes: their type; read-write locks: readers or writers that they prefer.
    kind: &'static str,
    /// Decision of the guard: `guarded`, `phase-fair`, or the reason why it would leave them alone.
    verdict: &'static str,
    /// Conversion by mode `inherit` to inheritance mutexes, or the reason against it.
    inherit: &'static str,
}

/// Number of locks, and counts of their acquisitions.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Count {
    locks: u64,
    acquisitions: u64,
    contended: u64,
}

/// All locks of a program.
pub(super) struct Audit {
    rows: BTreeMap<Row, Count>,
    /// Locks that were made, used without a wait, and destroyed.
    passing: Count,
}

/// Judges the locks of a recorded program; `everywhere` as in `--guard-all`.
pub(super) fn audit(file: &Path, everywhere: bool) -> anyhow::Result<Audit> {
    let trace = Trace::open(file)?;
    let survey = late::survey(&trace, &Options::default(), &mut |_, _| true)?;
    let mut rows: BTreeMap<Row, Count> = BTreeMap::new();
    for lock in &survey.locks {
        let Some(row) = judge(lock, everywhere) else { continue };
        let count = rows.entry(row).or_default();
        count.locks += 1;
        for usage in [&lock.readers, &lock.others] {
            count.acquisitions += usage.acquisitions;
            count.contended += usage.contended;
        }
    }
    let ForgottenLocks { locks, acquisitions } = survey.forgotten;
    Ok(Audit { rows, passing: Count { locks, acquisitions, contended: 0 } })
}

/// Judges a lock; `None` for those that no guard knows.
fn judge(lock: &Lock, everywhere: bool) -> Option<Row> {
    let attributes = lock.attributes.as_ref()?;
    let (what, verdict, inherit) = match lock.family {
        Family::Mutex => match fitness_of(attributes.word) {
            Ok(()) => ("mutex", "guarded", inherit(lock, everywhere)),
            Err(unfit) => ("mutex", why_unfit(unfit), why_unfit(unfit)),
        },
        Family::ReadWrite if attributes.shared => {
            ("read-write lock", "left alone: other processes may use it", "not a mutex")
        }
        Family::ReadWrite => ("read-write lock", "phase-fair", "not a mutex"),
        _ => return None,
    };
    let module = lock.callers.first().and_then(|caller| caller.module.as_deref());
    let library =
        Path::new(module.unwrap_or_default()).file_name().unwrap_or_default().to_string_lossy();
    let library = if library.is_empty() { "?".into() } else { library.into_owned() };
    Some(Row { library, lock: what, kind: attributes.kind, verdict, inherit })
}

fn inherit(lock: &Lock, everywhere: bool) -> &'static str {
    match lock.created_at_ns {
        Some(_) => "converted when it is initialised",
        None if everywhere => "converted before its first use",
        None => "converted before its first use if it is a variable of its library",
    }
}

fn why_unfit(unfit: Unfit) -> &'static str {
    match unfit {
        Unfit::Robust => "left alone: robust",
        Unfit::Inherits => "left alone: inherits already",
        Unfit::Ceiling => "left alone: has a priority ceiling",
        Unfit::Shared => "left alone: other processes may use it",
        Unfit::Destroyed => "left alone: no mutex that the C library made",
    }
}

impl Audit {
    /// Tables, a line for each kind of lock.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("Locks, and what a guard would do with them\n");
        let mut library = None;
        for (row, count) in &self.rows {
            if library != Some(&row.library) {
                let _ = writeln!(text, "\n{}", row.library);
                library = Some(&row.library);
            }
            let Count { locks, acquisitions, contended } = count;
            let becomes = match row.lock {
                "mutex" if row.verdict != row.inherit => {
                    format!("fair, fair+inherit: {}; inherit: {}", row.verdict, row.inherit)
                }
                _ => row.verdict.to_owned(),
            };
            let _ = writeln!(
                text,
                "  {locks:>6} x {}, {}: {becomes}\n           \
                 {acquisitions} acquisitions, {contended} of them after a wait",
                row.lock, row.kind,
            );
        }
        if self.rows.is_empty() {
            text += "\n  none was taken from these libraries\n";
        }
        if self.passing.locks > 0 {
            let Count { locks, acquisitions, .. } = self.passing;
            let _ = writeln!(
                text,
                "\nBesides, {locks} locks were destroyed without a wait for them, after \
                 {acquisitions} acquisitions.",
            );
        }
        text
    }

    /// The same as one object, with what came of the bandwidth lock, if it was to be held.
    pub(super) fn json(&self, bandwidth: Option<&Bandwidth>) -> anyhow::Result<String> {
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(flatten)]
            row: &'a Row,
            #[serde(flatten)]
            count: &'a Count,
        }
        let locks: Vec<_> = self.rows.iter().map(|(row, count)| Line { row, count }).collect();
        let object = serde_json::json!({
            "schema": "keeptime.guard-audit",
            "version": 1,
            "locks": locks,
            "destroyed_without_waits": self.passing,
            "bandwidth_lock": bandwidth,
        });
        Ok(serde_json::to_string_pretty(&object)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_what_becomes_of_each_kind() {
        let row = Row {
            library: "libcuda.so.1".into(),
            lock: "mutex",
            kind: "normal",
            verdict: "guarded",
            inherit: "converted when it is initialised",
        };
        let count = Count { locks: 389, acquisitions: 9000, contended: 12 };
        let audit = Audit { rows: [(row, count)].into(), passing: Count::default() };
        let text = audit.text();
        assert!(
            text.contains(
                "\nlibcuda.so.1\n     389 x mutex, normal: fair, fair+inherit: guarded; "
            ),
            "{text}"
        );
        assert!(text.contains("inherit: converted when it is initialised\n"), "{text}");
        assert!(text.contains("9000 acquisitions, 12 of them after a wait"), "{text}");
        assert!(!text.contains("Besides"), "{text}");
    }
}
