//! Progress on standard error: one line that changes on a terminal, elsewhere a line every ten
//! seconds.

use std::io::{IsTerminal, Write};

use realtime::clock::monotonic_ns;

/// Time between two lines where there is no terminal.
const PACE_S: u64 = 10;

/// Shows what is going on.
pub(crate) struct Progress {
    command: &'static str,
    terminal: bool,
    shown: Option<u64>,
}

impl Progress {
    /// Progress of this subcommand; shows nothing yet.
    pub(crate) fn new(command: &'static str) -> Progress {
        Progress { command, terminal: std::io::stderr().is_terminal(), shown: None }
    }

    /// Something begins that takes no time worth counting.
    pub(crate) fn begin(&mut self, what: &str) {
        self.shown = None;
        self.show(what);
    }

    /// Something goes on until this time of the monotonic clock; afterwards it only has to end what
    /// it began.
    pub(crate) fn left(&mut self, what: &str, until_ns: u64) {
        let seconds = until_ns.saturating_sub(monotonic_ns()).div_ceil(1_000_000_000);
        let due = match self.shown {
            None => true,
            Some(shown) if self.terminal => shown != seconds,
            Some(shown) => seconds == 0 && shown > 0 || shown.saturating_sub(seconds) >= PACE_S,
        };
        if due {
            self.shown = Some(seconds);
            match seconds {
                0 => self.show(&format!("{what}: ending")),
                _ => self.show(&format!("{what}: {seconds} s left")),
            }
        }
    }

    fn show(&self, text: &str) {
        let (mut out, command) = (std::io::stderr().lock(), self.command);
        // Without a reader of standard error the run goes on.
        let _ = match self.terminal {
            true => write!(out, "\r\x1b[Kkeeptime {command}: {text}").and_then(|()| out.flush()),
            false => writeln!(out, "keeptime-lab {command}: {text}"),
        };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
