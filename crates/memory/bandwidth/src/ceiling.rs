//! The priority at which a thread runs while it holds the lock.
//!
//! So that no other thread of its core keeps a holder from giving the lock back (the priority
//! ceiling of BWLOCK++, section V-A). A thread is raised once, however often it takes the lock,
//! and gets back exactly what it had: policy, priority, nice value, the flag that children do not
//! inherit it, and the parameters of its policy. Two system calls to raise, two to restore.
//!
//! A thread that is at least as urgent already (`SCHED_FIFO` or `SCHED_RR` of such a priority,
//! `SCHED_DEADLINE`) is left as it is. So is one whose policy another program has changed
//! meanwhile.

use std::cell::Cell;

/// A `SCHED_FIFO` priority, 1 to 99.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    priority: u32,
}

/// The kernel's `struct sched_attr`, in its first version, which all kernels know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Attributes {
    bytes: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const ATTRIBUTES_BYTES: u32 = 48;
const _: () = assert!(size_of::<Attributes>() == ATTRIBUTES_BYTES as usize);

const FIFO: u32 = libc::SCHED_FIFO as u32;
const ROUND_ROBIN: u32 = libc::SCHED_RR as u32;
const DEADLINE: u32 = libc::SCHED_DEADLINE as u32;
/// `SCHED_FLAG_RESET_ON_FORK`
const RESET_ON_FORK: u64 = 1;

/// State of the calling thread's ceilings.
#[derive(Clone, Copy)]
struct State {
    /// Number of raises that were not restored yet.
    depth: u32,
    /// Attributes before the raise, and those that it set, if the thread was really raised.
    changed: Option<(Attributes, Attributes)>,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State { depth: 0, changed: None }) };
}

impl Ceiling {
    /// A ceiling of this priority; None unless it is 1 to 99.
    pub fn new(priority: u32) -> Option<Ceiling> {
        (1..=99).contains(&priority).then_some(Ceiling { priority })
    }

    /// The priority.
    pub fn priority(self) -> u32 {
        self.priority
    }

    /// Raises the calling thread, until it has restored as often as it was raised. False when the
    /// kernel refuses: then it stays as it was and must not be restored.
    ///
    /// Allocates nothing and leaves `errno` alone. Not for signal handlers.
    pub fn raise(self) -> bool {
        let mut state = STATE.get();
        if state.depth == 0 {
            let Some(before) = attributes() else { return false };
            state.changed = None;
            if self.is_above(&before) {
                let flags = before.flags & RESET_ON_FORK;
                let raised = Attributes {
                    bytes: ATTRIBUTES_BYTES,
                    policy: FIFO,
                    flags,
                    priority: self.priority,
                    ..Attributes::default()
                };
                if !set_attributes(&raised) {
                    return false;
                }
                state.changed = Some((before, raised));
            }
        }
        state.depth = state.depth.saturating_add(1);
        STATE.set(state);
        true
    }

    /// Takes back one [`Ceiling::raise`] of the calling thread; the last one gives it back what it
    /// had. Without a raise it does nothing.
    ///
    /// Allocates nothing and leaves `errno` alone. Not for signal handlers.
    pub fn restore(self) {
        let mut state = STATE.get();
        state.depth = state.depth.saturating_sub(1);
        if state.depth == 0 {
            if let Some((before, raised)) = state.changed.take() {
                if attributes().is_some_and(|now| now.is_policy_of(&raised)) {
                    set_attributes(&before);
                }
            }
        }
        STATE.set(state);
    }

    fn is_above(self, thread: &Attributes) -> bool {
        match thread.policy {
            DEADLINE => false,
            FIFO | ROUND_ROBIN => thread.priority < self.priority,
            _ => true,
        }
    }
}

impl Attributes {
    fn is_policy_of(&self, other: &Attributes) -> bool {
        (self.policy, self.priority) == (other.policy, other.priority)
    }
}

/// Returns the scheduling attributes of the calling thread; None if the kernel refuses.
fn attributes() -> Option<Attributes> {
    let mut attributes = Attributes { bytes: ATTRIBUTES_BYTES, ..Attributes::default() };
    // SAFETY: writes at most so many bytes; thread 0 is the caller.
    let result = keeping_errno(|| unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, ATTRIBUTES_BYTES, 0)
    });
    (result == 0).then_some(attributes)
}

/// Gives the calling thread this.
fn set_attributes(attributes: &Attributes) -> bool {
    // SAFETY: reads one structure, which says how long it is; thread 0 is the caller.
    let result = keeping_errno(|| unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0)
    });
    result == 0
}

fn keeping_errno(call: impl FnOnce() -> libc::c_long) -> libc::c_long {
    // SAFETY: the calling thread's own `errno`, which no other code has a reference to.
    unsafe {
        let at = libc::__errno_location();
        let errno = *at;
        let result = call();
        *at = errno;
        result
    }
}
