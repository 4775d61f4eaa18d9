//! The scheduler as the rule of a regulator.
//!
//! The regulator's ordinary thread has threads managed when they are first seen on a regulated core,
//! and they stay so until the regulator ends. The threads of the cores read only: which slot a
//! thread has. They never wait for that. If the ordinary thread is about to manage one just then,
//! what they have to say waits until the next period.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bandwidth::regulator::{Accounts, Fairness, Keeper, Rule};

use crate::{Error, Loaded, ThrottleFair};

/// Charges that wait while a thread is being managed.
const MOST_PENDING: usize = 16;

/// Loads the scheduler.
///
/// # Errors
/// As [`ThrottleFair::load`].
pub fn load(rho: f64) -> Result<Loaded, Error> {
    let scheduler = Arc::new(RwLock::new(ThrottleFair::load(rho)?));
    let refused = Arc::new(Mutex::new(None));
    // The watch does not keep the scheduler loaded.
    let (watched, told) = (Arc::downgrade(&scheduler), refused.clone());
    let watch = move || {
        let scheduler = watched.upgrade()?;
        let ended = read(&scheduler, ThrottleFair::ended).map(|why| {
            format!(
                "the kernel has ended the scheduler in BPF ({why}): its threads have the kernel's \
                 own scheduler now"
            )
        });
        ended.or_else(|| told.lock().unwrap_or_else(PoisonError::into_inner).clone())
    };
    Ok(Loaded { rule: Box::new(SchedExt { scheduler, refused }), watch: Box::new(watch) })
}

struct SchedExt {
    scheduler: Arc<RwLock<ThrottleFair>>,
    /// The first thread that could not be managed, and why.
    refused: Arc<Mutex<Option<String>>>,
}

impl Rule for SchedExt {
    fn core(&mut self, accounts: &Accounts, index: usize) -> Box<dyn Fairness> {
        let pending = Vec::with_capacity(MOST_PENDING);
        let (scheduler, keeper) = (self.scheduler.clone(), accounts.keeper(index));
        Box::new(OnCore { scheduler, keeper, pending })
    }

    fn attend(&mut self, threads: &[i32]) {
        let new = read(&self.scheduler, |scheduler| {
            let is_new = |thread: &&i32| !scheduler.is_managed(**thread);
            threads.iter().filter(is_new).copied().collect::<Vec<_>>()
        });
        for thread in new {
            // Each by itself, so that a core's thread finds it free in between.
            let managed =
                self.scheduler.write().unwrap_or_else(PoisonError::into_inner).manage(thread);
            match managed {
                // It has ended, or is real-time now, which is not the rule's business.
                Ok(()) | Err(Error::NoThread { .. } | Error::Policy { .. }) => {}
                Err(error) => {
                    let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                    refused.get_or_insert(format!("not all threads are managed: {error}"));
                }
            }
        }
    }
}

fn read<T>(scheduler: &RwLock<ThrottleFair>, of: impl FnOnce(&ThrottleFair) -> T) -> T {
    of(&scheduler.read().unwrap_or_else(PoisonError::into_inner))
}

/// Link from the thread of one core to the scheduler.
struct OnCore {
    scheduler: Arc<RwLock<ThrottleFair>>,
    keeper: Keeper,
    pending: Vec<(i32, Duration)>,
}

impl OnCore {
    /// Charges what waits, and says that a period begins on a core. Wait-free.
    fn tell(&mut self, begins: Option<usize>) {
        let Ok(scheduler) = self.scheduler.try_read() else { return };
        for (thread, stopped) in self.pending.drain(..) {
            // Those that are not managed make no difference to who runs.
            let _ = scheduler.charge(thread, stopped);
        }
        if let Some(core) = begins {
            scheduler.period(core);
        }
    }
}

impl Fairness for OnCore {
    fn charge(&mut self, core: usize, thread: Option<i32>, stopped: Duration) {
        self.keeper.charge(core, thread, stopped);
        let thread = thread.or_else(|| self.keeper.ran_longest());
        if let Some(thread) = thread.filter(|_| self.pending.len() < MOST_PENDING) {
            self.pending.push((thread, stopped));
        }
        self.tell(None);
    }

    fn period(&mut self, core: usize) {
        self.tell(Some(core));
        self.keeper.period(core);
    }

    fn rest(&mut self, _core: usize) {}
}
