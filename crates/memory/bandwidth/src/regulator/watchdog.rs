//! The watchdog: it ensures that no core stays stopped, and that none is left alone for good.
//!
//! A thread far above the cores' priority, on the cores that are not regulated, looks at the cores'
//! threads every other period (at most every 5 ms) while any of them is busy, and sleeps
//! otherwise. A stop that is longer than two periods is ended by an order. If the thread is still
//! there three looks later although it had the core for two periods meanwhile, its priority is
//! taken: ordinary threads run beside it then, and it stops nothing ([`super::core`]).
//!
//! A thread that did not have the core harms no other thread, and gets the order when it has it
//! again: the kernel keeps real-time threads from their cores for 50 ms of each second that they
//! fill, and more urgent threads do for longer. A core that the hypervisor has taken looks like one
//! that the thread has. So the priority is given back when the thread has left that stop: after a
//! pause that doubles each time, five times, counted anew after a minute without trouble.
//!
//! That the holders' control thread lives is the attendant's to find out (`attend`): while it does
//! not answer, the lock counts as free, because the death of its holder would go unnoticed.

use super::Shared;
use super::core::Log;
use super::delays::Delays;
use realtime::clock::monotonic_ns;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The shortest time between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// Time for which the watchdog goes on looking after the last busy look, so that short holds one
/// after the other do not wake it each time.
const IDLE: Duration = Duration::from_secs(1);
/// Looks at a stop after the order, until it counts as ignored.
const PATIENCE: u32 = 3;
/// Time until a priority that was taken is given back, the first time.
const PAUSE_NS: u64 = 100_000_000;
/// Largest number of times in a row that it is given back.
const MOST: u32 = 5;
/// Time without trouble after which the count of times in a row begins anew.
const CALM_NS: u64 = 60_000_000_000;

/// Decision about a core's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    EndStop,
    TakePriority,
    GivePriority,
}

/// Statistics of the watchdog's own looks: late ones are those that came a look's time late or
/// more.
#[derive(Default)]
pub(super) struct Looks {
    pub delays: Delays,
    pub late: AtomicU64,
}

/// An order to leave a stop.
#[derive(Clone, Copy, Debug)]
struct Order {
    /// Time at which the stop began.
    stop_ns: u64,
    /// Time that the thread had run on its core when the order was given.
    ran_ns: u64,
    /// Number of looks since then that saw it in the same stop.
    looks: u32,
}

/// State that the watchdog keeps for a core's thread.
#[derive(Clone, Copy, Debug, Default)]
struct Guard {
    ordered: Option<Order>,
    /// Time at which its priority was taken.
    taken_ns: Option<u64>,
    /// Number of times in a row, and time at which it was given back last.
    takings: u32,
    given_ns: u64,
}

/// Watches until the regulator ends. `priority` is that of the cores' threads.
pub(super) fn run(shared: &Shared, period: Duration, priority: u8) {
    let look = LOOK.max(period * 2);
    let mut guards = vec![Guard::default(); shared.logs.len()];
    let mut idle = Duration::ZERO;
    while !shared.is_ending() {
        if idle >= IDLE && shared.end_guarding() {
            idle = Duration::ZERO;
            std::thread::park();
            continue;
        }
        let due_ns = monotonic_ns() + look.as_nanos() as u64;
        std::thread::park_timeout(look);
        shared.looks.note(monotonic_ns().saturating_sub(due_ns), look);
        let is_waited_for = guards.iter().any(Guard::waits);
        idle = if shared.is_busy() || is_waited_for { Duration::ZERO } else { idle + look };
        for (guard, log) in guards.iter_mut().zip(&shared.logs) {
            // Relaxed: an old value only delays the verdict by a look.
            let since_ns = log.stopped_since_ns.load(Ordering::Relaxed);
            let thread = log.thread.load(Ordering::Relaxed);
            let times = (period.as_nanos() as u64, monotonic_ns());
            let verdict = guard.judge(since_ns, times, || cpu_time_ns(thread));
            act(log, verdict, priority);
        }
    }
}

impl Looks {
    fn note(&self, delay_ns: u64, look: Duration) {
        self.delays.add(delay_ns);
        self.late.fetch_add((u128::from(delay_ns) >= look.as_nanos()).into(), Ordering::Relaxed);
    }
}

impl Guard {
    /// Judges a thread that has been in a stop since `since_ns`, 0 for none; `ran_ns` returns the
    /// time that it has had of its core.
    fn judge(
        &mut self,
        since_ns: u64,
        (period_ns, now_ns): (u64, u64),
        ran_ns: impl FnOnce() -> u64,
    ) -> Verdict {
        if let Some(taken_ns) = self.taken_ns {
            return self.judge_ordinary(taken_ns, since_ns, now_ns);
        }
        if since_ns == 0 || now_ns.saturating_sub(since_ns) <= 2 * period_ns {
            self.ordered = None;
            return Verdict::Fine;
        }
        let ran_ns = ran_ns();
        let order = match self.ordered {
            Some(order) if order.stop_ns == since_ns => Order { looks: order.looks + 1, ..order },
            _ => Order { stop_ns: since_ns, ran_ns, looks: 0 },
        };
        self.ordered = Some(order);
        if order.looks < PATIENCE || ran_ns.saturating_sub(order.ran_ns) <= 2 * period_ns {
            return Verdict::EndStop;
        }
        if now_ns.saturating_sub(self.given_ns) > CALM_NS {
            self.takings = 0;
        }
        self.takings += 1;
        self.taken_ns = Some(now_ns);
        Verdict::TakePriority
    }

    fn judge_ordinary(&mut self, taken_ns: u64, since_ns: u64, now_ns: u64) -> Verdict {
        let has_left = self.ordered.is_none_or(|order| order.stop_ns != since_ns);
        let pause_ns = PAUSE_NS << (self.takings - 1);
        if !self.waits() || !has_left || now_ns.saturating_sub(taken_ns) < pause_ns {
            return Verdict::Fine;
        }
        (self.taken_ns, self.ordered, self.given_ns) = (None, None, now_ns);
        Verdict::GivePriority
    }

    /// Returns true if its priority is to be given back some time.
    fn waits(&self) -> bool {
        self.taken_ns.is_some() && self.takings <= MOST
    }
}

fn act(log: &Log, verdict: Verdict, priority: u8) {
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    match verdict {
        Verdict::Fine => {}
        Verdict::EndStop => log.end_stop(),
        Verdict::TakePriority => {
            log.end_stop();
            if reschedule(log, libc::SCHED_OTHER, 0) {
                log.is_ordinary.store(true, Ordering::Relaxed);
                count(&log.demotions);
            }
        }
        Verdict::GivePriority => {
            if reschedule(log, libc::SCHED_FIFO, priority) {
                log.is_ordinary.store(false, Ordering::Relaxed);
                count(&log.promotions);
            }
        }
    }
}

/// Returns the processor time of a thread of this process, in nanoseconds; 0 if it has ended.
fn cpu_time_ns(thread: i32) -> u64 {
    // As the kernel makes a clock of a thread: its number, negated, above three bits that say so.
    let clock = (!thread) << 3 | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec into a place that holds one.
    match unsafe { libc::clock_gettime(clock, &mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}

fn reschedule(log: &Log, policy: libc::c_int, priority: u8) -> bool {
    let parameter = libc::sched_param { sched_priority: priority.into() };
    let thread = log.thread.load(Ordering::Relaxed);
    // SAFETY: the parameter is initialised and outlives the call.
    unsafe { libc::sched_setscheduler(thread, policy, &parameter) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{EndStop, Fine, GivePriority, TakePriority};

    const PERIOD_NS: u64 = 1_000_000;
    const LOOK_NS: u64 = 5_000_000;

    fn judge(guard: &mut Guard, since_ns: u64, now_ns: u64) -> Verdict {
        // A thread that always has its core.
        guard.judge(since_ns, (PERIOD_NS, now_ns), || now_ns)
    }

    /// Looks at one stop until the priority is taken; when.
    fn ignored(guard: &mut Guard, since_ns: u64) -> u64 {
        let mut now_ns = since_ns + LOOK_NS;
        for _ in 0..PATIENCE {
            assert_eq!(judge(guard, since_ns, now_ns), EndStop);
            now_ns += LOOK_NS;
        }
        assert_eq!(judge(guard, since_ns, now_ns), TakePriority);
        now_ns
    }

    #[test]
    fn long_stops_are_ended_and_only_one_that_ignores_the_order_costs_the_priority() {
        let mut guard = Guard::default();
        assert_eq!(judge(&mut guard, 0, 9_000_000), Fine);
        assert_eq!(judge(&mut guard, 1_000_000, 3_000_000), Fine);
        // Another long stop each time: the order was obeyed.
        for stop in 1..20 {
            let since_ns = stop * 10_000_000;
            assert_eq!(judge(&mut guard, since_ns, since_ns + 2 * PERIOD_NS + 1), EndStop);
        }
        // A stop that began after the look at the clock.
        assert_eq!(judge(&mut guard, 1_000_000, 999_999), Fine);
        ignored(&mut guard, 300_000_000);
    }

    #[test]
    fn thread_that_does_not_have_its_core_keeps_its_priority() {
        let mut guard = Guard::default();
        let since_ns = 1_000_000;
        // The kernel keeps it away for 50 ms, and a more urgent thread for much longer.
        for look in 1..1000 {
            let times = (PERIOD_NS, since_ns + look * LOOK_NS);
            assert_eq!(guard.judge(since_ns, times, || 7_000_000 + 2 * PERIOD_NS), EndStop);
        }
        // It has it again, and goes on.
        let times = (PERIOD_NS, since_ns + 1000 * LOOK_NS);
        let verdict = guard.judge(since_ns, times, || 7_000_000 + 4 * PERIOD_NS + 1);
        assert_eq!(verdict, TakePriority);
    }

    #[test]
    fn priority_comes_back_after_a_pause_that_doubles_and_not_without_end() {
        let mut guard = Guard::default();
        let mut since_ns = 1_000_000;
        for taking in 0..MOST {
            let taken_ns = ignored(&mut guard, since_ns);
            let pause_ns = PAUSE_NS << taking;
            assert_eq!(judge(&mut guard, 0, taken_ns + pause_ns - 1), Fine);
            // Not while it is where it ignored the order.
            assert_eq!(judge(&mut guard, since_ns, taken_ns + pause_ns), Fine);
            assert!(guard.waits());
            assert_eq!(judge(&mut guard, 0, taken_ns + pause_ns), GivePriority);
            since_ns = taken_ns + pause_ns + 1_000_000;
        }
        let taken_ns = ignored(&mut guard, since_ns);
        assert!(!guard.waits());
        assert_eq!(judge(&mut guard, 0, taken_ns + CALM_NS), Fine);
    }

    #[test]
    fn takings_are_counted_anew_after_a_minute_without_trouble() {
        let mut guard = Guard::default();
        let mut since_ns = 1_000_000;
        for _ in 0..3 * MOST {
            let taken_ns = ignored(&mut guard, since_ns);
            assert_eq!(judge(&mut guard, 0, taken_ns + PAUSE_NS), GivePriority);
            since_ns = taken_ns + PAUSE_NS + CALM_NS;
        }
    }

    #[test]
    fn clock_of_a_thread_says_what_it_has_had_of_its_core() {
        let own = realtime::thread::id() as i32;
        let (before_ns, begun_ns) = (cpu_time_ns(own), realtime::clock::thread_cpu_ns());
        while realtime::clock::thread_cpu_ns() < begun_ns + 2_000_000 {
            std::hint::spin_loop();
        }
        assert!(cpu_time_ns(own) >= before_ns + 2_000_000);
        // More than the kernel has numbers for.
        assert_eq!(cpu_time_ns(5_000_000), 0);
    }

    #[test]
    fn thread_that_does_not_leave_is_an_ordinary_one_until_it_is_urgent_again() {
        let log = Log::default();
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let (answer, answers) = std::sync::mpsc::channel();
        let log = &log;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let fifo =
                    realtime::thread::set_policy(realtime::thread::Scheduling::Fifo(1)).is_ok();
                log.thread.store(realtime::thread::id() as i32, Ordering::Release);
                while asked.recv().is_ok() {
                    answer.send(fifo.then(realtime::thread::policy)).unwrap();
                }
            });
            while log.thread.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            let seen = |verdict| {
                act(log, verdict, 2);
                ask.send(()).unwrap();
                let counts = [&log.demotions, &log.promotions]
                    .map(|counter| counter.load(Ordering::Relaxed));
                let is_ordinary = log.is_ordinary.load(Ordering::Relaxed);
                answers.recv().unwrap().map(|policy| (policy, is_ordinary, counts))
            };
            let Some(taken) = seen(TakePriority) else {
                eprintln!("SKIP: SCHED_FIFO is refused here");
                return drop(ask);
            };
            assert_eq!(taken, (realtime::thread::Scheduling::Normal, true, [1, 0]));
            let given = seen(GivePriority).unwrap();
            assert_eq!(given, (realtime::thread::Scheduling::Fifo(2), false, [1, 1]));
            drop(ask);
        });
    }
}
