//! Progress of the measurement: a line that changes on a terminal, a new line now and then
//! elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The distance between lines where there is no terminal.
const PAUSE: Duration = Duration::from_secs(10);

pub struct Progress {
    bar: Option<ProgressBar>,
    turns: u64,
    turn: u64,
    said: Instant,
}

impl Progress {
    pub fn new(turns: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{elapsed} turn {pos} of {len}: {msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(turns).with_style(style);
            bar.enable_steady_tick(Duration::from_secs(1));
            bar
        });
        Progress { bar, turns, turn: 0, said: Instant::now() }
    }

    /// A turn begins.
    pub fn turn(&mut self, what: &str) {
        self.turn += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.turn);
            bar.set_message(what.to_owned());
        } else if self.said.elapsed() >= PAUSE {
            self.said = Instant::now();
            tell!("keeptime-lab bench transport: turn {} of {}: {what}", self.turn, self.turns);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
