//! The scheduling policy of any thread, with what belongs to it.

use std::io;

/// The policy of tasks that a sched_ext scheduler runs.
pub const SCHED_EXT: u32 = 7;

/// The kernel's data about a thread's scheduling, to be put back as they were.
#[derive(Clone, Copy, Debug)]
pub struct Attributes(libc::sched_attr);

impl Attributes {
    /// Returns the attributes of a thread.
    ///
    /// # Errors
    /// The kernel's; `ESRCH` when there is no such thread.
    pub fn of(tid: i32) -> io::Result<Self> {
        // SAFETY: all of its fields are integers.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::sched_attr>();
        // SAFETY: the kernel writes `size` bytes at most, and there are as many.
        let answer =
            unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &mut attributes, size, 0) };
        if answer == 0 { Ok(Self(attributes)) } else { Err(io::Error::last_os_error()) }
    }

    /// The kernel's number of the policy.
    pub fn policy(&self) -> u32 {
        self.0.sched_policy
    }

    /// Returns true if the policy is one that shares the processor by weight.
    pub fn is_ordinary(&self) -> bool {
        let ordinary = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
        ordinary.contains(&(self.0.sched_policy as i32))
    }

    /// The same nice value and flags under another policy.
    pub fn with_policy(mut self, policy: u32) -> Self {
        self.0.sched_policy = policy;
        self
    }

    /// Gives them to a thread.
    ///
    /// # Errors
    /// The kernel's; `ESRCH` when there is no such thread.
    pub fn set(mut self, tid: i32) -> io::Result<()> {
        self.0.size = size_of::<libc::sched_attr>() as u32;
        // SAFETY: the attributes are initialised, say their size, and outlive the call.
        let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &self.0, 0) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
