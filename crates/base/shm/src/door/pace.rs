//! Rate at which each user may connect.

use std::collections::HashMap;

/// Users that are remembered; only those that connected within the last second have to be.
const MOST_USERS: usize = 4096;

/// Rate at which each user may connect: a bucket of tokens for each.
#[derive(Debug)]
pub struct Pace {
    per_second: u32,
    users: HashMap<u32, (f64, u64)>,
}

impl Pace {
    /// Allows this number of connections per second, and as many at once.
    pub fn new(per_second: u32) -> Pace {
        Pace { per_second, users: HashMap::new() }
    }

    /// Returns true if this user may connect now, and takes one of its tokens then.
    pub fn admits(&mut self, uid: u32, now_ns: u64) -> bool {
        let most = f64::from(self.per_second);
        if self.users.len() >= MOST_USERS && !self.users.contains_key(&uid) {
            self.forget(now_ns);
        }
        let (tokens, then_ns) = self.users.entry(uid).or_insert((most, now_ns));
        *tokens = filled(*tokens, *then_ns, now_ns, most);
        *then_ns = now_ns;
        let admitted = *tokens >= 1.0;
        if admitted {
            *tokens -= 1.0;
        }
        admitted
    }

    /// Forgets the users that have all their tokens. Where no user has, as many users came within a
    /// second: then all of them begin anew, so that what is remembered stays bounded.
    fn forget(&mut self, now_ns: u64) {
        let most = f64::from(self.per_second);
        self.users.retain(|_, (tokens, then_ns)| filled(*tokens, *then_ns, now_ns, most) < most);
        if self.users.len() >= MOST_USERS {
            self.users.clear();
        }
    }
}

fn filled(tokens: f64, then_ns: u64, now_ns: u64, most: f64) -> f64 {
    (tokens + now_ns.saturating_sub(then_ns) as f64 * 1e-9 * most).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_is_kept_for_each_user() {
        let mut pace = Pace::new(10);
        assert_eq!((0..20).filter(|_| pace.admits(1, 0)).count(), 10);
        assert!(pace.admits(2, 0));
        assert!(pace.admits(1, 100_000_000));
        assert!(!pace.admits(1, 100_000_001));
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes in Miri")]
    fn users_that_came_long_ago_are_forgotten_before_those_who_spent_their_pace() {
        let mut pace = Pace::new(2);
        for uid in 0..MOST_USERS as u32 - 1 {
            assert!(pace.admits(uid, 0));
        }
        let later = 1_000_000_000;
        assert!(pace.admits(77_777, later) && pace.admits(77_777, later));
        assert!(pace.admits(88_888, later));
        assert!(!pace.admits(77_777, later), "it is remembered");
        assert!(pace.users.len() < 10, "the others are not");
    }
}
