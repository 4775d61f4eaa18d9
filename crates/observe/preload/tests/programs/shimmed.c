/*
 * Takes locks of every kind: free ones, and one of each that somebody else has; with "all" it also
 * attempts to, and waits for no longer than until a time. The library that
 * wraps the functions (shim.c) may be linked before the C library, or preloaded.
 */
#include "check.h"

#include <threads.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static mtx_t c11;

/* Sleeps in the kernel, or spins, until the lock is let go. */
static void *wait_for_all(void *unused) {
    (void)unused;
    MUST(sem_wait(&semaphore) == 0);
    MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
    MUST(pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
    MUST(mtx_lock(&c11) == thrd_success && mtx_unlock(&c11) == thrd_success);
    MUST(sem_post(&semaphore) == 0);
    return NULL;
}

static void take_free_ones(void) {
    MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
    MUST(pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
    MUST(pthread_spin_lock(&spin) == 0 && pthread_spin_unlock(&spin) == 0);
    MUST(sem_wait(&semaphore) == 0 && sem_post(&semaphore) == 0);
    MUST(mtx_lock(&c11) == thrd_success && mtx_unlock(&c11) == thrd_success);
}

static void attempt_and_limit(void) {
    MUST(pthread_mutex_timedlock(&mutex, PAST(CLOCK_REALTIME)) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_rwlock_timedwrlock(&rwlock, PAST(CLOCK_REALTIME)) == 0);
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    MUST(sem_timedwait(&semaphore, PAST(CLOCK_REALTIME)) == 0 && sem_post(&semaphore) == 0);
}

/* Somebody waits for each of the locks, in the order of wait_for_all. */
static void let_somebody_wait(void) {
    pthread_t thread;
    MUST(sem_wait(&semaphore) == 0);
    MUST(pthread_mutex_lock(&mutex) == 0);
    MUST(pthread_rwlock_wrlock(&rwlock) == 0);
    MUST(mtx_lock(&c11) == thrd_success);
    MUST(pthread_create(&thread, NULL, wait_for_all, NULL) == 0);
    MUST(sem_post(&semaphore) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    MUST(mtx_unlock(&c11) == thrd_success);
    MUST(pthread_join(thread, NULL) == 0);
}

/* The mutex is found taken for sure: a timed wait for it ends by its time. */
static void give_up(void) {
    MUST(pthread_mutex_lock(&mutex) == 0);
    MUST(pthread_mutex_timedlock(&mutex, PAST(CLOCK_REALTIME)) == ETIMEDOUT);
    MUST(pthread_mutex_unlock(&mutex) == 0);
}

int main(int count, char **arguments) {
    bool all = count > 1 && strcmp(arguments[1], "all") == 0;
    MUST(pthread_spin_init(&spin, 0) == 0 && sem_init(&semaphore, 0, 1) == 0);
    MUST(mtx_init(&c11, mtx_plain) == thrd_success);
    for (int i = 0; i < 50; i++) {
        take_free_ones();
        if (all) {
            attempt_and_limit();
            give_up();
        }
    }
    for (int i = 0; i < 20; i++)
        let_somebody_wait();
    puts("done");
    return 0;
}
