//! Progress of a command that is often over at once.

use std::time::{Duration, Instant};

use terminal::progress::Progress;

/// Time after which a command is long enough to show its progress.
const LONG: Duration = Duration::from_secs(2);

/// Progress that is shown from the third second on.
pub(crate) struct LateProgress {
    command: &'static str,
    begun: Instant,
    shown: Option<Progress>,
}

impl LateProgress {
    /// Begins to wait.
    pub(crate) fn start(command: &'static str) -> LateProgress {
        LateProgress { command, begun: Instant::now(), shown: None }
    }

    /// Shows that `done` of `all` units are over, if the command is long.
    pub(crate) fn at(&mut self, done: u64, all: u64, stage: &str) {
        if self.shown.is_some() || self.begun.elapsed() >= LONG {
            let start = || Progress::start(self.command, None).since(self.begun);
            self.shown.get_or_insert_with(start).at(done, all, stage);
        }
    }

    /// Shows that a stage begins, if the command is long.
    pub(crate) fn stage(&self, name: &str) {
        if let Some(progress) = &self.shown {
            progress.stage(name);
        }
    }
}
