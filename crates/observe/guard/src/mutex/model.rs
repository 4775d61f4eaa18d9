//! The C library's operations on an ordinary mutex, for models and tests.

use super::Mutex;
use crate::atomic::Ordering;

/// `pthread_mutex_trylock`, for an ordinary mutex or one that was converted meanwhile.
pub fn try_lock(mutex: &Mutex, me: u32) -> bool {
    if mutex.fitness().is_ok() {
        return mutex.lock_now(me);
    }
    let taken = mutex.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if taken {
        mutex.count_in(me);
    }
    taken
}

/// `pthread_mutex_unlock`, likewise.
pub fn unlock(mutex: &Mutex) {
    mutex.let_others_in();
}
