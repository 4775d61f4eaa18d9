//! The thread of one best-effort core.
//!
//! ```text
//!   asleep ----- bell -----> period ---- end, still held ----> period ...
//!     ^                        | budget spent
//!     |                        v
//!     |                      stop: keeps the core until the period ends, or the lock is free
//!     |                        | free
//!     '---- linger is over -- looks by itself ------ held again ----> stop, or a new period
//! ```
//!
//! A period begins when the lock is found held, not at a tick. It goes on while the lock is free, and
//! so does its budget, which would otherwise be a new one for each of many short holds: if it is
//! spent, the core is stopped whenever the lock is held until the period ends.
//!
//! After a release the thread does not go to sleep where a taker has to wake it, which costs the
//! taker microseconds of a system call: it looks by itself, for as long as lingering lasts, or for
//! as long as there is a holder ([`Attention::Look`]).
//!
//! While it keeps the core the thread reads the processor's counter, the holders' cells and its
//! orders, all of which stay in its cache until another core writes them, and pauses. It is a
//! `SCHED_FIFO` thread, so that nothing ordinary runs there; what is more urgent does. That it did
//! not have the core it knows from the counter: two readings that are far apart.
//!
//! A thread whose priority the watchdog has taken stops nothing, since it would only share the core
//! with what it is to stop. It counts the periods that it misses until it is urgent again.

use super::Shared;
use super::config::{Attention, Config};
use super::count::{BudgetOutcome, Counter};
use super::delays::Delays;
use super::fairness::Fairness;
use super::ticks::Ticks;
use realtime::clock::{monotonic_ns, sleep_until_ns};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Length of one sleep of a thread while the regulator has suspended itself.
const SUSPENDED: Duration = Duration::from_millis(10);
/// A holder that says it has held the lock for longer when it is first seen has not been waited
/// for, or lies.
const BELIEVED_NS: u64 = 1_000_000_000;

/// A thread that is woken later than this part of a period after its time is late.
const LATE_PART: u64 = 10;
/// Two readings of the counter in a stop that are further apart: something else had the core.
const AWAY_NS: u64 = 20_000;

/// An order of the watchdog: end the stop.
const LEAVE: u32 = 1;

/// State of a core's thread. The thread and the watchdog write it; any thread may read it.
#[derive(Default)]
pub(super) struct Log {
    /// The thread, 0 before it runs.
    pub thread: AtomicI32,
    /// Time at which the present stop began, on `CLOCK_MONOTONIC`; 0 outside of a stop.
    pub stopped_since_ns: AtomicU64,
    /// Nonzero while the thread is not asleep on the bell.
    pub busy: AtomicU32,
    /// Order of the watchdog; the thread resets it.
    pub order: AtomicU32,
    /// The watchdog has taken the thread's priority.
    pub is_ordinary: AtomicBool,
    /// Number of times that it did so, and number of times that it gave the priority back.
    pub demotions: AtomicU64,
    pub promotions: AtomicU64,
    /// Periods that did not begin on time, because the thread did not have its core or had lost
    /// its priority.
    pub missed: AtomicU64,
    /// Wake-ups, and ends of stops, that were later than [`LATE_PART`] of a period.
    pub late: AtomicU64,
    /// Time of its stops for which another thread had the core.
    pub away_ns: AtomicU64,
    pub periods: AtomicU64,
    pub stops: AtomicU64,
    pub stopped_ns: AtomicU64,
    pub counted: AtomicU64,
    /// Stops that the watchdog ended.
    pub rescued: AtomicU64,
    /// Periods that could not be counted.
    pub failed: AtomicU64,
    /// Delay from the taking of the lock, as its holder states it, until this thread is awake and
    /// about to begin a period.
    pub effect: Delays,
    /// Delay from the spending of the budget until this thread is awake.
    pub wake_up: Delays,
}

impl Log {
    /// Watchdog: ends the stop, if there is one.
    pub(super) fn end_stop(&self) {
        self.order.store(LEAVE, Ordering::Relaxed);
    }
}

// Relaxed throughout: numbers for people and for the watchdog, each complete in itself.
fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// A core's thread, set up on its core.
pub(super) struct Core {
    core: usize,
    /// Its place among the best-effort cores.
    index: usize,
    period_ns: u64,
    linger_ns: u64,
    look_ns: u64,
    attention: Attention,
    counter: Counter,
    fairness: Box<dyn Fairness>,
    ticks: Ticks,
    /// End of the period whose budget is spent, and the thread that caused that.
    spent_until_ns: u64,
    cause: Option<i32>,
}

impl Core {
    /// Creates the state for the calling thread, which is on the core.
    pub(super) fn new(
        config: &Config,
        index: usize,
        counter: Counter,
        fairness: Box<dyn Fairness>,
    ) -> Core {
        Core {
            core: config.cores[index],
            index,
            period_ns: config.period.as_nanos() as u64,
            linger_ns: config.linger.as_nanos() as u64,
            look_ns: config.look.as_nanos() as u64,
            attention: config.attention,
            counter,
            fairness,
            ticks: Ticks::measure(),
            spent_until_ns: 0,
            cause: None,
        }
    }

    /// Regulates until the regulator ends.
    pub(super) fn run(mut self, shared: &Shared) {
        let log = &shared.logs[self.index];
        log.thread.store(realtime::thread::id() as i32, Ordering::Relaxed);
        while !shared.is_ending() {
            shared.holders.wait_until_held(None);
            if shared.is_suspended() {
                std::thread::sleep(SUSPENDED);
                continue;
            }
            log.busy.store(1, Ordering::SeqCst);
            // From here on nothing ordinary runs on the core. To wake the watchdog takes longer.
            self.note_effect(shared);
            shared.begin_guarding();
            self.regulate(shared);
            self.fairness.rest(self.core);
            log.busy.store(0, Ordering::SeqCst);
        }
        // A thread that ends keeps nothing.
        self.fairness.rest(self.core);
    }

    /// Periods, until the lock has been free for the time of lingering.
    fn regulate(&mut self, shared: &Shared) {
        loop {
            let mut next_ns = 0;
            while shared.holds() {
                let now_ns = monotonic_ns();
                if shared.logs[self.index].is_ordinary.load(Ordering::Relaxed) {
                    next_ns = self.miss(shared, now_ns);
                    continue;
                }
                if now_ns < self.spent_until_ns {
                    let stopped = self.stop(shared, now_ns);
                    self.fairness.charge(self.core, self.cause, stopped);
                    next_ns = self.spent_until_ns;
                    continue;
                }
                // A period that ended much too late leaves nothing to catch up with.
                let is_next = (next_ns..next_ns + self.period_ns).contains(&now_ns);
                if next_ns > 0 {
                    self.note_beginning(shared, now_ns.saturating_sub(next_ns));
                }
                let begin_ns = if is_next { next_ns } else { now_ns };
                next_ns = begin_ns + self.period_ns;
                self.period(shared, begin_ns, next_ns);
            }
            if !self.linger(shared) {
                return;
            }
            self.note_effect(shared);
        }
    }

    /// Waits for a period that is not regulated; returns when it ends.
    fn miss(&self, shared: &Shared, now_ns: u64) -> u64 {
        add(&shared.logs[self.index].missed, 1);
        let end_ns = now_ns + self.period_ns;
        sleep_until_ns(end_ns);
        end_ns
    }

    /// A period begins this long after the one before it has ended, or the lock was taken.
    fn note_beginning(&self, shared: &Shared, delay_ns: u64) {
        let log = &shared.logs[self.index];
        add(&log.missed, delay_ns / self.period_ns);
        add(&log.late, self.is_late(delay_ns).into());
    }

    fn is_late(&self, delay_ns: u64) -> bool {
        delay_ns > self.period_ns / LATE_PART
    }

    fn period(&mut self, shared: &Shared, begin_ns: u64, end_ns: u64) {
        let log = &shared.logs[self.index];
        self.ticks.mend(monotonic_ns());
        self.fairness.period(self.core);
        add(&log.periods, 1);
        let outcome = self.counter.period((begin_ns, end_ns), shared.halt());
        log.counted.store(self.counter.counted, Ordering::Relaxed);
        match outcome {
            Ok(BudgetOutcome::Within | BudgetOutcome::Halted) => {}
            Ok(BudgetOutcome::Spent { cause, at_ns, awake_ns }) => {
                (self.spent_until_ns, self.cause) = (end_ns, cause);
                if shared.holds() {
                    let delay_ns = awake_ns.saturating_sub(at_ns);
                    log.wake_up.add(delay_ns);
                    add(&log.late, self.is_late(delay_ns).into());
                }
            }
            Err(_) => {
                // Without a count nothing is stopped; the next period tries again.
                add(&log.failed, 1);
                sleep_until_ns(end_ns);
            }
        }
    }

    /// Keeps the core until the period ends whose budget is spent, the lock is free, or the watchdog
    /// or the regulator's end says so. Returns for how long.
    fn stop(&mut self, shared: &Shared, begin_ns: u64) -> Duration {
        let log = &shared.logs[self.index];
        log.order.store(0, Ordering::Relaxed);
        log.stopped_since_ns.store(begin_ns, Ordering::Relaxed);
        let end = self.ticks.after(self.spent_until_ns.saturating_sub(monotonic_ns()));
        let mut away = Away::new(&self.ticks);
        let rescued = keep(&log.order, || {
            let now = self.ticks.now();
            away.note(now);
            now >= end || !shared.holds()
        });
        let stopped_ns = monotonic_ns().saturating_sub(begin_ns);
        log.stopped_since_ns.store(0, Ordering::Relaxed);
        if rescued {
            // Whatever the time says, it is over.
            self.spent_until_ns = 0;
        }
        add(&log.stops, 1);
        add(&log.stopped_ns, stopped_ns);
        add(&log.rescued, rescued.into());
        add(&log.away_ns, away.ns(&self.ticks));
        Duration::from_nanos(stopped_ns)
    }

    /// Looks whether the lock is taken again, as long as lingering lasts.
    fn linger(&self, shared: &Shared) -> bool {
        let mut now_ns = monotonic_ns();
        let until_ns = now_ns + self.linger_ns;
        let looks = self.attention == Attention::Look;
        let goes_on = |now_ns| now_ns < until_ns || (looks && shared.holders.has_holders());
        while goes_on(now_ns) && !shared.is_ending() && !shared.is_suspended() {
            sleep_until_ns(now_ns + self.look_ns);
            if shared.holds() {
                return true;
            }
            now_ns = monotonic_ns();
        }
        false
    }

    /// Notes the time from the taking of the lock until this thread is here.
    fn note_effect(&self, shared: &Shared) {
        let taken_ns = shared.holders.held_since_ns();
        // The statement of a holder is only a claim.
        let delay_ns = taken_ns.and_then(|taken_ns| monotonic_ns().checked_sub(taken_ns));
        if let Some(delay_ns) = delay_ns.filter(|delay_ns| *delay_ns < BELIEVED_NS) {
            shared.logs[self.index].effect.add(delay_ns);
            self.note_beginning(shared, delay_ns);
        }
    }
}

/// Time of a stop for which another thread had the core, in ticks.
struct Away {
    last: u64,
    most: u64,
    ticks: u64,
}

impl Away {
    fn new(ticks: &Ticks) -> Away {
        Away { last: ticks.now(), most: ticks.of(AWAY_NS), ticks: 0 }
    }

    #[inline(always)]
    fn note(&mut self, now: u64) {
        let gap = now.saturating_sub(self.last);
        self.last = now;
        if gap > self.most {
            self.ticks += gap;
        }
    }

    fn ns(&self, ticks: &Ticks) -> u64 {
        ticks.ns(self.ticks)
    }
}

/// Pauses until it is over, or until the watchdog says so, which is returned.
fn keep(order: &AtomicU32, mut is_over: impl FnMut() -> bool) -> bool {
    while !is_over() {
        if order.load(Ordering::Relaxed) == LEAVE {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_that_would_never_end_ends_when_the_watchdog_says_so() {
        let log = Log::default();
        std::thread::scope(|scope| {
            let kept = scope.spawn(|| keep(&log.order, || false));
            log.end_stop();
            assert!(kept.join().unwrap());
        });
        log.order.store(0, Ordering::Relaxed);
        assert!(!keep(&log.order, || true));
    }

    #[test]
    fn only_readings_that_are_far_apart_count_as_away() {
        let mut away = Away { last: 1000, most: 50, ticks: 0 };
        [1040, 1090, 1141, 1150, 1300].into_iter().for_each(|now| away.note(now));
        assert_eq!(away.ticks, 51 + 150);
    }
}
