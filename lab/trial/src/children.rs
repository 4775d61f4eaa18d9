//! Several children that work at the same time: all get ready, are told the same start instant, and
//! report when they have ended ([`Answer`]). A [signal](crate::signals) ends each wait for them.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{anyhow, ensure};
use realtime::clock::monotonic_ns;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::child::Child;
use crate::signals;

/// Interval at which a waiting parent looks at its signals.
const TICK: Duration = Duration::from_millis(100);

/// Answer of a child that works with others.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer<R, T> {
    /// The child waits for the start instant; with what it was refused.
    Ready(R),
    /// The child has ended, with its report.
    Done(T),
}

/// Children that speak when they like: one thread for each passes its lines on.
#[derive(Debug)]
pub struct Children {
    children: Vec<Child>,
    sender: Sender<(usize, Option<String>)>,
    lines: Receiver<(usize, Option<String>)>,
}

impl Default for Children {
    /// No children yet.
    fn default() -> Children {
        let (sender, lines) = channel();
        Children { children: Vec::new(), sender, lines }
    }
}

impl Children {
    /// Adds a child; they are numbered in this order.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn add(&mut self, mut child: Child) -> anyhow::Result<()> {
        let (number, sender, output) =
            (self.children.len(), self.sender.clone(), child.output.take());
        self.children.push(child);
        let pass_on = move || {
            // The receiver is gone once the run is over.
            for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                let _ = sender.send((number, Some(line)));
            }
            let _ = sender.send((number, None));
        };
        std::thread::Builder::new().name("kt-lines".into()).spawn(pass_on)?;
        Ok(())
    }

    /// Sends a message to all.
    ///
    /// # Errors
    /// One has ended; with its last words.
    pub fn tell(&mut self, message: &impl Serialize) -> anyhow::Result<()> {
        self.children.iter_mut().try_for_each(|child| child.tell(message))
    }

    /// A message that has come, and the child that sent it, by number.
    ///
    /// # Errors
    /// A child has ended, or says something else.
    pub fn heard<M: DeserializeOwned>(&mut self) -> anyhow::Result<Option<(usize, M)>> {
        self.lines.try_recv().ok().map(|said| self.read(said)).transpose()
    }

    fn read<M: DeserializeOwned>(
        &mut self,
        (number, line): (usize, Option<String>),
    ) -> anyhow::Result<(usize, M)> {
        let child = &mut self.children[number];
        let line = line.ok_or_else(|| child.failure())?;
        Ok((number, child.read(&line)?))
    }

    /// Waits for a message of each, in their order; if it `is_last`, a child may end after it.
    fn each<M: DeserializeOwned>(
        &mut self,
        is_last: bool,
        until_ns: u64,
    ) -> anyhow::Result<Vec<M>> {
        let mut messages: Vec<Option<M>> = self.children.iter().map(|_| None).collect();
        while messages.iter().any(Option::is_none) {
            match self.lines.recv_timeout(TICK) {
                Ok((number, None)) if is_last && messages[number].is_some() => {}
                Ok(said) => {
                    let (number, message) = self.read(said)?;
                    messages[number] = Some(message);
                }
                Err(_) => {
                    signals::check()?;
                    ensure!(monotonic_ns() < until_ns, "an executor gave no answer in time");
                }
            }
        }
        Ok(messages.into_iter().flatten().collect())
    }

    /// Waits until all wait for the start; what they were refused, in their order.
    ///
    /// # Errors
    /// A child ends before, or is not ready by `until_ns`.
    pub fn ready<R: DeserializeOwned>(&mut self, until_ns: u64) -> anyhow::Result<Vec<R>> {
        let refused = |answer: Answer<R, Value>| match answer {
            Answer::Ready(refused) => Ok(refused),
            Answer::Done(_) => Err(anyhow!("an executor ended before the start")),
        };
        self.each(false, until_ns)?.into_iter().map(refused).collect()
    }

    /// Waits for the reports of all, in their order.
    ///
    /// # Errors
    /// A child ends without a report, or does not report by `until_ns`.
    pub fn reports<T: DeserializeOwned>(&mut self, until_ns: u64) -> anyhow::Result<Vec<T>> {
        let report = |answer: Answer<Value, T>| match answer {
            Answer::Done(report) => Ok(report),
            Answer::Ready(_) => Err(anyhow!("an executor was ready twice")),
        };
        self.each(true, until_ns)?.into_iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn children(scripts: &[&str]) -> Children {
        let mut children = Children::default();
        for script in scripts {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            children.add(Child::start("the child", command).unwrap()).unwrap();
        }
        children
    }

    #[test]
    fn all_are_ready_start_and_report_in_their_order() {
        let script = |number: u32| {
            format!(
                "echo '{{\"Ready\":{number}}}'; read start; echo \"{{\\\"Done\\\":[{number},$start]}}\""
            )
        };
        let mut children = children(&[&script(1), &script(2)]);
        let until_ns = monotonic_ns() + 60_000_000_000;
        assert_eq!(children.ready::<u32>(until_ns).unwrap(), [1, 2]);
        children.tell(&7).unwrap();
        assert_eq!(children.reports::<(u32, u32)>(until_ns).unwrap(), [(1, 7), (2, 7)]);
    }

    #[test]
    fn child_that_is_missing_ends_the_wait() {
        let until_ns = monotonic_ns() + 60_000_000_000;
        let error = |script| children(&[script]).ready::<u32>(until_ns).unwrap_err().to_string();
        assert_eq!(error("echo why >&2; exit 1"), "the child ended with exit status: 1: why");
        assert_eq!(error("echo '{\"Done\":1}'; read line"), "an executor ended before the start");
        let late = children(&["read line"]).ready::<u32>(0).unwrap_err().to_string();
        assert_eq!(late, "an executor gave no answer in time");
    }
}
