//! Places for unfinished connections: those that are accepted, but not yet heard.
//!
//! The thread at the door counts them up ([`Places::take`]); the owner of a [`ConnectionPlace`]
//! counts it down by dropping it. Both are wait-free: a count for each user, and one for all
//! ordinary users.

use super::Limits;
use crate::atomic::{AtomicU32, Ordering};
use std::collections::HashMap;
use std::sync::Arc;

/// Users that have unfinished connections at the same time. More than there can be of those who
/// share the places, and of those who have their own.
const SEATS: usize = 512;
/// The seat of all ordinary users together.
const ALL: usize = SEATS;

type Counts = Arc<[AtomicU32; SEATS + 1]>;

/// The places, at the door's side.
#[derive(Debug)]
pub(super) struct Places {
    limits: Limits,
    /// Root and the service's own user, who find a place however many others there are.
    kept: [u32; 2],
    users: HashMap<u32, usize>,
    counts: Counts,
}

/// Reason for which there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The user has too many unfinished connections.
    User,
    /// All users together have.
    All,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Places {
        let kept = [0, rustix::process::geteuid().as_raw()];
        let counts = Arc::new([const { AtomicU32::new(0) }; SEATS + 1]);
        Places { limits, kept, users: HashMap::new(), counts }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn counts(&self) -> Taken {
        Taken(self.counts.clone())
    }

    /// Takes a place for a connection of this user; the number goes to [`Taken::place`].
    pub(super) fn take(&mut self, uid: u32) -> Result<u32, NoPlace> {
        let kept = self.kept.contains(&uid);
        let seat = self.seat(uid, kept).ok_or(NoPlace::All)?;
        // Relaxed: only this thread counts up, and the counts guard nothing but themselves.
        if self.counts[seat].load(Ordering::Relaxed) >= self.limits.unfinished_per_user {
            return Err(NoPlace::User);
        }
        if !kept && self.counts[ALL].load(Ordering::Relaxed) >= self.limits.unfinished {
            return Err(NoPlace::All);
        }
        let number = seat as u32 * 2 + u32::from(kept);
        for seat in counted(number) {
            self.counts[seat].fetch_add(1, Ordering::Relaxed);
        }
        Ok(number)
    }

    fn seat(&mut self, uid: u32, kept: bool) -> Option<usize> {
        if let Some(&seat) = self.users.get(&uid) {
            return Some(seat);
        }
        let most = if kept { SEATS } else { SEATS - self.kept.len() };
        if self.users.len() >= most {
            let counts = &self.counts;
            self.users.retain(|_, seat| counts[*seat].load(Ordering::Relaxed) > 0);
        }
        if self.users.len() >= most {
            return None;
        }
        let seat = (0..SEATS).find(|seat| self.users.values().all(|taken| taken != seat))?;
        self.users.insert(uid, seat);
        Some(seat)
    }
}

/// The seats that a place counts in.
fn counted(number: u32) -> impl Iterator<Item = usize> {
    let seat = (number / 2) as usize;
    let all = (number % 2 == 0).then_some(ALL);
    std::iter::once(seat.min(ALL)).chain(all)
}

/// The places, at the other side.
#[derive(Clone, Debug)]
pub(super) struct Taken(Counts);

impl Taken {
    /// The place of this number, which was taken.
    pub(super) fn place(&self, number: u32) -> ConnectionPlace {
        ConnectionPlace { counts: self.0.clone(), number }
    }
}

/// The place of a connection that has not been heard yet. Dropping it gives it back; any thread,
/// wait-free.
#[derive(Debug)]
pub struct ConnectionPlace {
    counts: Counts,
    number: u32,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        for seat in counted(self.number) {
            // Relaxed: as in `Places::take`.
            self.counts[seat].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(own: u32) -> Places {
        let limits = Limits { connects_per_second: 1, unfinished_per_user: 2, unfinished: 3 };
        Places { kept: [0, own], ..Places::new(limits) }
    }

    #[test]
    fn one_user_takes_no_place_of_others_and_all_none_of_root() {
        let mut places = places(7);
        let taken = places.counts();
        let mut kept = Vec::new();
        let mut take = |uid| places.take(uid).map(|number| kept.push(taken.place(number)));
        assert_eq!([take(1), take(1), take(1)], [Ok(()), Ok(()), Err(NoPlace::User)]);
        assert_eq!([take(2), take(2)], [Ok(()), Err(NoPlace::All)]);
        assert_eq!([take(0), take(0), take(0)], [Ok(()), Ok(()), Err(NoPlace::User)]);
        assert_eq!([take(7), take(7), take(7)], [Ok(()), Ok(()), Err(NoPlace::User)]);
        kept.truncate(1);
        assert!(places.take(1).is_ok() && places.take(2).is_ok());
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes in Miri")]
    fn seats_of_users_who_left_serve_others() {
        let mut places = places(0);
        let taken = places.counts();
        let busy = taken.place(places.take(1_000_000).unwrap());
        for uid in 1..3 * SEATS as u32 {
            drop(taken.place(places.take(uid).unwrap()));
        }
        let again = taken.place(places.take(1_000_000).unwrap());
        assert_eq!(places.take(1_000_000), Err(NoPlace::User), "still at its seat");
        drop((busy, again));
    }
}
