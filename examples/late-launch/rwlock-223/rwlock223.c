/*
 * A read-write lock that hands over as glibc 2.4 to 2.24 did, under today's names.
 *
 * Written from the description in "Autonomy Today: Many Delay-Prone Black Boxes" (Algorithm 3):
 *
 *   unlock:  release; if no reader is left, then
 *              if writers wait, wake one of them,
 *              otherwise wake all readers that wait.
 *
 * The lock is of the default kind, which is said to prefer readers, and while readers hold it that
 * is so: a reader that arrives gets in although writers wait. But a reader that had to wait for a
 * writer is only woken when no writer waits. While writers keep coming, it waits for ever.
 *
 * Preloaded or linked before libc, the library replaces all pthread_rwlock functions. Its state
 * lies in the first bytes of a pthread_rwlock_t; all zeroes is a free lock, so that the static
 * initialiser is right. A recorder in front of it sees ordinary calls.
 *
 * The state is guarded by a small lock, held for a few instructions. Waiting readers sleep on one
 * word, waiting writers on another; both words count hand-overs, so that a hand-over between
 * looking and sleeping is not lost.
 */
#include "rwlock223.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct lock {
    atomic_uint guard;       /* 0 is free, 1 is held, 2 is held and waited for */
    atomic_uint reader_bell; /* the words on which readers and writers sleep */
    atomic_uint writer_bell;
    unsigned readers; /* that hold it */
    unsigned writer;  /* thread number of the writer that holds it, or 0 */
    unsigned readers_waiting, writers_waiting;
    unsigned shared; /* between processes */
    unsigned unused[4];
    unsigned kind; /* where the static initialiser of writer-preferring locks puts it */
};

_Static_assert(sizeof(struct lock) <= sizeof(pthread_rwlock_t), "the state fits");
#ifdef __x86_64__
_Static_assert(offsetof(struct lock, kind) == 48, "the kind lies where the initialiser puts it");
#endif

static struct lock *lock_of(pthread_rwlock_t *rwlock) {
    return (struct lock *)rwlock;
}

/* ---- Sleeping and waking ------------------------------------------------------------------- */

static int private_flag(const struct lock *lock) {
    return lock->shared ? 0 : FUTEX_PRIVATE_FLAG;
}

/* Returns 0, or ETIMEDOUT once the clock has passed the deadline; NULL is no deadline. */
static int sleep_on(struct lock *lock, atomic_uint *bell, unsigned seen, clockid_t clock,
                    const struct timespec *deadline) {
    int operation = FUTEX_WAIT_BITSET | private_flag(lock);
    if (clock == CLOCK_REALTIME)
        operation |= FUTEX_CLOCK_REALTIME;
    long rc = syscall(SYS_futex, bell, operation, seen, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
    return rc == -1 && errno == ETIMEDOUT ? ETIMEDOUT : 0;
}

static void wake(struct lock *lock, atomic_uint *bell, int threads) {
    atomic_fetch_add(bell, 1);
    syscall(SYS_futex, bell, FUTEX_WAKE | private_flag(lock), threads, NULL, NULL, 0);
}

static void guard(struct lock *lock) {
    unsigned seen = 0;
    if (atomic_compare_exchange_strong(&lock->guard, &seen, 1))
        return;
    while (atomic_exchange(&lock->guard, 2) != 0)
        syscall(SYS_futex, &lock->guard, FUTEX_WAIT | private_flag(lock), 2, NULL, NULL, 0);
}

static void unguard(struct lock *lock) {
    if (atomic_exchange(&lock->guard, 0) == 2)
        syscall(SYS_futex, &lock->guard, FUTEX_WAKE | private_flag(lock), 1, NULL, NULL, 0);
}

static unsigned self(void) {
    static __thread unsigned number;
    if (number == 0)
        number = (unsigned)syscall(SYS_gettid);
    return number;
}

/* ---- The rules, all with the guard held ---------------------------------------------------- */

static bool reader_may_enter(const struct lock *lock) {
    bool prefers_readers = lock->kind != PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
    return lock->writer == 0 && (prefers_readers || lock->writers_waiting == 0);
}

static bool writer_may_enter(const struct lock *lock) {
    return lock->writer == 0 && lock->readers == 0;
}

/* Algorithm 3, lines 4 to 8: a waiting writer first, whatever the kind of the lock says. */
static void hand_over(struct lock *lock) {
    if (lock->writer != 0 || lock->readers != 0)
        return;
    if (lock->writers_waiting > 0)
        wake(lock, &lock->writer_bell, 1);
    else if (lock->readers_waiting > 0)
        wake(lock, &lock->reader_bell, INT_MAX);
}

static bool valid(const struct timespec *deadline) {
    return deadline == NULL || (deadline->tv_nsec >= 0 && deadline->tv_nsec < 1000000000);
}

/* With a deadline that is not a time it still takes a lock that is free: so did glibc. */
static int lock_shared(struct lock *lock, clockid_t clock, const struct timespec *deadline) {
    int rc = 0;
    guard(lock);
    while (!reader_may_enter(lock) && rc == 0) {
        if (lock->writer == self()) {
            rc = EDEADLK;
        } else if (!valid(deadline)) {
            rc = EINVAL;
        } else {
            unsigned bell = atomic_load(&lock->reader_bell);
            lock->readers_waiting++;
            unguard(lock);
            rc = sleep_on(lock, &lock->reader_bell, bell, clock, deadline);
            guard(lock);
            lock->readers_waiting--;
        }
    }
    if (rc == 0 && lock->readers == UINT_MAX)
        rc = EAGAIN;
    if (rc == 0)
        lock->readers++;
    unguard(lock);
    return rc;
}

static int lock_exclusive(struct lock *lock, clockid_t clock, const struct timespec *deadline) {
    int rc = 0;
    guard(lock);
    while (!writer_may_enter(lock) && rc == 0) {
        if (lock->writer == self()) {
            rc = EDEADLK;
        } else if (!valid(deadline)) {
            rc = EINVAL;
        } else {
            unsigned bell = atomic_load(&lock->writer_bell);
            lock->writers_waiting++;
            unguard(lock);
            rc = sleep_on(lock, &lock->writer_bell, bell, clock, deadline);
            guard(lock);
            lock->writers_waiting--;
        }
    }
    if (rc == 0)
        lock->writer = self();
    else if (rc == ETIMEDOUT)
        hand_over(lock); /* it may have been woken just then, and must not keep that to itself */
    unguard(lock);
    return rc;
}

/* ---- The functions that replace glibc's ---------------------------------------------------- */

EXPORT int pthread_rwlock_init(pthread_rwlock_t *restrict rwlock,
                               const pthread_rwlockattr_t *restrict attributes) {
    int kind = PTHREAD_RWLOCK_PREFER_READER_NP, shared = PTHREAD_PROCESS_PRIVATE;
    if (attributes != NULL) {
        pthread_rwlockattr_getkind_np(attributes, &kind);
        pthread_rwlockattr_getpshared(attributes, &shared);
    }
    *lock_of(rwlock) = (struct lock){.shared = shared == PTHREAD_PROCESS_SHARED,
                                     .kind = (unsigned)kind};
    return 0;
}

EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *rwlock) {
    (void)rwlock;
    return 0;
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *rwlock) {
    return lock_shared(lock_of(rwlock), CLOCK_MONOTONIC, NULL);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *rwlock) {
    return lock_exclusive(lock_of(rwlock), CLOCK_MONOTONIC, NULL);
}

EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict rwlock,
                                      const struct timespec *restrict deadline) {
    return lock_shared(lock_of(rwlock), CLOCK_REALTIME, deadline);
}

EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict rwlock,
                                      const struct timespec *restrict deadline) {
    return lock_exclusive(lock_of(rwlock), CLOCK_REALTIME, deadline);
}

/* Newer than 2.23, but glibc's own would work on this state as if it were glibc's. */
EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict rwlock, clockid_t clock,
                                      const struct timespec *restrict deadline) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
        return EINVAL;
    return lock_shared(lock_of(rwlock), clock, deadline);
}

EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict rwlock, clockid_t clock,
                                      const struct timespec *restrict deadline) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
        return EINVAL;
    return lock_exclusive(lock_of(rwlock), clock, deadline);
}

EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *rwlock) {
    struct lock *lock = lock_of(rwlock);
    guard(lock);
    int rc = !reader_may_enter(lock) ? EBUSY : lock->readers == UINT_MAX ? EAGAIN : 0;
    if (rc == 0)
        lock->readers++;
    unguard(lock);
    return rc;
}

EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *rwlock) {
    struct lock *lock = lock_of(rwlock);
    guard(lock);
    int rc = writer_may_enter(lock) ? 0 : EBUSY;
    if (rc == 0)
        lock->writer = self();
    unguard(lock);
    return rc;
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *rwlock) {
    struct lock *lock = lock_of(rwlock);
    guard(lock);
    if (lock->writer != 0)
        lock->writer = 0;
    else if (lock->readers > 0)
        lock->readers--;
    hand_over(lock);
    unguard(lock);
    return 0;
}

EXPORT void rwlock223_waiting(pthread_rwlock_t *rwlock, unsigned *readers, unsigned *writers) {
    struct lock *lock = lock_of(rwlock);
    guard(lock);
    *readers = lock->readers_waiting;
    *writers = lock->writers_waiting;
    unguard(lock);
}
