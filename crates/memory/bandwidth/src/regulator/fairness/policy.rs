//! The scheduling policy of any thread, taken away and given back exactly.

use std::io;

/// The policy of threads that a scheduler in BPF runs.
pub(super) const SCHED_EXT: i32 = 7;

/// The kernel's data about a thread's scheduling, in the first version of its structure.
#[derive(Clone, Copy)]
pub(super) struct Scheduling(libc::sched_attr);

const BYTES: u32 = 48;
const _: () = assert!(size_of::<libc::sched_attr>() == BYTES as usize);

impl Scheduling {
    /// Returns the scheduling of a thread.
    ///
    /// # Errors
    /// The kernel's; `ESRCH` when there is no such thread.
    pub(super) fn of(thread: i32) -> io::Result<Scheduling> {
        // SAFETY: all of its fields are integers.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes as many bytes at most.
        let answer = unsafe {
            libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attributes, BYTES, 0)
        };
        if answer == 0 { Ok(Scheduling(attributes)) } else { Err(io::Error::last_os_error()) }
    }

    /// An ordinary one of this nice value and these flags.
    pub(super) fn ordinary(policy: i32, nice: i32, flags: u64) -> Scheduling {
        // SAFETY: as above.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        attributes.size = BYTES;
        attributes.sched_policy = policy as u32;
        attributes.sched_nice = nice;
        attributes.sched_flags = flags;
        Scheduling(attributes)
    }

    /// The kernel's number of the policy.
    pub(super) fn policy(&self) -> i32 {
        self.0.sched_policy as i32
    }

    /// The nice value.
    pub(super) fn nice(&self) -> i32 {
        self.0.sched_nice
    }

    /// `SCHED_FLAG_*`.
    pub(super) fn flags(&self) -> u64 {
        self.0.sched_flags
    }

    /// Returns true if the policy is one that shares the core by weight.
    pub(super) fn is_shared(&self) -> bool {
        [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&self.policy())
    }

    /// The same under `SCHED_IDLE`: a weight of 3 where nice 0 has 1024.
    pub(super) fn idle(mut self) -> Scheduling {
        self.0.sched_policy = libc::SCHED_IDLE as u32;
        self
    }

    /// Gives it to a thread.
    ///
    /// # Errors
    /// The kernel's; `ESRCH` when there is no such thread.
    pub(super) fn give(mut self, thread: i32) -> io::Result<()> {
        self.0.size = BYTES;
        // SAFETY: reads one structure, which says how long it is and outlives the call.
        let answer =
            unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const self.0, 0) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Gives a thread back what it had, if it still has `SCHED_IDLE`; what another program has given it
/// meanwhile stays.
pub(super) fn give_back(thread: i32, before: Scheduling) {
    let is_ours = Scheduling::of(thread).is_ok_and(|now| now.policy() == libc::SCHED_IDLE);
    if is_ours {
        // The only likely error is that the thread has ended.
        let _ = before.give(thread);
    }
}
