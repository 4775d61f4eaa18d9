//! What the C library does with an ordinary mutex, for models and tests.

use super::Mutex;
use crate::atomic::Ordering;
use crate::futex;

/// `pthread_mutex_trylock`.
pub fn try_lock(mutex: &Mutex, me: u32) -> bool {
    let taken = mutex.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if taken {
        mutex.owner.store(me, Ordering::Relaxed);
        mutex.users.store(mutex.users.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
    taken
}

/// `pthread_mutex_unlock`, for an ordinary mutex.
pub fn unlock(mutex: &Mutex) {
    mutex.owner.store(0, Ordering::Relaxed);
    mutex.users.store(mutex.users.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    if mutex.word.swap(0, Ordering::AcqRel) > 1 {
        futex::wake(&mutex.word, 1, true);
    }
}

/// Whether nobody has it.
pub fn is_free(mutex: &Mutex) -> bool {
    mutex.word.load(Ordering::Relaxed) == 0
        && mutex.owner.load(Ordering::Relaxed) == 0
        && mutex.users.load(Ordering::Relaxed) == 0
}
