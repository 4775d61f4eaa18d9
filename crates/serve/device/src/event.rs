//! Events: how an operation tells that it ended.
//!
//! An event is a word of state, the outcome in atomics beside it, and perhaps an observer. The
//! word holds a phase (idle, armed, signalled), whether a thread sleeps on it, and a generation
//! that counts armings:
//!
//! ```text
//!   31                         3   2     1..0
//!  +----------------------------+------+-------+
//!  | generation                 | wait | phase |
//!  +----------------------------+------+-------+
//! ```
//!
//! Arming moves idle or signalled to armed, with the next generation. Signalling writes the
//! outcome, moves armed to signalled, and wakes sleepers if the wait bit was set. A reader reads
//! the word, the outcome, and the word again: if the generation moved, the event was armed anew
//! meanwhile and what was read is thrown away, as in a sequence lock. No operation takes a lock,
//! so a device thread never waits for a reader; a reader retries only when the event is reused
//! under its eyes.

use crate::{Error, Observer, OperationOutcome, Status};
use rustix::thread::futex::{self, Flags, Timespec};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

const IDLE: u32 = 0;
const ARMED: u32 = 1;
const SIGNALLED: u32 = 2;
const PHASE: u32 = 3;
const WAITED: u32 = 4;
const GENERATION: u32 = 8;

/// Tells when an operation has ended. Made once, then used again and again: armed by a launch or
/// a copy, signalled by the device exactly once per arming. Clones are the same event.
#[derive(Clone)]
pub struct Event(Arc<Inner>);

struct Inner {
    state: AtomicU32,
    outcome: Packed,
    observer: Option<(Arc<dyn Observer>, u64)>,
}

impl Event {
    /// An event to query or wait for.
    pub fn new() -> Event {
        Event::with(None)
    }

    /// An event that also calls `observer` with `token`.
    pub fn observed(observer: Arc<dyn Observer>, token: u64) -> Event {
        Event::with(Some((observer, token)))
    }

    fn with(observer: Option<(Arc<dyn Observer>, u64)>) -> Event {
        let (state, outcome) = (AtomicU32::new(IDLE), Packed::default());
        Event(Arc::new(Inner { state, outcome, observer }))
    }

    /// The outcome, if the event is signalled. Never blocks.
    pub fn query(&self) -> Option<OperationOutcome> {
        // Acquire pairs with the release in `signal`: the outcome is visible.
        self.read(self.0.state.load(Ordering::Acquire))
    }

    /// Waits until the event is signalled. A wait for an event that is never armed lasts
    /// forever. If others use the event again meanwhile, the outcome is that of a later arming.
    pub fn wait(&self) -> OperationOutcome {
        loop {
            if let Some(outcome) = self.sleep(None) {
                return outcome;
            }
        }
    }

    /// Waits as [`Event::wait`] does, for at most `timeout`.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<OperationOutcome> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let outcome = self.sleep(left);
            if outcome.is_some() || left == Some(Duration::ZERO) {
                return outcome;
            }
        }
    }

    /// Sleeps until something happens to the event or the time is over; the outcome if signalled.
    fn sleep(&self, timeout: Option<Duration>) -> Option<OperationOutcome> {
        let state = self.0.state.load(Ordering::Acquire);
        if state & PHASE == SIGNALLED {
            return self.read(state);
        }
        let waited = state | WAITED;
        // Relaxed: the bit carries no data; the signaller reads it with the swap that replaces it.
        let marked = state == waited
            || self
                .0
                .state
                .compare_exchange(state, waited, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if marked {
            let timeout = timeout.map(|t| Timespec {
                tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: t.subsec_nanos().into(),
            });
            // Woken, interrupted, timed out or changed meanwhile: the caller looks again.
            let _ = futex::wait(&self.0.state, Flags::PRIVATE, waited, timeout.as_ref());
        }
        self.query()
    }

    fn read(&self, state: u32) -> Option<OperationOutcome> {
        if state & PHASE != SIGNALLED {
            return None;
        }
        let outcome = self.0.outcome.load();
        // Pairs with the fence in `signal`: if a later outcome was read, the later arming is seen.
        fence(Ordering::Acquire);
        (self.0.state.load(Ordering::Relaxed) == state).then_some(outcome)
    }

    /// Takes the event for one operation. Called by a device that accepts work.
    ///
    /// # Errors
    /// [`Error::EventBusy`] when it is armed.
    pub(crate) fn arm(&self) -> Result<(), Error> {
        let next = |state: u32| {
            let generation = (state & !(GENERATION - 1)).wrapping_add(GENERATION);
            // A thread that waits for an idle event is woken only by a signal: keep the bit.
            (state & PHASE != ARMED).then_some(generation | (state & WAITED) | ARMED)
        };
        // Acquire pairs with the release in `signal`: this arming comes after that signal.
        self.0
            .state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, next)
            .map(|_| ())
            .map_err(|_| Error::EventBusy)
    }

    /// Ends the arming: publishes the outcome, wakes who waits, then calls the observer. Called
    /// once per arming, by the thread of the device that ended the operation.
    pub(crate) fn signal(&self, outcome: &OperationOutcome) {
        fence(Ordering::Release);
        self.0.outcome.store(outcome);
        let generation = self.0.state.load(Ordering::Relaxed) & !(GENERATION - 1);
        // Release publishes the outcome to `query`.
        let before = self.0.state.swap(generation | SIGNALLED, Ordering::AcqRel);
        debug_assert_eq!(before & PHASE, ARMED, "an event is signalled once per arming");
        if before & WAITED != 0 {
            // Fails only for an address that is not mapped.
            let _ = futex::wake(&self.0.state, Flags::PRIVATE, i32::MAX as u32);
        }
        self.tell(|observer, token| observer.completed(token, outcome));
    }

    /// Tells the observer that the operation overran its budget.
    pub(crate) fn overrun(&self) {
        self.tell(|observer, token| observer.overrun(token));
    }

    /// Calls the observer. A panic there is reported by the panic hook and ends here: it must not
    /// end the device's thread, on which others' work depends.
    fn tell(&self, what: impl FnOnce(&dyn Observer, u64)) {
        if let Some((observer, token)) = &self.0.observer {
            let call = std::panic::AssertUnwindSafe(|| what(&**observer, *token));
            let _ = std::panic::catch_unwind(call);
        }
    }
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Event").field(&self.query()).finish()
    }
}

/// An outcome in atomics, so that readers and the device need no lock.
#[derive(Default)]
struct Packed {
    started_ns: AtomicU64,
    finished_ns: AtomicU64,
    busy_ns: AtomicU64,
    /// Failure code in the upper half; below it 0 done, 1 cancelled, 2 failed, and bit 8 overrun.
    status: AtomicU64,
}

const OVERRUN: u64 = 1 << 8;

impl Packed {
    fn store(&self, outcome: &OperationOutcome) {
        let status = match outcome.status {
            Status::Done => 0,
            Status::Cancelled => 1,
            Status::Failed(code) => 2 | u64::from(code) << 32,
        };
        let overrun = if outcome.overrun { OVERRUN } else { 0 };
        // Relaxed: ordered by the state word and the fences around.
        self.started_ns.store(outcome.started_ns, Ordering::Relaxed);
        self.finished_ns.store(outcome.finished_ns, Ordering::Relaxed);
        self.busy_ns.store(outcome.busy_ns, Ordering::Relaxed);
        self.status.store(status | overrun, Ordering::Relaxed);
    }

    fn load(&self) -> OperationOutcome {
        let status = self.status.load(Ordering::Relaxed);
        OperationOutcome {
            status: match status & 3 {
                0 => Status::Done,
                1 => Status::Cancelled,
                _ => Status::Failed((status >> 32) as u32),
            },
            started_ns: self.started_ns.load(Ordering::Relaxed),
            finished_ns: self.finished_ns.load(Ordering::Relaxed),
            busy_ns: self.busy_ns.load(Ordering::Relaxed),
            overrun: status & OVERRUN != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn outcome(n: u64) -> OperationOutcome {
        let status = Status::Failed(n as u32);
        OperationOutcome { status, started_ns: n, finished_ns: n, busy_ns: n, overrun: n % 2 == 1 }
    }

    #[test]
    fn armed_twice_is_refused_and_signalled_can_be_armed_again() {
        let event = Event::new();
        assert_eq!(event.query(), None);
        event.arm().unwrap();
        assert_eq!(event.arm(), Err(Error::EventBusy));
        event.signal(&outcome(7));
        assert_eq!(event.wait(), outcome(7));
        event.arm().unwrap();
        assert_eq!(event.query(), None);
        event.signal(&outcome(8));
        assert_eq!(event.query(), Some(outcome(8)));
    }

    #[test]
    fn waiting_for_an_event_that_is_not_signalled_ends_with_the_timeout() {
        let event = Event::new();
        assert_eq!(event.wait_timeout(Duration::from_millis(1)), None);
        event.arm().unwrap();
        assert_eq!(event.wait_timeout(Duration::ZERO), None);
    }

    #[test]
    fn who_waits_before_the_arming_is_woken_by_the_signal() {
        let event = Event::new();
        let waiter = std::thread::spawn({
            let event = event.clone();
            move || event.wait()
        });
        while event.0.state.load(Ordering::Relaxed) & WAITED == 0 {
            std::thread::yield_now();
        }
        event.arm().unwrap();
        event.signal(&outcome(3));
        assert_eq!(waiter.join().unwrap(), outcome(3));
    }

    #[test]
    fn readers_never_see_a_mixture_of_two_outcomes() {
        let event = Event::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 0..20_000 {
                    event.arm().unwrap();
                    event.signal(&outcome(n));
                }
            });
            while !writer.is_finished() {
                if let Some(seen) = event.query() {
                    assert_eq!(seen, outcome(seen.started_ns));
                }
            }
        });
    }

    #[test]
    fn panicking_observer_does_not_end_the_devices_thread() {
        struct Panics;
        impl Observer for Panics {
            fn completed(&self, _: u64, _: &OperationOutcome) {
                panic!("this panic is part of the test");
            }
        }
        let event = Event::observed(Arc::new(Panics), 1);
        event.arm().unwrap();
        event.signal(&outcome(3));
        assert_eq!(event.query(), Some(outcome(3)));
    }

    #[test]
    fn observer_may_arm_the_event_again() {
        struct Again(Mutex<Option<Event>>, AtomicU64);
        impl Observer for Again {
            fn completed(&self, token: u64, _: &OperationOutcome) {
                self.1.fetch_add(token, Ordering::Relaxed);
                self.0.lock().unwrap().as_ref().unwrap().arm().unwrap();
            }
        }
        let observer = Arc::new(Again(Mutex::new(None), AtomicU64::new(0)));
        let event = Event::observed(observer.clone(), 5);
        *observer.0.lock().unwrap() = Some(event.clone());
        event.arm().unwrap();
        event.signal(&outcome(1));
        event.signal(&outcome(2));
        assert_eq!(observer.1.load(Ordering::Relaxed), 10);
        observer.0.lock().unwrap().take();
    }
}
