//! What managed threads had before, in a file, for the case that the regulator is killed: then
//! nobody gives it back to them, and the next regulator at the same socket does.
//!
//! ```text
//!   keeptime regulate 1
//!   TID STARTTIME POLICY NICE FLAGS      one line for each thread; start time in clock ticks
//! ```
//!
//! Beside the socket, for its owner only. A line counts if its thread has the start time that
//! stands there and is under a policy of ours, `SCHED_IDLE` or `SCHED_EXT`; any other is left alone.

use super::policy::{SCHED_EXT, Scheduling};
use super::roster::Seen;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const HEAD: &str = "keeptime regulate 1";

/// The file, and what stands in it.
pub struct Kept {
    file: PathBuf,
    /// The start time of each thread, and what it had.
    threads: HashMap<i32, (u64, Scheduling)>,
}

impl Kept {
    /// Nothing is written yet.
    pub fn new(file: PathBuf) -> Kept {
        Kept { file, threads: HashMap::new() }
    }

    /// Writes the file anew. Threads that are not ordinary are left out, as nothing is done to them,
    /// except those that were: what they had before stands there already.
    pub fn keep(&mut self, seen: &[Seen]) -> io::Result<()> {
        let threads = seen.iter().filter_map(|seen| Some((seen.thread, self.before(seen.thread)?)));
        self.threads = threads.collect();
        let mut text = format!("{HEAD}\n");
        for (thread, (start, before)) in &self.threads {
            let (policy, nice, flags) = (before.policy(), before.nice(), before.flags());
            text += &format!("{thread} {start} {policy} {nice} {flags}\n");
        }
        // Whoever reads it finds the old one or the new one.
        let new = self.file.with_extension("new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&new)?.write_all(text.as_bytes())?;
        fs::rename(new, &self.file)
    }

    /// Removes the file: nobody is set back any more.
    pub fn remove(self) {
        // It may never have been written.
        let _ = fs::remove_file(self.file);
    }

    /// When a thread began, and what it had before anything was done to it.
    fn before(&self, thread: i32) -> Option<(u64, Scheduling)> {
        let start = start_time(thread)?;
        let now = Scheduling::of(thread).ok()?;
        let known = self.threads.get(&thread).filter(|(since, _)| *since == start);
        if now.is_shared() { Some((start, now)) } else { known.copied() }
    }
}

/// Gives the threads in the file back what they had, and removes it. Returns how many did not have
/// it.
pub fn restore_after_crash(file: &Path) -> usize {
    let Ok(text) = fs::read_to_string(file) else { return 0 };
    let mut lines = text.lines();
    let lines = if lines.next() == Some(HEAD) { lines } else { "".lines() };
    let mut restored = 0;
    for (thread, start, before) in lines.filter_map(parse) {
        let ours = [libc::SCHED_IDLE, SCHED_EXT];
        let is_ours = Scheduling::of(thread).is_ok_and(|now| ours.contains(&now.policy()));
        if is_ours && start_time(thread) == Some(start) && before.give(thread).is_ok() {
            restored += 1;
        }
    }
    let _ = fs::remove_file(file);
    restored
}

fn parse(line: &str) -> Option<(i32, u64, Scheduling)> {
    let mut words = line.split(' ');
    let thread = words.next()?.parse().ok().filter(|thread| *thread > 0)?;
    let start = words.next()?.parse().ok()?;
    let policy = words.next()?.parse().ok()?;
    let nice = words.next()?.parse().ok()?;
    let flags = words.next()?.parse().ok()?;
    let before = Scheduling::ordinary(policy, nice, flags);
    (words.next().is_none() && before.is_shared()).then_some((thread, start, before))
}

/// When a thread began, in clock ticks since the machine started.
fn start_time(thread: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("keeptime-kept-{name}-{}", std::process::id()))
    }

    fn own() -> Seen {
        let thread = realtime::thread::id() as i32;
        Seen { thread, process: std::process::id() as i32, core: 0 }
    }

    #[test]
    fn thread_that_was_left_behind_gets_back_what_it_had() {
        std::thread::spawn(|| {
            let file = file("left");
            realtime::thread::set_nice(3).unwrap();
            Kept::new(file.clone()).keep(&[own()]).unwrap();
            let before = Scheduling::of(0).unwrap();
            before.idle().give(0).unwrap();
            assert_eq!(restore_after_crash(&file), 1);
            let now = Scheduling::of(0).unwrap();
            assert_eq!((now.policy(), now.nice()), (libc::SCHED_OTHER, 3));
            assert!(!file.exists());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn thread_that_is_set_back_stays_in_the_file_when_another_one_is_found() {
        std::thread::spawn(|| {
            let file = file("again");
            let mut kept = Kept::new(file.clone());
            kept.keep(&[own()]).unwrap();
            Scheduling::of(0).unwrap().idle().give(0).unwrap();
            kept.keep(&[own()]).unwrap();
            assert_eq!(restore_after_crash(&file), 1);
            assert_eq!(Scheduling::of(0).unwrap().policy(), libc::SCHED_OTHER);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn other_thread_with_the_same_number_and_nonsense_are_left_alone() {
        std::thread::spawn(|| {
            let (file, thread) = (file("other"), realtime::thread::id());
            let before = Scheduling::of(0).unwrap();
            before.idle().give(0).unwrap();
            let start = start_time(thread as i32).unwrap();
            for line in [
                format!("{thread} {} 0 0 0", start + 1),
                format!("{thread} {start} 1 0 0"),
                format!("{thread} {start} 0 0 0 0"),
                format!("-1 {start} 0 0 0"),
                "x".into(),
            ] {
                fs::write(&file, format!("{HEAD}\n{line}\n")).unwrap();
                assert_eq!(restore_after_crash(&file), 0, "{line}");
            }
            fs::write(&file, format!("another file\n{thread} {start} 0 0 0\n")).unwrap();
            assert_eq!(restore_after_crash(&file), 0);
            assert_eq!(Scheduling::of(0).unwrap().policy(), libc::SCHED_IDLE);
        })
        .join()
        .unwrap();
    }
}
