//! Progress of a long command on standard error: a line that changes on a terminal; elsewhere a line
//! at each stage, and one every ten seconds.
//!
//! A [`Progress`] says at its start how long the command will take, if that is known; otherwise as
//! soon as the first units are over. A thread of its own shows the lines that are due, so that a
//! unit may take as long as it likes.

use std::fmt::Arguments;
use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two lines where there is no terminal.
const PAUSE: Duration = Duration::from_secs(10);
/// Time between two changes of the line on a terminal.
const REFRESH: Duration = Duration::from_secs(1);
/// Length of a bar whose units are not counted.
const WHOLE: u64 = 1000;

/// A bar on a terminal, elsewhere nothing.
pub fn bar(length: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style.progress_chars("=> "))
}

/// Progress of a command, which any thread may report.
pub struct Progress {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    command: &'static str,
    bar: ProgressBar,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    began: Instant,
    /// Time that the whole command takes.
    planned: Option<Duration>,
    /// True after the time was said that the command takes.
    is_estimated: bool,
    stage: String,
    units: Option<(u64, u64)>,
    told: Instant,
    is_over: bool,
}

impl Progress {
    /// Begins to show the progress of a command, as in `keeptime-lab chains`, and says how long it
    /// takes, if that is known.
    pub fn start(command: &'static str, planned: Option<Duration>) -> Progress {
        let now = Instant::now();
        let state = State {
            began: now,
            planned,
            is_estimated: planned.is_some(),
            stage: String::new(),
            units: None,
            told: now,
            is_over: false,
        };
        let shared = Arc::new(Shared {
            command,
            bar: bar(WHOLE, "[{bar:24}] {wide_msg}"),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        if let Some(planned) = planned {
            shared.estimate(planned);
        }
        let ticker = {
            let shared = shared.clone();
            let named = std::thread::Builder::new().name("kt-progress".into());
            // Without a thread there are lines at each stage only.
            named.spawn(move || shared.tick()).ok()
        };
        Progress { shared, ticker }
    }

    /// The same of a command that began earlier, which its estimates count from.
    pub fn since(self, began: Instant) -> Progress {
        self.shared.state().began = began;
        self
    }

    /// Shows that a stage begins, which is named.
    pub fn stage(&self, name: &str) {
        let mut state = self.shared.state();
        name.clone_into(&mut state.stage);
        self.shared.show(&mut state);
    }

    /// Shows that `done` of `all` units are over, and the unit that goes on.
    pub fn at(&self, done: u64, all: u64, stage: &str) {
        let mut state = self.shared.state();
        let is_first = state.units.is_none();
        stage.clone_into(&mut state.stage);
        state.units = Some((done, all));
        let elapsed = state.began.elapsed();
        if !state.is_estimated && done > 0 && elapsed >= REFRESH {
            state.is_estimated = true;
            let whole = elapsed.as_secs_f64() * all as f64 / done as f64;
            if done < all {
                self.shared.estimate(Duration::from_secs_f64(whole));
            }
        }
        let is_due = state.told.elapsed() >= PAUSE || !self.shared.bar.is_hidden();
        if is_first || is_due || done == all {
            self.shared.show(&mut state);
        }
    }

    /// Names the stage that goes on, which the next line that is due shows.
    pub fn change(&self, name: &str) {
        name.clone_into(&mut self.shared.state().stage);
    }

    /// Writes a message beside the progress.
    pub fn tell(&self, message: Arguments<'_>) {
        self.shared.tell(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        if let Some(ticker) = self.ticker.take() {
            // A thread that panicked shows nothing more, which is what is wanted here.
            let _ = ticker.join();
        }
        self.shared.bar.finish_and_clear();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the lines that are due, until the end.
    fn tick(&self) {
        let pause = if self.bar.is_hidden() { PAUSE } else { REFRESH };
        let mut state = self.state();
        while !state.is_over {
            let left = pause.saturating_sub(state.told.elapsed());
            if left.is_zero() {
                self.show(&mut state);
                continue;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn show(&self, state: &mut State) {
        state.told = Instant::now();
        let line = state.line();
        match self.bar.is_hidden() {
            true => self.tell(format_args!("{line}")),
            false => {
                self.bar.set_position((state.share() * WHOLE as f64) as u64);
                self.bar.set_message(line);
            }
        }
    }

    fn estimate(&self, whole: Duration) {
        self.tell(format_args!("takes about {}", words(whole)));
    }

    fn tell(&self, message: Arguments<'_>) {
        self.bar.suspend(|| crate::tell!("{}: {message}", self.command));
    }
}

impl State {
    /// The stage, the units that are over, and the time that is left.
    fn line(&self) -> String {
        let units = self.units.map(|(done, all)| format!("{done} of {all}"));
        let left = self.left().map(|left| match left.as_secs() {
            0 => "ending".to_owned(),
            _ => format!("{} left", words(left)),
        });
        let stage = Some(self.stage.clone()).filter(|stage| !stage.is_empty());
        let parts: Vec<String> = units.into_iter().chain(stage).chain(left).collect();
        parts.join(", ")
    }

    /// Time until the end, by the plan, or by the units that are over.
    fn left(&self) -> Option<Duration> {
        let elapsed = self.began.elapsed();
        match (self.planned, self.units) {
            (Some(planned), _) => Some(planned.saturating_sub(elapsed)),
            (None, Some((done @ 1.., all))) if elapsed >= REFRESH && done < all => {
                Some(elapsed.mul_f64((all - done) as f64 / done as f64))
            }
            _ => None,
        }
    }

    /// Share of the command that is over.
    fn share(&self) -> f64 {
        match (self.planned, self.units) {
            (Some(planned), _) if !planned.is_zero() => {
                (self.began.elapsed().as_secs_f64() / planned.as_secs_f64()).min(1.0)
            }
            (None, Some((done, all @ 1..))) => done as f64 / all as f64,
            _ => 0.0,
        }
    }
}

/// A duration in whole seconds, upwards, as in `3m 5s`.
fn words(duration: Duration) -> String {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(planned: Option<u64>, units: Option<(u64, u64)>, elapsed: u64) -> State {
        let began = Instant::now().checked_sub(Duration::from_secs(elapsed)).unwrap();
        State {
            began,
            planned: planned.map(Duration::from_secs),
            is_estimated: false,
            stage: "fifo".to_owned(),
            units,
            told: began,
            is_over: false,
        }
    }

    #[test]
    fn line_has_the_units_the_stage_and_the_time_that_is_left() {
        assert_eq!(state(None, None, 5).line(), "fifo");
        assert_eq!(state(Some(3605), Some((1, 3)), 5).line(), "1 of 3, fifo, 1h left");
        assert_eq!(state(Some(5), Some((2, 3)), 5).line(), "2 of 3, fifo, ending");
        // A third of the units took 20 s; rounded upwards.
        assert_eq!(state(None, Some((1, 3)), 20).line(), "1 of 3, fifo, 41s left");
        assert_eq!(state(None, Some((0, 3)), 20).line(), "0 of 3, fifo");
        assert_eq!(state(None, Some((3, 3)), 20).line(), "3 of 3, fifo");
    }

    #[test]
    fn bar_is_as_long_as_the_share_that_is_over() {
        assert!((state(Some(40), None, 10).share() - 0.25).abs() < 0.01);
        assert!((state(Some(4), None, 10).share() - 1.0).abs() < 0.01);
        assert!((state(None, Some((1, 4)), 10).share() - 0.25).abs() < 0.01);
    }
}
