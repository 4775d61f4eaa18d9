//! The server's log, which no client can flood.
//!
//! A line that a user can cause has a kind. Of each kind and user a few lines are written at once,
//! then one every [`INTERVAL_NS`]; what was left out meanwhile is counted and said. The rest goes
//! to the log as it is.

use crate::Log;
use crate::dispatch::Dispatcher;
use log::Level;
use realtime::clock::monotonic_ns;
use realtime::mutex::PiMutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Lines of one kind and user that are written at once.
const BURST: u32 = 10;
/// Time between two lines of one kind and user after those.
const INTERVAL_NS: u64 = 5_000_000_000;
/// Kinds and users that are told apart; all others share one count for each kind.
const MOST_COUNTS: usize = 1024;
/// The user of those others.
const OTHERS: u32 = u32::MAX;

/// Subject of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A connection or registration was refused.
    Refused,
    /// A session was ended.
    Closed,
    /// A request did what it should not.
    Request,
    /// Admission control has something to say about a chain.
    Chain,
    /// A session or a registration came or went.
    Session,
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Kind::Refused => "refused connections",
            Kind::Closed => "closed sessions",
            Kind::Request => "requests",
            Kind::Chain => "chains",
            Kind::Session => "sessions",
        }
    }

    fn level(self) -> Level {
        match self {
            Kind::Refused | Kind::Closed | Kind::Request => Level::Warn,
            Kind::Chain => Level::Info,
            Kind::Session => Level::Debug,
        }
    }
}

/// The log of the threads that listen to clients. Any of them may write; none waits for the thread
/// that reads it.
pub(crate) struct Journal {
    log: Log,
    /// Counts, with priority inheritance, since threads of different priorities write.
    counts: PiMutex<Counts>,
    engine: Arc<Dispatcher>,
}

impl Journal {
    pub(crate) fn new(log: Log, engine: Arc<Dispatcher>) -> Journal {
        Journal { log, counts: PiMutex::new(Counts::default()), engine }
    }

    /// A line that no user causes.
    pub(crate) fn say(&self, level: Level, line: &str) {
        (self.log)(level, line);
    }

    /// A line that a user causes; made only if it is written.
    pub(crate) fn tell(&self, kind: Kind, uid: u32, line: impl FnOnce() -> String) {
        let verdict = self.counts.lock().admit(kind, uid, monotonic_ns());
        match verdict {
            Verdict::Write => (self.log)(kind.level(), &line()),
            // The control thread says how many there were when the time has come.
            Verdict::FirstLeftOut => self.engine.control.ring(),
            Verdict::LeftOut => {}
        }
    }

    /// Returns the time at which the count of left-out lines is due; None if none was left out.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.counts.lock().due_ns
    }

    /// Says how many lines were left out.
    pub(crate) fn flush(&self, now_ns: u64) {
        if self.due_ns().is_none_or(|due| now_ns < due) {
            return;
        }
        self.write(now_ns);
    }

    /// The same before its time: nothing comes after it.
    pub(crate) fn close(&self) {
        self.write(u64::MAX);
    }

    fn write(&self, now_ns: u64) {
        let due = self.counts.lock().take_due(now_ns);
        for (kind, uid, left_out) in due {
            let who = match uid {
                OTHERS => "other users".into(),
                uid => format!("user {uid}"),
            };
            let line = format!("{left_out} more lines about {} of {who}", kind.noun());
            (self.log)(kind.level(), &line);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Write,
    FirstLeftOut,
    LeftOut,
}

#[derive(Debug)]
struct Count {
    lines: u32,
    /// Earliest time of one more line after the lines of a burst.
    next_ns: u64,
    left_out: u64,
}

#[derive(Debug, Default)]
struct Counts {
    counts: HashMap<(Kind, u32), Count>,
    /// The earliest time at which something that was left out is to be said.
    due_ns: Option<u64>,
}

impl Counts {
    fn admit(&mut self, kind: Kind, uid: u32, now_ns: u64) -> Verdict {
        let mut key = (kind, uid);
        if self.counts.len() >= MOST_COUNTS && !self.counts.contains_key(&key) {
            self.counts.retain(|_, count| count.left_out > 0 || now_ns < count.next_ns);
            if self.counts.len() >= MOST_COUNTS {
                key = (kind, OTHERS);
            }
        }
        let fresh = Count { lines: 0, next_ns: 0, left_out: 0 };
        let count = self.counts.entry(key).or_insert(fresh);
        if now_ns >= count.next_ns && count.left_out == 0 {
            count.lines = 0;
        }
        if count.lines < BURST {
            count.lines += 1;
            count.next_ns = now_ns.saturating_add(INTERVAL_NS);
            return Verdict::Write;
        }
        count.left_out += 1;
        if count.left_out > 1 {
            return Verdict::LeftOut;
        }
        let due_ns = self.due_ns.unwrap_or(u64::MAX).min(count.next_ns);
        self.due_ns = Some(due_ns);
        Verdict::FirstLeftOut
    }

    fn take_due(&mut self, now_ns: u64) -> Vec<(Kind, u32, u64)> {
        let mut due = Vec::new();
        self.due_ns = None;
        for (&(kind, uid), count) in self.counts.iter_mut().filter(|(_, count)| count.left_out > 0)
        {
            if now_ns >= count.next_ns {
                due.push((kind, uid, std::mem::take(&mut count.left_out)));
                // The line that says so is the one that this interval has.
                count.next_ns = now_ns.saturating_add(INTERVAL_NS);
                count.lines = BURST;
            } else {
                self.due_ns = Some(self.due_ns.unwrap_or(u64::MAX).min(count.next_ns));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{FirstLeftOut, LeftOut, Write};

    fn admit(counts: &mut Counts, uid: u32, now_ns: u64, times: usize) -> Vec<Verdict> {
        (0..times).map(|_| counts.admit(Kind::Refused, uid, now_ns)).collect()
    }

    #[test]
    fn lines_of_one_user_are_counted_and_those_of_others_written() {
        let mut counts = Counts::default();
        let burst = BURST as usize;
        let first = admit(&mut counts, 1, 0, burst + 3);
        assert_eq!(first[..burst], vec![Write; burst]);
        assert_eq!(first[burst..], [FirstLeftOut, LeftOut, LeftOut]);
        assert_eq!(admit(&mut counts, 2, 0, 1), [Write]);
        assert_eq!(counts.admit(Kind::Closed, 1, 0), Write, "another kind");
        assert_eq!(counts.due_ns, Some(INTERVAL_NS));
        assert_eq!(counts.take_due(INTERVAL_NS - 1), []);
        assert_eq!(counts.due_ns, Some(INTERVAL_NS));
        assert_eq!(counts.take_due(INTERVAL_NS), [(Kind::Refused, 1, 3)]);
        assert_eq!(counts.due_ns, None);
    }

    #[test]
    fn a_flood_of_an_hour_makes_a_line_an_interval() {
        let mut counts = Counts::default();
        let (mut lines, mut left_out) = (0, 0);
        let hour = 3_600_000_000_000_u64;
        for now_ns in (0..hour).step_by(1_000_000) {
            lines += u64::from(counts.admit(Kind::Refused, 7, now_ns) == Write);
            if counts.due_ns.is_some_and(|due| now_ns >= due) {
                let due = counts.take_due(now_ns);
                left_out += due.iter().map(|(_, _, count)| count).sum::<u64>();
                lines += due.len() as u64;
            }
        }
        left_out += counts.take_due(u64::MAX).iter().map(|(_, _, count)| count).sum::<u64>();
        assert!(lines <= u64::from(BURST) + hour / INTERVAL_NS, "{lines}");
        let written = hour / 1_000_000 - left_out;
        assert_eq!(written, u64::from(BURST), "nothing is lost without a count");
    }

    #[test]
    fn quiet_users_are_forgotten_and_too_many_share_a_count() {
        let mut counts = Counts::default();
        for uid in 0..2 * MOST_COUNTS as u32 {
            counts.admit(Kind::Refused, uid, 0);
        }
        assert!(counts.counts.len() <= MOST_COUNTS + 4);
        assert_eq!(admit(&mut counts, 5_000, INTERVAL_NS, 1), [Write]);
        assert!(counts.counts.len() < 10, "{}", counts.counts.len());
    }
}
