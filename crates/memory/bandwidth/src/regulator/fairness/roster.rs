//! All managed threads, by the core that they were last seen on.
//!
//! Each best-effort core has a list that its thread works with; one more list is for threads that
//! are elsewhere. The attendant moves accounts between them. A core's thread never waits for a
//! list: if the attendant has it, the thread leaves the order as it is until the next period, and
//! keeps what it has to charge.

use super::ThreadStatistics;
use super::account::Account;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most threads that are managed.
pub(super) const MOST_THREADS: usize = 1024;

/// A thread that is to be managed, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub thread: i32,
    pub process: i32,
    /// The core that it runs or last ran on.
    pub core: usize,
}

/// The managed threads.
pub struct Roster {
    cores: Vec<usize>,
    /// One list for each of the cores, and one for threads elsewhere.
    lists: Vec<Mutex<Vec<Account>>>,
    /// Threads that have ended.
    gone: Mutex<Vec<ThreadStatistics>>,
}

impl Roster {
    /// An empty one for these cores.
    pub fn new(cores: &[usize]) -> Roster {
        let lists = (0..=cores.len()).map(|_| Mutex::new(Vec::new())).collect();
        Roster { cores: cores.to_vec(), lists, gone: Mutex::new(Vec::new()) }
    }

    /// Returns the list of the core with this place among the cores, unless another thread has it.
    /// Wait-free.
    pub fn try_list(&self, index: usize) -> Option<MutexGuard<'_, Vec<Account>>> {
        match self.lists[index].try_lock() {
            Ok(list) => Some(list),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for it.
    pub fn list(&self, index: usize) -> MutexGuard<'_, Vec<Account>> {
        self.lists[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what was found: new threads get an account, threads that are on another core
    /// move, and those that were not found again stay where they are until they end.
    ///
    /// `adopt` is told of new ones before anything is done to them.
    pub fn take_over(&self, seen: &[Seen], adopt: impl FnOnce(&[Seen])) {
        let mut known = HashMap::new();
        for (index, list) in self.lists.iter().enumerate() {
            let list = list.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(list.iter().map(|account| (account.thread, index)));
        }
        let room = MOST_THREADS.saturating_sub(known.len());
        let new: Vec<_> =
            seen.iter().filter(|seen| !known.contains_key(&seen.thread)).take(room).collect();
        if !new.is_empty() {
            adopt(seen);
        }
        for seen in new {
            // One that has ended meanwhile has no account.
            if let Ok(account) = Account::open(seen) {
                self.add(account, self.index_of(seen.core));
            }
        }
        for seen in seen {
            let index = self.index_of(seen.core);
            if let Some(&old) = known.get(&seen.thread).filter(|old| **old != index) {
                self.move_to(seen.thread, old, index);
            }
        }
    }

    /// Drops accounts of threads that have ended, and looks at those that no core's thread looks
    /// at: on no regulated core, or on any if none is regulated now.
    pub fn sweep(&self, are_regulated: bool) {
        let last = self.lists.len() - 1;
        let mut ended: Vec<Account> = Vec::new();
        for index in 0..=last {
            let mut list = self.list(index);
            if index == last || !are_regulated {
                list.iter_mut().for_each(|account| drop(account.look()));
            }
            let (gone, living) = list.drain(..).partition::<Vec<Account>, _>(Account::has_ended);
            *list = living;
            ended.extend(gone);
        }
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.extend(ended.iter().map(Account::statistics));
    }

    /// Gives all threads back what they had.
    pub fn restore(&self) {
        for index in 0..self.lists.len() {
            self.list(index).iter_mut().for_each(Account::restore);
        }
    }

    /// Returns the statistics of all threads, also those that have ended, ordered by their numbers.
    pub fn statistics(&self) -> Vec<ThreadStatistics> {
        let mut all = self.gone.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for index in 0..self.lists.len() {
            all.extend(self.list(index).iter().map(Account::statistics));
        }
        all.sort_by_key(|thread| thread.thread);
        all
    }

    /// Returns the threads that are on one of the cores.
    pub fn on_cores(&self, seen: &[Seen]) -> Vec<i32> {
        let here = seen.iter().filter(|seen| self.cores.contains(&seen.core));
        here.map(|seen| seen.thread).collect()
    }

    fn index_of(&self, core: usize) -> usize {
        self.cores.iter().position(|own| *own == core).unwrap_or(self.cores.len())
    }

    /// A thread that comes to a core is neither ahead of nor behind those that are there.
    fn add(&self, mut account: Account, index: usize) {
        let mut list = self.list(index);
        let least = list.iter().map(|account| account.virtual_ns).reduce(f64::min);
        if let Some(least) = least {
            account.virtual_ns = account.virtual_ns.max(least);
        }
        list.push(account);
    }

    fn move_to(&self, thread: i32, old: usize, new: usize) {
        let mut list = self.list(old);
        let position = list.iter().position(|account| account.thread == thread);
        let account = position.map(|position| list.swap_remove(position));
        drop(list);
        if let Some(mut account) = account {
            // Its new core decides anew; elsewhere no core decides about it.
            account.restore();
            self.add(account, new);
        }
    }
}
