//! The regulator's ordinary thread, on the cores that are not regulated: finds the threads that are
//! to be managed, keeps the lists in order, and asks the holders' control thread now and then
//! whether it lives.

use super::super::Shared;
use super::super::config::Managed;
use super::Rule;
use super::kept::{Kept, StateFile};
use super::roster::{Roster, Seen};
use crate::{Error, Hold};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval at which it looks for threads that are new or have moved, while cores are regulated.
const LOOK: Duration = Duration::from_millis(20);
/// While they are not.
const IDLE: Duration = Duration::from_millis(200);
/// Interval at which it asks the control thread.
const ASK: Duration = Duration::from_secs(1);
/// Unanswered questions until the lock counts as free.
const UNANSWERED: u32 = 2;

/// Attends until the regulator ends.
pub(crate) fn attend(
    shared: &Shared,
    roster: &Roster,
    rule: &mut dyn Rule,
    (socket, kept): (&Path, Option<StateFile>),
) {
    let mut kept = Kept::new(kept);
    let mut asked = Instant::now();
    let mut unanswered = 0;
    while !shared.is_ending() {
        roster.sweep(shared.is_busy());
        let seen = find(&shared.managed());
        roster.take_over(&seen, |seen| {
            // Without the file only a regulator that is killed leaves something behind.
            let _ = kept.keep(seen);
        });
        rule.attend(&roster.on_cores(&seen));
        if shared.is_busy() && asked.elapsed() >= ASK {
            unanswered = if answers(socket) { 0 } else { unanswered + 1 };
            shared.suspend(unanswered >= UNANSWERED);
            asked = Instant::now();
        } else if shared.is_suspended() {
            shared.suspend(!answers(socket));
        }
        std::thread::park_timeout(if shared.is_busy() { LOOK } else { IDLE });
    }
    roster.restore();
    kept.remove();
}

/// Returns true if the control thread answers a new holder; a refusal is an answer too.
fn answers(socket: &Path) -> bool {
    use rustix::io::Errno;
    let attached = Hold::attach(socket);
    !matches!(attached, Err(Error::NoRegulator { errno: Errno::TIMEDOUT | Errno::AGAIN, .. }))
}

/// All threads of these.
fn find(managed: &[Managed]) -> Vec<Seen> {
    let mut threads = Vec::new();
    let mut processes = HashSet::new();
    for who in managed {
        match who {
            Managed::Process(process) => descend(*process, &mut processes),
            Managed::Descendants(process) => {
                children(*process).into_iter().for_each(|child| descend(child, &mut processes));
            }
            Managed::Group(folder) => threads.extend(group(folder)),
        }
    }
    for process in processes {
        let of_process = numbers(&PathBuf::from(format!("/proc/{process}/task")));
        threads.extend(of_process.into_iter().map(|thread| (process, thread)));
    }
    let seen = |(process, thread)| {
        let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
        // The state is the first word behind the name, the processor the thirty-seventh.
        let core = stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()?;
        Some(Seen { thread, process, core })
    };
    let mut seen: Vec<_> = threads.into_iter().filter_map(seen).collect();
    seen.sort_by_key(|seen| seen.thread);
    seen.dedup_by_key(|seen| seen.thread);
    seen
}

/// A process and its descendants.
fn descend(process: i32, found: &mut HashSet<i32>) {
    if !found.insert(process) {
        return;
    }
    children(process).into_iter().for_each(|child| descend(child, found));
}

fn children(process: i32) -> Vec<i32> {
    let mut children = Vec::new();
    for thread in numbers(&PathBuf::from(format!("/proc/{process}/task"))) {
        let file = format!("/proc/{process}/task/{thread}/children");
        let text = fs::read_to_string(file).unwrap_or_default();
        children.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    children
}

/// The threads of a control group, with their processes.
fn group(folder: &Path) -> Vec<(i32, i32)> {
    // The name in the second version of control groups, then in the first.
    let list = ["cgroup.threads", "tasks"];
    let text = list.iter().find_map(|name| fs::read_to_string(folder.join(name)).ok());
    let text = text.unwrap_or_default();
    let process = |thread: i32| {
        let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        Some((line.trim().parse().ok()?, thread))
    };
    text.lines().filter_map(|line| process(line.parse().ok()?)).collect()
}

fn numbers(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_process_and_of_its_children_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id() as i32;
        let seen = find(&[Managed::Process(own)]);
        let below = find(&[Managed::Descendants(own)]);
        let id = child.id() as i32;
        child.kill().unwrap();
        child.wait().unwrap();
        let me = realtime::thread::id() as i32;
        assert!(seen.iter().any(|seen| (seen.process, seen.thread) == (own, me)));
        assert!(seen.iter().any(|seen| seen.process == id), "{seen:?}");
        assert!(below.iter().any(|seen| seen.process == id));
        assert!(below.iter().all(|seen| seen.process != own), "{below:?}");
        let threads: HashSet<_> = seen.iter().map(|seen| seen.thread).collect();
        assert_eq!(threads.len(), seen.len());
        assert!(find(&[Managed::Process(i32::MAX)]).is_empty());
    }
}
