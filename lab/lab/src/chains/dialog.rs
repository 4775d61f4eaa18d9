//! Messages between the starting process and an executor process, line by line: the task; ready;
//! the start instant; the report.

use std::io::{BufRead, Write};

use anyhow::Context;
use realtime::clock::monotonic_ns;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::children::Children;
use super::progress::Progress;
use super::server::SECOND_NS;

/// Answer of an executor process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer<R, T> {
    /// It waits for the start instant, without what it was refused.
    Ready(R),
    /// It has ended, and this happened.
    Done(T),
}

impl<R: Serialize, T: Serialize> Answer<R, T> {
    /// Says it to the starting process.
    pub fn say(&self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(self)?)?;
        Ok(out.flush()?)
    }
}

impl<R: DeserializeOwned, T: DeserializeOwned> Answer<R, T> {
    fn hear(line: &str) -> anyhow::Result<Answer<R, T>> {
        serde_json::from_str(line).context("the answer of an executor")
    }
}

/// The next line that the starting process says.
pub fn line(input: &mut impl BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    let length = input.read_line(&mut line)?;
    anyhow::ensure!(length > 0, "the starting process is gone");
    Ok(line)
}

/// Waits until `count` children, from number `first` on, wait for the start; what they were
/// refused, in their order.
///
/// # Errors
/// A child ends before, or is not ready by `until_ns`.
pub fn wait_ready<R: DeserializeOwned, T: DeserializeOwned>(
    children: &mut Children,
    (first, count): (usize, usize),
    until_ns: u64,
) -> anyhow::Result<Vec<R>> {
    let mut ready: Vec<Option<R>> = (0..count).map(|_| None).collect();
    while ready.iter().any(Option::is_none) {
        let (number, line) = children.next_line(until_ns, || {})?;
        let place = number.checked_sub(first).and_then(|index| ready.get_mut(index));
        let (Some(place), Some(line)) = (place, line) else { return Err(children.failure(number)) };
        let Answer::Ready(refused) = Answer::<R, T>::hear(&line)? else {
            anyhow::bail!("an executor ended before the start");
        };
        *place = Some(refused);
    }
    Ok(ready.into_iter().flatten().collect())
}

/// Name of a run, its start and stop, and the time by which its children must have reported, in
/// nanoseconds of the monotonic clock.
pub struct Span<'a> {
    /// Name that is shown meanwhile.
    pub name: &'a str,
    /// Times at which it starts and stops.
    pub run_ns: (u64, u64),
    /// The last moment.
    pub until_ns: u64,
}

/// Waits for the reports of `count` children, from number `first` on, in their order.
///
/// # Errors
/// A child ends without a report, or does not report in time.
pub fn collect<R: DeserializeOwned, T: DeserializeOwned>(
    children: &mut Children,
    (first, count): (usize, usize),
    span: &Span<'_>,
    progress: &mut Progress,
) -> anyhow::Result<Vec<T>> {
    let (start_ns, stop_ns) = span.run_ns;
    let mut reports: Vec<Option<T>> = (0..count).map(|_| None).collect();
    while reports.iter().any(Option::is_none) {
        let show = || {
            let left_ns = stop_ns.saturating_sub(monotonic_ns()).min(stop_ns - start_ns);
            progress.left(span.name, left_ns.div_ceil(SECOND_NS));
        };
        let (number, line) = children.next_line(span.until_ns, show)?;
        let Some(report) = number.checked_sub(first).and_then(|i| reports.get_mut(i)) else {
            // The server has ended: its clients will say what that did to them.
            continue;
        };
        match line.map(|line| Answer::<R, T>::hear(&line)).transpose()? {
            Some(Answer::Done(done)) => *report = Some(done),
            None if report.is_some() => {}
            _ => return Err(children.failure(number)),
        }
    }
    Ok(reports.into_iter().flatten().collect())
}
