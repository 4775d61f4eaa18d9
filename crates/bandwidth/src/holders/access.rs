//! Who may hold the lock, and how often they may ask.

use super::Config;
use super::peer::Peer;
use std::collections::HashMap;

/// The number of a user of this machine.
pub fn user_id(name: &str) -> Option<u32> {
    nix::unistd::User::from_name(name).ok().flatten().map(|user| user.uid.as_raw())
}

/// The number of a group of this machine.
pub fn group_id(name: &str) -> Option<u32> {
    nix::unistd::Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw())
}

/// Whether the rules allow this peer to hold the lock.
pub(super) fn allows(config: &Config, peer: &Peer) -> bool {
    config.users.contains(&peer.uid)
        || peer.groups.iter().any(|group| config.groups.contains(group))
}

/// How often each user may connect: a bucket of tokens for each that may connect at all.
#[derive(Debug)]
pub(super) struct Pace {
    per_second: u32,
    users: HashMap<u32, (f64, u64)>,
}

impl Pace {
    pub(super) fn new(per_second: u32) -> Pace {
        Pace { per_second, users: HashMap::new() }
    }

    /// Whether this user may connect now.
    pub(super) fn admits(&mut self, uid: u32, now_ns: u64) -> bool {
        let most = f64::from(self.per_second);
        let (tokens, then_ns) = self.users.entry(uid).or_insert((most, now_ns));
        let earned = now_ns.saturating_sub(*then_ns) as f64 * 1e-9 * most;
        (*tokens, *then_ns) = ((*tokens + earned).min(most), now_ns);
        let admitted = *tokens >= 1.0;
        if admitted {
            *tokens -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        Peer { pid: 1, uid, groups: groups.to_vec() }
    }

    #[test]
    fn users_and_members_of_groups_are_allowed_and_nobody_else() {
        let config = Config { users: vec![7], groups: vec![100], ..Config::default() };
        assert!(allows(&config, &peer(7, &[])));
        assert!(allows(&config, &peer(8, &[9, 100])));
        assert!(!allows(&config, &peer(8, &[7])));
        assert!(!allows(&config, &peer(0, &[0])), "root is no exception that nobody asked for");
    }

    #[test]
    fn pace_is_kept_for_each_user() {
        let mut pace = Pace::new(10);
        assert_eq!((0..20).filter(|_| pace.admits(1, 0)).count(), 10);
        assert!(pace.admits(2, 0));
        assert!(pace.admits(1, 100_000_000));
        assert!(!pace.admits(1, 100_000_001));
    }
}
