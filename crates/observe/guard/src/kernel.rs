//! Requests of locks' slow paths to the kernel, by system calls of their own: none of this
//! allocates, takes a lock, calls the C library or a function that learns something at its first
//! use, or touches `errno`. A lock that waits may be an allocator's.

#[cfg(loom)]
pub use model::urgency_of;
#[cfg(loom)]
pub(crate) use model::{
    Signals, block_signals, has_ended, is_thread_of_this_process, memory, own_id, restore_signals,
};
#[cfg(not(loom))]
pub(crate) use real::{
    Signals, block_signals, call, has_ended, is_restricted, is_thread_of_this_process, memory,
    own_id, restore_signals,
};
#[cfg(not(loom))]
pub use real::{number_memory_by, restrict, urgency_of};

#[cfg(not(loom))]
mod real {
    use core::mem::transmute;
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// A set of signals as the kernel takes it; None when they were left alone.
    pub(crate) type Signals = Option<u64>;

    const RT_SIGPROCMASK: usize = 14;
    const GETPID: usize = 39;
    const GETTID: usize = 186;
    const TKILL: usize = 200;
    const TGKILL: usize = 234;
    const SCHED_GETATTR: usize = 315;

    /// A system call; its result, which is an error's number below 0 if it failed.
    ///
    /// # Safety
    /// The call does what it does: the caller knows which memory it reads and writes.
    #[inline]
    #[cfg(not(miri))]
    pub(crate) unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
        let result: isize;
        // SAFETY: the kernel keeps all registers but these; memory is the caller's concern.
        unsafe {
            core::arch::asm!("syscall", inlateout("rax") number as isize => result,
                in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
                in("r10") arguments[3], in("r8") arguments[4], in("r9") arguments[5],
                out("rcx") _, out("r11") _, options(nostack));
        }
        result
    }

    /// The same for Miri, which runs no assembly and delivers no signals.
    ///
    /// # Safety
    /// The caller knows which memory the call reads and writes.
    #[cfg(miri)]
    pub(crate) unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
        let [address, operation, value, timeout, other, bits] = arguments;
        let result = match number {
            RT_SIGPROCMASK => 0,
            GETPID => std::process::id().into(),
            // SAFETY: without arguments.
            GETTID => unsafe { libc::syscall(libc::SYS_gettid) },
            // `futex`, to wait and to wake. SAFETY: as the caller says.
            202 if [0, 1, 9, 10].contains(&(operation & 0x7f)) => unsafe {
                let (operation, value, bits) = (operation as i32, value as u32, bits as u32);
                let timeout = std::ptr::with_exposed_provenance::<libc::timespec>(timeout);
                let address = std::ptr::with_exposed_provenance::<u32>(address);
                let other = std::ptr::with_exposed_provenance::<u32>(other);
                libc::syscall(libc::SYS_futex, address, operation, value, timeout, other, bits)
            },
            _ => return -(libc::ENOSYS as isize),
        };
        let errno = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        if result < 0 { -errno() as isize } else { result as isize }
    }

    static RESTRICTED: AtomicBool = AtomicBool::new(false);

    /// Records that the process restricts its system calls, or is about to, or that it does not
    /// after all: from now on only those are made that the C library's own locks make, which are
    /// `futex` to wait and to wake. No thread lends its priority then, and no priority is known.
    pub fn restrict(restricted: bool) {
        RESTRICTED.store(restricted, Ordering::Relaxed);
    }

    /// Returns true if only the system calls of the C library's locks may be made.
    pub(crate) fn is_restricted() -> bool {
        // Relaxed: the thread that restricts itself has stored it.
        RESTRICTED.load(Ordering::Relaxed)
    }

    fn set_signals(signals: u64) -> u64 {
        const SETMASK: usize = 2;
        let mut old = 0u64;
        let arguments = [
            SETMASK,
            (&raw const signals).expose_provenance(),
            (&raw mut old).expose_provenance(),
            8,
            0,
            0,
        ];
        // SAFETY: it reads one set and writes the other.
        unsafe { call(RT_SIGPROCMASK, arguments) };
        old
    }

    /// Blocks all signals of the calling thread, and returns which were blocked before.
    pub(crate) fn block_signals() -> Signals {
        (!is_restricted()).then(|| set_signals(u64::MAX))
    }

    /// Blocks the signals again that were blocked before.
    pub(crate) fn restore_signals(signals: Signals) {
        signals.map(set_signals);
    }

    /// The function that numbers this process' memory; 0: it has the process' id.
    static NUMBER: AtomicUsize = AtomicUsize::new(0);

    /// Has this process' memory numbered by a function from now on. The number is another one in
    /// the child of a fork, and the same for processes that share the memory; it is not 0.
    pub fn number_memory_by(number: fn() -> u32) {
        NUMBER.store(number as usize, Ordering::Relaxed);
    }

    /// The number of this process' memory.
    pub(crate) fn memory() -> u32 {
        // Relaxed: the address of a function.
        match NUMBER.load(Ordering::Relaxed) {
            0 => process(),
            // SAFETY: stored by `number_memory_by`.
            number => unsafe { transmute::<usize, fn() -> u32>(number)() },
        }
    }

    fn process() -> u32 {
        // SAFETY: it takes no argument, and cannot fail.
        unsafe { call(GETPID, [0; 6]) as u32 }
    }

    /// The id of the calling thread as the kernel knows it. What it takes for its id itself is
    /// another one's in a process that was made to share memory, thread-local storage too.
    pub(crate) fn own_id(believed: u32) -> u32 {
        if is_restricted() {
            return believed;
        }
        // SAFETY: it takes no argument, and cannot fail.
        unsafe { call(GETTID, [0; 6]) as u32 }
    }

    /// Returns true if there is such a thread in this process, as far as that may be asked.
    pub(crate) fn is_thread_of_this_process(thread: u32) -> bool {
        const NO_SUCH_PROCESS: isize = -3;
        if is_restricted() {
            return false;
        }
        let arguments = [process() as usize, thread as usize, 0, 0, 0, 0];
        // SAFETY: it writes no memory, and signal 0 is none.
        unsafe { call(TGKILL, arguments) != NO_SUCH_PROCESS }
    }

    /// Returns true if no thread of any process has this id any more. False where that may not be
    /// asked.
    pub(crate) fn has_ended(thread: u32) -> bool {
        const NO_SUCH_PROCESS: isize = -3;
        let arguments = [thread as usize, 0, 0, 0, 0, 0];
        // SAFETY: it writes no memory, and signal 0 is none.
        !is_restricted() && unsafe { call(TKILL, arguments) == NO_SUCH_PROCESS }
    }

    /// Returns the urgency of a thread of this process, of the calling one if 0: 0 without a
    /// real-time priority, else that priority, and above all of them with a deadline of its own.
    /// Lent priority does not count. 0 if there is no such thread, and if it may not be asked.
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
        if is_restricted() {
            return 0;
        }
        let mut attributes = Attributes::default();
        let bytes = size_of::<Attributes>();
        let address = core::ptr::from_mut(&mut attributes).expose_provenance();
        // SAFETY: it writes at most so many bytes.
        let result = unsafe { call(SCHED_GETATTR, [thread as usize, address, bytes, 0, 0, 0]) };
        match result {
            0 if attributes.policy == DEADLINE => 100,
            0 => attributes.priority,
            _ => 0,
        }
    }
}

#[cfg(loom)]
mod model {
    pub(crate) type Signals = u64;

    pub(crate) fn block_signals() -> Signals {
        0
    }

    pub(crate) fn restore_signals(_: Signals) {}

    pub(crate) fn memory() -> u32 {
        1
    }

    pub(crate) fn own_id(me: u32) -> u32 {
        me
    }

    pub(crate) fn is_thread_of_this_process(_: u32) -> bool {
        true
    }

    pub(crate) fn has_ended(_: u32) -> bool {
        false
    }

    /// Returns the urgency: in the models only threads that declare it are urgent.
    pub fn urgency_of(_: u32) -> u32 {
        0
    }
}
