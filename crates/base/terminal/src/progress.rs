//! Progress on standard error: a bar on a terminal; elsewhere nothing, or a line from time to time.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two lines where there is no terminal.
const PAUSE: Duration = Duration::from_secs(15);

/// A bar on a terminal, elsewhere nothing.
pub fn bar(length: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style.progress_chars("=> "))
}

/// Steps of a long command, which any thread may report: a bar on a terminal, elsewhere a line from
/// time to time.
pub struct Steps {
    what: &'static str,
    bar: ProgressBar,
    told: Mutex<Option<Instant>>,
}

impl Steps {
    /// Steps of a command: what is counted, as in `keeptime-lab drive study: drives`, and the
    /// template of the bar.
    pub fn new(what: &'static str, template: &str) -> Steps {
        Steps { what, bar: bar(0, template), told: Mutex::new(None) }
    }

    /// Shows that `done` of `all` steps are done.
    pub fn at(&self, done: u64, all: u64, message: &str) {
        self.bar.set_length(all);
        self.bar.set_position(done);
        self.bar.set_message(message.to_owned());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|told| told.elapsed() >= PAUSE);
        if self.bar.is_hidden() && (due || done == all) {
            *told = Some(Instant::now());
            crate::tell!("{}: {done} of {all}, {message}", self.what);
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
