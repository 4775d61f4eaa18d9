//! Memory that stays in place: the limit of locked memory, and pages that the kernel moves.

use realtime::machine;
use rustix::thread::CapabilitySet;

use crate::{Finding, kernel};

/// Bytes of the test of locking: above the customary limit of 8 MiB, as much as a small server
/// needs.
const LOCK_BYTES: usize = 64 << 20;

/// Tries to lock as much memory as a small server needs.
pub(crate) fn memory_lock() -> Finding {
    let limit = match machine::memory_lock_limit() {
        None => "unlimited".into(),
        Some(bytes) => format!("{} KiB", bytes >> 10),
    };
    let megabytes = LOCK_BYTES >> 20;
    if machine::can_lock_memory(LOCK_BYTES) {
        return Finding::ok(format!("{megabytes} MiB can be locked, limit {limit}"));
    }
    let grant = match kernel::is_root() && !kernel::has_capability(CapabilitySet::IPC_LOCK) {
        true => "start the container with --cap-add IPC_LOCK",
        false => "sudo prlimit --pid $$ --memlock=unlimited",
    };
    Finding::limited(format!("RLIMIT_MEMLOCK is {limit}, {megabytes} MiB are refused")).mend(grant)
}

/// Checks compaction: locked pages stay in memory, but by default the kernel may move them.
pub(crate) fn locked_pages() -> Finding {
    let text = std::fs::read_to_string("/proc/sys/vm/compact_unevictable_allowed");
    let grant = "sudo sysctl vm.compact_unevictable_allowed=0";
    match text.as_deref().map(str::trim) {
        Ok("0") => Finding::ok("locked pages stay where they are"),
        Ok(_) => Finding::limited("the kernel may move locked pages").mend(grant),
        Err(error) => Finding::limited(format!("not known: {error}")).mend(grant),
    }
}
