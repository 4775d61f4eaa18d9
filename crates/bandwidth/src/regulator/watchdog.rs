//! What makes sure that no core stays stopped.
//!
//! A thread of the next higher priority, on the cores that are not regulated, looks at the cores'
//! threads every other period (at most every 5 ms) while any of them is busy, and sleeps
//! otherwise. A stop that is longer than two periods is ended by an order; one that goes on for
//! another two is ended by taking the thread's priority, after which ordinary threads run beside
//! it whatever it does.
//!
//! That the holders' control thread lives is the attendant's to find out (`attend`): while it does
//! not answer, the lock counts as free, because nobody would notice that its holder has died.

use super::Shared;
use super::core::Log;
use realtime::clock::monotonic_ns;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The shortest time between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// It goes on looking for so long after the last busy look, so that short holds one after the other
/// do not wake it each time.
const IDLE: Duration = Duration::from_secs(1);

/// What is to be done about a core's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    EndStop,
    TakePriority,
}

/// Watches until the regulator ends.
pub fn run(shared: &Shared, period: Duration) {
    let look = LOOK.max(period * 2);
    let mut idle = Duration::ZERO;
    while !shared.is_ending() {
        if idle >= IDLE && shared.end_guarding() {
            idle = Duration::ZERO;
            std::thread::park();
            continue;
        }
        std::thread::park_timeout(look);
        idle = if shared.is_busy() { Duration::ZERO } else { idle + look };
        for log in &shared.logs {
            act(log, verdict(log, period, monotonic_ns()));
        }
    }
}

fn verdict(log: &Log, period: Duration, now_ns: u64) -> Verdict {
    // Relaxed: an old value only delays the verdict by a look.
    let since_ns = log.stopped_since_ns.load(Ordering::Relaxed);
    let stopped = Duration::from_nanos(now_ns.saturating_sub(since_ns));
    match since_ns {
        0 => Verdict::Fine,
        _ if stopped > period * 4 => Verdict::TakePriority,
        _ if stopped > period * 2 => Verdict::EndStop,
        _ => Verdict::Fine,
    }
}

fn act(log: &Log, verdict: Verdict) {
    match verdict {
        Verdict::Fine => {}
        Verdict::EndStop => log.end_stop(),
        Verdict::TakePriority => {
            log.end_stop();
            let ordinary = libc::sched_param { sched_priority: 0 };
            let thread = log.thread.load(Ordering::Relaxed);
            // SAFETY: the parameter is initialised and outlives the call.
            if unsafe { libc::sched_setscheduler(thread, libc::SCHED_OTHER, &ordinary) } == 0 {
                log.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_stops_are_ended_and_stops_that_go_on_lose_their_priority() {
        let (log, period) = (Log::default(), Duration::from_millis(1));
        assert_eq!(verdict(&log, period, 9_000_000), Verdict::Fine);
        log.stopped_since_ns.store(1_000_000, Ordering::Relaxed);
        assert_eq!(verdict(&log, period, 3_000_000), Verdict::Fine);
        assert_eq!(verdict(&log, period, 3_000_001), Verdict::EndStop);
        assert_eq!(verdict(&log, period, 5_000_001), Verdict::TakePriority);
        // A stop that began after the look at the clock.
        assert_eq!(verdict(&log, period, 999_999), Verdict::Fine);
    }

    #[test]
    fn thread_that_does_not_leave_is_an_ordinary_one_afterwards() {
        let log = Log::default();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let log = &log;
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let fifo = realtime::thread::set_policy(realtime::thread::Policy::Fifo(1));
                log.thread.store(realtime::thread::id() as i32, Ordering::Release);
                receiver.recv().unwrap();
                fifo.is_ok().then(realtime::thread::policy)
            });
            while log.thread.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            act(log, Verdict::TakePriority);
            sender.send(()).unwrap();
            match thread.join().unwrap() {
                Some(policy) => assert_eq!(policy, realtime::thread::Policy::Normal),
                None => eprintln!("SKIP: SCHED_FIFO is refused here"),
            }
        });
    }
}
