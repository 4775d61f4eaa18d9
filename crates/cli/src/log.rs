//! The log of a command that runs for long: lines on standard error.
//!
//! A writer of a line hands it to a thread by a pipe that never blocks. The thread alone waits
//! for the reader of standard error; so a reader that stopped, a full disk or a closed terminal
//! holds up no writer and ends nothing. What found no room in the pipe or was refused by standard
//! error is counted, and the count is the first thing that is said when there is a way again.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ::log::{Level, LevelFilter};
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;

/// Longest line in bytes. The kernel writes no more than 4096 to a pipe in one piece.
const MOST_BYTES: usize = 4000;
/// Longest time for which the end of the command waits for lines that are still to be written.
const PATIENCE: Duration = Duration::from_millis(500);

/// Levels of messages, as `--log-level` names them.
#[derive(clap::Args)]
pub(crate) struct LogArgs {
    /// Least severe messages that are written: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = level)]
    log_level: LevelFilter,
}

fn level(name: &str) -> Result<LevelFilter, String> {
    match name {
        "error" => Ok(LevelFilter::Error),
        "warn" => Ok(LevelFilter::Warn),
        "info" => Ok(LevelFilter::Info),
        "debug" => Ok(LevelFilter::Debug),
        _ => Err("expected error, warn, info or debug".into()),
    }
}

/// Message of a command whose memory could not be locked.
pub(crate) fn unlocked(error: &realtime::Error) -> String {
    format!(
        "memory is not locked, so that a thread may wait for a page that was swapped out: {error}"
    )
}

/// The log. Dropping it waits a moment for what is still to be written.
pub(crate) struct Log {
    lines: Option<Lines>,
    ended: Receiver<()>,
}

/// A way to the log, for any thread.
#[derive(Clone)]
pub(crate) struct Lines {
    pipe: Arc<OwnedFd>,
    lost: Arc<AtomicU64>,
    most: LevelFilter,
}

impl Log {
    /// Starts the log of this command, such as `keeptime serve`.
    pub(crate) fn start(command: &'static str, args: &LogArgs) -> anyhow::Result<Log> {
        let (from, to) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("a pipe for the log")?;
        rustix::io::ioctl_fionbio(&to, true).context("a pipe for the log")?;
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        let (end, ended) = channel();
        let form = Form { command, journal: stderr_is_the_journal() };
        std::thread::Builder::new().name("log".into()).spawn(move || {
            write_out(&form, std::fs::File::from(from), &counted, &mut Stderr);
            let _ = end.send(());
        })?;
        let most = args.log_level;
        Ok(Log { lines: Some(Lines { pipe: Arc::new(to), lost, most }), ended })
    }

    /// A way to the log.
    pub(crate) fn lines(&self) -> Lines {
        self.lines.clone().expect("taken by the drop alone")
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.lines.take();
        // If a writer still has a way to it, or the reader stopped, the rest is not waited for.
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

impl Lines {
    /// Writes a line if its level is asked for. Never blocks, and never fails: what finds no room
    /// is counted.
    pub(crate) fn say(&self, level: Level, line: &str) {
        if level > self.most {
            return;
        }
        let mut clean = format!("{}{}", digit(level), name::clean(line));
        if clean.len() > MOST_BYTES {
            let cut = (0..=MOST_BYTES).rev().find(|at| clean.is_char_boundary(*at));
            clean.truncate(cut.unwrap_or(0));
        }
        clean.push('\n');
        if rustix::io::write(&self.pipe, clean.as_bytes()).is_err() {
            // Relaxed: a number for people.
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The first character of a line in the pipe: its priority for syslog (RFC 5424, table 2).
fn digit(level: Level) -> char {
    match level {
        Level::Error => '3',
        Level::Warn => '4',
        Level::Info => '6',
        Level::Debug | Level::Trace => '7',
    }
}

/// Returns true if standard error leads to the journal of systemd, which takes a line's priority
/// from its begin, as in `<4>`: sd-daemon(3), and `$JOURNAL_STREAM` in systemd.exec(5).
fn stderr_is_the_journal() -> bool {
    let Ok(stat) = rustix::fs::fstat(std::io::stderr()) else { return false };
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    stream == format!("{}:{}", stat.st_dev, stat.st_ino)
}

/// Form of the lines.
struct Form {
    command: &'static str,
    /// True if a line begins with its priority.
    journal: bool,
}

impl Form {
    /// A line for a reader, from one of the pipe.
    fn line(&self, line: &str) -> String {
        let (priority, text) = line.split_at_checked(1).unwrap_or(("6", line));
        let begin = if self.journal { format!("<{priority}>") } else { String::new() };
        let label = match priority {
            "3" => "error: ",
            "4" => "warning: ",
            _ => "",
        };
        format!("{begin}{}: {label}{text}\n", self.command)
    }

    fn owed(&self, owed: u64) -> String {
        self.line(&format!("4{owed} messages before this were lost"))
    }
}

/// Standard error, which waits where it was told not to.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            match std::io::stderr().write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let stderr = std::io::stderr();
                    poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None)?;
                }
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The thread: writes lines until no writer has a way to the log any more.
fn write_out(form: &Form, mut from: impl Read, lost: &AtomicU64, to: &mut impl Write) {
    let mut chunk = vec![0; 1 << 16];
    let mut rest = Vec::new();
    let mut owed = 0;
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        rest.extend_from_slice(&chunk[..read]);
        let Some(end) = rest.iter().rposition(|&byte| byte == b'\n') else { continue };
        for line in rest[..end].split(|&byte| byte == b'\n') {
            owed += lost.swap(0, Ordering::Relaxed);
            owed = write_line(form, line, owed, to);
        }
        rest.drain(..=end);
    }
    let owed = owed + lost.swap(0, Ordering::Relaxed);
    if owed > 0 {
        let _ = to.write_all(form.owed(owed).as_bytes());
    }
}

/// Writes a line, and first how many were lost before it; returns how many are now.
fn write_line(form: &Form, line: &[u8], owed: u64, to: &mut impl Write) -> u64 {
    let line = String::from_utf8_lossy(line);
    let mut text = String::new();
    if owed > 0 {
        text += &form.owed(owed);
    }
    text += &form.line(&line);
    match to.write_all(text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => owed + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::io::Error;

    /// Takes what it is told to take, and refuses the rest.
    struct Moody {
        moods: VecDeque<bool>,
        text: String,
    }

    impl Write for Moody {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if !self.moods.pop_front().unwrap_or(true) {
                return Err(Error::from(ErrorKind::StorageFull));
            }
            self.text += std::str::from_utf8(bytes).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const PLAIN: Form = Form { command: "kt", journal: false };

    #[test]
    fn what_could_not_be_written_is_counted_and_said_later() {
        let mut to = Moody { moods: [true, false, false, true].into(), text: String::new() };
        let lost = AtomicU64::new(0);
        write_out(&PLAIN, &b"6a\n6b\n6c\n6d\n6e\n"[..], &lost, &mut to);
        let owed = "kt: warning: 2 messages before this were lost\n";
        assert_eq!(to.text, format!("kt: a\n{owed}kt: d\nkt: e\n"));
        let mut to = Moody { moods: VecDeque::new(), text: String::new() };
        write_out(&PLAIN, &b"3a\n"[..], &AtomicU64::new(7), &mut to);
        let owed = "kt: warning: 7 messages before this were lost\n";
        assert_eq!(to.text, format!("{owed}kt: error: a\n"));
    }

    #[test]
    fn journal_gets_the_priority_of_each_line() {
        let mut to = Moody { moods: VecDeque::new(), text: String::new() };
        let journal = Form { command: "kt", journal: true };
        write_out(&journal, "4a\n7\u{e4}\n".as_bytes(), &AtomicU64::new(0), &mut to);
        assert_eq!(to.text, "<4>kt: warning: a\n<7>kt: \u{e4}\n");
    }

    #[test]
    fn lines_without_room_are_counted_and_nobody_waits() {
        let (_from, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        rustix::io::ioctl_fionbio(&to, true).unwrap();
        let (pipe, most) = (Arc::new(to), LevelFilter::Info);
        let lines = Lines { pipe, lost: Arc::default(), most };
        (0..10_000).for_each(|_| lines.say(Level::Info, &"ä".repeat(4000)));
        let lost = lines.lost.load(Ordering::Relaxed);
        assert!(lost > 9_000);
        (0..10_000).for_each(|_| lines.say(Level::Debug, "left out"));
        assert_eq!(lines.lost.load(Ordering::Relaxed), lost);
    }
}
