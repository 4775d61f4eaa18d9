//! One callback: what makes it ready, what it does, and what became of it.
//!
//! A callback is cut in two. Its *signal* can be looked at by any thread: is it ready, and if a
//! clock decides, when. Its *jobs* run it: a job takes one message or release, which gives it to
//! the thread that took it, and then calls the user's function without any lock. A callback has
//! one job, so that it never runs beside itself, or one for each thread where it may.

use crate::input::{Arrived, Input};
use crate::timer::{Release, Timer};
use crate::{Context, Group, Kind};
use std::sync::Arc;

/// Source that makes a callback ready.
pub(crate) trait Signal: Send + Sync {
    /// Returns true if the callback is ready.
    fn ready(&self, now_ns: u64) -> bool;

    /// Time at which it will be ready, where a clock decides; the end of time otherwise.
    fn due_ns(&self) -> u64 {
        u64::MAX
    }

    /// Releases or messages that were never served.
    fn dropped(&self) -> u64;
}

/// One execution of a callback at a time.
pub(crate) trait Job: Send {
    /// Takes the next message or release, and says since when it waited.
    fn take(&mut self, now_ns: u64) -> Option<u64>;

    /// Calls the user's function with what was taken.
    fn run(&mut self, context: &mut Context);
}

/// Properties of a callback, given when it is added.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name, for reports.
    pub name: String,
    /// Larger is more urgent; see [`priorities`](crate::priorities). Without a meaning under
    /// [`ExecutorPolicy::Ros2`](crate::ExecutorPolicy::Ros2).
    pub priority: u32,
    /// Group of callbacks beside which it may run; see [`Executor::group`](crate::Executor::group).
    pub group: Group,
}

impl Settings {
    /// A callback of the executor's own group.
    pub fn new(name: &str, priority: u32) -> Settings {
        Settings { name: name.into(), priority, group: Group::default() }
    }

    /// The same in another group.
    pub fn group(self, group: Group) -> Settings {
        Settings { group, ..self }
    }
}

/// A callback as the executor keeps it.
pub(crate) struct Entry {
    pub settings: Settings,
    pub kind: Kind,
    pub signal: Arc<dyn Signal>,
    /// Those that do not run.
    pub jobs: Vec<Box<dyn Job>>,
}

/// Makes an input a signal.
pub(crate) struct Messages<I>(pub Arc<I>);

impl<I: Input> Signal for Messages<I> {
    fn ready(&self, _now_ns: u64) -> bool {
        self.0.ready()
    }

    fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

/// Serves a message.
pub(crate) struct Serve<I: Input, F> {
    input: Arc<I>,
    taken: Option<I::Message>,
    call: F,
}

impl<I: Input, F> Serve<I, F> {
    pub(crate) fn new(input: Arc<I>, call: F) -> Self {
        Serve { input, taken: None, call }
    }
}

impl<I: Input, F: FnMut(&mut Context, I::Message) + Send> Job for Serve<I, F> {
    fn take(&mut self, _now_ns: u64) -> Option<u64> {
        let Arrived { at_ns, message } = self.input.take()?;
        self.taken = Some(message);
        Some(at_ns)
    }

    fn run(&mut self, context: &mut Context) {
        if let Some(message) = self.taken.take() {
            (self.call)(context, message);
        }
    }
}

/// Serves a release of a timer.
pub(crate) struct Tick<F> {
    timer: Arc<Timer>,
    taken: Option<Release>,
    call: F,
}

impl<F> Tick<F> {
    pub(crate) fn new(timer: Arc<Timer>, call: F) -> Self {
        Tick { timer, taken: None, call }
    }
}

impl<F: FnMut(&mut Context, Release) + Send> Job for Tick<F> {
    fn take(&mut self, now_ns: u64) -> Option<u64> {
        self.taken = self.timer.release(now_ns);
        self.taken.map(|release| release.due_ns)
    }

    fn run(&mut self, context: &mut Context) {
        if let Some(release) = self.taken.take() {
            (self.call)(context, release);
        }
    }
}
