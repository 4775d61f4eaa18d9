//! Objects that the tests use locks for: a pair of numbers that is never seen torn, and a lock's
//! bytes.

use guard::rwlock::{Failure, Reads, Rwlock, Unlocked, Waiting};
use guard::{Clock, Deadline};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::SystemTime;

pub(crate) const MS: i64 = 1_000_000;

thread_local! {
    static READS: Reads = const { Reads::new() };
    static ME: u32 = rustix::thread::gettid().as_raw_nonzero().get() as u32;
}

/// Returns true if the calling thread reads nothing any more.
pub(crate) fn reads_nothing() -> bool {
    READS.with(Reads::is_empty)
}

pub(crate) fn me() -> u32 {
    ME.with(|me| *me)
}

/// A lock with a pair of numbers that writers change one after the other.
pub(crate) struct Guarded {
    pub lock: Rwlock,
    pub pair: UnsafeCell<[u64; 2]>,
    pub entries: AtomicU64,
    pub writes: AtomicU64,
}

// SAFETY: the pair is under the lock, which the tests are about.
unsafe impl Sync for Guarded {}

impl Guarded {
    pub(crate) fn new() -> Guarded {
        Guarded {
            lock: Rwlock::new(),
            pair: UnsafeCell::new([0; 2]),
            entries: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        }
    }

    pub(crate) fn read(&self, until: Option<Deadline>) -> Result<(), Failure> {
        READS.with(|reads| self.lock.read(reads, me(), until))
    }

    pub(crate) fn try_read(&self) -> Result<(), Failure> {
        READS.with(|reads| self.lock.try_read(reads, me()))
    }

    pub(crate) fn write(&self, until: Option<Deadline>) -> Result<(), Failure> {
        self.lock.write(me(), until)
    }

    pub(crate) fn unlock(&self) -> Result<Unlocked, Failure> {
        READS.with(|reads| self.lock.unlock(reads, me()))
    }

    /// Waits until this number of threads wait, by the actions of others.
    pub(crate) fn await_waiting(&self, readers: u32, writers: u32) {
        testing::until_ok("so many wait", || {
            let waiting = self.lock.waiting(me());
            if waiting == (Waiting { readers, writers }) { Ok(()) } else { Err(waiting) }
        });
    }

    /// Looks at the pair, which nobody may be changing.
    pub(crate) fn look(&self) {
        // SAFETY: the calling thread reads, so nobody writes.
        let [first, second] = unsafe { std::ptr::read_volatile(self.pair.get()) };
        assert_eq!(first, second, "a torn pair");
        self.entries.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes the pair; somebody else would see it torn.
    pub(crate) fn change(&self) {
        let pair = self.pair.get().cast::<u64>();
        // SAFETY: the calling thread writes, so nobody else looks. Both are inside the pair.
        unsafe {
            let value = pair.read_volatile();
            assert_eq!(value, pair.add(1).read_volatile(), "a torn pair");
            pair.write_volatile(value + 1);
            if value % 16 == 0 {
                thread::yield_now();
            }
            pair.add(1).write_volatile(value + 1);
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn check_idle(&self) {
        assert!(self.lock.is_idle(me()));
        assert!(reads_nothing());
        self.write(None).unwrap();
        assert_eq!(self.lock.waiting(me()), Waiting { readers: 0, writers: 0 });
        assert_eq!(self.unlock(), Ok(Unlocked::Write));
    }
}

/// The bytes of a `pthread_rwlock_t`.
#[repr(C, align(8))]
pub(crate) struct Bytes(pub UnsafeCell<[u32; 14]>);

// SAFETY: only reached through the lock, or while one thread has it.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub(crate) fn new() -> Bytes {
        Bytes(UnsafeCell::new([0; 14]))
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.0.get().cast()
    }

    pub(crate) fn lock(&self) -> &Rwlock {
        // SAFETY: the bytes are as large and as aligned as the lock, and live as long.
        unsafe { Rwlock::at(self.pointer()) }
    }

    pub(crate) fn word(&self, offset: usize) -> u32 {
        // SAFETY: the offset is inside, and no other thread is about.
        unsafe { self.0.get().cast::<u32>().add(offset / 4).read_volatile() }
    }
}

pub(crate) fn realtime_after(ns: i64) -> Deadline {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Deadline { clock: Clock::Realtime, at_ns: now.as_nanos() as i64 + ns }
}
