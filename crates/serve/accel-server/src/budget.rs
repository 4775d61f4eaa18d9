//! Limits of the memory that clients may cost, for all together and for each user.
//!
//! The charge is the most memory that the kernel takes when the server makes pages present: they
//! count for the control group of the server, also if the client had touched them before and has
//! taken them away since. A control group that is full ends processes, so there is a limit below
//! that of the group, and no memory is taken that the group has no room for now.

use crate::access::is_trusted;
use crate::refusal::Refusal;
use accel::control::Code;
use realtime::memory_group::{MemoryGroup, machine_bytes};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The limit where nothing says how much memory there is.
const USUAL_BYTES: u64 = 1 << 30;

/// Memory that is charged to each user, and its limits.
pub(crate) struct Budget {
    pub total_bytes: u64,
    /// Limit of one user.
    pub user_bytes: u64,
    group: Option<MemoryGroup>,
    used: HashMap<u32, u64>,
    sum_bytes: Arc<AtomicU64>,
}

impl Budget {
    /// The budget of this configuration, on this machine and in this control group.
    pub(crate) fn new(limits: &system::Limits) -> Budget {
        let group = MemoryGroup::of_this_process();
        let group_bytes = group.as_ref().and_then(MemoryGroup::limit_bytes);
        let total_bytes =
            limits.total_memory_bytes.unwrap_or_else(|| usual(machine_bytes(), group_bytes));
        Budget {
            total_bytes,
            user_bytes: limits.user_memory_bytes.unwrap_or(total_bytes / 4 * 3).min(total_bytes),
            group,
            used: HashMap::new(),
            sum_bytes: Arc::default(),
        }
    }

    /// The bytes charged now, for the counters.
    pub(crate) fn gauge(&self) -> Arc<AtomicU64> {
        self.sum_bytes.clone()
    }

    pub(crate) fn sum_bytes(&self) -> u64 {
        self.sum_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn used_by(&self, uid: u32) -> u64 {
        self.used.get(&uid).copied().unwrap_or(0)
    }

    /// Returns the limit of a user: something is left for others, unless the user is trusted.
    pub(crate) fn limit_of(&self, uid: u32) -> u64 {
        if is_trusted(uid) { self.total_bytes } else { self.user_bytes }
    }

    /// The users that are charged something.
    pub(crate) fn users(&self) -> impl Iterator<Item = u32> {
        self.used.keys().copied()
    }

    /// Checks that there is room for more memory of a user.
    pub(crate) fn fits(&self, uid: u32, bytes: u64) -> Result<(), Refusal> {
        let refused = |text: String| Err((Code::Limit, text));
        let (total, user) = (self.total_bytes, self.limit_of(uid));
        let left = total.saturating_sub(self.sum_bytes());
        if bytes > left {
            return refused(format!(
                "{bytes} bytes of memory: {left} bytes are left of {total} for all clients \
                 (server.limits.total_memory)"
            ));
        }
        let left = user.saturating_sub(self.used_by(uid));
        if bytes > left {
            return refused(format!(
                "{bytes} bytes of memory: user {uid} has {left} bytes left of {user} \
                 (server.limits.user_memory)"
            ));
        }
        let room = if bytes == 0 { None } else { self.group.as_ref().and_then(MemoryGroup::room) };
        match room {
            // The server itself needs some, too.
            Some(room) if bytes > room.left_bytes.saturating_sub(room.limit_bytes / 16) => {
                refused(format!(
                    "{bytes} bytes of memory: the server's control group has {} bytes left of {}",
                    room.left_bytes, room.limit_bytes
                ))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn charge(&mut self, uid: u32, bytes: u64) {
        *self.used.entry(uid).or_insert(0) += bytes;
        self.sum_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn refund(&mut self, uid: u32, bytes: u64) {
        if let Some(used) = self.used.get_mut(&uid) {
            *used = used.saturating_sub(bytes);
            if *used == 0 {
                self.used.remove(&uid);
            }
        }
        self.sum_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Half of the machine's memory, and three quarters of the control group's limit at most.
fn usual(machine: Option<u64>, group: Option<u64>) -> u64 {
    let machine = machine.map_or(USUAL_BYTES, |bytes| bytes / 2);
    group.map_or(machine, |bytes| machine.min(bytes / 4 * 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limits: system::Limits) -> Budget {
        Budget { group: None, ..Budget::new(&limits) }
    }

    #[test]
    fn total_and_user_have_limits_of_their_own() {
        let limits = system::Limits {
            total_memory_bytes: Some(1000),
            user_memory_bytes: Some(600),
            ..system::Limits::default()
        };
        let mut budget = budget(limits);
        let refusal =
            |budget: &Budget, uid: u32, bytes: u64| budget.fits(uid, bytes).unwrap_err().1;
        let [one, other] = [70_001, 70_002];
        budget.charge(one, 500);
        let said = refusal(&budget, one, 101);
        assert!(said.contains("user 70001 has 100 bytes left of 600"), "{said}");
        assert!(budget.fits(one, 100).is_ok());
        budget.charge(other, 450);
        let said = refusal(&budget, other, 51);
        assert!(said.contains("50 bytes are left of 1000 for all clients"), "{said}");
        assert!(refusal(&budget, 0, 51).contains("for all clients"), "root may have the rest");
        budget.refund(one, 500);
        assert!(budget.fits(0, 550).is_ok());
        assert_eq!((budget.used_by(one), budget.sum_bytes()), (0, 450));
        assert_eq!(budget.users().collect::<Vec<u32>>(), [other]);
    }

    #[test]
    fn usual_limit_is_below_what_there_is() {
        const MIB: u64 = 1 << 20;
        assert_eq!(usual(Some(8192 * MIB), None), 4096 * MIB);
        assert_eq!(usual(Some(8192 * MIB), Some(120 * MIB)), 90 * MIB);
        assert_eq!(usual(Some(64 * MIB), Some(120 * MIB)), 32 * MIB);
        assert_eq!(usual(None, None), USUAL_BYTES);
    }
}
