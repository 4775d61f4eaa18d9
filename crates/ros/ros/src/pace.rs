//! Time at which a request without an answer is sent again.
//!
//! DDS repairs what the link loses: a copy that is sent while the first is under repair only makes
//! both late. So a request is sent again when the other side has acknowledged it, and a further
//! wait has brought no answer: the answer was lost above DDS. How long to wait is learned from
//! earlier answers, as TCP does (RFC 6298), and is never shorter than data of its size may take.

use std::time::{Duration, Instant};

/// The shortest wait.
const LEAST: Duration = Duration::from_millis(50);

/// The longest distance between repetitions, but for answers that take longer.
const LONGEST: Duration = Duration::from_secs(1);

/// Throughput of a slow link, in bytes per second.
const SLOW_LINK: f64 = 4e6;

/// Longest wait for an acknowledgement. One that is missing for longer is that of a reader that
/// died, and that DDS forgets after about so long.
pub(crate) const REPAIR: Duration = Duration::from_secs(10);

/// Times learned from the answers so far.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The mean time to an answer, and the mean distance from it, in seconds.
    learned: Option<(f64, f64)>,
    /// The wait of the last request, if it was sent more than once.
    backed_off: Duration,
}

/// The state of one request.
#[derive(Debug)]
pub(crate) struct Retry {
    sent: Instant,
    next: Instant,
    wait: Duration,
    is_acknowledged: bool,
}

/// Action for a request whose wait is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Wait on.
    Wait,
    /// Send it again.
    Send,
}

impl Pace {
    /// Begins a request that is sent now; `bytes` is the sum of request and answer.
    pub(crate) fn begin(&self, now: Instant, bytes: u64) -> Retry {
        let size = Duration::from_secs_f64(bytes as f64 / SLOW_LINK);
        let learned = self.learned.map(|(mean, distance)| mean + 4.0 * distance);
        let learned = Duration::from_secs_f64(learned.unwrap_or(0.0));
        let wait = (LEAST + size).max(learned).max(self.backed_off);
        Retry { sent: now, next: now + wait, wait, is_acknowledged: false }
    }

    /// Learns from an answer. One to a request that was sent more than once says nothing about
    /// time, since the copy that it belongs to is unknown.
    pub(crate) fn answered(&mut self, retry: &Retry, took: Duration, sent: u32) {
        if sent > 1 {
            self.backed_off = retry.wait;
            return;
        }
        self.backed_off = Duration::ZERO;
        let took = took.as_secs_f64();
        self.learned = Some(match self.learned {
            None => (took, took / 2.0),
            Some((mean, distance)) => {
                (mean + (took - mean) / 8.0, distance + ((took - mean).abs() - distance) / 4.0)
            }
        });
    }
}

impl Retry {
    /// Returns the time at which to call [`due`](Retry::due) next.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Decides the action now, given whether the other side has acknowledged all that was sent.
    pub(crate) fn due(&mut self, now: Instant, is_acknowledged: bool) -> Due {
        if now < self.next {
            return Due::Wait;
        }
        self.next = now + self.wait;
        let under_repair = !is_acknowledged && now - self.sent < REPAIR;
        let newly = is_acknowledged && !self.is_acknowledged;
        self.is_acknowledged = is_acknowledged;
        if under_repair || newly { Due::Wait } else { Due::Send }
    }

    /// Doubles the next wait after a repetition.
    pub(crate) fn repeated(&mut self, now: Instant) {
        self.wait = (2 * self.wait).min(LONGEST.max(self.wait));
        *self = Retry { sent: now, next: now + self.wait, wait: self.wait, is_acknowledged: false };
    }

    /// Sets a short wait after a request that could not be sent.
    pub(crate) fn refused(&mut self, now: Instant) {
        self.sent = now.checked_sub(REPAIR).unwrap_or(now);
        self.next = now + LEAST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_is_sent_again_while_it_is_under_repair() {
        let start = Instant::now();
        let mut retry = Pace::default().begin(start, 0);
        assert_eq!(retry.due(start + 49 * MS, false), Due::Wait);
        for step in 1..190 {
            assert_eq!(retry.due(start + step * 51 * MS, false), Due::Wait, "{step}");
        }
        // A reader that has not acknowledged after so long has died.
        assert_eq!(retry.due(start + REPAIR + 100 * MS, false), Due::Send);
    }

    #[test]
    fn an_acknowledged_request_has_a_whole_wait_for_its_answer() {
        let start = Instant::now();
        let mut retry = Pace::default().begin(start, 0);
        assert_eq!(retry.due(start + 50 * MS, false), Due::Wait);
        assert_eq!(retry.due(start + 100 * MS, true), Due::Wait);
        assert_eq!(retry.due(start + 149 * MS, true), Due::Wait);
        assert_eq!(retry.due(start + 150 * MS, true), Due::Send);
        retry.repeated(start + 150 * MS);
        assert_eq!(retry.next() - start, 250 * MS);
        assert_eq!(retry.due(start + 250 * MS, true), Due::Wait);
        assert_eq!(retry.due(start + 350 * MS, true), Due::Send);
    }

    #[test]
    fn waits_follow_size_answers_and_repetitions() {
        let start = Instant::now();
        let mut pace = Pace::default();
        let wait = |pace: &Pace, bytes| pace.begin(start, bytes).next() - start;
        assert_eq!(wait(&pace, 0), 50 * MS);
        assert_eq!(wait(&pace, 4_000_000), 1050 * MS);
        for _ in 0..100 {
            let retry = pace.begin(start, 0);
            pace.answered(&retry, 300 * MS, 1);
        }
        assert!((300 * MS..310 * MS).contains(&wait(&pace, 0)), "{pace:?}");
        let mut retry = pace.begin(start, 0);
        (0..9).for_each(|_| retry.repeated(start));
        assert_eq!(retry.next() - start, LONGEST);
        pace.answered(&retry, 5000 * MS, 10);
        assert_eq!(wait(&pace, 0), LONGEST);
        pace.answered(&retry, 300 * MS, 1);
        assert!(wait(&pace, 0) < 310 * MS, "{pace:?}");
    }

    #[test]
    fn what_could_not_be_sent_is_tried_soon() {
        let start = Instant::now();
        let mut retry = Pace::default().begin(start, 4_000_000);
        retry.refused(start);
        assert_eq!(retry.due(start + 50 * MS, false), Due::Send);
    }
}
