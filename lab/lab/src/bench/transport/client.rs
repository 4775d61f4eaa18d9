//! The client of one way: a process that is told to send so many requests of which size, and
//! answers with what each took.
//!
//! Every output is compared with what it must be; a wrong one ends the process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use accel::CallbackId;
use anyhow::{bail, ensure};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread;
use report::transport::{STEPS, Sample};
use ros::{Mapping, Options, remote};
use serde::{Deserialize, Serialize};
use trial::Parent;

use crate::bench::floor::prioritise;

/// Longest time for which a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between requests, in which all threads go to sleep.
const PAUSE_NS: u64 = 1_000_000;

/// Order to the client.
#[derive(Serialize, Deserialize)]
pub(crate) struct Client {
    pub link: Link,
    pub core: usize,
    pub priority: u8,
}

/// Way to the server.
#[derive(Serialize, Deserialize)]
pub(crate) enum Link {
    /// Its socket: over shared memory.
    Shared(PathBuf),
    /// Over DDS, by the interface of this address.
    Dds { interface: IpAddr, domain: u16 },
}

/// Answer of a client to an order of bytes and requests.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The whole, then each step, in nanoseconds.
    pub samples: Vec<(f64, [f64; STEPS])>,
    /// Number of times that a request was sent again.
    pub repeated: u64,
    /// Requests without an answer in time.
    pub unanswered: u64,
}

impl Client {
    /// Sends on each order until the parent ends.
    pub(crate) fn run(&self, parent: &mut Parent) -> anyhow::Result<()> {
        thread::pin(&[self.core])?;
        // Before the threads of DDS, which inherit it.
        prioritise(self.priority)?;
        let mut session = Session::open(&self.link)?;
        parent.tell(&())?;
        let mut number = 0;
        while let Some((bytes, count)) = parent.hear_more::<(usize, usize)>()? {
            let mut answer = Answer::default();
            for _ in 0..count {
                number += 1;
                sleep_until_ns(monotonic_ns() + PAUSE_NS);
                let input = input(bytes, number);
                match session.request(&input, &mut answer.repeated)? {
                    Some((sample, output)) => {
                        check(&input, &output)?;
                        answer.samples.push((sample.whole_ns, sample.steps_ns));
                    }
                    None => answer.unanswered += 1,
                }
            }
            parent.tell(&answer)?;
        }
        Ok(())
    }
}

/// Two vectors of numbers whose sums are exact, and that no other request has.
fn input(bytes: usize, number: u32) -> Vec<u8> {
    let count = bytes / 8;
    let first = (0..count).map(|i| (i % 1000) as f32);
    let second = (0..count).map(|i| (number % 100_000) as f32 + (i % 7) as f32);
    first.chain(second).flat_map(f32::to_le_bytes).collect()
}

fn check(input: &[u8], output: &[u8]) -> anyhow::Result<()> {
    let number = |bytes: &[u8], i: usize| {
        f32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * i + byte]))
    };
    let count = input.len() / 8;
    ensure!(output.len() == 4 * count, "found an answer of {} bytes", output.len());
    for i in 0..count {
        let (have, want) = (number(output, i), number(input, i) + number(input, count + i));
        ensure!(have == want, "a wrong answer: element {i} is {have}, expected {want}");
    }
    Ok(())
}

/// A client with its registrations, by size of the input.
enum Session {
    Shared { client: accel::Client, callbacks: HashMap<usize, CallbackId> },
    Dds { client: Box<remote::Client>, callbacks: HashMap<usize, remote::Callback> },
}

impl Session {
    fn open(link: &Link) -> anyhow::Result<Session> {
        let (interface, domain) = match link {
            Link::Shared(socket) => {
                let client = accel::Client::connect(socket)?;
                return Ok(Session::Shared { client, callbacks: HashMap::new() });
            }
            Link::Dds { interface, domain } => (*interface, *domain),
        };
        let options = Options { domain, interfaces: vec![interface], ..Options::default() };
        let patience = 3 * PATIENCE;
        let client = remote::Client::connect(&options, "/keeptime", Mapping::Cyclone, patience)?;
        Ok(Session::Dds { client: Box::new(client), callbacks: HashMap::new() })
    }

    /// The request by step, and its output; none when it was not answered in time.
    fn request(
        &mut self,
        input: &[u8],
        repeated: &mut u64,
    ) -> anyhow::Result<Option<(Sample, Vec<u8>)>> {
        let bytes = input.len();
        let memory = bytes.next_multiple_of(64) + bytes / 2;
        match self {
            Session::Shared { client, callbacks } => {
                let callback = match callbacks.get(&bytes) {
                    Some(&callback) => callback,
                    None => {
                        let chain = format!("bench-{bytes}");
                        let order = accel::Registration::service("vecadd");
                        let callback = client.register(&order.chain(&chain, 1).memory(memory))?;
                        callbacks.insert(bytes, callback);
                        callback
                    }
                };
                shared(client, callback, input).map(Some)
            }
            Session::Dds { client, callbacks } => {
                let callback = match callbacks.entry(bytes) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(place) => {
                        let chain = format!("bench-{bytes}");
                        let order = remote::Registration::service("vecadd").chain(&chain, 1);
                        let order = order.memory(memory as u64);
                        place.insert(client.register(&order, 3 * PATIENCE)?)
                    }
                };
                let before = callback.repetitions();
                let result = dds(callback, input);
                *repeated += callback.repetitions() - before;
                result
            }
        }
    }
}

fn shared(
    client: &mut accel::Client,
    callback: CallbackId,
    input: &[u8],
) -> anyhow::Result<(Sample, Vec<u8>)> {
    let offset = input.len().next_multiple_of(64);
    let mut output = vec![0; input.len() / 2];
    let start_ns = monotonic_ns();
    client.memory(callback)?.write(0, input)?;
    let request = accel::Request::new()
        .arguments(&[input.len() as u64 / 8])
        .input(0, input.len())
        .output(offset, output.len());
    let done = client.run(callback, &request)?;
    client.memory(callback)?.read(offset, &mut output)?;
    let end_ns = monotonic_ns();
    let stamps = [
        done.submitted_ns,
        done.submitted_ns,
        done.submitted_ns,
        done.arrived_ns,
        done.started_ns,
        done.finished_ns,
        done.answered_ns,
        done.answered_ns,
    ];
    Ok((sample(start_ns, stamps, end_ns), output))
}

fn dds(callback: &mut remote::Callback, input: &[u8]) -> anyhow::Result<Option<(Sample, Vec<u8>)>> {
    let start_ns = monotonic_ns();
    let request = remote::Request::new(input.to_vec())
        .arguments(&[input.len() as u64 / 8])
        .output(input.len() as u64 / 2);
    let mut pending = callback.submit(request, PATIENCE)?;
    let sent_ns = monotonic_ns();
    let answer = match callback.wait(&mut pending) {
        Ok(answer) => answer,
        Err(remote::Error::TimedOut { .. }) => return Ok(None),
        Err(error) => bail!(error),
    };
    let end_ns = monotonic_ns();
    let age = SystemTime::now().duration_since(callback.received()).unwrap_or_default();
    let received_ns = monotonic_ns() - age.as_nanos() as u64;
    let submitted_ns = answer.arrived_ns + answer.waited_ns;
    let started_ns = submitted_ns + answer.queued_ns;
    let finished_ns = started_ns + answer.executed_ns;
    let stamps = [
        // DDS has threads of its own, and may be faster than the one that sends.
        sent_ns.min(answer.arrived_ns),
        answer.arrived_ns,
        submitted_ns,
        submitted_ns + answer.noticed_ns,
        started_ns,
        finished_ns,
        finished_ns + answer.returned_ns,
        received_ns,
    ];
    Ok(Some((sample(start_ns, stamps, end_ns), answer.output)))
}

/// The steps between the stamps, each at least 0: where stamps are not in order, the rest is left
/// unexplained.
fn sample(start_ns: u64, stamps_ns: [u64; STEPS - 1], end_ns: u64) -> Sample {
    let mut before_ns = start_ns;
    let mut steps_ns = [0.0; STEPS];
    for (step, stamp_ns) in steps_ns.iter_mut().zip(stamps_ns.into_iter().chain([end_ns])) {
        *step = stamp_ns.saturating_sub(before_ns) as f64;
        before_ns = stamp_ns;
    }
    Sample { whole_ns: (end_ns - start_ns) as f64, steps_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_sum_to_the_whole_and_stamps_out_of_order_are_unexplained() {
        let good = sample(100, [110, 120, 130, 140, 150, 160, 170, 180], 200);
        assert_eq!((good.whole_ns, good.unexplained_ns()), (100.0, 0.0));
        assert_eq!(good.steps_ns, [10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 20.0]);
        let bad = sample(100, [110, 105, 130, 140, 150, 160, 170, 180], 200);
        assert_eq!(bad.unexplained_ns(), -5.0);
    }

    #[test]
    fn answers_of_other_requests_are_wrong() {
        let sum = |number| -> Vec<u8> {
            let all: Vec<f32> = (0..8).map(|i| i as f32 + number as f32 + (i % 7) as f32).collect();
            all.into_iter().flat_map(f32::to_le_bytes).collect()
        };
        assert!(check(&input(64, 5), &sum(5)).is_ok());
        assert!(check(&input(64, 5), &sum(6)).is_err());
        assert!(check(&input(64, 5), &sum(5)[..28]).is_err());
    }
}
