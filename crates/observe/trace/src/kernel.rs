//! Recording around a program: the times at which its threads were on a processor, the threads that
//! ran instead, and the threads that woke them.
//!
//! There are three tiers, from less to more:
//!
//! | tier | source | needs | says |
//! |---|---|---|---|
//! | `Preload` | nothing | nothing | what the preload library sees |
//! | `Switches` | `switches.rs`: `perf_event_open` on the program | `perf_event_paranoid` <= 2 | on and off a processor, preempted or not |
//! | `Scheduler` | `scheduler.rs`: the kernel's tracer | root | every switch and wake-up of the machine, priority inheritance, futex calls |
//!
//! A [`Collector`] is started while the program's process exists but waits before `exec`, and
//! finished when the program has ended. It leaves nothing behind, also when it is dropped
//! unfinished. [`events`], [`mod@format`] and [`page`] take the tracer's bytes apart and [`perf`]
//! those of the other source; they are pure and public for their fuzz targets.
//! Called by `session`, for `keeptime run`.

pub mod events;
pub mod format;
mod kept;
mod kernel_error;
pub mod page;
pub mod perf;
mod ring;
mod scheduler;
mod streams;
mod switches;
mod tracefs;

pub use kernel_error::Error;

use crate::metadata::{LostRange, Task, Tier};
use record::Raw;
use record::clock::Calibration;
use scheduler::Scheduler;
use switches::Switches;

/// The tier that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The best that is allowed here.
    Auto,
    /// This tier, or an error.
    Exactly(Tier),
}

/// Request for a collector.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program's process, which waits before `exec`.
    pub process: u32,
    /// The tier.
    pub wanted: Wanted,
    /// Futex calls of the program too, in tier `Scheduler`.
    pub futex: bool,
    /// Keep the last events when there are too many, not the first.
    pub keep_last: bool,
    /// Memory for each processor.
    pub bytes_per_processor: u64,
}

/// A collector that runs.
#[derive(Debug)]
pub struct Collector {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Nothing,
    Switches(Switches),
    Scheduler(Box<Scheduler>),
}

/// A collector and what it is.
#[derive(Debug)]
pub struct Started {
    /// The collector.
    pub collector: Collector,
    /// Its tier.
    pub tier: Tier,
    /// True if it records futex calls.
    pub futex: bool,
    /// Reasons why the tier is not higher, and instructions to grant a higher one.
    pub reasons: Vec<String>,
}

/// Result of a collector.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// One stream for each processor, in the order of their numbers.
    pub processors: Vec<ProcessorStream>,
    /// The threads that were seen.
    pub tasks: Vec<Task>,
    /// Notes for a reader of the trace about the way in which it was recorded.
    pub notes: Vec<String>,
}

/// Records of one processor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessorStream {
    /// The processor.
    pub processor: u32,
    /// Records in the order of time.
    pub records: Vec<Raw>,
    /// Ranges in which records are missing.
    pub lost: Vec<LostRange>,
}

impl Collector {
    /// Starts to collect. With [`Wanted::Auto`] it never fails: it falls back to a lower tier,
    /// with the reason.
    ///
    /// # Errors
    /// With [`Wanted::Exactly`], why this tier cannot be had and what grants it.
    pub fn start(request: &Request) -> Result<Started, Error> {
        let mut reasons = Vec::new();
        let (source, tier) = match request.wanted {
            Wanted::Exactly(tier) => (start(tier, request, &mut reasons)?, tier),
            Wanted::Auto => best(request, &mut reasons),
        };
        let futex = matches!(&source, Source::Scheduler(scheduler) if scheduler.futex());
        if request.futex && tier != Tier::Scheduler {
            reasons.push("futex calls are not recorded: only the kernel's tracer sees them".into());
        }
        Ok(Started { collector: Collector { source }, tier, futex, reasons })
    }

    /// Stops and gives what was collected; `clock` covers the time since the start.
    pub fn finish(self, clock: &Calibration) -> Collected {
        match self.source {
            Source::Nothing => Collected::default(),
            Source::Switches(switches) => switches.finish(clock),
            Source::Scheduler(scheduler) => scheduler.finish(),
        }
    }
}

/// Largest number of separate ranges of lost records of a processor.
const MOST_RANGES: usize = 4096;

/// Adds a range that begins after the others began; beyond the most, the last one is widened.
fn add_range(lost: &mut Vec<LostRange>, range: LostRange) {
    let full = lost.len() >= MOST_RANGES;
    match lost.last_mut().filter(|_| full) {
        Some(last) => {
            last.count += range.count;
            last.first = last.first.min(range.first);
            last.last = last.last.max(range.last);
        }
        None => lost.push(range),
    }
}

fn start(tier: Tier, request: &Request, reasons: &mut Vec<String>) -> Result<Source, Error> {
    Ok(match tier {
        Tier::Preload => Source::Nothing,
        Tier::Switches => Source::Switches(Switches::start(request)?),
        Tier::Scheduler => Source::Scheduler(Box::new(Scheduler::start(request, reasons)?)),
    })
}

fn best(request: &Request, reasons: &mut Vec<String>) -> (Source, Tier) {
    for tier in [Tier::Scheduler, Tier::Switches] {
        match start(tier, request, reasons) {
            Ok(source) => return (source, tier),
            Err(error) => {
                let what = match tier {
                    Tier::Scheduler => "other programs and wake-ups are not recorded",
                    _ => "the times at which threads ran are not recorded",
                };
                reasons.push(format!("{what}: {error}"));
            }
        }
    }
    (Source::Nothing, Tier::Preload)
}
