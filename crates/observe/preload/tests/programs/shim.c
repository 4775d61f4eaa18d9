/*
 * Another library between the program and the C library, which keeps account of who is inside: it
 * wraps the functions that its user calls, and no others. With ALL it wraps every function that
 * takes a lock or lets one go, and prints how often each was called.
 */
#include "check.h"

#include <dlfcn.h>
#include <threads.h>

static __thread int inside;

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    MUST(found != NULL);
    return found;
}

static void left(void) {
    if (--inside < 0) {
        fputs("let go what was never taken\n", stderr);
        abort();
    }
}

#define WRAP(name, takes, parameters, ...)                                                        \
    static atomic_long name##_calls;                                                              \
    int name parameters {                                                                         \
        static _Atomic(int(*) parameters) real;                                                   \
        if (real == NULL)                                                                         \
            real = (int(*) parameters)next(#name);                                                \
        atomic_fetch_add(&name##_calls, 1);                                                       \
        if (takes < 0)                                                                            \
            left();                                                                               \
        int rc = real(__VA_ARGS__);                                                               \
        inside += takes > 0 && rc == 0;                                                           \
        return rc;                                                                                \
    }

#define TAKERS(X)                                                                                 \
    X(pthread_mutex_lock, 1, (pthread_mutex_t * lock), lock)                                      \
    X(pthread_rwlock_rdlock, 1, (pthread_rwlock_t * lock), lock)                                  \
    X(pthread_rwlock_wrlock, 1, (pthread_rwlock_t * lock), lock)                                  \
    X(pthread_spin_lock, 1, (pthread_spinlock_t * lock), lock)                                    \
    X(sem_wait, 1, (sem_t * lock), lock)                                                          \
    X(mtx_lock, 1, (mtx_t * lock), lock)

#define LEAVERS(X)                                                                                \
    X(pthread_mutex_unlock, -1, (pthread_mutex_t * lock), lock)                                   \
    X(pthread_rwlock_unlock, -1, (pthread_rwlock_t * lock), lock)                                 \
    X(pthread_spin_unlock, -1, (pthread_spinlock_t * lock), lock)                                 \
    X(sem_post, -1, (sem_t * lock), lock)                                                         \
    X(mtx_unlock, -1, (mtx_t * lock), lock)

#define CLOCK clockid_t clock, const struct timespec *until
#define OTHERS(X)                                                                                 \
    X(pthread_mutex_trylock, 1, (pthread_mutex_t * lock), lock)                                   \
    X(pthread_mutex_timedlock, 1, (pthread_mutex_t * lock, const struct timespec *until), lock,   \
      until)                                                                                      \
    X(pthread_mutex_clocklock, 1, (pthread_mutex_t * lock, CLOCK), lock, clock, until)            \
    X(pthread_rwlock_tryrdlock, 1, (pthread_rwlock_t * lock), lock)                               \
    X(pthread_rwlock_trywrlock, 1, (pthread_rwlock_t * lock), lock)                               \
    X(pthread_rwlock_timedrdlock, 1, (pthread_rwlock_t * lock, const struct timespec *until),     \
      lock, until)                                                                                \
    X(pthread_rwlock_timedwrlock, 1, (pthread_rwlock_t * lock, const struct timespec *until),     \
      lock, until)                                                                                \
    X(pthread_rwlock_clockrdlock, 1, (pthread_rwlock_t * lock, CLOCK), lock, clock, until)        \
    X(pthread_rwlock_clockwrlock, 1, (pthread_rwlock_t * lock, CLOCK), lock, clock, until)        \
    X(pthread_spin_trylock, 1, (pthread_spinlock_t * lock), lock)                                 \
    X(sem_trywait, 1, (sem_t * lock), lock)                                                       \
    X(sem_timedwait, 1, (sem_t * lock, const struct timespec *until), lock, until)                \
    X(sem_clockwait, 1, (sem_t * lock, CLOCK), lock, clock, until)                                \
    X(mtx_trylock, 1, (mtx_t * lock), lock)                                                       \
    X(mtx_timedlock, 1, (mtx_t * lock, const struct timespec *until), lock, until)

TAKERS(WRAP)
LEAVERS(WRAP)
#ifdef ALL
OTHERS(WRAP)

#define TELL(name, ...) printf(#name " %ld\n", atomic_load(&name##_calls));

__attribute__((destructor)) static void tell(void) {
    TAKERS(TELL)
    LEAVERS(TELL)
    OTHERS(TELL)
    fflush(stdout);
}
#endif
