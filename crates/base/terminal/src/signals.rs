//! SIGINT and SIGTERM end a long command, which keeps its finished part.
//!
//! [`catch`] is called once, at the start of a command. From then on the first signal makes
//! [`check`] an error: loops of the command call it between two units of work, waits call it by
//! themselves, and what has begun is given up, with its children. [`finished`] tells such an end from
//! a failure, and the command shows what it has. Work that completes these results, such as the
//! bounds of an assignment that a search has found, goes on until [`is_overdue`]; then they are shown
//! without it. The error, [`Interrupted`], is the command's answer in the end, with the exit status of
//! a program that a shell sees end by this signal. The second signal ends the process at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// Longest time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(100);
/// Time after a signal for work that completes the results: half of that in which a command ends.
const GRACE: Duration = Duration::from_millis(500);

/// The flags that the handlers of this process set.
static CAUGHT: OnceLock<Caught> = OnceLock::new();

struct Caught {
    /// True after the first signal.
    any: Arc<AtomicBool>,
    /// The number of the last signal; it is there before `any` is true.
    number: Arc<AtomicUsize>,
    /// Time of the first look after the signal.
    seen: OnceLock<Instant>,
}

/// The signal that ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted by {}", self.name())]
pub struct Interrupted(i32);

impl Interrupted {
    /// Exit status of the command: 130 after SIGINT, 143 after SIGTERM.
    pub fn status(self) -> u8 {
        status(self.0) as u8
    }

    fn name(self) -> &'static str {
        if self.0 == SIGTERM { "SIGTERM" } else { "SIGINT" }
    }
}

/// Exit status that a shell gives to a program which a signal has ended.
fn status(signal: i32) -> i32 {
    128 + signal
}

/// Catches the signals from now on.
///
/// # Errors
/// They cannot be caught.
pub fn catch() -> anyhow::Result<()> {
    let caught = Caught { any: Arc::default(), number: Arc::default(), seen: OnceLock::new() };
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, status(signal), caught.any.clone())
            .and_then(|_| flag::register_usize(signal, caught.number.clone(), signal as usize))
            .and_then(|_| flag::register(signal, caught.any.clone()))
            .context("signals cannot be caught")?;
    }
    // The first one stays: its handlers were there first.
    let _ = CAUGHT.set(caught);
    Ok(())
}

/// The signal that has come, if one has.
pub fn interrupted() -> Option<Interrupted> {
    let caught = CAUGHT.get()?;
    // Acquire: pairs with the handler's store, so that the number is there.
    let is_set = caught.any.load(Ordering::Acquire);
    is_set.then(|| {
        caught.seen.get_or_init(Instant::now);
        Interrupted(caught.number.load(Ordering::Relaxed) as i32)
    })
}

/// Returns true if a signal came so long ago that the command must end with what it has.
pub fn is_overdue() -> bool {
    let seen = interrupted().and(CAUGHT.get()).and_then(|caught| caught.seen.get());
    seen.is_some_and(|seen| seen.elapsed() >= GRACE)
}

/// Waits for the first signal; none if the process does not catch them.
pub fn first() -> Option<Interrupted> {
    CAUGHT.get()?;
    // It gets the signals from now on, and they are caught before that.
    let mut signals = Signals::new([SIGINT, SIGTERM]).ok()?;
    if interrupted().is_none() {
        let _ = signals.forever().next();
    }
    interrupted()
}

/// Goes on unless a signal has come.
///
/// # Errors
/// [`Interrupted`].
pub fn check() -> Result<(), Interrupted> {
    interrupted().map_or(Ok(()), Err)
}

/// Sleeps, unless a signal comes.
///
/// # Errors
/// [`Interrupted`].
pub fn sleep(duration: Duration) -> Result<(), Interrupted> {
    let end = Instant::now() + duration;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Separates the end by a signal from a failure: the first is a value, since the results until then
/// count. After a signal each error is its consequence: what was used may have been ended, too.
///
/// # Errors
/// The failure.
pub fn finished(result: anyhow::Result<()>) -> anyhow::Result<Option<Interrupted>> {
    match result {
        Ok(()) => Ok(None),
        Err(error) => error.downcast().or_else(|error| interrupted().ok_or(error)).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_by_a_signal_is_told_from_a_failure_also_with_context() {
        assert_eq!(finished(Ok(())).unwrap(), None);
        let interrupted = Err(Interrupted(SIGTERM)).context("way shared");
        assert_eq!(finished(interrupted).unwrap(), Some(Interrupted(SIGTERM)));
        let failure = finished(Err(anyhow::anyhow!("no core"))).unwrap_err();
        assert_eq!(failure.to_string(), "no core");
    }

    #[test]
    fn status_is_that_of_a_shell() {
        assert_eq!([SIGINT, SIGTERM].map(|signal| Interrupted(signal).status()), [130, 143]);
        assert_eq!(Interrupted(SIGINT).to_string(), "interrupted by SIGINT");
    }
}
