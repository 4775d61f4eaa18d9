//! Options of `keeptime run` for guarded locks, and what is said about them afterwards.

use record::guard::{ACCELERATOR_LIBRARIES, Guard, Mutexes};
use trace::metadata;

/// Options of the guard.
#[derive(clap::Args)]
pub(super) struct GuardOptions {
    /// Guard the program's locks. inherit: mutexes with priority inheritance. fair: no waiter is
    /// overtaken for longer than --guard-bound. fair+inherit: both, and real-time threads come
    /// first. audit: change nothing, and list the locks that would be guarded
    #[arg(long, value_name = "MODE", value_enum)]
    guard: Option<Mode>,
    /// Guard the locks of libraries whose file name starts with this; may be repeated
    #[arg(long, value_name = "LIBRARY", value_parser = super::parse_library, requires = "guard",
        default_values = ACCELERATOR_LIBRARIES)]
    guard_from: Vec<String>,
    /// Guard the locks of the program and of all libraries
    #[arg(long, requires = "guard", conflicts_with = "guard_from")]
    guard_all: bool,
    /// Longest time for which a waiter may be overtaken, as in 5ms
    #[arg(long, value_name = "TIME", value_parser = parse_bound, requires = "guard",
        default_value = "5ms")]
    guard_bound: u64,
    /// Treatment of read-write locks
    #[arg(long, value_enum, requires = "guard", default_value = "phase-fair")]
    guard_rwlocks: Rwlocks,
    /// Real-time threads that wait for a phase-fair lock lend their priority to the writer or, one
    /// after the other, to the readers inside
    #[arg(long, requires = "guard")]
    guard_boost: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Mode {
    Inherit,
    Fair,
    #[value(name = "fair+inherit", alias = "auto")]
    FairInherit,
    Audit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Rwlocks {
    /// Leave them as they are
    Alone,
    /// Let readers and writers wait for at most one phase of the others
    PhaseFair,
}

/// Nanoseconds; at least a microsecond, since a bound of nothing is a strict order.
fn parse_bound(text: &str) -> Result<u64, String> {
    let expected = "expected a time from 1us to 10s, as in 5ms";
    let time = terminal::time(text).map_err(|_| expected.to_owned())?;
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    if (1_000..=10_000_000_000).contains(&ns) { Ok(ns) } else { Err(expected.into()) }
}

impl GuardOptions {
    /// Returns true if nothing is to be changed.
    pub(super) fn is_audit(&self) -> bool {
        self.guard == Some(Mode::Audit)
    }

    /// Returns true if locks of all libraries are meant.
    pub(super) fn everywhere(&self) -> bool {
        self.guard_all
    }

    /// The libraries whose locks are meant.
    pub(super) fn libraries(&self) -> &[String] {
        &self.guard_from
    }

    /// Returns the settings of the guard; `None` without a guard and in an audit.
    pub(super) fn settings(&self) -> Option<Guard> {
        let mutexes = match self.guard? {
            Mode::Inherit => Mutexes::Inherit,
            Mode::Fair => Mutexes::Fair,
            Mode::FairInherit => Mutexes::FairInherit,
            Mode::Audit => return None,
        };
        Some(Guard {
            mutexes,
            phase_fair: self.guard_rwlocks == Rwlocks::PhaseFair,
            boost: self.guard_boost,
            bound_ns: self.guard_bound,
            everywhere: self.guard_all,
            libraries: if self.guard_all { Vec::new() } else { self.guard_from.clone() },
        })
    }
}

/// One line about a guarded program.
pub(super) fn summary(guard: &metadata::Guard, processes: usize) -> String {
    let counts = &guard.counts;
    let mut line = format!("guard {}", guard.mutexes);
    if processes == 0 {
        line += ": nothing was guarded";
        return line;
    }
    let said = [
        (counts.mutexes_converted, "mutexes made to inherit"),
        (counts.rwlocks_converted, "read-write locks made phase-fair"),
        (counts.outlasted_bound, "waits outlasted the bound"),
        (counts.handed_over, "hand-overs"),
        (counts.lent, "waits lent a priority"),
        (counts.taken_back, "hand-overs taken back"),
        (counts.rwlocks_readers_first, "read-write locks given the C library's order"),
        (counts.table_full, "waits found no place in the table"),
    ];
    let left = [
        (counts.mutexes_robust, "robust mutexes"),
        (counts.mutexes_inheriting, "mutexes that inherit already"),
        (counts.mutexes_ceiling, "mutexes with a ceiling"),
        (counts.mutexes_shared, "mutexes of several processes"),
        (counts.mutexes_destroyed, "destroyed mutexes"),
        (counts.mutexes_busy, "mutexes in use"),
        (counts.mutexes_of_unknown_users, "mutexes without an initialiser"),
        (counts.mutexes_let_go_by_others, "mutexes let go by another thread than their owner"),
        (counts.rwlocks_shared, "read-write locks of several processes"),
        (counts.rwlocks_busy, "read-write locks in use"),
        (
            counts.intercepted,
            "processes whose locks are tracked by a sanitizer or Valgrind, or are not the C \
             library's",
        ),
    ];
    let list = |parts: &[(u64, &str)]| {
        let parts = parts.iter().filter(|(number, _)| *number > 0);
        parts.map(|(number, what)| format!("{number} {what}")).collect::<Vec<_>>().join(", ")
    };
    let (said, left) = (list(&said), list(&left));
    line += ": ";
    line += if said.is_empty() { "nothing was to be done" } else { &said };
    if !left.is_empty() {
        line += &format!("; left alone, by uses: {left}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::GuardCounts;

    #[test]
    fn bounds_are_times() {
        assert_eq!(parse_bound("5ms"), Ok(5_000_000));
        assert_eq!(parse_bound("1us"), Ok(1_000));
        for wrong in ["", "5", "0s", "100ns", "11s", "fast"] {
            assert!(parse_bound(wrong).unwrap_err().contains("as in 5ms"), "{wrong}");
        }
    }

    #[test]
    fn summary_says_what_was_done_and_what_was_left() {
        let mut guard = metadata::Guard { mutexes: "fair".into(), ..Default::default() };
        assert_eq!(summary(&guard, 1), "guard fair: nothing was to be done");
        let counts = GuardCounts { handed_over: 3, mutexes_robust: 2, ..Default::default() };
        guard.counts = counts;
        let expected = "guard fair: 3 hand-overs; left alone, by uses: 2 robust mutexes";
        assert_eq!(summary(&guard, 2), expected);
        assert!(summary(&guard, 0).contains("nothing was guarded"));
    }
}
