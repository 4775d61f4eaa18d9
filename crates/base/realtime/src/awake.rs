//! Keeps cores from idling.
//!
//! A core that idles sleeps, ever deeper, and in a virtual machine it goes back to the host: waking
//! up takes tens of microseconds then. A thread that runs only when no other thread wants the core
//! prevents that. It gives way to every other thread at once.

use crate::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Idle rounds between two checks for the end.
const ROUNDS: u32 = 1000;

/// Starts a thread on each of these cores, until `stop` is set. Without a core, or without the
/// policy, there is none on it: what it says is for people.
///
/// # Errors
/// The operating system makes no thread.
pub fn keep(mut cores: Vec<usize>, stop: &Arc<AtomicBool>) -> std::io::Result<Vec<JoinHandle<()>>> {
    cores.sort_unstable();
    cores.dedup();
    let start = |core: usize| {
        let stop = stop.clone();
        std::thread::Builder::new().name("kt-awake".into()).spawn(move || {
            // With another policy it would take the core from those that need it.
            if thread::pin(&[core]).is_ok() && thread::set_idle().is_ok() {
                // Relaxed: nothing else is read because of it.
                while !stop.load(Ordering::Relaxed) {
                    (0..ROUNDS).for_each(|_| std::hint::spin_loop());
                }
            }
        })
    };
    cores.into_iter().map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::{Duration, Instant};

    const IDLE: &str = "5";
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The kernel's data about a thread.
    #[derive(Debug, PartialEq, Eq)]
    struct Seen {
        policy: String,
        /// Cores on which it may run, and the core on which it is.
        allowed: String,
        core: String,
        ran_ns: u64,
    }

    fn look(task: &Path) -> Option<Seen> {
        let read = |name: &str| std::fs::read_to_string(task.join(name)).ok();
        if read("comm")?.trim() != "kt-awake" {
            return None;
        }
        let (stat, status) = (read("stat")?, read("status")?);
        let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(Seen {
            policy: words[38].into(),
            allowed: allowed.trim().into(),
            core: words[36].into(),
            ran_ns: read("schedstat")?.split_whitespace().next()?.parse().ok()?,
        })
    }

    /// The threads of this process that keep cores awake.
    fn threads() -> BTreeMap<String, Seen> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let seen = tasks.filter_map(|task| look(&task.path()));
        seen.map(|seen| (seen.allowed.clone(), seen)).collect()
    }

    #[test]
    fn each_core_has_a_thread_that_runs_there_only_when_nobody_else_does() {
        let cores = thread::cores();
        let stop = Arc::new(AtomicBool::new(false));
        // Each twice, and one that is not there.
        let twice = cores.iter().chain(&cores).copied().chain([1_000_000]).collect();
        let kept = keep(twice, &stop).unwrap();
        assert_eq!(kept.len(), cores.len() + 1);
        let began = Instant::now();
        let until = |holds: &dyn Fn(&BTreeMap<String, Seen>) -> bool| {
            loop {
                let seen = threads();
                if holds(&seen) {
                    return;
                }
                assert!(began.elapsed() < PATIENCE, "{seen:?}");
                std::thread::yield_now();
            }
        };
        let is_kept = |seen: &BTreeMap<String, Seen>, core: &usize| {
            let name = core.to_string();
            seen.get(&name).is_some_and(|seen| {
                (seen.policy.as_str(), &seen.core) == (IDLE, &name) && seen.ran_ns > 1_000_000
            })
        };
        // On a busy core it gets little, but some.
        until(&|seen| cores.iter().all(|core| is_kept(seen, core)));
        // The thread whose core is not there ends; until then it is listed with every core.
        until(&|seen| seen.len() == cores.len());
        stop.store(true, Ordering::Relaxed);
        kept.into_iter().for_each(|thread| thread.join().unwrap());
        // The kernel lists a thread for a moment after it was joined.
        until(&BTreeMap::is_empty);
    }
}
