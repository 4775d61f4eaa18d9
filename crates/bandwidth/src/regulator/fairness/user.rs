//! Throttle-fair scheduling in user space, for any kernel.
//!
//! At the beginning of each period the core's thread looks at the managed threads of its core: the
//! runnable one with the smallest virtual run time keeps its policy, the others get `SCHED_IDLE`,
//! which is as good as waiting while an ordinary thread runs, and does not leave the core idle when
//! that one sleeps. When the lock is free for longer all have what they had before.
//!
//! The kernel shares a core first among control groups, then among the threads of each: threads in
//! different groups are not set back against each other.

use super::Fairness;
use super::account::Account;
use super::roster::Roster;
use std::sync::Arc;
use std::time::Duration;

/// Charges that wait until the list is free.
const MOST_PENDING: usize = 16;

/// The rule for one core; without rho only the accounts are kept.
pub struct UserSpace {
    roster: Arc<Roster>,
    index: usize,
    rho: Option<f64>,
    pending: Vec<(Option<i32>, u64)>,
}

impl UserSpace {
    /// For the core with this place among the cores of the roster.
    pub fn new(roster: Arc<Roster>, index: usize, rho: Option<f64>) -> UserSpace {
        UserSpace { roster, index, rho, pending: Vec::with_capacity(MOST_PENDING) }
    }
}

impl Fairness for UserSpace {
    fn charge(&mut self, _core: usize, thread: Option<i32>, stopped: Duration) {
        if self.pending.len() < MOST_PENDING {
            self.pending.push((thread, stopped.as_nanos() as u64));
        }
    }

    fn period(&mut self, _core: usize) {
        let Some(mut list) = self.roster.try_list(self.index) else { return };
        let rho = self.rho.unwrap_or(0.0);
        for (thread, stopped_ns) in self.pending.drain(..) {
            if let Some(account) = culprit(&mut list, thread) {
                account.charge(stopped_ns, rho);
            }
        }
        book(&mut list);
        if self.rho.is_some() {
            choose(&mut list);
        }
    }

    fn rest(&mut self, _core: usize) {
        // The core's thread may wait here: it is about to sleep, and has nothing to stop.
        self.roster.list(self.index).iter_mut().for_each(Account::restore);
    }
}

/// Whose stop it was: the thread that is named, or, if nobody knows, the one that has run longest
/// in the period.
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

/// Lets the runnable thread with the smallest virtual run time run, and sets the others back.
fn choose(list: &mut [Account]) {
    let key = |(_, account): &(usize, &Account)| account.virtual_ns;
    let runnable = list.iter().enumerate().filter(|(_, account)| account.is_runnable);
    let first = runnable.min_by(|a, b| key(a).total_cmp(&key(b))).map(|(index, _)| index);
    let Some(first) = first else { return };
    // First up, then down, so that the core is never left to those that are set back.
    list[first].restore();
    for (index, account) in list.iter_mut().enumerate() {
        if index != first {
            account.set_back();
        }
    }
}
