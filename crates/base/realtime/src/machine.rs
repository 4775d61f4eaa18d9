//! Facts about the machine, and about disturbances of threads that should run on time.
//!
//! Everything is read from `/proc` and `/sys`; what is not there reads as `None`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::clock::monotonic_ns;

/// Share of each period for which the kernel lets real-time threads run.
///
/// There are two mechanisms, and a kernel can have both. Throttling stops all real-time threads of
/// a core for the rest of the period, whether or not another thread wants it. The fair server runs
/// ordinary threads ahead of real-time ones, and only if they have starved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtLimits {
    /// The period of `/proc/sys/kernel/sched_rt_period_us`.
    pub period_us: i64,
    /// The share of it for real-time threads, of `sched_rt_runtime_us`; -1 is no limit.
    pub runtime_us: i64,
    /// True if this kernel throttles by that share: since Linux 6.12 only kernels with real-time
    /// group scheduling do, the others use it for the admission of deadline threads alone.
    pub throttles: bool,
    /// The fair server of the core that reserves the most; `None` before Linux 6.12.
    pub fair_server: Option<FairServer>,
}

/// The deadline server that keeps ordinary threads from starving (Linux 6.12 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairServer {
    /// Time for ordinary threads in each period; 0 is off.
    pub runtime_ns: u64,
    /// The period.
    pub period_ns: u64,
    /// True if debugfs could not be read and these are the kernel's defaults.
    pub assumed: bool,
}

impl RtLimits {
    /// Returns the time that the kernel may keep from real-time threads that fill a core, as
    /// nanoseconds of each period, which comes second. Throttling and the fair server look the same
    /// to them.
    pub fn kept_back(&self) -> Option<(u64, u64)> {
        let throttled = self.throttles.then(|| {
            let ns = |us: i64| u64::try_from(us).unwrap_or(0) * 1000;
            (ns(self.period_us - self.runtime_us), ns(self.period_us))
        });
        let served = self.fair_server.as_ref().map(|server| (server.runtime_ns, server.period_ns));
        let share = |(held_ns, period_ns): (u64, u64)| held_ns as f64 / period_ns.max(1) as f64;
        let all = throttled.into_iter().chain(served).filter(|(held_ns, _)| *held_ns > 0);
        all.max_by(|a, b| share(*a).total_cmp(&share(*b)))
    }
}

/// The real-time limits of the running kernel.
pub fn rt_limits() -> RtLimits {
    let servers = at_least(&kernel_release(), (6, 12));
    let runtime_us = number("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or(-1);
    RtLimits {
        period_us: number("/proc/sys/kernel/sched_rt_period_us").unwrap_or(1_000_000),
        runtime_us,
        throttles: runtime_us >= 0 && (!servers || cgroup_rt_budget().is_some()),
        fair_server: servers.then(|| {
            fair_server(Path::new("/sys/kernel/debug/sched/fair_server")).unwrap_or(FairServer {
                runtime_ns: 50_000_000,
                period_ns: 1_000_000_000,
                assumed: true,
            })
        }),
    }
}

fn fair_server(folder: &Path) -> Option<FairServer> {
    let read = |core: &Path| {
        let runtime_ns = number(core.join("runtime"))?;
        let period_ns = number(core.join("period"))?;
        Some(FairServer { runtime_ns, period_ns, assumed: false })
    };
    fs::read_dir(folder)
        .ok()?
        .filter_map(|core| read(&core.ok()?.path()))
        .max_by_key(|server| server.runtime_ns)
}

/// Returns true if a kernel release, such as `6.18.44-rt1`, is `wanted` or later.
fn at_least(release: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= wanted,
        _ => false,
    }
}

/// The real-time budget of a control group (version 1, kernels with `RT_GROUP_SCHED`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupRtBudget {
    /// The file that holds the budget.
    pub file: PathBuf,
    /// Microseconds of each period; 0 refuses every real-time thread, -1 is no limit.
    pub runtime_us: i64,
    /// The period.
    pub period_us: i64,
}

/// The real-time budget of this process's control group; `None` where groups have none (control
/// groups version 2, or a kernel without real-time group scheduling).
pub fn cgroup_rt_budget() -> Option<CgroupRtBudget> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (controllers, group) = cpu_group(&groups)?;
    let mounts = [controllers, "cpu", "cpu,cpuacct"];
    mounts.iter().find_map(|mount| {
        let root = Path::new("/sys/fs/cgroup").join(mount);
        // A container sees its own group as the root of the mount.
        [root.join(group.trim_start_matches('/')), root].iter().find_map(|folder| {
            let file = folder.join("cpu.rt_runtime_us");
            let runtime_us = number(&file)?;
            let period_us = number(folder.join("cpu.rt_period_us"))?;
            Some(CgroupRtBudget { file, runtime_us, period_us })
        })
    })
}

/// The controllers and the path of the version 1 group with the `cpu` controller.
fn cpu_group(groups: &str) -> Option<(&str, &str)> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == "cpu").then_some((controllers, group))
    })
}

/// Time that the hypervisor ran something else while `core` had work, since the machine started,
/// in steps of one clock tick (10 ms).
pub fn steal_ns(core: usize) -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks = steal_ticks(&stat, core)?;
    Some(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

fn steal_ticks(stat: &str, core: usize) -> Option<u64> {
    let name = format!("cpu{core}");
    let line = stat.lines().find(|line| line.split(' ').next() == Some(&name))?;
    line.split_ascii_whitespace().nth(8)?.parse().ok()
}

/// Time that a thread of any process was runnable but waited for a core, since it started.
///
/// `None` if there is no such thread, or the kernel keeps no such statistics.
pub fn run_delay_ns(tid: u32) -> Option<u64> {
    let schedstat = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The model name of the first core, or the architecture where it has none.
pub fn core_model() -> String {
    cpuinfo("model name").unwrap_or_else(|| std::env::consts::ARCH.into())
}

/// Returns true if a hypervisor says that it is there.
pub fn is_virtual() -> bool {
    let flag = cpuinfo("flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor"));
    flag || fs::read_to_string("/sys/hypervisor/type").is_ok_and(|kind| !kind.trim().is_empty())
}

fn cpuinfo(field: &str) -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut pairs = info.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(name, _)| name.trim() == field)?;
    Some(value.trim().to_owned())
}

/// The clock source of the kernel (`tsc` is the fast one).
pub fn clocksource() -> Option<String> {
    line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// Returns the number of bytes that this process may lock in memory; `None` is no limit.
pub fn memory_lock_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Memlock).current
}

/// Tries whether this process may lock `bytes` more of memory; nothing stays locked.
pub fn can_lock_memory(bytes: usize) -> bool {
    use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address of the kernel's choice; nothing refers to it
    // but this function, which unmaps all of it, and that also unlocks it.
    unsafe {
        let Ok(address) =
            mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)
        else {
            return false;
        };
        let locked = mlock(address, bytes).is_ok();
        // Unmapping a mapping of one's own cannot fail.
        let _ = munmap(address, bytes);
        locked
    }
}

/// The longest time for which the calling thread was kept from running while it did nothing but
/// read the clock for `duration_ns`.
///
/// In a `SCHED_FIFO` thread this is what the kernel, interrupts and the hypervisor take.
pub fn longest_pause_ns(duration_ns: u64) -> u64 {
    let start = monotonic_ns();
    let (mut last, mut longest) = (start, 0);
    while last - start < duration_ns {
        let now = monotonic_ns();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

/// The highest real-time priority that this process may set without `CAP_SYS_NICE`.
pub fn priority_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Rtprio).current.unwrap_or(99)
}

/// The release of the running kernel.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The cores that are switched on.
pub fn online_cores() -> Vec<usize> {
    line("/sys/devices/system/cpu/online").map_or_else(Vec::new, |list| core_list(&list))
}

/// The hardware threads of the physical core that `core` is one of, itself among them; `core` alone
/// where the machine does not say, as many virtual ones do not.
pub fn siblings(core: usize) -> Vec<usize> {
    let file = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let found = line(file).map_or_else(Vec::new, |list| core_list(&list));
    if found.contains(&core) { found } else { vec![core] }
}

/// The cores that the scheduler leaves alone (`isolcpus=`).
pub fn isolated_cores() -> Vec<usize> {
    line("/sys/devices/system/cpu/isolated").map_or_else(Vec::new, |list| core_list(&list))
}

/// Parses the kernel's list notation, such as `0-2,5`; what cannot be read is left out.
fn core_list(list: &str) -> Vec<usize> {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    });
    ranges.flatten().collect()
}

fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn number<N: std::str::FromStr>(path: impl AsRef<Path>) -> Option<N> {
    line(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(core_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(core_list("7"), [7]);
        assert!(core_list("").is_empty());
        assert_eq!(core_list("x,3"), [3]);
    }

    #[test]
    fn kernel_releases_compare_by_number() {
        assert!(at_least("6.12.0", (6, 12)));
        assert!(at_least("6.18.44-fc-v669", (6, 12)));
        assert!(at_least("10.0-rc1", (6, 12)));
        assert!(!at_least("6.8.0-1019-oracle", (6, 12)));
        assert!(!at_least("5.15.0", (6, 12)));
        assert!(!at_least("", (6, 12)));
    }

    #[test]
    fn a_page_can_be_locked_and_the_whole_address_space_cannot() {
        assert!(can_lock_memory(4096) || memory_lock_limit() < Some(4096));
        assert!(!can_lock_memory(1 << 60));
    }

    #[test]
    fn stolen_ticks_are_the_eighth_column_of_the_right_core() {
        let stat =
            "cpu  1 2 3 4 5 6 7 8 9 10\ncpu1 1 1 1 1 1 1 1 42 0 0\ncpu10 0 0 0 0 0 0 0 7 0 0\n";
        assert_eq!(steal_ticks(stat, 1), Some(42));
        assert_eq!(steal_ticks(stat, 10), Some(7));
        assert_eq!(steal_ticks(stat, 0), None);
    }

    #[test]
    fn cpu_group_is_found_among_combined_controllers() {
        let groups = "8:cpuset:/a\n3:cpu,cpuacct:/docker/x:y\n0::/unified\n";
        assert_eq!(cpu_group(groups), Some(("cpu,cpuacct", "/docker/x:y")));
        assert_eq!(cpu_group("4:cpuacct:/\n0::/init.scope\n"), None);
    }

    #[test]
    fn run_delay_is_known_for_this_thread_and_not_for_an_absent_one() {
        if Path::new("/proc/self/schedstat").exists() {
            assert!(run_delay_ns(crate::thread::id()).is_some());
        }
        assert_eq!(run_delay_ns(u32::MAX), None);
    }

    #[test]
    fn the_allowed_cores_are_online() {
        let online = online_cores();
        assert!(crate::thread::cores().iter().all(|core| online.contains(core)));
    }
}
