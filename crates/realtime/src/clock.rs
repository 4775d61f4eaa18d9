//! The clocks that timing is measured with, and sleeping until a point in time.
//!
//! All times are nanoseconds. The monotonic clock is the one clock that every process of a
//! machine shares, so its readings can be compared across processes.

use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: since some point before the machine started, never set back.
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of processor time that the calling thread has used.
///
/// Preemption by another thread of this machine is not counted. Time that a hypervisor took
/// from the core (stolen time) usually is.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Sleeps until [`monotonic_ns`] has reached `deadline`; returns at once if it has already.
///
/// A signal does not end the sleep early.
pub fn sleep_until_ns(deadline: u64) {
    let seconds = i64::try_from(deadline / 1_000_000_000).unwrap_or(i64::MAX);
    let request = Timespec { tv_sec: seconds, tv_nsec: (deadline % 1_000_000_000) as _ };
    // Only EINTR is possible: the clock exists and the time is well formed.
    while clock_nanosleep_absolute(SleepClock::Monotonic, &request).is_err() {}
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_ends_at_or_after_its_deadline() {
        let deadline = monotonic_ns() + 3_000_000;
        sleep_until_ns(deadline);
        assert!(monotonic_ns() >= deadline);
    }

    #[test]
    fn sleep_until_the_past_returns() {
        sleep_until_ns(0);
        sleep_until_ns(monotonic_ns());
    }

    #[test]
    fn signals_do_not_end_the_sleep_early() {
        extern "C" fn ignore(_: libc::c_int) {}
        // SAFETY: the action is fully initialised (zeroed is a valid sigaction: no flags, empty
        // mask) and its handler does nothing, which is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            // SAFETY: pthread_self has no preconditions.
            sender.send(unsafe { libc::pthread_self() }).unwrap();
            let deadline = monotonic_ns() + 50_000_000;
            sleep_until_ns(deadline);
            monotonic_ns() >= deadline
        });
        let target = receiver.recv().unwrap();
        for _ in 0..10 {
            // SAFETY: the thread is joined only below, so its handle is still valid.
            unsafe { libc::pthread_kill(target, libc::SIGUSR2) };
            sleep_until_ns(monotonic_ns() + 1_000_000);
        }
        assert!(sleeper.join().unwrap(), "the sleep ended before its deadline");
    }

    #[test]
    fn thread_cpu_time_does_not_run_while_asleep() {
        let before = thread_cpu_ns();
        sleep_until_ns(monotonic_ns() + 50_000_000);
        assert!(thread_cpu_ns() - before < 50_000_000);
    }
}
