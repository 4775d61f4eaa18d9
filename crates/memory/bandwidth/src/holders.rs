//! The regulator's side: who holds the lock.
//!
//! A control thread listens on a socket, asks the kernel who connects, gives each holder a page
//! of its own, and watches its process through a descriptor: when that ends, however it ends, the
//! holder is gone at once. The threads of the best-effort cores only read: the cells of all
//! holders lie side by side in one region (`table`), and looking at them needs no lock and no
//! system call.
//!
//! Data from the socket or from a page is only a claim of the holder. A packet that is no hello
//! ends the connection; a cell with nonsense counts as not held from the first look on, and its
//! holder is dropped.

mod access;
mod control;
mod entries;
mod table;

pub use access::{group_id, user_id};
pub use entries::HolderStatus;
pub use table::MOST as MOST_HOLDERS;

use crate::Error;
use crate::hold::Hold;
use crate::memory::{Others, Page};
use crate::page::{Bell, Crew, Watch};
use control::Control;
use entries::Entries;
use shm::Doorbell;
use shm::door::{Openers, ServiceSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use table::Table;

/// Settings for receiving holders.
#[derive(Clone, Debug)]
pub struct Config {
    /// Path at which the regulator listens. The folder is made if it is missing.
    pub socket: PathBuf,
    /// Permissions of the socket.
    pub mode: u32,
    /// The group that the socket belongs to; the process' own if None.
    pub group: Option<u32>,
    /// Users that may hold the lock.
    pub users: Vec<u32>,
    /// Groups whose members may hold the lock.
    pub groups: Vec<u32>,
    /// Holders at the same time, at most [`MOST_HOLDERS`].
    pub holders: usize,
    /// Holders of one user at the same time.
    pub holders_per_user: usize,
    /// Largest number of connections of one user in a second.
    pub connects_per_second: u32,
    /// The `SCHED_FIFO` priority that threads of holders are told to take, 1 to 99.
    pub ceiling: Option<u32>,
    /// The `SCHED_FIFO` priority of the control thread, so that a death is noticed on time.
    pub priority: Option<u8>,
}

impl Default for Config {
    /// The own user and root, 64 holders, no ceiling, at the place where programs look when no
    /// option says: `/run/keeptime/bandwidth.sock` for root, otherwise `bandwidth.sock` in the first
    /// of these folders that belongs to the user: `$XDG_RUNTIME_DIR/keeptime`,
    /// `/run/user/UID/keeptime`, `/tmp/keeptime-UID`.
    fn default() -> Config {
        let own = rustix::process::geteuid().as_raw();
        Config {
            socket: shm::environment::own_socket("bandwidth"),
            mode: 0o660,
            group: None,
            users: vec![own, 0],
            groups: Vec::new(),
            holders: 64,
            holders_per_user: 32,
            connects_per_second: 100,
            ceiling: None,
            priority: None,
        }
    }
}

impl Config {
    /// Users and groups that the permissions of the socket file must admit.
    fn openers(&self) -> Openers {
        let (users, groups) = (self.users.clone(), self.groups.clone());
        Openers { mode: self.mode, group: self.group, users, groups }
    }

    fn check(&self) -> Result<(), Error> {
        let number = |key, found: u64, from: u64, to: u64| {
            let expected = || format!("expected {from} to {to}");
            match (from..=to).contains(&found) {
                true => Ok(()),
                false => Err(Error::Config { key, found: found.to_string(), expected: expected() }),
            }
        };
        let most = table::MOST as u64;
        number("holders", self.holders as u64, 1, most)?;
        number("holders_per_user", self.holders_per_user as u64, 1, most)?;
        number("connects_per_second", self.connects_per_second.into(), 1, 100_000)?;
        number("ceiling", self.ceiling.unwrap_or(1).into(), 1, 99)?;
        number("priority", self.priority.unwrap_or(1).into(), 1, 99)
    }
}

/// The holders of the lock, as the regulator knows them. Dropping it closes the door.
pub struct Holders {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// State that the control thread and the threads of the cores share.
struct Shared {
    table: Table,
    bell: Page,
    watch: Page,
    crew: Crew,
    entries: Mutex<Entries>,
    counters: Counters,
    /// Doorbell that makes the control thread look at the suspects, or end.
    news: Doorbell,
    /// True when no wait may last any longer.
    waits_ended: AtomicBool,
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct Counters {
    refused: AtomicU64,
    died: AtomicU64,
    died_holding: AtomicU64,
    dropped: AtomicU64,
}

/// Status of the regulator's side, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Programs that may hold the lock now, in no order.
    pub holders: Vec<HolderStatus>,
    /// Connections that were refused.
    pub refused: u64,
    /// Holders whose process has ended.
    pub died: u64,
    /// Ended holders that held the lock.
    pub died_holding: u64,
    /// Holders that were dropped because of what they wrote.
    pub dropped: u64,
}

impl Holders {
    /// Opens the door.
    ///
    /// # Errors
    /// [`Error::Config`] for a setting that makes no sense, [`Error::Socket`] when another
    /// regulator listens there or something is in the way, [`Error::System`] when the kernel
    /// refuses.
    pub fn start(config: Config) -> Result<Holders, Error> {
        config.check()?;
        let door = ServiceSocket::open(&config.socket, config.openers());
        let path = config.socket.clone();
        let door = door.map_err(|reason| Error::Socket { path, reason })?;
        let shared = Arc::new(Shared::new(&config)?);
        let control = Control::new(config, door, shared.clone())?;
        let thread = std::thread::Builder::new()
            .name("kt-holders".into())
            .spawn(move || control.run())
            .map_err(|error| {
                let errno = rustix::io::Errno::from_io_error(&error);
                Error::System { call: "clone", errno: errno.unwrap_or(rustix::io::Errno::IO) }
            })?;
        Ok(Holders { shared, thread: Some(thread) })
    }

    /// Returns true if a holder has the lock. Wait-free and without a system call: for each
    /// holder that there is it reads one line of the cache. Any thread.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.shared.is_held()
    }

    /// Returns true if there is a program that could take the lock. As [`Holders::is_held`].
    pub fn has_holders(&self) -> bool {
        self.shared.table.has_holders()
    }

    /// Returns the time since which the lock is held, on `CLOCK_MONOTONIC`, as its holders state
    /// it; of several the earliest. None when the lock is free.
    pub fn held_since_ns(&self) -> Option<u64> {
        self.shared.table.held_since_ns()
    }

    /// Sleeps until a holder has the lock, at most `timeout`; returns true if one has it. Any
    /// number of threads: a holder wakes one of them, and that one the others.
    pub fn wait_until_held(&self, timeout: Option<Duration>) -> bool {
        self.shared.wait_until_held(timeout)
    }

    /// Ends every [`Holders::wait_until_held`], those that come later too.
    pub fn end_waits(&self) {
        // Release: pairs with the acquire in `wait_until_held`; the bell is rung after it.
        self.shared.waits_ended.store(true, Ordering::Release);
        self.shared.bell().ring();
    }

    /// A hold for this very process, which needs no socket and counts against no limit of a user.
    ///
    /// # Errors
    /// [`Error::Refused`] when the largest number of holders is reached, [`Error::System`] and
    /// [`Error::Memory`] when the kernel refuses.
    pub fn local_hold(&self) -> Result<Hold, Error> {
        let shared = &self.shared;
        let (page, offset) = shared.entries().add(&shared.table, None)?;
        Hold::over([page_fd(&page), page_fd(&shared.bell), page_fd(&shared.watch)], offset)
    }

    /// Returns the holders, their own statements, and the counters.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        // Relaxed: numbers for people.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Status {
            holders: shared.entries().status(&shared.table),
            refused: read(&shared.counters.refused),
            died: read(&shared.counters.died),
            died_holding: read(&shared.counters.died_holding),
            dropped: read(&shared.counters.dropped),
        }
    }
}

fn page_fd(page: &Page) -> rustix::fd::BorrowedFd<'_> {
    rustix::fd::AsFd::as_fd(page)
}

impl Drop for Holders {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `Control::run`.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.news.ring();
        if let Some(thread) = self.thread.take() {
            // A control thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Holders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holders").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Shared {
    fn new(config: &Config) -> Result<Shared, Error> {
        let shared = Shared {
            table: Table::new()?,
            bell: Page::new("keeptime-bandwidth-bell", Others::Write)?,
            watch: Page::new("keeptime-bandwidth-watch", Others::Read)?,
            crew: Crew::default(),
            entries: Mutex::new(Entries::new(config.holders)),
            counters: Counters::default(),
            news: Doorbell::new()?,
            waits_ended: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        };
        shared.watch().prepare(config.ceiling.unwrap_or(0));
        Ok(shared)
    }

    fn bell(&self) -> &Bell {
        // SAFETY: the beginning of a page that lives as long as `self`; a bell is atomics only.
        unsafe { self.bell.base().cast().as_ref() }
    }

    fn watch(&self) -> &Watch {
        // SAFETY: as for the bell.
        unsafe { self.watch.base().cast().as_ref() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn is_held(&self) -> bool {
        self.table.is_held(|| self.news.ring())
    }

    fn wait_until_held(&self, timeout: Option<Duration>) -> bool {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        // Acquire: pairs with the release in `end_waits`.
        let ended = || self.waits_ended.load(Ordering::Acquire);
        // The first sight of a hold is the answer: a short hold may be over at a second look.
        while !self.is_held() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if ended() || left == Some(Duration::ZERO) {
                return false;
            }
            let stays_awake = || self.is_held() || ended();
            self.crew.sleep(self.bell(), self.watch(), stays_awake, left);
        }
        true
    }
}
