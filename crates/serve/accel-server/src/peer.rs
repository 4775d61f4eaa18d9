//! Cores and priorities that the kernel gives to the process at the other end of a session.

use rustix::process::Pid;
use rustix::thread::sched_getaffinity;
use std::fmt;

/// Threads of one process that are looked at.
const MAX_THREADS: usize = 64;
/// Cores that are looked at.
const MAX_CORES: usize = 1024;

/// Cores and priority that the kernel gives to a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placement {
    cores: Vec<usize>,
    /// `SCHED_FIFO` priority; None for another policy.
    fifo: Option<u32>,
}

impl Placement {
    fn of(thread: Pid) -> Option<Placement> {
        let set = sched_getaffinity(Some(thread)).ok()?;
        let cores = (0..MAX_CORES).filter(|&core| set.is_set(core)).collect();
        let tid = thread.as_raw_nonzero().get();
        // SAFETY: takes a number, touches no memory.
        let policy = unsafe { libc::sched_getscheduler(tid) };
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: writes one structure, for which there is room.
        let read = unsafe { libc::sched_getparam(tid, &raw mut param) };
        if policy < 0 || read < 0 {
            return None;
        }
        // A bit of the policy says that children do not inherit it.
        const RESET_ON_FORK: i32 = 0x4000_0000;
        let fifo = policy & !RESET_ON_FORK == libc::SCHED_FIFO;
        let priority = u32::try_from(param.sched_priority).ok();
        Some(Placement { cores, fifo: priority.filter(|_| fifo) })
    }

    fn is(&self, core: u32, priority: u32) -> bool {
        self.cores == [core as usize] && self.fifo.unwrap_or(0) == priority
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cores[..] {
            [core] => write!(f, "core {core}")?,
            _ => write!(f, "{} cores", self.cores.len())?,
        }
        match self.fifo {
            Some(priority) => write!(f, " at priority {priority}"),
            None => write!(f, " at normal priority"),
        }
    }
}

/// Returns true if a process may run a thread at this `SCHED_FIFO` priority, according to the
/// kernel: because it has the capability or the limit for it, or runs one already. True also if the
/// kernel does not tell.
pub(crate) fn may_run_at(pid: i32, priority: u32) -> bool {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let (Some(status), Some(limits)) = (read("status"), read("limits")) else { return true };
    priority == 0
        || has_nice_capability(&status)
        || realtime_limit(&limits) >= priority
        || placements(pid).iter().any(|placement| placement.fifo >= Some(priority))
}

/// CAP_SYS_NICE in the text of `/proc/PID/status`.
fn has_nice_capability(status: &str) -> bool {
    const SYS_NICE: u32 = 23;
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits >> SYS_NICE & 1 == 1)
}

/// The hard limit of real-time priorities in the text of `/proc/PID/limits`.
fn realtime_limit(limits: &str) -> u32 {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime priority"));
    match line.and_then(|line| line.split_ascii_whitespace().nth(1)) {
        Some("unlimited") => u32::MAX,
        hard => hard.and_then(|hard| hard.parse().ok()).unwrap_or(0),
    }
}

/// Returns the cores and priorities of the threads of a process, as far as the kernel tells.
fn placements(pid: i32) -> Vec<Placement> {
    let Ok(folder) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let names = folder.flatten().take(MAX_THREADS).map(|entry| entry.file_name());
    let threads = names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?));
    threads.filter_map(Placement::of).collect()
}

/// Describes the contradiction between the kernel and a client that declares this core and
/// priority; None if one of the process' threads is as declared, or if the kernel does not tell.
///
/// A session is one thread, but only the process is known that connected: so any of its threads
/// may be the one. A client may also register first and take its priority later.
pub(crate) fn contradiction(pid: i32, core: u32, priority: u32) -> Option<String> {
    let placements = placements(pid);
    if placements.iter().any(|placement| placement.is(core, priority)) {
        return None;
    }
    let first = placements.first()?;
    let others = match placements.len() {
        1 => String::new(),
        count => format!(", and none of its {count} threads is as declared"),
    };
    Some(format!("declares core {core} at priority {priority}, runs on {first}{others}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_to_a_priority_is_read_from_what_the_kernel_writes() {
        let limits = |soft: &str, hard: &str| {
            let heading =
                "Limit                     Soft Limit           Hard Limit           Units";
            format!("{heading}\nMax realtime priority     {soft}                    {hard}      \n")
        };
        assert_eq!(realtime_limit(&limits("0", "0")), 0);
        assert_eq!(realtime_limit(&limits("0", "95")), 95, "it may raise the soft one");
        assert_eq!(realtime_limit(&limits("0", "unlimited")), u32::MAX);
        assert_eq!(realtime_limit("nothing"), 0);
        assert!(has_nice_capability("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!has_nice_capability("Name:\tx\nCapEff:\t000001ffff7fffff\n"));
        assert!(may_run_at(std::process::id() as i32, 0));
        assert!(may_run_at(i32::MAX, 99), "no such process");
    }

    #[test]
    fn own_thread_is_found_where_it_is() {
        let pid = std::process::id() as i32;
        let core = realtime::thread::cores()[0];
        std::thread::scope(|scope| {
            let pinned = scope.spawn(move || {
                realtime::thread::pin(&[core]).unwrap();
                contradiction(pid, core as u32, 0)
            });
            assert_eq!(pinned.join().unwrap(), None);
        });
        let said = contradiction(pid, 1000, 77).unwrap();
        assert!(said.starts_with("declares core 1000 at priority 77, runs on "), "{said}");
        assert_eq!(contradiction(i32::MAX, 0, 0), None, "no such process");
    }
}
