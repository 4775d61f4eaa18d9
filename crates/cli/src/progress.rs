//! Progress of a command that is often over at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use analysis::{Step, Watch};
use terminal::progress::Progress;

/// Time after which a command is long enough to show its progress.
const LONG: Duration = Duration::from_secs(2);

/// Progress that is shown from the third second on.
pub(crate) struct LateProgress {
    command: &'static str,
    begun: Instant,
    shown: OnceLock<Progress>,
    /// True if units were counted.
    counts: AtomicBool,
}

impl LateProgress {
    /// Begins to wait.
    pub(crate) fn start(command: &'static str) -> LateProgress {
        let begun = Instant::now();
        LateProgress { command, begun, shown: OnceLock::new(), counts: AtomicBool::new(false) }
    }

    /// Shows that `done` of `all` units are over, if the command is long.
    pub(crate) fn at(&self, done: u64, all: u64, stage: &str) {
        self.counts.store(true, Ordering::Relaxed);
        if let Some(progress) = self.shown() {
            progress.at(done, all, stage);
        }
    }

    /// Shows that a stage begins, if the command is long.
    pub(crate) fn stage(&self, name: &str) {
        if let Some(progress) = self.shown.get() {
            progress.stage(name);
        }
    }

    /// Watches an analysis, or a search for priorities, as long as `goes_on` returns true.
    pub(crate) fn watch(self, goes_on: fn() -> bool) -> Watch {
        Watch::new(move |step| {
            match step {
                Step::Analyses { done, most } => self.at(done, most, "analyses at most"),
                Step::Pass { number, chains, of } => {
                    self.change(|| format!("pass {number}: {chains} of {of} chains bounded"));
                }
            }
            goes_on()
        })
    }

    /// Names what goes on until there are units to count, if the command is long.
    fn change(&self, name: impl FnOnce() -> String) {
        if self.counts.load(Ordering::Relaxed) {
            return;
        }
        match self.shown.get() {
            Some(progress) => progress.change(&name()),
            None => {
                if let Some(progress) = self.shown() {
                    progress.stage(&name());
                }
            }
        }
    }

    /// The progress, if the command is long.
    fn shown(&self) -> Option<&Progress> {
        let is_long = self.shown.get().is_some() || self.begun.elapsed() >= LONG;
        is_long.then(|| {
            self.shown.get_or_init(|| Progress::start(self.command, None).since(self.begun))
        })
    }
}
