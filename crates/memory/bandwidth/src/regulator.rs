//! Regulation of cores while the lock is held: each best-effort core has a budget for each period,
//! and is stopped for the rest of the period once it has spent that.
//!
//! ```text
//!   Holders (door, cells, bell)
//!      | held?                     kt-core-N    SCHED_FIFO, pinned   periods, stops      core.rs
//!      +-------------------------> kt-watchdog  SCHED_FIFO 98        ends long stops     watchdog.rs
//!                                  kt-attend    ordinary             finds threads       fairness/attend.rs
//! ```
//!
//! The watchdog, the attendant and the holders' control thread stay on the cores that are not
//! regulated. All threads are of one process: if it is killed, no core stays stopped.
//!
//! - [`Config`], [`Budget`]: what is regulated, and how it is counted (`count`).
//! - [`Rule`], [`Fairness`]: who runs on a core that is stopped at times.
//! - [`Statistics`]: what was done, and how long it took to take effect.

mod config;
mod core;
mod count;
mod counted;
mod delays;
mod fairness;
mod load;
mod regulator_error;
mod ring;
mod statistics;
mod ticks;
mod watchdog;

pub use config::{Attention, Budget, Config, FACTORS, LOOKS, Managed, PERIODS};
pub use counted::{Hardware, SoftwareEvent};
pub use delays::Spread;
pub use fairness::{Accounts, Fairness, Keeper, Rule, ThreadStatistics};
pub use load::Load;
pub use regulator_error::Error;
pub use statistics::{CoreStatistics, Loss, Statistics};

use self::core::{Core, Log};
use crate::holders::Holders;
use crate::{Hold, holders};
use count::Counter;
use fairness::{Roster, UserRule};
use realtime::clock::monotonic_ns;
use realtime::thread::{Scheduling, pin, set_name, set_policy};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use watchdog::Looks;

/// The regulator ends.
const ENDING: u32 = 1;
/// The lock counts as free.
const SUSPENDED: u32 = 2;

/// A running regulator. Dropping it ends it: cores run, and threads have what they had.
pub struct Regulator {
    shared: Arc<Shared>,
    roster: Arc<Roster>,
    cores: Vec<usize>,
    threads: Vec<JoinHandle<()>>,
    restored: usize,
}

/// State that the threads share.
struct Shared {
    holders: Holders,
    logs: Vec<Log>,
    managed: Mutex<Vec<Managed>>,
    /// Readable when the regulator ends.
    halt: OwnedFd,
    /// [`ENDING`] and [`SUSPENDED`].
    state: AtomicU32,
    /// The watchdog looks, or will.
    guarding: AtomicBool,
    /// Delays of the watchdog's own looks.
    looks: Looks,
    /// Number of its suspensions of itself, beginning of the present one, and length of the earlier
    /// ones.
    suspensions: AtomicU64,
    suspended_since_ns: AtomicU64,
    suspended_ns: AtomicU64,
    /// The watchdog and the attendant.
    attendants: OnceLock<[Thread; 2]>,
}

impl Regulator {
    /// Opens the holders' door and starts the threads. Returns when all of them are where they
    /// belong, with their priorities and counters.
    ///
    /// # Errors
    /// [`Error::Config`] for settings that make no sense, and what the kernel refuses; then
    /// nothing is left behind.
    pub fn start(config: Config) -> Result<Regulator, Error> {
        let decides = config.rho.is_some();
        Regulator::start_with(config, Box::new(UserRule { decides }))
    }

    /// Starts as [`Regulator::start`] does, with another rule than the one of user space. The
    /// accounts use the configured rho.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(config: Config, mut rule: Box<dyn Rule>) -> Result<Regulator, Error> {
        config.check()?;
        let usual = holders::Config::default().socket;
        let kept = fairness::StateFile::of(&config.holders.socket, &usual);
        let others = config.other_cores();
        let holders = open_door(&config, &others)?;
        let restored = kept.as_ref().map_or(0, fairness::restore_after_crash);
        let shared = Arc::new(Shared::new(&config, holders)?);
        let roster = Arc::new(Roster::new(&config.cores));
        let cores = config.cores.clone();
        let mut regulator = Regulator { shared, roster, cores, threads: Vec::new(), restored };
        let accounts = Accounts::new(regulator.roster.clone(), config.rho.unwrap_or(0.0));
        for index in 0..config.cores.len() {
            regulator.start_core(&config, index, rule.core(&accounts, index))?;
        }
        regulator.start_others(&config, &others, kept, rule)?;
        Ok(regulator)
    }

    /// A hold of this process itself.
    ///
    /// # Errors
    /// As [`Holders::local_hold`].
    pub fn hold(&self) -> Result<Hold, Error> {
        Ok(self.shared.holders.local_hold()?)
    }

    /// Manages these threads, too.
    pub fn manage(&self, who: Managed) {
        self.shared.managed().push(who);
        self.shared.wake_attendants();
    }

    /// Returns the statistics so far.
    pub fn statistics(&self) -> Statistics {
        let shared = &self.shared;
        let threads = self.roster.statistics();
        Statistics::of(&self.cores, shared, threads)
    }

    /// Threads that a regulator before this one had left set back, and that this one has restored.
    pub fn restored(&self) -> usize {
        self.restored
    }

    fn start_core(
        &mut self,
        config: &Config,
        index: usize,
        fairness: Box<dyn Fairness>,
    ) -> Result<(), Error> {
        let (shared, config) = (self.shared.clone(), config.clone());
        self.start_thread(move |ready| {
            let core = config.cores[index];
            set_name(&format!("kt-core-{core}"));
            let set_up = || -> Result<Core, Error> {
                pin(&[core])?;
                let counter = Counter::new(&config, core)?;
                set_policy(Scheduling::Fifo(config.priority))?;
                Ok(Core::new(&config, index, counter, fairness))
            };
            if let Some(core) = said(&ready, set_up()) {
                core.run(&shared);
            }
        })
    }

    fn start_others(
        &mut self,
        config: &Config,
        others: &[usize],
        kept: Option<fairness::StateFile>,
        mut rule: Box<dyn Rule>,
    ) -> Result<(), Error> {
        let (shared, cores) = (self.shared.clone(), others.to_vec());
        let (period, priority) = (config.period, config.priority);
        let guards = config.guard_priority();
        self.start_thread(move |ready| {
            set_name("kt-watchdog");
            let set_up = || -> Result<(), Error> {
                pin(&cores)?;
                Ok(set_policy(Scheduling::Fifo(guards))?)
            };
            if said(&ready, set_up()).is_some() {
                watchdog::run(&shared, period, priority);
            }
        })?;
        let (shared, roster, cores) = (self.shared.clone(), self.roster.clone(), others.to_vec());
        let socket = config.holders.socket.clone();
        self.start_thread(move |ready| {
            set_name("kt-attend");
            if said(&ready, pin(&cores).map_err(Error::from)).is_some() {
                fairness::attend(&shared, &roster, &mut *rule, (&socket, kept));
            }
        })?;
        if let [.., watchdog, attendant] = &self.threads[..] {
            let both = [watchdog.thread().clone(), attendant.thread().clone()];
            let _ = self.shared.attendants.set(both);
        }
        Ok(())
    }

    /// Starts a thread, and waits for what it says of itself.
    fn start_thread(
        &mut self,
        run: impl FnOnce(Sender<Result<(), Error>>) + Send + 'static,
    ) -> Result<(), Error> {
        let (sender, ready) = channel();
        let thread = std::thread::Builder::new().spawn(move || run(sender));
        self.threads.push(thread.map_err(Error::Thread)?);
        let died = || Error::Thread(std::io::Error::other("the thread ended during its start"));
        ready.recv().unwrap_or_else(|_| Err(died()))
    }
}

/// Tells the starting thread the result.
fn said<T>(ready: &Sender<Result<(), Error>>, result: Result<T, Error>) -> Option<T> {
    let (value, answer) = match result {
        Ok(value) => (Some(value), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // The starter waits for exactly this.
    let _ = ready.send(answer);
    value
}

/// The door, whose control thread inherits the cores of the thread that opens it.
fn open_door(config: &Config, others: &[usize]) -> Result<Holders, Error> {
    let mut door: holders::Config = config.holders.clone();
    door.priority = door.priority.or(Some(config.guard_priority()));
    std::thread::scope(|scope| {
        let open = || {
            pin(others)?;
            Ok(Holders::start(door)?)
        };
        scope.spawn(open).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Drop for Regulator {
    fn drop(&mut self) {
        self.shared.end();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // One that panicked has said so itself.
            let _ = thread.join();
        }
        self.roster.restore();
    }
}

impl std::fmt::Debug for Regulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Regulator").field("cores", &self.cores).finish_non_exhaustive()
    }
}

impl Shared {
    fn new(config: &Config, holders: Holders) -> Result<Shared, Error> {
        let halt = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Shared {
            holders,
            logs: config.cores.iter().map(|_| Log::default()).collect(),
            managed: Mutex::new(config.managed.clone()),
            halt: halt.map_err(|errno| Error::Thread(errno.into()))?,
            state: AtomicU32::new(0),
            guarding: AtomicBool::new(false),
            looks: Looks::default(),
            suspensions: AtomicU64::new(0),
            suspended_since_ns: AtomicU64::new(0),
            suspended_ns: AtomicU64::new(0),
            attendants: OnceLock::new(),
        })
    }

    /// Returns true if the cores are to be regulated now.
    #[inline]
    fn holds(&self) -> bool {
        // Relaxed: what is read on the strength of it is atomic itself.
        self.state.load(Ordering::Relaxed) == 0 && self.holders.is_held()
    }

    fn is_ending(&self) -> bool {
        self.state.load(Ordering::Acquire) & ENDING != 0
    }

    fn is_suspended(&self) -> bool {
        self.state.load(Ordering::Relaxed) & SUSPENDED != 0
    }

    /// The attendant: whether the lock counts as free from now on.
    fn suspend(&self, yes: bool) {
        let before = match yes {
            true => self.state.fetch_or(SUSPENDED, Ordering::Relaxed),
            false => self.state.fetch_and(!SUSPENDED, Ordering::Relaxed),
        };
        if (before & SUSPENDED != 0) == yes {
            return;
        }
        if yes {
            self.suspended_since_ns.store(monotonic_ns(), Ordering::Relaxed);
            self.suspensions.fetch_add(1, Ordering::Relaxed);
        } else {
            let since_ns = self.suspended_since_ns.load(Ordering::Relaxed);
            let more_ns = monotonic_ns().saturating_sub(since_ns);
            self.suspended_ns.fetch_add(more_ns, Ordering::Relaxed);
        }
    }

    /// Returns the total time for which the lock has counted as free.
    fn suspended_ns(&self) -> u64 {
        let before_ns = self.suspended_ns.load(Ordering::Relaxed);
        let since_ns = self.suspended_since_ns.load(Ordering::Relaxed);
        match self.is_suspended() {
            true => before_ns + monotonic_ns().saturating_sub(since_ns),
            false => before_ns,
        }
    }

    fn end(&self) {
        // Release: pairs with the acquire in `is_ending`.
        self.state.fetch_or(ENDING, Ordering::Release);
        // A count that is not zero stays readable.
        let _ = rustix::io::write(&self.halt, &1_u64.to_ne_bytes());
        self.holders.end_waits();
        self.wake_attendants();
    }

    fn halt(&self) -> BorrowedFd<'_> {
        self.halt.as_fd()
    }

    fn managed(&self) -> MutexGuard<'_, Vec<Managed>> {
        self.managed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_busy(&self) -> bool {
        self.logs.iter().any(|log| log.busy.load(Ordering::SeqCst) != 0)
    }

    /// A core's thread that has just said that it is busy: makes sure that the watchdog looks.
    fn begin_guarding(&self) {
        // Sequentially consistent, as `busy`: the watchdog sees that it is busy, or this sees that
        // the watchdog does not look any more.
        if !self.guarding.swap(true, Ordering::SeqCst) {
            self.wake_attendants();
        }
    }

    /// The watchdog: whether it may stop looking.
    fn end_guarding(&self) -> bool {
        self.guarding.store(false, Ordering::SeqCst);
        let may = !self.is_busy();
        if !may {
            self.guarding.store(true, Ordering::SeqCst);
        }
        may
    }

    fn wake_attendants(&self) {
        self.attendants.get().into_iter().flatten().for_each(Thread::unpark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use realtime::clock::sleep_until_ns;

    /// A regulator of the last core with the lock held, where there may be one.
    fn held() -> Option<(Regulator, Hold, tempfile::TempDir)> {
        let core = *realtime::machine::online_cores().last()?;
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::new(vec![core], Budget::Share(0.5));
        config.holders.socket = folder.path().join("bandwidth.sock");
        let Ok(regulator) = Regulator::start(config) else {
            eprintln!("SKIP: no core can be regulated here");
            return None;
        };
        let hold = regulator.hold().unwrap();
        hold.acquire();
        Some((regulator, hold, folder))
    }

    /// Waits until the statistics are so.
    fn until(regulator: &Regulator, is_so: impl Fn(&Statistics) -> bool) -> Statistics {
        let begun_ns = monotonic_ns();
        loop {
            let statistics = regulator.statistics();
            if is_so(&statistics) {
                return statistics;
            }
            assert!(monotonic_ns() < begun_ns + 30_000_000_000, "{statistics:?}");
            sleep_until_ns(monotonic_ns() + 1_000_000);
        }
    }

    #[test]
    fn thread_without_its_priority_stops_nothing_and_counts_what_it_misses() {
        let Some((regulator, _hold, _folder)) = held() else { return };
        until(&regulator, |statistics| statistics.cores[0].stops > 5);
        let log = &regulator.shared.logs[0];
        let ordinary = |yes| log.is_ordinary.store(yes, Ordering::Relaxed);
        ordinary(true);
        // The thread may still be in a stop, and come late to the next periods.
        let some = regulator.statistics().cores[0].missed + 50;
        let first = until(&regulator, |statistics| statistics.cores[0].missed > some);
        let more = first.cores[0].missed + 20;
        let second = until(&regulator, |statistics| statistics.cores[0].missed > more);
        assert_eq!(second.cores[0].stops, first.cores[0].stops);
        ordinary(false);
        until(&regulator, |statistics| statistics.cores[0].stops > second.cores[0].stops + 5);
    }

    #[test]
    fn suspension_is_counted_once_with_its_time_and_is_a_loss() {
        let Some((regulator, _hold, _folder)) = held() else { return };
        until(&regulator, |statistics| statistics.cores[0].stops > 5);
        assert_eq!(regulator.statistics().losses(), []);
        // Twice, as the attendant does.
        regulator.shared.suspend(true);
        regulator.shared.suspend(true);
        // The attendant may have ended it already: it gets its answers.
        let during = until(&regulator, |statistics| statistics.suspended_ns > 0);
        regulator.shared.suspend(false);
        let after = regulator.statistics();
        assert!(after.suspended_ns >= during.suspended_ns);
        let later =
            until(&regulator, |statistics| statistics.cores[0].stops > after.cores[0].stops);
        assert_eq!((later.suspensions, later.suspended_ns), (1, after.suspended_ns));
        assert!(matches!(later.losses()[..], [Loss::Suspension { suspensions: 1, .. }]));
    }
}
