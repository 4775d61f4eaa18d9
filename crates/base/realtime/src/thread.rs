//! Scheduling of the calling thread: policy, cores, name, and memory that stays resident.
//!
//! Every function but [`pin_other`] acts on the thread that calls it, so that a thread sets itself
//! up as the first thing it does and no other thread needs its handle.

use rustix::process::{Pid, Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Scheduling policy by which the kernel picks this thread among the runnable ones of its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scheduling {
    /// The ordinary time-sharing policy (`SCHED_OTHER`).
    Normal,
    /// `SCHED_FIFO` with a priority of 1 (lowest) to 99: runs before every ordinary thread and
    /// until it blocks or a higher priority becomes runnable.
    Fifo(u8),
}

/// Sets the scheduling policy of the calling thread.
///
/// Threads that it starts later inherit the policy.
///
/// # Errors
/// [`Error::Privilege`] when the process may not use this priority, [`Error::Priority`] when the
/// priority does not exist.
pub fn set_policy(policy: Scheduling) -> Result<(), Error> {
    let (class, priority) = match policy {
        Scheduling::Normal => (libc::SCHED_OTHER, 0),
        Scheduling::Fifo(priority @ 1..=99) => (libc::SCHED_FIFO, priority),
        Scheduling::Fifo(priority) => return Err(Error::Priority { priority }),
    };
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the parameter block is initialised and outlives the call; thread 0 is the caller.
    if unsafe { libc::sched_setscheduler(0, class, &parameter) } == 0 {
        return Ok(());
    }
    let source = std::io::Error::last_os_error();
    match source.raw_os_error() {
        Some(libc::EPERM) => Err(priority_refused(priority)),
        _ => Err(Error::Os { call: "sched_setscheduler", source }),
    }
}

/// Makes the calling thread run only when no other thread wants its core (`SCHED_IDLE`).
///
/// # Errors
/// [`Error::Os`] with the kernel's reason.
pub fn set_idle() -> Result<(), Error> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter block is initialised and outlives the call; thread 0 is the caller.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameter) } == 0 {
        return Ok(());
    }
    Err(Error::Os { call: "sched_setscheduler", source: std::io::Error::last_os_error() })
}

/// The kernel answers EPERM both for a missing privilege and for a control group without
/// real-time budget; the budget file tells them apart.
fn priority_refused(priority: u8) -> Error {
    let action = format!("SCHED_FIFO priority {priority}");
    if let Some(budget) = crate::machine::cgroup_rt_budget() {
        if budget.runtime_us == 0 {
            let file = budget.file.display();
            return Error::Privilege {
                action,
                missing: format!("the control group has no real-time budget ({file} is 0)"),
                grant: format!(
                    "echo 950000 > {file}, as root, after the same in each parent group"
                ),
            };
        }
    }
    let limit = getrlimit(Resource::Rtprio).current.unwrap_or(99);
    Error::Privilege {
        action,
        missing: format!("no CAP_SYS_NICE, and RLIMIT_RTPRIO is {limit}"),
        grant: "`sudo prlimit --pid $$ --rtprio=99` for this shell, `USER - rtprio 99` in \
                /etc/security/limits.conf for later logins, LimitRTPRIO=99 for a systemd unit, \
                `--cap-add SYS_NICE` for a container"
            .into(),
    }
}

/// The scheduling policy of the calling thread; any policy but `SCHED_FIFO` reads as `Normal`.
pub fn policy() -> Scheduling {
    // SAFETY: no pointers; thread 0 is the caller.
    let class = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    let mut parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel writes one sched_param into a place that holds one.
    let answer = unsafe { libc::sched_getparam(0, &mut parameter) };
    match (class, answer) {
        (libc::SCHED_FIFO, 0) => Scheduling::Fifo(parameter.sched_priority.clamp(1, 99) as u8),
        _ => Scheduling::Normal,
    }
}

/// Sets the calling thread's nice value, -20 to 19, which counts while its policy is `Normal`.
///
/// # Errors
/// [`Error::Os`] when the process may not lower it so far.
pub fn set_nice(nice: i32) -> Result<(), Error> {
    // On Linux, no process means the calling thread.
    rustix::process::setpriority_process(None, nice)
        .map_err(|errno| Error::Os { call: "setpriority", source: errno.into() })
}

/// Keeps the calling thread on `cores`; an empty slice leaves it where it is.
///
/// # Errors
/// [`Error::Cores`] when one of the cores does not exist or may not be used; the thread then stays
/// where it was. (The kernel alone would quietly leave such a core out.)
pub fn pin(cores: &[usize]) -> Result<(), Error> {
    pin_to(None, cores)
}

/// Pins another thread of this process, as [`pin`] does, by the kernel's thread number ([`id`]).
///
/// A thread that is ready on a core which a more urgent one keeps goes to the others at once.
///
/// # Errors
/// As [`pin`]; also when there is no such thread.
pub fn pin_other(thread: u32, cores: &[usize]) -> Result<(), Error> {
    pin_to(Some(thread), cores)
}

fn pin_to(thread: Option<u32>, cores: &[usize]) -> Result<(), Error> {
    if cores.is_empty() {
        return Ok(());
    }
    let refused = || Error::Cores { wanted: cores.to_vec(), allowed: self::cores() };
    if cores.iter().any(|&core| core >= CpuSet::MAX_CPU) {
        return Err(refused());
    }
    // No thread is the calling one; the number 0 would be it as well.
    let thread = match thread.map(|thread| i32::try_from(thread).ok().and_then(Pid::from_raw)) {
        Some(None) => return Err(refused()),
        thread => thread.flatten(),
    };
    let mut wanted = CpuSet::new();
    cores.iter().for_each(|&core| wanted.set(core));
    let before = sched_getaffinity(thread).map_err(|_| refused())?;
    sched_setaffinity(thread, &wanted).map_err(|_| refused())?;
    if sched_getaffinity(thread) == Ok(wanted) {
        return Ok(());
    }
    // The kernel accepted `before` when it was set, so it accepts it again.
    let _ = sched_setaffinity(thread, &before);
    Err(refused())
}

/// The cores that the main thread of this process may use, in ascending order.
///
/// The main thread is asked, not the caller, so that a pinned thread still learns of all cores.
pub fn cores() -> Vec<usize> {
    let main = Some(rustix::process::getpid());
    sched_getaffinity(main).map_or_else(
        |_| Vec::new(),
        |set| (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
    )
}

/// Names the calling thread, as shown by `ps` and `top`; longer names are cut to 15 bytes.
pub fn set_name(name: &str) {
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let bytes: Vec<u8> = name[..end].bytes().filter(|&byte| byte != 0).collect();
    if let Ok(name) = std::ffi::CString::new(bytes) {
        // A thread without its name still works.
        let _ = rustix::thread::set_name(&name);
    }
}

/// The kernel's number of the calling thread.
pub fn id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Keeps all memory of the process, present and future, resident, so that no page fault to disk
/// delays a thread.
///
/// # Errors
/// [`Error::Privilege`] when the memory lock limit is below what the process maps.
pub fn lock_memory() -> Result<(), Error> {
    use rustix::mm::MlockAllFlags;
    lock_all(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
}

/// Keeps what the process has used and will use of its memory resident, and leaves out what it
/// never touches: for libraries of gigabytes.
///
/// # Errors
/// As [`lock_memory`].
pub fn lock_memory_on_use() -> Result<(), Error> {
    use rustix::mm::MlockAllFlags;
    lock_all(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}

fn lock_all(flags: rustix::mm::MlockAllFlags) -> Result<(), Error> {
    match rustix::mm::mlockall(flags) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM | rustix::io::Errno::NOMEM | rustix::io::Errno::AGAIN) => {
            let limit = crate::machine::memory_lock_limit().unwrap_or(u64::MAX);
            Err(Error::Privilege {
                action: "locking all memory".into(),
                missing: format!("no CAP_IPC_LOCK, and RLIMIT_MEMLOCK is {limit} bytes"),
                grant:
                    "`sudo prlimit --pid $$ --memlock=unlimited` for this shell, `USER - memlock \
                        unlimited` in /etc/security/limits.conf for later logins, \
                        LimitMEMLOCK=infinity for a systemd unit, `--cap-add IPC_LOCK` for a \
                        container"
                        .into(),
            })
        }
        Err(error) => Err(Error::Os { call: "mlockall", source: error.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_reads_back_what_was_set_or_the_refusal_says_how_to_grant_it() {
        match set_policy(Scheduling::Fifo(7)) {
            Ok(()) => {
                assert_eq!(policy(), Scheduling::Fifo(7));
                set_policy(Scheduling::Normal).unwrap();
            }
            Err(Error::Privilege { missing, grant, .. }) => {
                assert!(!missing.is_empty() && !grant.is_empty());
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(policy(), Scheduling::Normal);
    }

    #[test]
    fn priorities_outside_the_range_are_refused_by_number() {
        assert!(matches!(set_policy(Scheduling::Fifo(0)), Err(Error::Priority { priority: 0 })));
        assert!(matches!(
            set_policy(Scheduling::Fifo(100)),
            Err(Error::Priority { priority: 100 })
        ));
    }

    #[test]
    fn pinned_thread_stays_on_its_core_and_still_sees_all() {
        let all = cores();
        let last = *all.last().unwrap();
        pin(&[last]).unwrap();
        for _ in 0..100 {
            assert_eq!(rustix::thread::sched_getcpu(), last);
        }
        assert_eq!(cores(), all);
    }

    #[test]
    fn another_thread_goes_where_it_is_sent() {
        let (tell, told) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(id()).unwrap();
            is_done.recv().unwrap();
            rustix::thread::sched_getcpu()
        });
        let (number, last) = (told.recv().unwrap(), *cores().last().unwrap());
        let own = sched_getaffinity(None).unwrap();
        assert!(matches!(pin_other(number, &[1_000_000]), Err(Error::Cores { .. })));
        pin_other(number, &[last]).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap(), own);
        done.send(()).unwrap();
        assert_eq!(other.join().unwrap(), last);
        for nobody in [0, u32::MAX] {
            assert!(matches!(pin_other(nobody, &[last]), Err(Error::Cores { .. })));
        }
    }

    #[test]
    fn pin_to_no_core_changes_nothing_and_to_an_absent_core_is_an_error() {
        pin(&[]).unwrap();
        assert!(matches!(pin(&[1_000_000]), Err(Error::Cores { .. })));
        assert!(matches!(pin(&[CpuSet::MAX_CPU - 1]), Err(Error::Cores { .. })));
        let before = sched_getaffinity(None).unwrap();
        assert!(matches!(pin(&[cores()[0], CpuSet::MAX_CPU - 1]), Err(Error::Cores { .. })));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn locked_memory_is_resident_or_the_refusal_says_how_to_grant_it() {
        match lock_memory() {
            Ok(()) => {
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
                assert!(!locked.trim().starts_with("0 "), "{locked}");
                rustix::mm::munlockall().unwrap();
            }
            Err(Error::Privilege { missing, .. }) => assert!(missing.contains("RLIMIT_MEMLOCK")),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn long_names_are_cut_at_a_character_boundary() {
        set_name("fourteen-byteséé");
        let name = rustix::thread::name().unwrap();
        assert_eq!(name.to_str().unwrap(), "fourteen-bytes");
        set_name("short");
        assert_eq!(rustix::thread::name().unwrap().to_str().unwrap(), "short");
    }
}
