//! The scheduler in the kernel: loaded, given threads, told what they are charged, ended.
//!
//! The tasks' own data lie in the kernel with each task and go away with it, so that a thread id that
//! is used again is never taken for its predecessor. Here each managed thread has a descriptor, a
//! slot of shared memory, and the policy to go back to.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use libbpf_rs::{
    Link, Map, MapCore, MapFlags, MapMut, Object, ObjectBuilder, PrintLevel, set_print,
};
use rustix::event::{PollFd, PollFlags, poll};

use crate::Error;
use crate::kernel::available;
use crate::policy::{Attributes, SCHED_EXT};
use crate::slots::{CORES, SLOTS, Shared, Slot};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/throttle_fair.bpf.o"));
/// Charges stay far from the range of virtual time with it.
const RHO_MOST: f64 = 1000.0;
/// The size of a task's own data, `struct task` in the scheduler; its first word is the slot.
const TASK_BYTES: usize = 40;
const REASON_BYTES: usize = 128;
const ENDED_BYTES: usize = REASON_BYTES + 256;

/// The loaded scheduler. Dropping it gives all threads back what they had, and unloads it; should the
/// process die instead, the kernel ends the scheduler, and its threads become ordinary ones.
#[derive(Debug)]
pub struct ThrottleFair {
    rho: f64,
    managed: HashMap<i32, Managed>,
    slots: Shared<Slot, SLOTS>,
    periods: Shared<AtomicU64, CORES>,
    // In this order: the scheduler ends before its programs and memory go.
    _link: Link,
    object: Object,
}

#[derive(Debug)]
struct Managed {
    thread: OwnedFd,
    slot: usize,
    before: Attributes,
}

/// Statistics of a managed thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskStatistics {
    /// The thread.
    pub tid: i32,
    /// Its virtual run time: weighted run time and charges. Only differences between threads of one
    /// core mean something.
    pub virtual_ns: i64,
    /// Its run time, nanoseconds; of a run that lasts, up to the last tick.
    pub run_ns: u64,
    /// Time that it was charged, in nanoseconds: stopped time times rho.
    pub charged_ns: u64,
    /// Number of times that it was picked and ran.
    pub runs: u64,
    /// The core where it ran last.
    pub core: u32,
}

impl ThrottleFair {
    /// Loads the scheduler. No thread is managed by it yet, and none is disturbed.
    ///
    /// # Errors
    /// [`Error::NoSchedExt`], [`Error::Occupied`] and [`Error::Privilege`] when kernel, another
    /// scheduler or rights forbid it, [`Error::Refused`] when the kernel does not accept it, and
    /// [`Error::Factor`] when rho is not from 0 to 1000.
    pub fn load(rho: f64) -> Result<Self, Error> {
        if !(0.0..=RHO_MOST).contains(&rho) {
            return Err(Error::Factor { rho, most: RHO_MOST });
        }
        available()?;
        let (loaded, words) = quietly(load);
        let (object, link) = loaded.map_err(|(step, error)| refused(step, &error, &words))?;
        let unmapped =
            |error: io::Error| Error::Refused { step: "mmap", message: error.to_string() };
        let slots = Shared::map(map(&object, "slots")?.as_fd()).map_err(unmapped)?;
        let periods = Shared::map(map(&object, "periods")?.as_fd()).map_err(unmapped)?;
        Ok(Self { rho, managed: HashMap::new(), slots, periods, _link: link, object })
    }

    /// Takes a thread, of this or another process, into the scheduler. It keeps its nice value, by
    /// which its weight goes; threads that it starts later come along, but cannot be charged before
    /// they are managed too. A thread that is managed already stays as it is.
    ///
    /// # Errors
    /// [`Error::NoThread`], [`Error::Policy`] for a real-time thread, [`Error::Full`], or the
    /// kernel's refusal.
    pub fn manage(&mut self, tid: i32) -> Result<(), Error> {
        if self.is_managed(tid) {
            return Ok(());
        }
        self.managed.retain(|_, managed| managed.lives());
        let os = |call| {
            move |source: io::Error| match source.raw_os_error() {
                Some(libc::ESRCH) => Error::NoThread { tid },
                _ => Error::Os { tid, call, source },
            }
        };
        let thread = open_thread(tid).map_err(os("pidfd_open"))?;
        let before = Attributes::of(tid).map_err(os("sched_getattr"))?;
        // Under this policy it is another managed thread's child.
        if !before.is_ordinary() && before.policy() != SCHED_EXT {
            return Err(Error::Policy { tid, policy: before.policy() });
        }
        let slot = self.free_slot()?;
        self.slot(slot).clear();
        let mut data = [0_u8; TASK_BYTES];
        data[..4].copy_from_slice(&(slot as u32 + 1).to_ne_bytes());
        let key = thread.as_raw_fd().to_ne_bytes();
        let tasks = map(&self.object, "tasks")?;
        tasks
            .update(&key, &data, MapFlags::ANY)
            .map_err(|error| os("bpf_map_update_elem")(io::Error::other(error.to_string())))?;
        before.with_policy(SCHED_EXT).set(tid).map_err(os("sched_setattr"))?;
        let ordinary = if before.is_ordinary() {
            before
        } else {
            before.with_policy(libc::SCHED_OTHER as u32)
        };
        self.managed.insert(tid, Managed { thread, slot, before: ordinary });
        Ok(())
    }

    /// Returns true if a thread is managed, and there.
    pub fn is_managed(&self, tid: i32) -> bool {
        self.managed.get(&tid).is_some_and(Managed::lives)
    }

    /// Gives a thread back the policy that it had. One that is not managed stays as it is.
    pub fn release(&mut self, tid: i32) {
        if let Some(managed) = self.managed.remove(&tid) {
            managed.restore(tid);
        }
    }

    /// Charges a thread for the time for which its core was stopped because of it: its virtual run
    /// time grows by rho times as much, before the core's next decision. Whether it is managed.
    ///
    /// One atomic addition to memory; no system call.
    pub fn charge(&self, tid: i32, stopped: Duration) -> bool {
        let Some(managed) = self.managed.get(&tid) else { return false };
        let charged = stopped.as_nanos() as f64 * self.rho;
        self.slot(managed.slot).charge(charged.round() as u64);
        true
    }

    /// A period begins on a core: when its regulator's thread gives it free, it decides anew who runs,
    /// even if a task was interrupted. One atomic addition to memory; no system call.
    pub fn period(&self, core: usize) {
        // A core that the scheduler does not know of has nothing to decide.
        if let Some(periods) = self.periods.get(core) {
            periods.fetch_add(1, Relaxed);
        }
    }

    /// The managed threads, in the order of their numbers.
    pub fn tasks(&self) -> Vec<TaskStatistics> {
        let mut tids: Vec<_> = self.managed.keys().copied().collect();
        tids.sort_unstable();
        tids.into_iter().filter_map(|tid| self.task(tid)).collect()
    }

    /// Returns the statistics of a managed thread; `None` when the thread is not managed.
    pub fn task(&self, tid: i32) -> Option<TaskStatistics> {
        let slot = self.slot(self.managed.get(&tid)?.slot);
        Some(TaskStatistics {
            tid,
            virtual_ns: slot.vtime_ns(),
            run_ns: slot.run_ns(),
            charged_ns: slot.charged_ns(),
            runs: slot.runs(),
            core: slot.core(),
        })
    }

    /// Returns the reason for which the kernel has ended the scheduler by itself, if it has: a
    /// thread that could run and did not for ten seconds, or an administrator's SysRq-S. Its
    /// threads are ordinary ones then.
    pub fn ended(&self) -> Option<String> {
        let ended = map(&self.object, "ended_why").ok()?;
        let bytes = ended.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        if bytes.len() != ENDED_BYTES || bytes[0] == 0 {
            return None;
        }
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        let (reason, message) = (text(&bytes[..REASON_BYTES]), text(&bytes[REASON_BYTES..]));
        Some(if message.is_empty() { reason } else { format!("{reason}: {message}") })
    }

    fn slot(&self, index: usize) -> &Slot {
        self.slots.get(index).expect("managed threads have slots that there are")
    }

    fn free_slot(&self) -> Result<usize, Error> {
        let used: std::collections::HashSet<_> = self.managed.values().map(|m| m.slot).collect();
        (0..SLOTS).find(|slot| !used.contains(slot)).ok_or(Error::Full { most: SLOTS })
    }
}

impl Drop for ThrottleFair {
    fn drop(&mut self) {
        for (tid, managed) in self.managed.drain() {
            managed.restore(tid);
        }
    }
}

impl Managed {
    /// Returns true if the thread is still there: its descriptor becomes readable when it ends.
    fn lives(&self) -> bool {
        let mut ends = [PollFd::new(&self.thread, PollFlags::IN)];
        matches!(poll(&mut ends, Some(&rustix::time::Timespec::default())), Ok(0))
    }

    fn restore(&self, tid: i32) {
        // A thread that has meanwhile asked for another policy keeps that one.
        let ours = Attributes::of(tid).is_ok_and(|now| now.policy() == SCHED_EXT);
        if self.lives() && ours {
            // It may end at any time, and there is nothing to put back then.
            let _ = self.before.set(tid);
        }
    }
}

type Failure = (&'static str, libbpf_rs::Error);

fn load() -> Result<(Object, Link), Failure> {
    let open =
        ObjectBuilder::default().open_memory(OBJECT).map_err(|e| ("opening the BPF object", e))?;
    let mut object = open.load().map_err(|e| ("loading the BPF object", e))?;
    let link = {
        let mut maps = object.maps_mut();
        let mut scheduler: MapMut<'_> = maps
            .find(|map| map.name() == "throttle_fair")
            .expect("the scheduler is in the object that it was built into");
        scheduler.attach_struct_ops().map_err(|e| ("attaching the scheduler", e))?
    };
    Ok((object, link))
}

fn refused(step: &'static str, error: &libbpf_rs::Error, words: &str) -> Error {
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        return Error::Privilege;
    }
    Error::Refused { step, message: format!("{error:#}\n{}", words.trim()) }
}

fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>, Error> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| Error::Refused {
        step: "looking up a map",
        message: format!("no map {name}"),
    })
}

/// Runs `action`, and gives its answer with what the library printed meanwhile. One at a time.
fn quietly<T>(action: impl FnOnce() -> T) -> (T, String) {
    static ALONE: Mutex<()> = Mutex::new(());
    static WORDS: Mutex<String> = Mutex::new(String::new());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let words = || WORDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    words().clear();
    let keep = |_: PrintLevel, line: String| {
        WORDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_str(&line);
    };
    let before = set_print(Some((PrintLevel::Warn, keep)));
    let answer = action();
    set_print(before);
    (answer, std::mem::take(&mut *words()))
}

/// A descriptor of one thread, whether or not it is the first of its process (since Linux 6.9, which
/// is before sched_ext).
fn open_thread(tid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, libc::PIDFD_THREAD) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave a new descriptor that no other code knows.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}
