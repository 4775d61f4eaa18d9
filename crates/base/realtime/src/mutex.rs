//! A mutex whose holder inherits the priority of the most urgent thread that waits for it.
//!
//! Without inheritance a thread of middle priority can keep a low one, which holds the lock, off
//! the core, and so keep the high one, which wants the lock, waiting without bound. Here the
//! kernel runs the holder at the waiter's priority until it unlocks.
//!
//! The lock is a pthread mutex with `PTHREAD_PRIO_INHERIT`. Taking a free lock costs one atomic
//! operation and no system call. The kernel hands the lock to waiters in order of priority.
//!
//! There is no poisoning: a panic while the lock is held unlocks it, and the next holder sees
//! whatever the panicking one left.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use crate::thread::{Scheduling, set_policy};

/// A value behind a priority-inheritance mutex.
pub struct PiMutex<T> {
    // Boxed, because the kernel and glibc know a mutex that is in use by its address.
    raw: Box<UnsafeCell<libc::pthread_mutex_t>>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex may be used from every thread, and moving a `PiMutex` to another thread moves
// the value, which is allowed because `T: Send`. No guard can exist during the move.
unsafe impl<T: Send> Send for PiMutex<T> {}
// SAFETY: `&PiMutex` gives access to the value only through a guard, and the mutex lets one guard
// exist at a time, so the value is only ever handed from thread to thread: `T: Send` is enough.
unsafe impl<T: Send> Sync for PiMutex<T> {}

impl<T> PiMutex<T> {
    /// A new, unlocked mutex around `value`.
    ///
    /// # Panics
    /// If the kernel has no priority-inheritance futexes, which every Linux since 2.6.18 has.
    pub fn new(value: T) -> Self {
        let raw = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised by the first call before any other uses them, and
        // destroyed once; the mutex is initialised at its final, boxed address, before any thread
        // else can know it.
        unsafe {
            check("pthread_mutexattr_init", libc::pthread_mutexattr_init(attributes));
            check(
                "pthread_mutexattr_setprotocol",
                libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_INHERIT),
            );
            // An error-checking mutex turns a thread that locks twice into a panic; an ordinary
            // one would sleep for ever.
            check(
                "pthread_mutexattr_settype",
                libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK),
            );
            check("pthread_mutex_init", libc::pthread_mutex_init(raw.get(), attributes));
            libc::pthread_mutexattr_destroy(attributes);
        }
        Self { raw, value: UnsafeCell::new(value) }
    }

    /// Waits for the lock and takes it.
    ///
    /// Blocking; any number of threads may call it at once. A thread that ends while it holds the
    /// lock leaves it locked for ever.
    ///
    /// # Panics
    /// If the calling thread holds this lock already.
    pub fn lock(&self) -> PiGuard<'_, T> {
        // SAFETY: the mutex was initialised in `new` and lives as long as `self`.
        check("pthread_mutex_lock", unsafe { libc::pthread_mutex_lock(self.raw.get()) });
        PiGuard { mutex: self, not_send: PhantomData }
    }

    /// Locks as [`PiMutex::lock`] does, for a thread of the ordinary policy beside threads of
    /// real-time priority: the thread has the `SCHED_FIFO` priority `ceiling` while it waits for
    /// the lock and while it holds it, and the ordinary policy again after the release (the
    /// immediate priority ceiling protocol). `None`, or a priority that the system refuses: the
    /// same as `lock`.
    ///
    /// Inheritance is not enough for such a thread. A lock that becomes free is promised to the first
    /// thread that waits for it. If that is an ordinary one whose core a busy thread keeps, those of
    /// real-time priority take the lock nevertheless, so that no priority is inherited; but
    /// all other ordinary ones wait behind it. A ceiling above the priorities of all that have the
    /// thread's core lets it run at once, for as long as it holds the lock.
    ///
    /// # Panics
    /// As [`PiMutex::lock`].
    pub fn lock_at(&self, ceiling: Option<u8>) -> CeilingGuard<'_, T> {
        let raised = ceiling.is_some_and(|ceiling| set_policy(Scheduling::Fifo(ceiling)).is_ok());
        let raised = Raised(raised);
        CeilingGuard { guard: self.lock(), _raised: raised }
    }

    /// The value, without locking: `&mut self` proves that no other thread can hold the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for PiMutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> std::fmt::Debug for PiMutex<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PiMutex").finish_non_exhaustive()
    }
}

impl<T> Drop for PiMutex<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self` proves that no guard borrows the mutex. A guard that was leaked
        // leaves it locked; destroying it then returns EBUSY and does nothing.
        unsafe { libc::pthread_mutex_destroy(self.raw.get()) };
    }
}

/// The right to use the value of a [`PiMutex`]; unlocks when dropped.
///
/// Only the thread that locked may unlock, so a guard stays on its thread:
///
/// ```compile_fail
/// let mutex = realtime::mutex::PiMutex::new(0);
/// let guard = mutex.lock();
/// std::thread::scope(|scope| scope.spawn(move || drop(guard)));
/// ```
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct PiGuard<'a, T> {
    mutex: &'a PiMutex<T>,
    // A raw pointer is not `Send`, so neither is the guard.
    not_send: PhantomData<*mut ()>,
}

// SAFETY: a shared guard gives out `&T` only, which `T: Sync` allows on any thread.
unsafe impl<T: Sync> Sync for PiGuard<'_, T> {}

impl<T> Deref for PiGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while its thread holds the mutex, so no other code has a
        // reference to the value.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for PiGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference from this guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for PiGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this thread locked the mutex: the guard is created in `lock` and is not `Send`.
        let answer = unsafe { libc::pthread_mutex_unlock(self.mutex.raw.get()) };
        debug_assert_eq!(answer, 0, "the guard's thread holds the lock");
    }
}

/// The right to use the value of a [`PiMutex`] that was locked at a ceiling; unlocks when dropped, and
/// gives the thread its ordinary policy back.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct CeilingGuard<'a, T> {
    // Dropped first: the lock is let go at the ceiling.
    guard: PiGuard<'a, T>,
    _raised: Raised,
}

impl<T> Deref for CeilingGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for CeilingGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// True if the thread has a priority that it is to lose.
struct Raised(bool);

impl Drop for Raised {
    fn drop(&mut self) {
        if self.0 {
            // No thread is refused a priority below its own.
            let _ = set_policy(Scheduling::Normal);
        }
    }
}

fn check(call: &str, answer: libc::c_int) {
    assert!(answer == 0, "{call}: {}", std::io::Error::from_raw_os_error(answer));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::thread::{cores, id, pin, policy};
    use crate::work;
    use std::time::{Duration, Instant};

    #[test]
    fn one_thread_at_a_time_is_inside() {
        const THREADS: usize = 4;
        const ROUNDS: u64 = 20_000;
        let counter = PiMutex::new(0u64);
        let inside = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut value = counter.lock();
                        assert!(!inside.swap(true, Ordering::Relaxed), "two threads inside");
                        *value += 1;
                        inside.store(false, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(*counter.lock(), THREADS as u64 * ROUNDS);
    }

    #[test]
    fn panic_while_locked_unlocks_without_poisoning() {
        let value = PiMutex::new(1);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            *value.lock() = 2;
            let _guard = value.lock();
            panic!("with the lock held");
        }));
        assert!(result.is_err());
        assert_eq!(*value.lock(), 2);
    }

    #[test]
    fn locking_twice_panics_instead_of_sleeping_for_ever() {
        let value = PiMutex::new(());
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _first = value.lock();
            let _second = value.lock();
        }));
        assert!(result.is_err());
        drop(value.lock());
    }

    /// Low (10) takes the lock and works; middle (20) then takes the core from it; high (30) wants
    /// the lock. With inheritance low continues at 30, so high is done before middle is. Without,
    /// low continues only after middle. The order of the three ends is the proof; no time is.
    #[test]
    fn holder_inherits_the_priority_of_the_waiter() {
        let ends = priority_inversion(&Arc::new(PiMutex::new(())), |mutex, section| {
            let _guard = mutex.lock();
            section();
        });
        match ends {
            Some(ends) => assert_eq!(ends, ["high", "middle", "low"], "no inheritance"),
            None => println!("SKIP priority inheritance: SCHED_FIFO is refused here"),
        }
    }

    /// The same scene with an ordinary mutex must come out wrong, or the test above proves nothing.
    #[test]
    fn ordinary_mutex_lets_the_middle_priority_in_first() {
        let ends = priority_inversion(&Arc::new(std::sync::Mutex::new(())), |mutex, section| {
            let _guard = mutex.lock().unwrap();
            section();
        });
        match ends {
            Some(ends) => assert_eq!(ends[0], "middle", "the scene has no inversion"),
            None => println!("SKIP priority inheritance: SCHED_FIFO is refused here"),
        }
    }

    #[test]
    fn waiter_at_a_ceiling_keeps_nobody_from_the_lock() {
        // The limit ends a hang.
        match behind_a_waiter(|mutex| drop(mutex.lock_at(Some(11))), Duration::from_secs(20)) {
            Some(busy) => assert!(busy, "it waited until the other core was free"),
            None => println!("SKIP priority ceiling: SCHED_FIFO is refused here, or one core"),
        }
    }

    /// The same scene without a ceiling must come out wrong, or the test above proves nothing.
    #[test]
    fn ordinary_waiter_without_a_core_keeps_other_ordinary_ones_from_the_lock() {
        // Less than the kernel lets a thread of real-time priority run without a break.
        match behind_a_waiter(|mutex| drop(mutex.lock()), Duration::from_millis(600)) {
            Some(busy) => assert!(!busy, "the scene has no inversion"),
            None => println!("SKIP priority ceiling: SCHED_FIFO is refused here, or one core"),
        }
    }

    /// An ordinary thread waits for the lock, on a core that a thread of priority 10 takes then, until
    /// the scene is over or for `most`; the lock becomes free, and another ordinary thread wants it.
    /// Returns whether it has had it while the core was still taken.
    fn behind_a_waiter(take: fn(&PiMutex<()>), most: Duration) -> Option<bool> {
        let [first, .., last] = cores()[..] else { return None };
        std::thread::spawn(|| set_policy(Scheduling::Fifo(10)).ok()).join().ok()??;
        let (mutex, busy) = (PiMutex::new(()), AtomicBool::new(false));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let (mutex, busy, over) = (&mutex, &busy, &over);
            let director = scope.spawn(move || {
                pin(&[first]).unwrap();
                let held = mutex.lock();
                scope.spawn(move || {
                    pin(&[last]).unwrap();
                    tell.send(id()).unwrap();
                    take(mutex);
                });
                let waiter = told.recv().unwrap();
                // The kernel's word that it sleeps for this lock.
                let call = format!("{} {:#x} ", libc::SYS_futex, mutex.raw.get().addr());
                let file = format!("/proc/self/task/{waiter}/syscall");
                while !std::fs::read_to_string(&file).unwrap().starts_with(&call) {
                    std::thread::yield_now();
                }
                scope.spawn(move || {
                    pin(&[last]).unwrap();
                    set_policy(Scheduling::Fifo(10)).unwrap();
                    busy.store(true, Ordering::SeqCst);
                    let began = Instant::now();
                    while began.elapsed() < most && !over.load(Ordering::SeqCst) {}
                    busy.store(false, Ordering::SeqCst);
                });
                while !busy.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                drop(held);
                take(mutex);
                let is_busy = busy.load(Ordering::SeqCst);
                over.store(true, Ordering::SeqCst);
                assert_eq!(policy(), Scheduling::Normal);
                is_busy
            });
            Some(director.join().unwrap())
        })
    }

    /// Plays the scene on one core and returns the order in which the threads ended.
    fn priority_inversion<M: Send + Sync + 'static>(
        mutex: &Arc<M>,
        with_lock: fn(&M, &mut dyn FnMut()),
    ) -> Option<Vec<&'static str>> {
        let core = *cores().last()?;
        // The director runs above all three, on the same core, and so decides who starts when.
        let director = std::thread::spawn({
            let mutex = Arc::clone(mutex);
            move || -> Option<Vec<&'static str>> {
                set_policy(Scheduling::Fifo(40)).ok()?;
                pin(&[core]).ok()?;
                let (ended, ends) = mpsc::channel();
                let (locked, low_has_locked) = mpsc::channel();
                let spawn = |name: &'static str, priority, act: Box<dyn FnOnce() + Send>| {
                    let ended = ended.clone();
                    std::thread::spawn(move || {
                        set_policy(Scheduling::Fifo(priority)).expect("40 was allowed");
                        act();
                        ended.send(name).expect("the director listens");
                    })
                };
                let calibration = work::Calibration { iterations_per_us: 100.0, spread: 0.0 };
                let (low_mutex, high_mutex) = (Arc::clone(&mutex), mutex);
                let low = spawn(
                    "low",
                    10,
                    Box::new(move || {
                        with_lock(&low_mutex, &mut || {
                            locked.send(()).expect("the director listens");
                            work::run_for(&calibration, 20_000_000);
                        });
                    }),
                );
                // Waiting lets low run; its message wakes the director, which outranks it.
                low_has_locked.recv().expect("low is alive");
                let middle =
                    spawn("middle", 20, Box::new(move || work::run_for(&calibration, 100_000_000)));
                let high = spawn("high", 30, Box::new(move || with_lock(&high_mutex, &mut || {})));
                // Both wait for the core, at the director's priority, until it sleeps in `join`.
                for actor in [low, middle, high] {
                    actor.join().expect("the actor did not panic");
                }
                drop(ended);
                Some(ends.iter().collect())
            }
        });
        director.join().expect("the director did not panic")
    }
}
