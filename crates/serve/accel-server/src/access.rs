//! Rules of access: the users that may connect, and their rights.
//!
//! Rules are tried in the order of the file; the first that names the peer's user or one of its
//! groups counts. The server's own user and root, where no rule names them, may do everything: the
//! kernel lets them do to the server what they like.

use crate::Error;
use bandwidth::holders::{group_id, user_id};
use shm::door::Openers;
use shm::peer::Peer;
use std::collections::BTreeMap;
use std::sync::Arc;
use system::{AccessRule, Limits};

/// Rights of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub priority_min: u32,
    pub priority_max: u32,
    /// Sessions that the same user may have open.
    pub sessions: u32,
    /// Bytes of registered memory.
    pub memory_bytes: u64,
    /// Share of each accelerator that the chains declared by the user may ask for, in percent;
    /// None for everything.
    pub declare: Option<Arc<BTreeMap<String, u32>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    User(u32),
    Group(u32),
}

/// The rules, with names resolved.
#[derive(Debug)]
pub(crate) struct Access {
    rules: Vec<(Who, Grant)>,
}

impl Access {
    pub(crate) fn new(server: &system::Server) -> Result<Access, Error> {
        let limits = &server.limits;
        let mut rules = Vec::new();
        for (index, rule) in server.access.iter().enumerate() {
            let grant = Grant {
                priority_min: rule.priority[0],
                priority_max: rule.priority[1],
                sessions: rule.sessions.unwrap_or(limits.sessions),
                memory_bytes: rule.memory_bytes.unwrap_or(limits.memory_bytes),
                declare: rule.percents().map(Arc::new),
            };
            rules.push((resolve(rule, index)?, grant));
        }
        let own = rustix::process::geteuid().as_raw();
        rules.extend([own, 0].map(|uid| (Who::User(uid), everything(limits))));
        Ok(Access { rules })
    }

    /// Users and groups that the permissions of the socket file must admit.
    pub(crate) fn openers(&self, mode: u32, group: Option<u32>) -> Openers {
        let mut openers = Openers { group, ..Openers::mode(mode) };
        for (who, _) in &self.rules {
            match who {
                Who::User(uid) => openers.users.push(*uid),
                Who::Group(gid) => openers.groups.push(*gid),
            }
        }
        openers
    }

    /// Returns the rights of this peer; None if it may not connect.
    pub(crate) fn grant(&self, peer: &Peer) -> Option<Grant> {
        let matches = |who: &Who| match *who {
            Who::User(uid) => peer.uid == uid,
            Who::Group(gid) => peer.groups.contains(&gid),
        };
        self.rules.iter().find(|(who, _)| matches(who)).map(|(_, grant)| grant.clone())
    }
}

/// Root and the server's own user could do to the server what they like: no limit keeps them from
/// it, and what they declare is believed.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn everything(limits: &Limits) -> Grant {
    Grant {
        priority_min: 0,
        priority_max: u32::MAX,
        sessions: limits.sessions,
        memory_bytes: limits.memory_bytes,
        declare: None,
    }
}

fn resolve(rule: &AccessRule, index: usize) -> Result<Who, Error> {
    let known = |key: &str, who: &system::Who, find: fn(&str) -> Option<u32>| match who {
        system::Who::Id(id) => Ok(*id),
        system::Who::Name(name) => find(name).ok_or_else(|| Error::Config {
            key: format!("server.access[{index}].{key}"),
            found: format!("{name:?}"),
            expected: format!("expected a {key} that this machine knows"),
        }),
    };
    match (&rule.user, &rule.group) {
        (Some(user), _) => known("user", user, user_id).map(Who::User),
        (None, Some(group)) => known("group", group, group_id).map(Who::Group),
        (None, None) => Err(Error::Config {
            key: format!("server.access[{index}]"),
            found: "neither".to_owned(),
            expected: "expected either a user or a group".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use system::Who::{Id, Name};

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        Peer { pid: rustix::process::getpid(), uid, groups: groups.to_vec() }
    }

    fn rule(
        user: Option<system::Who>,
        group: Option<system::Who>,
        priority: [u32; 2],
    ) -> AccessRule {
        let (sessions, memory_bytes, declare) = (None, None, None);
        AccessRule { user, group, priority, sessions, memory_bytes, declare }
    }

    fn access(rules: Vec<AccessRule>) -> Result<Access, Error> {
        Access::new(&system::Server { access: rules, ..system::Server::default() })
    }

    #[test]
    fn first_matching_rule_counts() {
        let access = access(vec![
            rule(Some(Id(7)), None, [0, 10]),
            rule(None, Some(Id(100)), [5, 50]),
            rule(None, Some(Name("root".into())), [0, 99]),
        ])
        .unwrap();
        let range = |peer: Peer| access.grant(&peer).map(|g| [g.priority_min, g.priority_max]);
        assert_eq!(range(peer(7, &[100])), Some([0, 10]));
        assert_eq!(range(peer(8, &[9, 100])), Some([5, 50]));
        assert_eq!(range(peer(8, &[0])), Some([0, 99]));
        assert_eq!(range(peer(8, &[9])), None);
    }

    #[test]
    fn without_rules_only_the_own_user_and_root_may_connect() {
        let access = access(vec![]).unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert!(access.grant(&peer(own, &[])).is_some());
        assert!(access.grant(&peer(0, &[])).is_some());
        assert!(access.grant(&peer(own + 12345, &[0])).is_none());
    }

    #[test]
    fn own_user_and_root_need_no_rule() {
        let own = rustix::process::geteuid().as_raw();
        let stranger = || rule(Some(Id(own + 12345)), None, [0, 10]);
        let without = access(vec![stranger()]).unwrap();
        let most = |access: &Access, uid| access.grant(&peer(uid, &[])).map(|g| g.priority_max);
        assert_eq!([own, 0].map(|uid| most(&without, uid)), [Some(u32::MAX); 2]);
        let with = access(vec![rule(Some(Id(own)), None, [0, 7]), stranger()]).unwrap();
        assert_eq!(most(&with, own), Some(7));
    }

    #[test]
    fn unknown_names_are_refused_with_their_key() {
        let unknown = rule(Some(Name("no such user".into())), None, [0, 1]);
        let error = access(vec![unknown]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "server.access[0].user: \"no such user\": expected a user that this machine knows"
        );
    }
}
