//! What is done while the lock is held: each best-effort core has a budget for each period, and is
//! stopped for the rest of the period once it has spent that.
//!
//! ```text
//!   Holders (door, cells, bell)
//!      | held?                     kt-core-N    SCHED_FIFO, pinned   periods, stops      core.rs
//!      +-------------------------> kt-watchdog  SCHED_FIFO + 1       ends long stops     watchdog.rs
//!                                  kt-attend    ordinary             finds threads       fairness/attend.rs
//! ```
//!
//! The watchdog, the attendant and the holders' control thread stay on the cores that are not
//! regulated. All threads are of one process: if it is killed, no core stays stopped.
//!
//! - [`Config`], [`Budget`]: what is regulated, and how it is counted (`count`).
//! - [`Fairness`]: who runs on a core that is stopped at times.
//! - [`Statistics`]: what was done, and how long it took to take effect.

mod config;
mod core;
mod count;
mod delays;
mod error;
mod fairness;
mod load;
mod ring;
mod statistics;
mod ticks;
mod watchdog;

pub use config::{Budget, Config, FACTORS, Managed, PERIODS};
pub use count::{Hardware, SoftwareEvent};
pub use delays::Spread;
pub use error::Error;
pub use fairness::{Fairness, ThreadStatistics};
pub use load::Load;
pub use statistics::{CoreStatistics, Statistics};

use self::core::{Core, Log};
use crate::holders::Holders;
use crate::{Hold, holders};
use count::Counter;
use fairness::{Roster, UserSpace};
use realtime::thread::{Policy, pin, set_name, set_policy};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};

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

/// What the threads share.
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
        let rho = config.rho;
        Regulator::start_with(config, &|roster, index| {
            Box::new(UserSpace::new(roster.0.clone(), index, rho))
        })
    }

    /// As [`Regulator::start`], with another rule than the one of user space: `rule` gives each
    /// core its own, by the core's place among the configured ones.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(config: Config, rule: &Rule<'_>) -> Result<Regulator, Error> {
        config.check()?;
        let kept = config.holders.socket.with_extension("threads");
        let others = config.other_cores();
        let holders = open_door(&config, &others)?;
        let restored = fairness::restore_after_crash(&kept);
        let shared = Arc::new(Shared::new(&config, holders)?);
        let roster = Arc::new(Roster::new(&config.cores));
        let cores = config.cores.clone();
        let mut regulator = Regulator { shared, roster, cores, threads: Vec::new(), restored };
        for index in 0..config.cores.len() {
            let fairness = rule(&Accounts(regulator.roster.clone()), index);
            regulator.start_core(&config, index, fairness)?;
        }
        regulator.start_others(&config, &others, kept)?;
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

    /// What was done so far.
    pub fn statistics(&self) -> Statistics {
        let shared = &self.shared;
        let threads = self.roster.statistics();
        Statistics::of(&self.cores, &shared.logs, threads, shared.holders.status())
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
                set_policy(Policy::Fifo(config.priority))?;
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
        kept: PathBuf,
    ) -> Result<(), Error> {
        let (shared, config, cores) = (self.shared.clone(), config.clone(), others.to_vec());
        let period = config.period;
        self.start_thread(move |ready| {
            set_name("kt-watchdog");
            let set_up = || -> Result<(), Error> {
                pin(&cores)?;
                Ok(set_policy(Policy::Fifo(config.priority + 1))?)
            };
            if said(&ready, set_up()).is_some() {
                watchdog::run(&shared, period);
            }
        })?;
        let (shared, roster, cores) = (self.shared.clone(), self.roster.clone(), others.to_vec());
        let socket = config.holders.socket;
        self.start_thread(move |ready| {
            set_name("kt-attend");
            if said(&ready, pin(&cores).map_err(Error::from)).is_some() {
                fairness::attend(&shared, &roster, &socket, &kept);
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
        let died = || Error::Thread(std::io::Error::other("it ended before it began"));
        ready.recv().unwrap_or_else(|_| Err(died()))
    }
}

/// Gives the core with this place among the configured ones its rule.
pub type Rule<'a> = dyn Fn(&Accounts, usize) -> Box<dyn Fairness> + 'a;

/// The accounts of the managed threads, for rules that use them.
pub struct Accounts(Arc<Roster>);

impl Accounts {
    /// A rule that only keeps the accounts, for one that decides elsewhere to be put around.
    pub fn keeper(&self, index: usize) -> Box<dyn Fairness> {
        Box::new(UserSpace::new(self.0.clone(), index, None))
    }
}

/// Tells the starter how it went.
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
    door.priority = door.priority.or(Some(config.priority + 1));
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
            attendants: OnceLock::new(),
        })
    }

    /// Whether the cores are to be regulated now.
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

    fn suspend(&self, yes: bool) {
        match yes {
            true => self.state.fetch_or(SUSPENDED, Ordering::Relaxed),
            false => self.state.fetch_and(!SUSPENDED, Ordering::Relaxed),
        };
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
