//! The accounts of one core's managed threads, which each rule keeps in the same way.
//!
//! Charges wait here until the next period begins, when the threads are looked at anyway.

use super::Fairness;
use super::account::Account;
use super::roster::Roster;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Charges that wait until the list is free.
const MOST_PENDING: usize = 16;

/// The accounts of all managed threads.
pub struct Accounts {
    roster: Arc<Roster>,
    rho: f64,
}

impl Accounts {
    /// Creates the accounts; `rho` is the weight of stopped time in the virtual run times.
    pub fn new(roster: Arc<Roster>, rho: f64) -> Accounts {
        Accounts { roster, rho }
    }

    /// Keeps those of the core with this place among the configured ones.
    pub fn keeper(&self, index: usize) -> Keeper {
        let pending = Vec::with_capacity(MOST_PENDING);
        Keeper { roster: self.roster.clone(), index, rho: self.rho, pending }
    }
}

/// Keeps the accounts of one core. As a [`Fairness`] it does nothing else: the kernel decides who
/// runs.
pub struct Keeper {
    roster: Arc<Roster>,
    index: usize,
    rho: f64,
    pending: Vec<(Option<i32>, u64)>,
}

impl Keeper {
    /// The thread that has run longest in the period, if one has and no other thread has the list.
    pub fn ran_longest(&self) -> Option<i32> {
        let mut list = self.roster.try_list(self.index)?;
        culprit(&mut list, None).map(|account| account.thread)
    }

    /// Books the period that has ended; the accounts, unless another thread has them. Wait-free.
    pub(super) fn settle(&mut self) -> Option<MutexGuard<'_, Vec<Account>>> {
        let mut list = self.roster.try_list(self.index)?;
        for (thread, stopped_ns) in self.pending.drain(..) {
            if let Some(account) = culprit(&mut list, thread) {
                account.charge(stopped_ns, self.rho);
            }
        }
        book(&mut list);
        Some(list)
    }

    /// The accounts; waits for them.
    pub(super) fn list(&self) -> MutexGuard<'_, Vec<Account>> {
        self.roster.list(self.index)
    }
}

impl Fairness for Keeper {
    fn charge(&mut self, _core: usize, thread: Option<i32>, stopped: Duration) {
        if self.pending.len() < MOST_PENDING {
            self.pending.push((thread, stopped.as_nanos() as u64));
        }
    }

    fn period(&mut self, _core: usize) {
        drop(self.settle());
    }

    fn rest(&mut self, _core: usize) {}
}

/// The thread that was stopped: the thread that is named, or, if that is not known, the one that
/// has run longest in the period.
fn culprit(list: &mut [Account], thread: Option<i32>) -> Option<&mut Account> {
    match thread {
        Some(thread) => list.iter_mut().find(|account| account.thread == thread),
        None => {
            let ran = list.iter_mut().max_by_key(|account| account.ran_since_ns())?;
            (ran.ran_since_ns() > 0).then_some(ran)
        }
    }
}

/// Books the period that has ended.
fn book(list: &mut [Account]) {
    for account in list.iter_mut() {
        let was_runnable = account.is_runnable;
        if account.look().is_err() {
            account.is_runnable = false;
        }
        account.has_slept = !was_runnable && account.is_runnable;
    }
    let least = least(list, |account| account.is_runnable && !account.has_slept);
    let all_ns = list.iter().map(Account::had_ns).sum();
    for account in list {
        account.book_period(all_ns);
        if let Some(least) = least.filter(|_| account.has_slept) {
            account.catch_up(least);
        }
    }
}

fn least(list: &[Account], of: impl Fn(&Account) -> bool) -> Option<f64> {
    list.iter().filter(|account| of(account)).map(|account| account.virtual_ns).reduce(f64::min)
}
