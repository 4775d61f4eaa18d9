//! The program under LTTng's wrapper of the pthread functions, in a recording session of its own.
//!
//! The session daemon is the user's, or one that is started here and ends with the bench. The
//! buffers hold all that a run records, if that is not too much for the machine: LTTng's consumer
//! is an ordinary process that others may keep from running, and what it has not fetched is lost.
//! Events are counted by babeltrace2 in the trace; those that LTTng says it discarded are added,
//! since the program paid for them too, if less.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use realtime::clock::monotonic_ns;
use rustix::process::{Signal, set_parent_process_death_signal};
use trial::Child;

use super::program::{self, Measure, Plan, output_of};
use super::variant::{Records, Run};
use crate::child::Order;

/// Names of the library, newest first.
const WRAPPERS: [&str; 2] =
    ["liblttng-ust-pthread-wrapper.so.1", "liblttng-ust-pthread-wrapper.so.0"];
const EVENTS: &str = "lttng_ust_pthread:*";
const CHANNEL: &str = "pairs";
const SUB_BUFFER_BYTES: u64 = 1 << 20;
/// Buffers of all processors together.
const MOST_BUFFERS_BYTES: u64 = 2 << 30;
/// More than the three events of a lock and its unlock occupy, which is 48.
const PAIR_BYTES: u64 = 60;
/// Longest time that the session daemon may take to start, and the program to register with it.
const PATIENCE_MS: u64 = 10_000;

/// LTTng on this machine.
pub(super) struct Lttng {
    home: tempfile::TempDir,
    wrapper: &'static str,
    daemon: Option<Child>,
    sessions: u32,
}

impl Lttng {
    /// Finds all its parts, and starts the daemon if none runs.
    pub(super) fn start() -> anyhow::Result<Lttng> {
        for (tool, package) in [("lttng", "lttng-tools"), ("babeltrace2", "babeltrace2")] {
            let mut command = Command::new(tool);
            command.arg("--version");
            output_of(command)
                .with_context(|| format!("{tool} is not installed (package {package})"))?;
        }
        let wrapper = WRAPPERS.into_iter().find(|name| can_be_preloaded(name));
        let wrapper = wrapper
            .with_context(|| format!("{} is not installed (package liblttng-ust1)", WRAPPERS[0]))?;
        let home = tempfile::tempdir()?;
        let mut lttng = Lttng { home, wrapper, daemon: None, sessions: 0 };
        if lttng.command(&["list"]).is_err() {
            lttng.start_daemon()?;
        }
        Ok(lttng)
    }

    fn start_daemon(&mut self) -> anyhow::Result<()> {
        let order = Order::Program(["lttng-sessiond", "--no-kernel"].map(str::to_owned).to_vec());
        let home = self.home.path();
        let daemon = Child::order_by("lttng-sessiond", &order, |mut command| {
            command.env("LTTNG_HOME", home);
            command
        })?;
        let daemon = self.daemon.insert(daemon);
        let until_ns = monotonic_ns() + PATIENCE_MS * 1_000_000;
        let is_up = trial::wait_until(until_ns, || {
            if daemon.is_running() {
                Ok(output_of(lttng(home, &["list"])).is_ok())
            } else {
                Err(daemon.failure())
            }
        })?;
        anyhow::ensure!(is_up, "lttng-sessiond does not answer{}", daemon.last_words());
        Ok(())
    }

    fn command(&self, words: &[&str]) -> anyhow::Result<String> {
        output_of(lttng(self.home.path(), words))
    }

    /// Runs the program in a new session, and counts its events.
    pub(super) fn run(&mut self, program: &Path, plan: &Plan) -> anyhow::Result<Run> {
        self.sessions += 1;
        let name = format!("keeptime-bench-{}-{}", std::process::id(), self.sessions);
        let output = self.home.path().join(&name);
        let session = Session { lttng: self, name: &name };
        // It is for the code only: one page of the buffers, which is found when it is first
        // written, takes the events of 85 locks.
        let warm_up = plan.batches * plan.rounds / 4;
        let rounds = plan.all_rounds() + plan.measure.threads() * warm_up;
        session.start(&output, sub_buffers(rounds * PAIR_BYTES))?;
        let mut command = Command::new(program);
        command
            .args(plan.arguments(warm_up))
            .env("LD_PRELOAD", self.wrapper)
            .env("LTTNG_HOME", self.home.path())
            .env("LTTNG_UST_REGISTER_TIMEOUT", PATIENCE_MS.to_string());
        let reading = program::read(command, plan)?;
        let discarded = session.stop()?;
        let events = count_events(&output)? + discarded;
        drop(session);
        std::fs::remove_dir_all(&output)?;
        // Fewer than one a round are those of locks that LTTng itself takes in the program: the
        // wrapper knows mutexes only.
        let per_round = if events < rounds { 0.0 } else { events as f64 / rounds as f64 };
        let expected = plan.measure != Measure::NestedReads;
        anyhow::ensure!(!expected || per_round > 0.0, "{events} events of {rounds} locks");
        let records = Records { per_round, lost: discarded };
        Ok(Run { reading, records: Some(records) })
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // Asked, not killed: it has processes of its own to end.
            daemon.signal(Signal::TERM);
            daemon.end(monotonic_ns() + PATIENCE_MS * 1_000_000);
        }
    }
}

/// Becomes another program, which is asked to end when its parent ends, however that ends.
pub(crate) fn become_program(words: &[String]) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let (program, arguments) = words.split_first().context("no program")?;
    let mut command = Command::new(program);
    let error = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).exec();
    Err(error).with_context(|| program.clone())
}

/// A recording session, which is destroyed with this value.
struct Session<'a> {
    lttng: &'a Lttng,
    name: &'a str,
}

impl Session<'_> {
    fn start(&self, output: &Path, sub_buffers: u64) -> anyhow::Result<()> {
        let (session, lttng) = (format!("--session={}", self.name), self.lttng);
        let output = format!("--output={}", output.display());
        let (bytes, count) = (SUB_BUFFER_BYTES.to_string(), sub_buffers.to_string());
        lttng.command(&["create", self.name, &output])?;
        let size = ["--subbuf-size", &bytes, "--num-subbuf", &count];
        lttng.command(&[&["enable-channel", "-u", &session][..], &size, &[CHANNEL]].concat())?;
        lttng.command(&["enable-event", "-u", &session, "-c", CHANNEL, EVENTS])?;
        lttng.command(&["start", self.name])?;
        Ok(())
    }

    /// Ends the recording; how many events did not fit into the buffers.
    fn stop(&self) -> anyhow::Result<u64> {
        self.lttng.command(&["stop", self.name])?;
        discarded(&self.lttng.command(&["list", self.name])?)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Also after a signal, which ends the wait for a child.
        let _ = lttng(self.lttng.home.path(), &["destroy", self.name]).output();
    }
}

/// Returns the number of a processor's sub-buffers for so many bytes: a power of two, as LTTng
/// wants it.
fn sub_buffers(bytes: u64) -> u64 {
    let processors = realtime::machine::online_cores().len().max(1) as u64;
    let bytes = bytes.min(MOST_BUFFERS_BYTES / processors / 2);
    // One is being fetched.
    (bytes.div_ceil(SUB_BUFFER_BYTES) + 1).next_power_of_two()
}

/// `lttng` with a home of its own, so that the user's current session stays what it is.
fn lttng(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("lttng");
    command.arg("--no-sessiond").args(words).env("LTTNG_HOME", home);
    command
}

/// Returns true if the dynamic linker finds a library; else the linker says so and goes on.
fn can_be_preloaded(library: &str) -> bool {
    let mut command = Command::new("true");
    // It is not to register anywhere.
    command.env("LD_PRELOAD", library).env("LTTNG_UST_REGISTER_TIMEOUT", "0");
    command.output().is_ok_and(|output| {
        !String::from_utf8_lossy(&output.stderr).contains("cannot be preloaded")
    })
}

fn discarded(list: &str) -> anyhow::Result<u64> {
    let line = list.lines().find_map(|line| line.trim().strip_prefix("Discarded events:"));
    let number = line.context("lttng list prints no number of discarded events")?.trim();
    number.parse().with_context(|| format!("discarded events: {number}"))
}

/// Counts the events of a trace, at its end only.
fn count_events(trace: &Path) -> anyhow::Result<u64> {
    let mut command = Command::new("babeltrace2");
    command.arg(trace).args(["--component=sink.utils.counter", "--params=step=+0"]);
    events(&output_of(command)?).context("babeltrace2 prints no number of events")
}

fn events(output: &str) -> Option<u64> {
    let count = |line: &str| line.trim().strip_suffix(" Event messages")?.parse().ok();
    output.lines().filter_map(count).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_discarded_events_are_read() {
        let list = "  Statistics:\n      Discarded events: 17\n";
        assert_eq!(discarded(list).unwrap(), 17);
        assert!(discarded("Statistics:\n").is_err());
        let counter = "   10001 Event messages\n\n  5100055 Event messages\n   2 Packet ends\n";
        assert_eq!(events(counter), Some(5_100_055));
        assert_eq!(events(""), None);
    }

    #[test]
    fn buffers_hold_a_run_but_not_all_of_memory() {
        assert_eq!(sub_buffers(1), 2);
        assert_eq!(sub_buffers(30 * SUB_BUFFER_BYTES), 32);
        let processors = realtime::machine::online_cores().len() as u64;
        assert!(sub_buffers(u64::MAX) * SUB_BUFFER_BYTES * processors <= MOST_BUFFERS_BYTES);
    }
}
