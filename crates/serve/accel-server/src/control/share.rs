//! Share of the control thread that each user may have.
//!
//! Everything that the control thread does for a client, also a refusal, costs the client's user
//! the processor time that it took. A user may have a share of the thread, and a stock of it for
//! the start of a program; one that has spent both is not listened to until its share has paid for
//! what it got. Others are served meanwhile.

use super::Control;
use realtime::clock::{monotonic_ns, thread_cpu_ns};
use rustix::event::epoll;
use std::collections::HashMap;

/// Processor time that a user may have at once, beyond its share.
pub(super) const STOCK_NS: u64 = 1_000_000_000;
/// Smallest cost of one turn: the dispatcher's lock and the caches are taken from others too.
const LEAST_NS: u64 = 10_000;
/// Number of users above which those that owe nothing are looked for.
const MANY: usize = 256;

/// Processor time that each user owes.
pub(super) struct Shares {
    percent: u64,
    users: HashMap<u32, Account>,
}

#[derive(Clone, Copy)]
struct Account {
    owed_ns: u64,
    at_ns: u64,
}

impl Account {
    /// The account at a later time.
    fn at(self, now_ns: u64, percent: u64) -> Account {
        let paid_ns = now_ns.saturating_sub(self.at_ns) / 100 * percent;
        Account { owed_ns: self.owed_ns.saturating_sub(paid_ns), at_ns: now_ns.max(self.at_ns) }
    }
}

impl Shares {
    pub(super) fn new(percent: u32) -> Shares {
        Shares { percent: u64::from(percent.clamp(1, 100)), users: HashMap::new() }
    }

    /// The thread has worked for a user.
    pub(super) fn charge(&mut self, uid: u32, took_ns: u64, now_ns: u64) {
        let percent = self.percent;
        if self.users.len() > MANY {
            self.users.retain(|_, account| account.at(now_ns, percent).owed_ns > 0);
        }
        let account = self.users.entry(uid).or_insert(Account { owed_ns: 0, at_ns: now_ns });
        *account = account.at(now_ns, percent);
        account.owed_ns = account.owed_ns.saturating_add(took_ns.max(LEAST_NS));
    }

    /// Returns the time at which the server listens to a user again; None if it listens now.
    pub(super) fn rests_until(&self, uid: u32, now_ns: u64) -> Option<u64> {
        let account = self.users.get(&uid)?.at(now_ns, self.percent);
        let too_much_ns = account.owed_ns.checked_sub(STOCK_NS).filter(|ns| *ns > 0)?;
        Some(now_ns.saturating_add(too_much_ns.saturating_mul(100) / self.percent + 100))
    }
}

impl Control {
    /// A session's socket has something to say, or has hung up.
    pub(super) fn hear(&mut self, session: u64, flags: epoll::EventFlags) {
        let Some(connection) = self.connections.get(&session) else { return };
        let gone = epoll::EventFlags::HUP | epoll::EventFlags::RDHUP | epoll::EventFlags::ERR;
        if connection.deaf {
            if flags.intersects(gone) {
                self.end(session, None);
            }
        } else if self.shares.rests_until(connection.peer.uid, monotonic_ns()).is_some() {
            self.listen(session, false);
        } else {
            self.serve(session);
        }
    }

    /// Reads a session's packets from now on, or does not; its end is seen in any case.
    pub(super) fn listen(&mut self, session: u64, on: bool) {
        let Some(connection) = self.connections.get_mut(&session) else { return };
        connection.deaf = !on;
        let mut flags = epoll::EventFlags::RDHUP;
        flags.set(epoll::EventFlags::IN, on);
        let data = epoll::EventData::new_u64(2 * session);
        if epoll::modify(&self.epoll, &connection.socket, data, flags).is_err() {
            self.end(session, None);
        }
    }

    /// The thread has worked for a user since then.
    pub(super) fn charge(&mut self, uid: u32, begin_ns: u64) {
        let took_ns = thread_cpu_ns().saturating_sub(begin_ns);
        self.shares.charge(uid, took_ns, monotonic_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn who_has_spent_the_stock_gets_its_share_and_others_are_served() {
        let mut shares = Shares::new(25);
        shares.charge(7, STOCK_NS, 0);
        assert_eq!(shares.rests_until(7, 0), None, "the stock is there to be spent");
        shares.charge(7, S, 0);
        let until_ns = shares.rests_until(7, 0).unwrap();
        assert!((4 * S..=4 * S + 1000).contains(&until_ns), "{until_ns}");
        assert_eq!(shares.rests_until(8, 0), None);
        assert_eq!(shares.rests_until(7, until_ns), None, "it is paid for");
        shares.charge(7, S, until_ns);
        assert!(shares.rests_until(7, until_ns).is_some(), "the stock has not come back");
        assert_eq!(shares.rests_until(7, until_ns + 8 * S), None);
    }

    #[test]
    fn small_work_counts_too_and_users_who_owe_nothing_are_forgotten() {
        let mut shares = Shares::new(50);
        for _ in 0..=STOCK_NS / LEAST_NS {
            shares.charge(1, 1, 0);
        }
        assert!(shares.rests_until(1, 0).is_some());
        for uid in 0..10_000 {
            shares.charge(uid, 1, u64::from(uid) * S);
        }
        assert!(shares.users.len() <= MANY + 1, "{}", shares.users.len());
    }
}
