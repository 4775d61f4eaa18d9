//! Rules about the users that may hold the lock.

use super::Config;
use shm::peer::Peer;

/// The number of a user of this machine.
pub fn user_id(name: &str) -> Option<u32> {
    nix::unistd::User::from_name(name).ok().flatten().map(|user| user.uid.as_raw())
}

/// The number of a group of this machine.
pub fn group_id(name: &str) -> Option<u32> {
    nix::unistd::Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw())
}

/// Returns true if the rules allow this peer to hold the lock.
pub(super) fn allows(config: &Config, peer: &Peer) -> bool {
    config.users.contains(&peer.uid)
        || peer.groups.iter().any(|group| config.groups.contains(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        Peer { pid: rustix::process::getpid(), uid, groups: groups.to_vec() }
    }

    #[test]
    fn users_and_members_of_groups_are_allowed_and_nobody_else() {
        let config = Config { users: vec![7], groups: vec![100], ..Config::default() };
        assert!(allows(&config, &peer(7, &[])));
        assert!(allows(&config, &peer(8, &[9, 100])));
        assert!(!allows(&config, &peer(8, &[7])));
        assert!(!allows(&config, &peer(0, &[0])), "root is no exception that nobody asked for");
    }
}
