//! The clocks that timing is measured with, and sleeping until a point in time.
//!
//! All times are nanoseconds. The monotonic clock is the one clock that every process of a
//! machine shares, so its readings can be compared across processes.

use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::time::Timespec;
use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function like `clock_gettime`.
pub type Reader = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

/// The function that reads clocks, by address; 0 for the C library's.
static READER: AtomicUsize = AtomicUsize::new(0);

/// Reads clocks by another function than the C library's from now on: for a library in a program
/// that may have put another one before that.
///
/// # Safety
/// The function must do what the C library's does, in any thread, and never go.
pub unsafe fn read_by(reader: Reader) {
    READER.store(reader as usize, Ordering::Relaxed);
}

/// Reads a clock that every kernel has. Neither this nor the C library's function learns anything
/// at its first use, allocates or takes a lock.
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Relaxed: the address of a function that was there before.
    match READER.load(Ordering::Relaxed) {
        // SAFETY: it writes the time.
        0 => unsafe { libc::clock_gettime(clock, &raw mut time) },
        // SAFETY: `read_by` was given a function of this kind.
        reader => unsafe { transmute::<usize, Reader>(reader)(clock, &raw mut time) },
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of `CLOCK_MONOTONIC`: since some point before the machine started, never set back.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of `CLOCK_REALTIME`: since 1970, as far as the clock was set correctly.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Nanoseconds of processor time that the calling thread has used.
///
/// Preemption by another thread of this machine is not counted, nor is time that a hypervisor took
/// from the core (stolen time) where it says so and the kernel listens
/// (CONFIG_PARAVIRT_TIME_ACCOUNTING).
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
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
