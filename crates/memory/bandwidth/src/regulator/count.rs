//! Detection of the moment at which a core has spent its budget of a period.
//!
//! - A share of the period: by the clock. Who ran when it was spent is read from the kernel's
//!   record of the switch to this thread, where the kernel gives it.
//! - Events: the kernel's counter of the core is armed with the budget; its overflow wakes the
//!   core's thread, on that core, and a sample says whose event it was.
//!
//! Refills and write-backs are two events of the processor that share one budget. Each is armed
//! with half of what is left; whichever overflows, both are read and armed anew, until less than a
//! sixteenth is left. That takes at most five wake-ups of a period, and one for a single event.

mod event;
mod hardware;
mod switches;

use super::Error;
use super::config::{Budget, Config};
use event::Event;
use realtime::clock::monotonic_ns;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io;
use switches::Switches;

/// Outcome of a budget, up to the end of its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BudgetOutcome {
    /// The budget was enough.
    Within,
    /// The budget was spent.
    Spent {
        /// The thread that spent it, if that is known; 0 is an idle core.
        cause: Option<i32>,
        /// Time at which it was spent, on `CLOCK_MONOTONIC`, as the kernel or the clock says.
        at_ns: u64,
        /// Time at which the calling thread had the core after that.
        awake_ns: u64,
    },
    /// The regulator is to end.
    Halted,
}

/// The counter of a core. Used on that core only.
pub(super) struct Counter {
    way: Way,
    /// Events that were counted in all periods.
    pub counted: u64,
}

enum Way {
    Share { share: f64, switches: Option<Switches> },
    Events { events: Vec<Event>, budget: u64 },
}

impl Counter {
    /// A counter for this budget. The processor's own are tried on a copy of known size first,
    /// for which the calling thread has to be on the core.
    ///
    /// # Errors
    /// [`Error::Count`] if the kernel refuses, [`Error::Untrusted`] if the copy is not seen.
    pub(super) fn new(config: &Config, core: usize) -> Result<Counter, Error> {
        let way = match &config.budget {
            Budget::Share(share) => {
                // Without it stops are charged by run times instead.
                Way::Share { share: *share, switches: Switches::open(core).ok() }
            }
            Budget::Events { event, .. } => {
                let failed = |reason| Error::Count { event: event.name().into(), core, reason };
                let events = vec![Event::software(*event, core).map_err(failed)?];
                Way::Events { events, budget: config.budget_events() }
            }
            Budget::Bytes { hardware, .. } => {
                let events = hardware.open(core)?;
                Way::Events { events, budget: config.budget_events() }
            }
        };
        Ok(Counter { way, counted: 0 })
    }

    /// Gives the core its budget, and sleeps until it is spent or the period ends. What makes
    /// `halt` readable ends it.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn period(
        &mut self,
        (begin_ns, end_ns): (u64, u64),
        halt: BorrowedFd<'_>,
    ) -> io::Result<BudgetOutcome> {
        match &mut self.way {
            Way::Share { share, switches } => {
                let length_ns = (end_ns - begin_ns) as f64;
                let at_ns = begin_ns + (length_ns * *share) as u64;
                if let Some(switches) = switches {
                    switches.arm()?;
                }
                let halted = wait(at_ns, halt, &[])? == Woken::Halted;
                let awake_ns = monotonic_ns();
                let cause = switches.as_mut().map_or(Ok(None), Switches::take)?;
                Ok(match (halted, at_ns >= end_ns) {
                    (true, _) => BudgetOutcome::Halted,
                    (_, true) => BudgetOutcome::Within,
                    _ => BudgetOutcome::Spent { cause, at_ns, awake_ns },
                })
            }
            Way::Events { events, budget } => {
                let outcome = spend(events, *budget, end_ns, halt);
                for event in events.iter_mut() {
                    event.disarm()?;
                    self.counted += event.used()?;
                }
                outcome
            }
        }
    }
}

/// Arms the events with the budget until it is spent.
fn spend(
    events: &mut [Event],
    budget: u64,
    end_ns: u64,
    halt: BorrowedFd<'_>,
) -> io::Result<BudgetOutcome> {
    let share = |left: u64, events: &[Event]| (left / events.len() as u64).max(1);
    let first = share(budget, events);
    for event in events.iter_mut() {
        event.forget()?;
        event.arm(first)?;
    }
    loop {
        match wait(end_ns, halt, events)? {
            Woken::Halted => return Ok(BudgetOutcome::Halted),
            Woken::Time => return Ok(BudgetOutcome::Within),
            Woken::Event => {}
        }
        let awake_ns = monotonic_ns();
        // Read before the sample is looked for: an event that has lost its counter can be polled
        // without end, and fails here.
        let mut used = 0;
        for event in events.iter() {
            used += event.used()?;
        }
        let Some(sample) = events.iter_mut().filter_map(Event::take).last() else { continue };
        let left = budget.saturating_sub(used);
        if events.len() == 1 || left <= budget / 16 {
            let (cause, at_ns) = (Some(sample.thread), sample.time_ns);
            return Ok(BudgetOutcome::Spent { cause, at_ns, awake_ns });
        }
        let next = share(left, events);
        for event in events.iter_mut() {
            event.arm(next)?;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Time,
    Event,
    Halted,
}

/// Sleeps until a time of `CLOCK_MONOTONIC`, or until there is something to read.
fn wait(until_ns: u64, halt: BorrowedFd<'_>, events: &[Event]) -> io::Result<Woken> {
    let fd = |at: usize| events.get(at).map_or(halt, Event::fd);
    let mut list = [halt, fd(0), fd(1)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let length = 1 + events.len().min(hardware::MOST_EVENTS);
    loop {
        let left = until_ns.saturating_sub(monotonic_ns());
        if left == 0 {
            return Ok(Woken::Time);
        }
        let timeout = rustix::time::Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as _,
        };
        match poll(&mut list[..length], Some(&timeout)) {
            Err(Errno::INTR) | Ok(0) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) if !list[0].revents().is_empty() => return Ok(Woken::Halted),
            Ok(_) => return Ok(Woken::Event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulator::SoftwareEvent;
    use realtime::thread::{Scheduling, pin, set_policy};
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    const BUDGET: u64 = 320;

    /// Returns the outcome and the count for a core on which a thread takes fresh memory, until the
    /// budget is spent; None where that may not be counted.
    fn spent(kinds: &[SoftwareEvent]) -> Option<(BudgetOutcome, u64)> {
        let core = *realtime::thread::cores().last()?;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(&[core]).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let mut fresh = vec![0_u8; 64 << 20];
                    for page in fresh.chunks_mut(4096) {
                        page[0] = 1;
                        if is_over.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                    std::hint::black_box(&fresh);
                }
            });
            let count = || {
                pin(&[core]).ok()?;
                set_policy(Scheduling::Fifo(1)).ok()?;
                let open = |kind: &SoftwareEvent| Event::software(*kind, core).ok();
                let mut events = kinds.iter().map(open).collect::<Option<Vec<_>>>()?;
                let halt = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
                let end_ns = monotonic_ns() + 20_000_000_000;
                let outcome = spend(&mut events, BUDGET, end_ns, halt.as_fd()).unwrap();
                events.iter_mut().for_each(|event| event.disarm().unwrap());
                Some((outcome, events.iter().map(|event| event.used().unwrap()).sum()))
            };
            let counted = scope.spawn(count).join().unwrap();
            is_over.store(true, Ordering::Relaxed);
            counted
        })
    }

    #[test]
    fn budget_is_spent_to_the_event_by_one_and_to_a_sixteenth_by_two_that_share_it() {
        use SoftwareEvent::{ContextSwitches, PageFaults};
        for (kinds, least) in [
            (&[PageFaults][..], BUDGET),
            // Of the second there are next to none.
            (&[PageFaults, ContextSwitches], BUDGET - BUDGET / 16),
        ] {
            let mut late = Vec::new();
            // If more urgent threads of other programs have the core, it is stopped late, and the
            // count goes on meanwhile.
            while late.len() < 100 {
                let Some((outcome, used)) = spent(kinds) else {
                    eprintln!("SKIP: events of a core cannot be counted here");
                    return;
                };
                let BudgetOutcome::Spent { cause: Some(_), at_ns, awake_ns } = outcome else {
                    panic!("{outcome:?}");
                };
                assert!(at_ns > 0 && at_ns <= awake_ns, "{at_ns} {awake_ns}");
                assert!(used >= least, "{kinds:?}: {used}");
                if used <= BUDGET + BUDGET / 16 {
                    break;
                }
                // A core makes more events than a sixteenth of the budget only in this long.
                assert!(awake_ns - at_ns > 5_000, "{kinds:?}: {used}, awake after {awake_ns} ns");
                late.push((used, awake_ns - at_ns));
            }
            assert!(late.len() < 100, "{kinds:?}: used, and late by ns: {late:?}");
        }
    }
}
