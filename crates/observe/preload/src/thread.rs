//! Data of a thread about itself while it records: its place in the log, and a few marks.
//!
//! It lies in thread-local storage of the initial-exec kind, which costs one instruction to find;
//! the compiler's own kind calls a function of the dynamic linker, which may allocate. All zero
//! is its valid initial value, and nothing happens to it when the thread ends.

use crate::{attachment, guarding};
use guard::rwlock::Reads;
use record::{Kind, Record};
use shm::log::{Cursor, Writer};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Contended locks that a thread remembers to record the release of.
const REMEMBERED: usize = 4;

/// A thread's own marks. Used by the thread and by signal handlers on it.
#[repr(C)]
pub(crate) struct Thread {
    cursor: Cursor,
    id: Cell<u32>,
    /// Number of the process image that `id` and `cursor` belong to.
    process: Cell<u32>,
    /// More than 0 while calls that this library itself makes are not to be recorded.
    quiet: Cell<u32>,
    /// Number of locks that were put into `contended` since it was last empty.
    remembered: Cell<u32>,
    contended: [Cell<usize>; REMEMBERED],
    /// The thread's id for the guard, in this process image.
    known_id: Cell<u32>,
    known_in: Cell<u32>,
    /// The guarded read-write locks that the thread has for reading.
    reads: Reads,
    /// The thread's number among those that used a default stream of their own; 0 before.
    number: Cell<u32>,
}

core::arch::global_asm!(
    ".pushsection .tbss.keeptime_thread,\"awT\",@nobits",
    ".globl keeptime_thread",
    ".hidden keeptime_thread",
    ".type keeptime_thread, @object",
    ".size keeptime_thread, 256",
    ".balign 64",
    "keeptime_thread:",
    ".zero 256",
    ".popsection",
);

const _: () = assert!(std::mem::size_of::<Thread>() <= 256);

/// The calling thread's.
#[inline(always)]
pub(crate) fn this() -> &'static Thread {
    let address: *const Thread;
    // SAFETY: the symbol is this library's thread-local block; its offset from the thread pointer
    // is in the global offset table, since the library is loaded at start-up.
    unsafe {
        core::arch::asm!(
            "mov {address}, qword ptr [rip + keeptime_thread@GOTTPOFF]",
            "add {address}, qword ptr fs:[0]",
            address = out(reg) address,
            options(pure, readonly, nostack),
        );
        // SAFETY: the block is as large as `Thread`, zeroed when the thread began, and lives as
        // long as the thread, which alone uses it.
        &*address
    }
}

impl Thread {
    /// Offset of the word that is 0 unless the thread remembers a contended lock.
    pub(crate) const REMEMBERED_OFFSET: usize = std::mem::offset_of!(Thread, remembered);

    /// Appends a record at `time` with this thread as its writer.
    #[inline(always)]
    pub(crate) fn record(&self, time: u64, kind: Kind, subject: u64, detail: u64, number: u32) {
        let process = attachment::process();
        if process == self.process.get() && process != 0 {
            let writer = Writer { process, thread: self.id.get() };
            let record = Record { time, subject, detail, number, kind };
            attachment::log().append(&self.cursor, writer, time, &record.entry());
        } else {
            self.record_first(Record { time, subject, detail, number, kind });
        }
    }

    /// The thread's first record in this process: it says who it is, first.
    #[cold]
    #[inline(never)]
    fn record_first(&self, record: Record) {
        let Some(process) = attachment::enter() else { return };
        let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        // Unless a signal handler has come in between and done all this.
        if self.process.get() != process {
            // A forked child begins anew; what its parent had is the parent's.
            self.cursor.reset();
            self.remembered.set(0);
            self.id.set(id);
            self.process.set(process);
        }
        let writer = Writer { process, thread: self.id.get() };
        let (name, priority) = (own_name(), own_priority(self.id.get()));
        let who = Record {
            time: record.time,
            subject: u64::from_le_bytes(name[0]),
            detail: u64::from_le_bytes(name[1]),
            number: priority,
            kind: Kind::Thread,
        };
        attachment::log().append(&self.cursor, writer, who.time, &who.entry());
        attachment::log().append(&self.cursor, writer, record.time, &record.entry());
    }

    /// The guarded read-write locks that the thread has for reading.
    #[inline(always)]
    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The thread's id.
    #[inline(always)]
    pub(crate) fn id(&self) -> u32 {
        self.known_id().unwrap_or_else(|| self.learn_id())
    }

    /// The thread's id, once it was asked for.
    #[inline(always)]
    pub(crate) fn known_id(&self) -> Option<u32> {
        // A forked child has another process number, or none yet.
        let process = attachment::process();
        (process != 0 && process == self.known_in.get()).then(|| self.known_id.get())
    }

    #[cold]
    #[inline(never)]
    fn learn_id(&self) -> u32 {
        let id = guarding::guarded_mutex::id_in_the_c_library()
            .unwrap_or_else(|| rustix::thread::gettid().as_raw_nonzero().get() as u32);
        if let Some(process) = attachment::enter() {
            self.known_id.set(id);
            self.known_in.set(process);
        }
        id
    }

    /// A number that no other thread of the process has or had.
    pub(crate) fn number(&self) -> u32 {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        if self.number.get() == 0 {
            self.number.set(NUMBERS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        self.number.get()
    }

    /// Returns true if the thread is inside a call of this library's own.
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.get() != 0
    }

    /// Makes calls that are not recorded.
    #[inline]
    pub(crate) fn quietly<T>(&self, call: impl FnOnce() -> T) -> T {
        self.quiet.set(self.quiet.get() + 1);
        let answer = call();
        self.quiet.set(self.quiet.get() - 1);
        answer
    }

    /// Remembers that a lock was waited for, so that its release will be recorded.
    pub(crate) fn remember(&self, lock: usize) {
        let at = self.remembered.get() as usize;
        // If the thread holds more of them, the release of the oldest one is not recorded.
        self.contended[at % REMEMBERED].set(lock);
        self.remembered.set((at as u32).saturating_add(1));
    }

    /// Returns true if the release of this lock is to be recorded; forgets it.
    #[inline(always)]
    pub(crate) fn forget(&self, lock: usize) -> bool {
        if self.remembered.get() == 0 {
            return false;
        }
        self.forget_remembered(lock)
    }

    #[cold]
    fn forget_remembered(&self, lock: usize) -> bool {
        let Some(at) = self.contended.iter().position(|held| held.get() == lock) else {
            return false;
        };
        self.contended[at].set(0);
        if self.contended.iter().all(|held| held.get() == 0) {
            self.remembered.set(0);
        }
        true
    }
}

fn own_name() -> [[u8; 8]; 2] {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes; a raw call, which leaves errno alone.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") libc::SYS_prctl => _,
            in("rdi") libc::PR_GET_NAME, in("rsi") name.as_mut_ptr(), in("rdx") 0, in("r10") 0,
            in("r8") 0, out("rcx") _, out("r11") _, options(nostack));
    }
    let (mut first, mut last) = ([0; 8], [0; 8]);
    first.copy_from_slice(&name[..8]);
    last.copy_from_slice(&name[8..]);
    [first, last]
}

/// Scheduling policy * 65536 + priority: the real-time priority, or the nice value.
fn own_priority(thread: u32) -> u32 {
    let policy = raw_call(libc::SYS_sched_getscheduler, thread as usize, 0).max(0) as u32 & 0xff;
    if policy == libc::SCHED_FIFO as u32 || policy == libc::SCHED_RR as u32 {
        let mut priority = 0i32;
        let at = std::ptr::from_mut(&mut priority) as usize;
        raw_call(libc::SYS_sched_getparam, thread as usize, at);
        return policy << 16 | (priority as u32 & 0xffff);
    }
    // The kernel answers 20 - nice.
    let nice = 20 - raw_call(libc::SYS_getpriority, libc::PRIO_PROCESS as usize, thread as usize);
    policy << 16 | (nice as u32 & 0xffff)
}

/// Returns true if no thread that this process could know has this id. A signal of number 0 is not
/// sent.
pub(crate) fn is_dead(thread: u32) -> bool {
    raw_call(libc::SYS_tkill, thread as usize, 0) == -i64::from(libc::ESRCH)
}

/// A system call with two arguments that writes at most to where its second one points.
fn raw_call(number: i64, first: usize, second: usize) -> i64 {
    let result: i64;
    // SAFETY: called with the numbers above only, whose second argument is a number or the
    // address of a live `sched_param`.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") first,
            in("rsi") second, out("rcx") _, out("r11") _, options(nostack));
    }
    result
}
