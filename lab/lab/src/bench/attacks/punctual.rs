//! The punctual client: a chain of the highest priority with one request in every period.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use accel::{Client, Registration, Request, RequestOutcome};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread;
use serde::Serialize;
use trial::signals;

use super::canary::{self, Canary};
use crate::bench::floor::prioritise;
use crate::bench::sample::{Quantiles, Samples};

/// Period of the punctual chain, also its deadline.
const PERIOD: Duration = Duration::from_millis(20);
/// Work on the accelerator of one of its requests.
const WORK: Duration = Duration::from_millis(1);
/// Its declared execution time: half as much again as its work. A kernel without
/// `CONFIG_IRQ_TIME_ACCOUNTING` counts the interrupts on the server's core, also those of the
/// attackers' work, as time of the request.
const EXEC: Duration = Duration::from_micros(1500);
/// Its declared processor time.
const CPU: Duration = Duration::from_micros(100);
/// Its name.
pub(super) const PUNCTUAL: &str = "punctual";

/// Requests and failures of the punctual client.
pub(super) struct Punctual {
    /// The requests that were answered.
    pub requests: Vec<Served>,
    /// Reason of each request that failed.
    pub failures: Vec<String>,
}

/// A request that was answered, with times in nanoseconds of the monotonic clock.
#[derive(Clone, Copy)]
pub(super) struct Served {
    release_ns: u64,
    end_ns: u64,
    outcome: RequestOutcome,
}

impl Served {
    fn total_ns(&self) -> u64 {
        self.end_ns - self.release_ns
    }
}

/// The longest request of a kind, and where its time went.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Longest {
    /// Number of requests of this kind.
    pub requests: u64,
    /// Time from the release to the end, without the time in which the cores of the server or of
    /// the client were away: a thread above all others was not woken there.
    pub without_machine_ns: u64,
    /// The same with that time.
    pub total_ns: u64,
    /// Time from the release until the client sent the request.
    pub sent_ns: u64,
    /// Time until the server took it.
    pub taken_ns: u64,
    /// Time until the device began with it.
    pub queued_ns: u64,
    /// Time until the device had done it.
    pub device_ns: u64,
    /// Time for which the device worked on it.
    pub busy_ns: u64,
    /// Time from the end on the device until the client had the answer.
    pub answered_ns: u64,
}

impl Longest {
    fn of(request: &Served, without_machine_ns: u64) -> Longest {
        let RequestOutcome { submitted_ns, arrived_ns, started_ns, finished_ns, busy_ns, .. } =
            request.outcome;
        Longest {
            requests: 1,
            without_machine_ns,
            total_ns: request.total_ns(),
            sent_ns: submitted_ns.saturating_sub(request.release_ns),
            taken_ns: arrived_ns.saturating_sub(submitted_ns),
            queued_ns: started_ns.saturating_sub(arrived_ns),
            device_ns: finished_ns.saturating_sub(started_ns),
            busy_ns,
            answered_ns: request.end_ns.saturating_sub(finished_ns),
        }
    }

    /// The parts of its time, in milliseconds.
    pub(super) fn text(&self) -> String {
        let ms = |ns: u64| ns as f64 * 1e-6;
        format!(
            "{:.3} ms less the machine's time, {:.3} ms in all: {:.3} until sent, {:.3} until the \
             server took it, {:.3} until the device began, {:.3} on the device ({:.3} working), \
             {:.3} until the answer",
            ms(self.without_machine_ns),
            ms(self.total_ns),
            ms(self.sent_ns),
            ms(self.taken_ns),
            ms(self.queued_ns),
            ms(self.device_ns),
            ms(self.busy_ns),
            ms(self.answered_ns)
        )
    }
}

impl Punctual {
    /// Times of all requests, from the release to the end.
    pub(super) fn times(&self) -> Quantiles {
        let mut times = Samples::new();
        self.requests.iter().for_each(|request| times.push(request.total_ns()));
        times.quantiles()
    }

    /// The longest request, without the time in which one of some cores was away, of those that
    /// exceeded their declared execution time or of those that kept it.
    pub(super) fn longest(&self, overran: bool, cores: &[&Canary]) -> Longest {
        let requests = self.requests.iter().filter(|request| request.outcome.overran == overran);
        let longest = requests.clone().map(|request| {
            let away = canary::late_within(cores, request.release_ns, request.end_ns);
            Longest::of(request, request.total_ns() - away)
        });
        let longest = longest.max_by_key(|longest| longest.without_machine_ns).unwrap_or_default();
        Longest { requests: requests.count() as u64, ..longest }
    }
}

/// The punctual client: one request in every period, checked for its answer, from its release to
/// its end, until told to stop.
pub(super) fn punctual(socket: &Path, stop: &AtomicBool, core: usize, realtime: bool) -> Punctual {
    let mut seen = Punctual { requests: Vec::new(), failures: Vec::new() };
    let priority = if realtime { 60 } else { 0 };
    let set_up = || -> anyhow::Result<_> {
        thread::pin(&[core])?;
        prioritise(priority)?;
        let mut client = Client::connect(socket)?;
        let registration = Registration::service("busy")
            .chain(PUNCTUAL, 99)
            .period(PERIOD)
            .exec(EXEC)
            .cpu(CPU)
            .executor(core as u32, u32::from(priority));
        let busy = client.register(&registration)?;
        Ok((client, busy))
    };
    let (mut client, busy) = match set_up() {
        Ok(client) => client,
        Err(error) => {
            seen.failures.push(format!("{error:#}"));
            return seen;
        }
    };
    let request = Request::new().arguments(&[WORK.as_nanos() as u64]);
    let mut release_ns = monotonic_ns();
    while !stop.load(Ordering::Relaxed) {
        release_ns = (release_ns + PERIOD.as_nanos() as u64).max(monotonic_ns());
        sleep_until_ns(release_ns);
        match client.run(busy, &request) {
            Ok(outcome) => {
                seen.requests.push(Served { release_ns, end_ns: monotonic_ns(), outcome });
            }
            // The server ends with the command.
            Err(_) if signals::interrupted().is_some() => break,
            Err(error) => seen.failures.push(format!("{error:#}")),
        }
    }
    seen
}
