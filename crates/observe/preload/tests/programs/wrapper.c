/* Another preloaded library: it wraps some of the same functions, and counts their calls. */
#include "check.h"

#include <dlfcn.h>

static atomic_long locked, unlocked, waited;

typedef int on_mutex(pthread_mutex_t *);

static on_mutex *next(const char *name) {
    on_mutex *found = (on_mutex *)dlsym(RTLD_NEXT, name);
    MUST(found != NULL);
    return found;
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static _Atomic(on_mutex *) real;
    if (real == NULL)
        real = next("pthread_mutex_lock");
    int rc = real(mutex);
    atomic_fetch_add(&locked, rc == 0);
    return rc;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    static _Atomic(on_mutex *) real;
    if (real == NULL)
        real = next("pthread_mutex_trylock");
    int rc = real(mutex);
    atomic_fetch_add(&locked, rc == 0);
    return rc;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    static _Atomic(on_mutex *) real;
    if (real == NULL)
        real = next("pthread_mutex_unlock");
    atomic_fetch_add(&unlocked, 1);
    return real(mutex);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until) {
    typedef int wait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    wait *real = (wait *)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    MUST(real != NULL);
    atomic_fetch_add(&waited, 1);
    return real(condition, mutex, until);
}

__attribute__((destructor)) static void report(void) {
    printf("wrapper: %ld locked, %ld unlocked, %ld waited\n", atomic_load(&locked),
           atomic_load(&unlocked), atomic_load(&waited));
    fflush(stdout);
}
