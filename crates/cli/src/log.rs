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

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;

/// Longest line in bytes. The kernel writes no more than 4096 to a pipe in one piece.
const MOST_BYTES: usize = 4000;
/// Longest time for which the end of the command waits for lines that are still to be written.
const PATIENCE: Duration = Duration::from_millis(500);

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
}

impl Log {
    /// Starts the log of this command, such as `keeptime serve`.
    pub(crate) fn start(command: &'static str) -> anyhow::Result<Log> {
        let (from, to) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("a pipe for the log")?;
        rustix::io::ioctl_fionbio(&to, true).context("a pipe for the log")?;
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        let (end, ended) = channel();
        std::thread::Builder::new().name("log".into()).spawn(move || {
            write_out(command, std::fs::File::from(from), &counted, &mut Stderr);
            let _ = end.send(());
        })?;
        Ok(Log { lines: Some(Lines { pipe: Arc::new(to), lost }), ended })
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
    /// Writes a line. Never blocks, and never fails: what finds no room is counted.
    pub(crate) fn say(&self, line: &str) {
        let mut clean = name::clean(line).into_owned();
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
fn write_out(command: &str, mut from: impl Read, lost: &AtomicU64, to: &mut impl Write) {
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
            owed = write_line(command, line, owed, to);
        }
        rest.drain(..=end);
    }
    let owed = owed + lost.swap(0, Ordering::Relaxed);
    if owed > 0 {
        let _ = writeln!(to, "{command}: {owed} messages before this were lost");
    }
}

/// Writes a line, and first how many were lost before it; returns how many are now.
fn write_line(command: &str, line: &[u8], owed: u64, to: &mut impl Write) -> u64 {
    let line = String::from_utf8_lossy(line);
    let mut text = String::new();
    if owed > 0 {
        text += &format!("{command}: {owed} messages before this were lost\n");
    }
    text += &format!("{command}: {line}\n");
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

    #[test]
    fn what_could_not_be_written_is_counted_and_said_later() {
        let mut to = Moody { moods: [true, false, false, true].into(), text: String::new() };
        let lost = AtomicU64::new(0);
        write_out("kt", &b"a\nb\nc\nd\ne\n"[..], &lost, &mut to);
        assert_eq!(to.text, "kt: a\nkt: 2 messages before this were lost\nkt: d\nkt: e\n");
        let mut to = Moody { moods: VecDeque::new(), text: String::new() };
        write_out("kt", &b"a\n"[..], &AtomicU64::new(7), &mut to);
        assert_eq!(to.text, "kt: 7 messages before this were lost\nkt: a\n");
    }

    #[test]
    fn lines_without_room_are_counted_and_nobody_waits() {
        let (_from, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        rustix::io::ioctl_fionbio(&to, true).unwrap();
        let lines = Lines { pipe: Arc::new(to), lost: Arc::default() };
        (0..10_000).for_each(|_| lines.say(&"ä".repeat(4000)));
        assert!(lines.lost.load(Ordering::Relaxed) > 9_000);
    }
}
