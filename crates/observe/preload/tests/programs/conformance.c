/*
 * What POSIX, and the manual pages of the C library, say that functions of locks answer: written
 * down here, not taken from any library. Prints each expectation that does not hold, and how many
 * did.
 */
#include "check.h"

#include <sched.h>

static int held, broken;

static void expect(const char *what, int line, int got, int wanted) {
    if (got == wanted) {
        held++;
        return;
    }
    broken++;
    printf("line %d: %s: %s, expected %s\n", line, what, code_name(got), code_name(wanted));
}

#define EXPECT(call, wanted) expect(#call, __LINE__, (call), (wanted))
#define HOLDS(condition) expect(#condition, __LINE__, (condition) ? 0 : 1, 0)

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    MUST(clock_gettime(clock, &now) == 0);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static struct timespec at(clockid_t clock, int64_t ms) {
    int64_t ns = clock_ns(clock) + ms * 1000000;
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

/* Runs it in another thread, to its end. */
static void elsewhere(void *(*run)(void *), void *argument) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, run, argument) == 0 && pthread_join(thread, NULL) == 0);
}

/* ---- mutexes ----------------------------------------------------------------------------------- */

static void make_mutex(pthread_mutex_t *mutex, int type, int robust) {
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes) == 0);
    MUST(pthread_mutexattr_settype(&attributes, type) == 0);
    MUST(pthread_mutexattr_setrobust(&attributes, robust) == 0);
    EXPECT(pthread_mutex_init(mutex, &attributes), 0);
    MUST(pthread_mutexattr_destroy(&attributes) == 0);
}

/* Somebody else has it. */
static void *find_taken(void *argument) {
    pthread_mutex_t *mutex = argument;
    struct timespec real = at(CLOCK_REALTIME, 20), monotonic = at(CLOCK_MONOTONIC, 20);
    struct timespec past = {1, 0}, wrong = {real.tv_sec, 1000000000};
    struct timespec before_1970 = {-2, 0};
    EXPECT(pthread_mutex_trylock(mutex), EBUSY);
    EXPECT(pthread_mutex_timedlock(mutex, &before_1970), ETIMEDOUT);
    EXPECT(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &before_1970), ETIMEDOUT);
    EXPECT(pthread_mutex_timedlock(mutex, &past), ETIMEDOUT);
    EXPECT(pthread_mutex_timedlock(mutex, &wrong), EINVAL);
    EXPECT(pthread_mutex_timedlock(mutex, &real), ETIMEDOUT);
    HOLDS(clock_ns(CLOCK_REALTIME) >= real.tv_sec * 1000000000LL + real.tv_nsec);
    EXPECT(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &monotonic), ETIMEDOUT);
    HOLDS(clock_ns(CLOCK_MONOTONIC) >= monotonic.tv_sec * 1000000000LL + monotonic.tv_nsec);
    EXPECT(pthread_mutex_clocklock(mutex, CLOCK_PROCESS_CPUTIME_ID, &monotonic), EINVAL);
    return NULL;
}

static void *find_free(void *argument) {
    pthread_mutex_t *mutex = argument;
    EXPECT(pthread_mutex_trylock(mutex), 0);
    EXPECT(pthread_mutex_unlock(mutex), 0);
    return NULL;
}

static void *let_go_of_anothers(void *mutex) {
    EXPECT(pthread_mutex_unlock(mutex), EPERM);
    return NULL;
}

static void mutex_of(int type) {
    pthread_mutex_t mutex;
    struct timespec soon = at(CLOCK_REALTIME, 10000);
    make_mutex(&mutex, type, PTHREAD_MUTEX_STALLED);
    EXPECT(pthread_mutex_lock(&mutex), 0);
    elsewhere(find_taken, &mutex);
    switch (type) {
    case PTHREAD_MUTEX_RECURSIVE:
        EXPECT(pthread_mutex_lock(&mutex), 0);
        EXPECT(pthread_mutex_trylock(&mutex), 0);
        EXPECT(pthread_mutex_timedlock(&mutex, &soon), 0);
        for (int i = 0; i < 3; i++) {
            EXPECT(pthread_mutex_unlock(&mutex), 0);
            elsewhere(find_taken, &mutex);
        }
        elsewhere(let_go_of_anothers, &mutex);
        break;
    case PTHREAD_MUTEX_ERRORCHECK:
        EXPECT(pthread_mutex_lock(&mutex), EDEADLK);
        EXPECT(pthread_mutex_trylock(&mutex), EBUSY);
        EXPECT(pthread_mutex_timedlock(&mutex, &soon), EDEADLK);
        elsewhere(let_go_of_anothers, &mutex);
        break;
    default:
        EXPECT(pthread_mutex_trylock(&mutex), EBUSY);
    }
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    elsewhere(find_free, &mutex);
    if (type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE)
        EXPECT(pthread_mutex_unlock(&mutex), EPERM);
    EXPECT(pthread_mutex_timedlock(&mutex, &(struct timespec){1, 0}), 0);
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    EXPECT(pthread_mutex_destroy(&mutex), 0);
}

static void *take_and_end(void *mutex) {
    EXPECT(pthread_mutex_lock(mutex), 0);
    return NULL;
}

static void robust_mutex(void) {
    pthread_mutex_t mutex;
    make_mutex(&mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
    elsewhere(take_and_end, &mutex);
    EXPECT(pthread_mutex_lock(&mutex), EOWNERDEAD);
    EXPECT(pthread_mutex_consistent(&mutex), 0);
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    elsewhere(take_and_end, &mutex);
    EXPECT(pthread_mutex_trylock(&mutex), EOWNERDEAD);
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    EXPECT(pthread_mutex_lock(&mutex), ENOTRECOVERABLE);
    EXPECT(pthread_mutex_destroy(&mutex), 0);
}

/* Many take it for a moment; none is lost, nobody is inside with another. */
static pthread_mutex_t crowded = PTHREAD_MUTEX_INITIALIZER;
static int inside;

static void *crowd(void *count) {
    for (int i = 0; i < 300; i++) {
        struct timespec until = at(CLOCK_REALTIME, 20000);
        MUST((i % 3 == 0 ? pthread_mutex_timedlock(&crowded, &until)
                         : pthread_mutex_lock(&crowded)) == 0);
        MUST(++inside == 1);
        ++*(int *)count;
        if (i % 50 == 0)
            usleep(300);
        MUST(--inside == 0 && pthread_mutex_unlock(&crowded) == 0);
    }
    return NULL;
}

static void crowded_mutex(void) {
    pthread_t threads[6];
    int count = 0;
    for (int i = 0; i < 6; i++)
        MUST(pthread_create(&threads[i], NULL, crowd, &count) == 0);
    for (int i = 0; i < 6; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    HOLDS(count == 6 * 300);
    HOLDS(pthread_mutex_trylock(&crowded) == 0 && pthread_mutex_unlock(&crowded) == 0);
}

/* ---- conditions -------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int waiting, told;

static void *wait_to_be_told(void *unused) {
    EXPECT(pthread_mutex_lock(&mutex), 0);
    waiting++;
    while (told == 0)
        EXPECT(pthread_cond_wait(&condition, &mutex), 0);
    told--;
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void await_waiting(int count) {
    for (bool enough = false; !enough; sched_yield()) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        enough = waiting == count;
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
}

static void conditions(void) {
    pthread_t threads[3];
    struct timespec real = at(CLOCK_REALTIME, 20);
    EXPECT(pthread_mutex_lock(&mutex), 0);
    EXPECT(pthread_cond_timedwait(&condition, &mutex, &real), ETIMEDOUT);
    HOLDS(clock_ns(CLOCK_REALTIME) >= real.tv_sec * 1000000000LL + real.tv_nsec);
    struct timespec monotonic = at(CLOCK_MONOTONIC, 20);
    EXPECT(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &monotonic), ETIMEDOUT);
    HOLDS(clock_ns(CLOCK_MONOTONIC) >= monotonic.tv_sec * 1000000000LL + monotonic.tv_nsec);
    EXPECT(pthread_cond_timedwait(&condition, &mutex, &(struct timespec){1, -1}), EINVAL);
    elsewhere(find_taken, &mutex);
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&threads[i], NULL, wait_to_be_told, NULL) == 0);
    await_waiting(3);
    MUST(pthread_mutex_lock(&mutex) == 0);
    told = 1;
    EXPECT(pthread_cond_signal(&condition), 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    for (bool gone = false; !gone; sched_yield()) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        gone = told == 0;
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    MUST(pthread_mutex_lock(&mutex) == 0);
    told = 2;
    EXPECT(pthread_cond_broadcast(&condition), 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    HOLDS(told == 0);
}

/* A thread that is cancelled in a wait has the mutex again when its handlers run. */
static bool had_it;

static void clean_up(void *unused) {
    (void)unused;
    had_it = pthread_mutex_trylock(&mutex) == EBUSY;
    MUST(pthread_mutex_unlock(&mutex) == 0);
}

static void *wait_for_ever(void *unused) {
    MUST(pthread_mutex_lock(&mutex) == 0);
    pthread_cleanup_push(clean_up, NULL);
    waiting++;
    for (;;)
        pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(0);
    return unused;
}

static atomic_int waiter;

/* Waiting for a mutex or a read-write lock is no point of cancellation. */
static void *wait_for_mutex(void *unused) {
    atomic_store(&waiter, gettid());
    MUST(pthread_mutex_lock(&crowded) == 0 && pthread_mutex_unlock(&crowded) == 0);
    had_it = true;
    pthread_testcancel();
    return unused;
}

static void cancellation(void) {
    pthread_t thread;
    void *result;
    waiting = 0;
    MUST(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    await_waiting(1);
    EXPECT(pthread_cancel(thread), 0);
    MUST(pthread_join(thread, &result) == 0);
    HOLDS(result == PTHREAD_CANCELED && had_it);
    EXPECT(pthread_mutex_trylock(&mutex), 0);
    EXPECT(pthread_mutex_unlock(&mutex), 0);

    had_it = false;
    MUST(pthread_mutex_lock(&crowded) == 0);
    MUST(pthread_create(&thread, NULL, wait_for_mutex, NULL) == 0);
    while (atomic_load(&waiter) == 0)
        sched_yield();
    await_sleep(atomic_load(&waiter));
    EXPECT(pthread_cancel(thread), 0);
    /* It goes on to wait. */
    await_sleep(atomic_load(&waiter));
    HOLDS(!had_it);
    MUST(pthread_mutex_unlock(&crowded) == 0);
    MUST(pthread_join(thread, &result) == 0);
    HOLDS(result == PTHREAD_CANCELED && had_it);
}

/* ---- read-write locks -------------------------------------------------------------------------- */

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void *find_read(void *unused) {
    struct timespec real = at(CLOCK_REALTIME, 20), monotonic = at(CLOCK_MONOTONIC, 20);
    EXPECT(pthread_rwlock_tryrdlock(&rwlock), 0);
    EXPECT(pthread_rwlock_unlock(&rwlock), 0);
    EXPECT(pthread_rwlock_trywrlock(&rwlock), EBUSY);
    EXPECT(pthread_rwlock_timedwrlock(&rwlock, &real), ETIMEDOUT);
    HOLDS(clock_ns(CLOCK_REALTIME) >= real.tv_sec * 1000000000LL + real.tv_nsec);
    EXPECT(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &monotonic), ETIMEDOUT);
    HOLDS(clock_ns(CLOCK_MONOTONIC) >= monotonic.tv_sec * 1000000000LL + monotonic.tv_nsec);
    EXPECT(pthread_rwlock_rdlock(&rwlock), 0);
    EXPECT(pthread_rwlock_unlock(&rwlock), 0);
    return unused;
}

static void *find_written(void *unused) {
    struct timespec real = at(CLOCK_REALTIME, 20), monotonic = at(CLOCK_MONOTONIC, 20);
    EXPECT(pthread_rwlock_tryrdlock(&rwlock), EBUSY);
    EXPECT(pthread_rwlock_trywrlock(&rwlock), EBUSY);
    EXPECT(pthread_rwlock_timedrdlock(&rwlock, &(struct timespec){1, 0}), ETIMEDOUT);
    EXPECT(pthread_rwlock_timedrdlock(&rwlock, &real), ETIMEDOUT);
    HOLDS(clock_ns(CLOCK_REALTIME) >= real.tv_sec * 1000000000LL + real.tv_nsec);
    EXPECT(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &monotonic), ETIMEDOUT);
    HOLDS(clock_ns(CLOCK_MONOTONIC) >= monotonic.tv_sec * 1000000000LL + monotonic.tv_nsec);
    return unused;
}

static void read_write_locks(void) {
    struct timespec wrong = {1, 1000000000}, soon = at(CLOCK_REALTIME, 10000);
    EXPECT(pthread_rwlock_rdlock(&rwlock), 0);
    EXPECT(pthread_rwlock_rdlock(&rwlock), 0);
    EXPECT(pthread_rwlock_timedrdlock(&rwlock, &soon), 0);
    elsewhere(find_read, NULL);
    EXPECT(pthread_rwlock_timedwrlock(&rwlock, &wrong), EINVAL);
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_rwlock_unlock(&rwlock), 0);
    EXPECT(pthread_rwlock_wrlock(&rwlock), 0);
    EXPECT(pthread_rwlock_rdlock(&rwlock), EDEADLK);
    EXPECT(pthread_rwlock_wrlock(&rwlock), EDEADLK);
    EXPECT(pthread_rwlock_timedwrlock(&rwlock, &soon), EDEADLK);
    EXPECT(pthread_rwlock_trywrlock(&rwlock), EBUSY);
    elsewhere(find_written, NULL);
    EXPECT(pthread_rwlock_unlock(&rwlock), 0);
    EXPECT(pthread_rwlock_timedwrlock(&rwlock, &(struct timespec){1, 0}), 0);
    EXPECT(pthread_rwlock_unlock(&rwlock), 0);
    EXPECT(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &wrong), EINVAL);
    EXPECT(pthread_rwlock_destroy(&rwlock), 0);
    EXPECT(pthread_rwlock_init(&rwlock, NULL), 0);
    EXPECT(pthread_rwlock_trywrlock(&rwlock), 0);
    EXPECT(pthread_rwlock_unlock(&rwlock), 0);
    EXPECT(pthread_rwlock_destroy(&rwlock), 0);
}

int main(void) {
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
                                PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
        mutex_of(types[i]);
    robust_mutex();
    crowded_mutex();
    conditions();
    cancellation();
    read_write_locks();
    printf("%d expectations held, %d did not\n", held, broken);
    return broken != 0;
}
