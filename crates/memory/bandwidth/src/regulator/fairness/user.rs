//! Throttle-fair scheduling in user space, for any kernel.
//!
//! At the beginning of each period the core's thread looks at the managed threads of its core: the
//! runnable one with the smallest virtual run time keeps its policy, the others get `SCHED_IDLE`,
//! which is as good as waiting while an ordinary thread runs, and does not leave the core idle when
//! that one sleeps. When the lock is free for longer all have what they had before.
//!
//! The kernel shares a core first among control groups, then among the threads of each: threads in
//! different groups are not set back against each other.

use super::account::Account;
use super::keeper::{Accounts, Keeper};
use super::{Fairness, Rule};
use std::time::Duration;

/// The rule in user space.
pub(crate) struct UserRule {
    /// Sets threads back; otherwise only the accounts are kept.
    pub decides: bool,
}

impl Rule for UserRule {
    fn core(&mut self, accounts: &Accounts, index: usize) -> Box<dyn Fairness> {
        let keeper = accounts.keeper(index);
        if self.decides { Box::new(UserSpace(keeper)) } else { Box::new(keeper) }
    }

    fn attend(&mut self, _threads: &[i32]) {}
}

/// The rule for one core.
struct UserSpace(Keeper);

impl Fairness for UserSpace {
    fn charge(&mut self, core: usize, thread: Option<i32>, stopped: Duration) {
        self.0.charge(core, thread, stopped);
    }

    fn period(&mut self, _core: usize) {
        if let Some(mut list) = self.0.settle() {
            choose(&mut list);
        }
    }

    fn rest(&mut self, _core: usize) {
        // The core's thread may wait here: it is about to sleep, and has nothing to stop.
        self.0.list().iter_mut().for_each(Account::restore);
    }
}

/// Lets the runnable thread with the smallest virtual run time run, and sets the others back.
fn choose(list: &mut [Account]) {
    let key = |(_, account): &(usize, &Account)| account.virtual_ns;
    // A thread of a scheduler in BPF, which is another one's than this rule's, stays with that.
    let runnable = |account: &Account| account.is_runnable && !account.is_in_bpf;
    let runnable = list.iter().enumerate().filter(|(_, account)| runnable(account));
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
