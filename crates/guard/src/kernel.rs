//! What the slow paths of locks ask the kernel, without touching `errno`.

#[cfg(loom)]
pub use model::urgency_of;
#[cfg(loom)]
pub(crate) use model::{block_signals, process, restore_signals};
#[cfg(not(loom))]
pub use real::urgency_of;
#[cfg(not(loom))]
pub(crate) use real::{block_signals, process, restore_signals};

#[cfg(loom)]
pub(crate) use model::is_thread_of_this_process;
#[cfg(not(loom))]
pub(crate) use real::is_thread_of_this_process;

#[cfg(not(loom))]
mod real {
    /// A set of signals as the kernel takes it.
    pub type Signals = u64;

    const RT_SIGPROCMASK: usize = 14;
    const TGKILL: usize = 234;
    const SCHED_GETATTR: usize = 315;

    /// # Safety
    /// The call does what it does: the caller knows which memory it writes.
    unsafe fn call(number: usize, arguments: [usize; 4]) -> isize {
        let result: isize;
        // SAFETY: the kernel keeps all registers but these; memory is the caller's concern.
        unsafe {
            core::arch::asm!("syscall", inlateout("rax") number as isize => result,
                in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
                in("r10") arguments[3], out("rcx") _, out("r11") _, options(nostack));
        }
        result
    }

    fn set_signals(signals: Signals, old: &mut Signals) {
        const SETMASK: usize = 2;
        let new = &raw const signals;
        let arguments = [SETMASK, new.addr(), core::ptr::from_mut(old).addr(), 8];
        // SAFETY: it reads one set and writes the other.
        unsafe { call(RT_SIGPROCMASK, arguments) };
    }

    /// Blocks all signals of the calling thread, and returns which were blocked before.
    pub fn block_signals() -> Signals {
        let mut old = 0;
        set_signals(Signals::MAX, &mut old);
        old
    }

    /// Blocks these signals and no others.
    pub fn restore_signals(signals: Signals) {
        set_signals(signals, &mut 0);
    }

    /// The id of this process, which is another one in the child of a fork.
    pub fn process() -> u32 {
        rustix::process::getpid().as_raw_nonzero().get().cast_unsigned()
    }

    /// Whether there is such a thread in this process.
    pub fn is_thread_of_this_process(thread: u32) -> bool {
        const NO_SUCH_PROCESS: isize = -3;
        // SAFETY: it writes no memory, and signal 0 is none.
        let result = unsafe { call(TGKILL, [process() as usize, thread as usize, 0, 0]) };
        result != NO_SUCH_PROCESS
    }

    /// How urgent a thread of this process is, the calling one if 0: 0 without a real-time
    /// priority, else that priority, and above all of them with a deadline of its own. What it was
    /// lent does not count. 0 if there is no such thread.
    pub fn urgency_of(thread: u32) -> u32 {
        /// The first version of the kernel's structure, which all kernels know.
        #[derive(Default)]
        #[repr(C)]
        struct Attributes {
            bytes: u32,
            policy: u32,
            flags: u64,
            nice: i32,
            priority: u32,
            runtime_deadline_period_ns: [u64; 3],
        }
        const DEADLINE: u32 = 6;
        let mut attributes = Attributes::default();
        let bytes = size_of::<Attributes>();
        let address = core::ptr::from_mut(&mut attributes).addr();
        // SAFETY: it writes at most so many bytes.
        let result = unsafe { call(SCHED_GETATTR, [thread as usize, address, bytes, 0]) };
        match result {
            0 if attributes.policy == DEADLINE => 100,
            0 => attributes.priority,
            _ => 0,
        }
    }
}

#[cfg(loom)]
mod model {
    pub(crate) fn block_signals() -> u64 {
        0
    }

    pub(crate) fn restore_signals(_: u64) {}

    pub(crate) fn process() -> u32 {
        1
    }

    pub(crate) fn is_thread_of_this_process(_: u32) -> bool {
        true
    }

    /// In the models only those who say so are urgent.
    pub fn urgency_of(_: u32) -> u32 {
        0
    }
}
