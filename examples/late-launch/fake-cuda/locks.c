/*
 * The locks, and which call takes which.
 *
 * The counts and the nesting were observed on a real driver by recording; the names are invented.
 * "r" is a read lock, "w" a write lock, "m" a mutex; braces mean "while holding".
 *
 *   launch         r contexts, m error, r stream, m parameters { r function, r map },
 *                  m channel { m queue }, w usage, m tracker              4 r, 1 w, 5 m
 *   graph launch   r contexts, m error, r stream, r graphs, m graph { m parameters { r map },
 *                  m upload, m graph memory }, r usage, m graph { m channel { m queue } },
 *                  m fences, m tracker                                    5 r, 10 m
 *   pageable copy  r contexts, m error, r stream, r map,
 *                  m staging { m channel { the copy, m queue per chunk } }, m tracker
 *   pinned copy    r contexts, m error, r stream, r map, m channel { m queue }, m tracker
 *   synchronise    r contexts, m error, r stream, m queue, m sync { wait }
 *
 * So a pageable copy holds two mutexes for as long as it takes, and a launch needs one of them.
 * All locks are of the default kind: no inheritance, and read-write locks that prefer readers.
 *
 * The order is: staging, graph, then channel or parameters, then queue, or function and map. The
 * waiting points' mutexes are taken last, with nothing else held.
 */
#include "fake.h"

#include <limits.h>

pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t primary_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t contexts_rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_rwlock_t map_rwlock = PTHREAD_RWLOCK_INITIALIZER;

void lock(pthread_mutex_t *mutex) {
    count_one(&count.locks);
    pthread_mutex_lock(mutex);
}

void unlock(pthread_mutex_t *mutex) {
    pthread_mutex_unlock(mutex);
}

void lock_shared(pthread_rwlock_t *rwlock) {
    count_one(&count.locks);
    pthread_rwlock_rdlock(rwlock);
}

void lock_exclusive(pthread_rwlock_t *rwlock) {
    count_one(&count.locks);
    pthread_rwlock_wrlock(rwlock);
}

void unlock_rw(pthread_rwlock_t *rwlock) {
    pthread_rwlock_unlock(rwlock);
}

bool locks_init(struct locks *locks) {
    for (size_t i = 0; i < CONTEXT_MUTEXES; i++)
        if (pthread_mutex_init(&locks->mutexes[i], NULL) != 0)
            return false;
    for (size_t i = 0; i < CONTEXT_RWLOCKS; i++)
        if (pthread_rwlock_init(&locks->rwlocks[i], NULL) != 0)
            return false;
    return true;
}

pthread_mutex_t *pooled_mutex(struct locks *locks, enum mutex_pool pool, uint64_t id) {
    uint64_t size = pool == QUEUE_MUTEXES   ? SYNC_MUTEXES - QUEUE_MUTEXES
                    : pool == SYNC_MUTEXES  ? EVENT_MUTEXES - SYNC_MUTEXES
                    : pool == EVENT_MUTEXES ? GRAPH_MUTEXES - EVENT_MUTEXES
                                            : CONTEXT_MUTEXES - GRAPH_MUTEXES;
    return &locks->mutexes[(uint64_t)pool + id % size];
}

pthread_rwlock_t *pooled_rwlock(struct locks *locks, enum rwlock_pool pool, uint64_t id) {
    uint64_t size = pool == FUNCTION_RWLOCKS ? STREAM_RWLOCKS - FUNCTION_RWLOCKS
                                             : CONTEXT_RWLOCKS - STREAM_RWLOCKS;
    return &locks->rwlocks[(uint64_t)pool + id % size];
}

void waitpoint_init(struct waitpoint *point, pthread_mutex_t *mutex) {
    point->mutex = mutex;
    pthread_cond_init(&point->ended, NULL);
    atomic_init(&point->wanted, ULLONG_MAX);
}

/*
 * The sleeper says what it wants before it looks, the engine stores its progress before it looks at
 * what is wanted, both sequentially consistent: one of the two sees the other, so no wake-up is
 * lost. Whoever is woken too early says again what it wants.
 */
void waitpoint_wait(struct waitpoint *point, unsigned long long progress,
                    bool (*reached)(const void *), const void *what) {
    lock(point->mutex);
    for (;;) {
        if (progress < atomic_load(&point->wanted))
            atomic_store(&point->wanted, progress);
        if (reached(what))
            break;
        pthread_cond_wait(&point->ended, point->mutex);
    }
    unlock(point->mutex);
}

/* Called by engines, whose locks are counted apart: no call of the application takes them. */
void waitpoint_signal(struct waitpoint *point, unsigned long long progress) {
    if (progress < atomic_load(&point->wanted))
        return;
    count_one(&count.engine_locks);
    pthread_mutex_lock(point->mutex);
    atomic_store(&point->wanted, ULLONG_MAX);
    pthread_cond_broadcast(&point->ended);
    pthread_mutex_unlock(point->mutex);
}
