/* librwlock223.so: it excludes, it hands over as glibc 2.23 did, and it replaces every function. */
#include "../rwlock-223/rwlock223.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static bool test_failed;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);               \
            test_failed = true;                                                                    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

static void wait_for_queue(pthread_rwlock_t *rwlock, unsigned readers, unsigned writers) {
    unsigned r, w;
    do {
        sched_yield();
        rwlock223_waiting(rwlock, &r, &w);
    } while (r != readers || w != writers);
}

static struct timespec soon(clockid_t clock) {
    struct timespec deadline;
    clock_gettime(clock, &deadline);
    deadline.tv_nsec += 20000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    return deadline;
}

/* ---- Who comes next ------------------------------------------------------------------------ */

struct visitor {
    pthread_t thread;
    pthread_rwlock_t *rwlock;
    atomic_int *order;
    int place;
};

static void *visit_reading(void *argument) {
    struct visitor *visitor = argument;
    pthread_rwlock_rdlock(visitor->rwlock);
    visitor->place = atomic_fetch_add(visitor->order, 1);
    pthread_rwlock_unlock(visitor->rwlock);
    return NULL;
}

static void *visit_writing(void *argument) {
    struct visitor *visitor = argument;
    pthread_rwlock_wrlock(visitor->rwlock);
    visitor->place = atomic_fetch_add(visitor->order, 1);
    pthread_rwlock_unlock(visitor->rwlock);
    return NULL;
}

/* The readers queue first, and the lock is said to prefer readers: the writers go first anyway. */
static void after_a_writer_all_waiting_writers_go_before_waiting_readers(void) {
    static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    static atomic_int order;
    struct visitor reader[2], writer[3];
    EXPECT(pthread_rwlock_wrlock(&rwlock) == 0);
    for (int i = 0; i < 2; i++) {
        reader[i] = (struct visitor){.rwlock = &rwlock, .order = &order};
        EXPECT(pthread_create(&reader[i].thread, NULL, visit_reading, &reader[i]) == 0);
    }
    wait_for_queue(&rwlock, 2, 0);
    for (int i = 0; i < 3; i++) {
        writer[i] = (struct visitor){.rwlock = &rwlock, .order = &order};
        EXPECT(pthread_create(&writer[i].thread, NULL, visit_writing, &writer[i]) == 0);
    }
    wait_for_queue(&rwlock, 2, 3);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(reader[i].thread, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(writer[i].thread, NULL);
    for (int i = 0; i < 3; i++)
        EXPECT(writer[i].place < 3);
    for (int i = 0; i < 2; i++)
        EXPECT(reader[i].place >= 3);
}

static void a_reader_overtakes_waiting_writers_while_readers_hold(void) {
    static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    static atomic_int order;
    struct visitor writer = {.rwlock = &rwlock, .order = &order};
    EXPECT(pthread_rwlock_rdlock(&rwlock) == 0);
    EXPECT(pthread_create(&writer.thread, NULL, visit_writing, &writer) == 0);
    wait_for_queue(&rwlock, 0, 1);
    EXPECT(pthread_rwlock_tryrdlock(&rwlock) == 0);
    EXPECT(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
    pthread_join(writer.thread, NULL);
}

static void a_writer_preferring_lock_keeps_readers_behind_writers(void) {
    static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    static atomic_int order;
    struct visitor writer = {.rwlock = &rwlock, .order = &order};
    EXPECT(pthread_rwlock_rdlock(&rwlock) == 0);
    EXPECT(pthread_create(&writer.thread, NULL, visit_writing, &writer) == 0);
    wait_for_queue(&rwlock, 0, 1);
    EXPECT(pthread_rwlock_tryrdlock(&rwlock) == EBUSY);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
    pthread_join(writer.thread, NULL);
}

/* ---- What each function returns ------------------------------------------------------------ */

static void *try_everything(void *argument) {
    pthread_rwlock_t *rwlock = argument;
    struct timespec real = soon(CLOCK_REALTIME), steady = soon(CLOCK_MONOTONIC);
    struct timespec wrong = {0, -1};
    intptr_t failed = 0;
    failed += pthread_rwlock_tryrdlock(rwlock) != EBUSY;
    failed += pthread_rwlock_trywrlock(rwlock) != EBUSY;
    failed += pthread_rwlock_timedrdlock(rwlock, &wrong) != EINVAL;
    failed += pthread_rwlock_timedwrlock(rwlock, &wrong) != EINVAL;
    failed += pthread_rwlock_timedrdlock(rwlock, &real) != ETIMEDOUT;
    failed += pthread_rwlock_timedwrlock(rwlock, &real) != ETIMEDOUT;
    failed += pthread_rwlock_clockrdlock(rwlock, CLOCK_MONOTONIC, &steady) != ETIMEDOUT;
    failed += pthread_rwlock_clockwrlock(rwlock, CLOCK_MONOTONIC, &steady) != ETIMEDOUT;
    return (void *)failed;
}

static void a_held_lock_is_busy_and_waits_end_at_their_deadline(void) {
    pthread_rwlock_t rwlock;
    pthread_t thread;
    void *failed;
    EXPECT(pthread_rwlock_init(&rwlock, NULL) == 0);
    EXPECT(pthread_rwlock_wrlock(&rwlock) == 0);
    EXPECT(pthread_create(&thread, NULL, try_everything, &rwlock) == 0);
    pthread_join(thread, &failed);
    EXPECT(failed == NULL);
    EXPECT(pthread_rwlock_wrlock(&rwlock) == EDEADLK);
    EXPECT(pthread_rwlock_rdlock(&rwlock) == EDEADLK);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
    wait_for_queue(&rwlock, 0, 0);
    EXPECT(pthread_rwlock_destroy(&rwlock) == 0);
}

static void a_free_lock_is_taken_whatever_the_deadline(void) {
    pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    struct timespec wrong = {0, -1}, past = {0, 0};
    EXPECT(pthread_rwlock_timedwrlock(&rwlock, &wrong) == 0);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
    EXPECT(pthread_rwlock_timedrdlock(&rwlock, &past) == 0);
    EXPECT(pthread_rwlock_tryrdlock(&rwlock) == 0);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
    EXPECT(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
    EXPECT(pthread_rwlock_trywrlock(&rwlock) == 0);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
}

/* A writer that gives up must not swallow the hand-over that was meant for those who wait. */
static void a_writer_that_gives_up_leaves_nobody_asleep(void) {
    static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    static atomic_int order;
    for (int round = 0; round < 20; round++) {
        struct visitor reader = {.rwlock = &rwlock, .order = &order};
        struct timespec deadline = soon(CLOCK_REALTIME);
        EXPECT(pthread_rwlock_rdlock(&rwlock) == 0);
        EXPECT(pthread_rwlock_timedwrlock(&rwlock, &deadline) == ETIMEDOUT);
        EXPECT(pthread_create(&reader.thread, NULL, visit_reading, &reader) == 0);
        EXPECT(pthread_rwlock_unlock(&rwlock) == 0);
        pthread_join(reader.thread, NULL);
    }
}

/* ---- Exclusion ----------------------------------------------------------------------------- */

static struct {
    pthread_rwlock_t rwlock;
    uint64_t first, second; /* always equal, except while a writer holds the lock */
    atomic_int torn;
} shared = {.rwlock = PTHREAD_RWLOCK_INITIALIZER};

enum { WRITES = 20000, WORKERS = 3 };

static void *write_many(void *unused) {
    for (int i = 0; i < WRITES; i++) {
        pthread_rwlock_wrlock(&shared.rwlock);
        shared.first++;
        if (i % 16 == 0)
            sched_yield();
        shared.second++;
        pthread_rwlock_unlock(&shared.rwlock);
    }
    return unused;
}

static void *read_many(void *unused) {
    for (int i = 0; i < WRITES; i++) {
        pthread_rwlock_rdlock(&shared.rwlock);
        if (shared.first != shared.second)
            atomic_fetch_add(&shared.torn, 1);
        pthread_rwlock_unlock(&shared.rwlock);
    }
    return unused;
}

static void writers_exclude_everybody(void) {
    pthread_t writers[WORKERS], readers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        EXPECT(pthread_create(&writers[i], NULL, write_many, NULL) == 0);
        EXPECT(pthread_create(&readers[i], NULL, read_many, NULL) == 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(writers[i], NULL);
        pthread_join(readers[i], NULL);
    }
    EXPECT(atomic_load(&shared.torn) == 0);
    EXPECT(shared.first == (uint64_t)WRITES * WORKERS);
}

int main(void) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
#define TEST(name) {#name, name}
        TEST(after_a_writer_all_waiting_writers_go_before_waiting_readers),
        TEST(a_reader_overtakes_waiting_writers_while_readers_hold),
        TEST(a_writer_preferring_lock_keeps_readers_behind_writers),
        TEST(a_held_lock_is_busy_and_waits_end_at_their_deadline),
        TEST(a_free_lock_is_taken_whatever_the_deadline),
        TEST(a_writer_that_gives_up_leaves_nobody_asleep),
        TEST(writers_exclude_everybody),
    };
    int failures = 0, count = sizeof tests / sizeof *tests;
    for (int i = 0; i < count; i++) {
        test_failed = false;
        tests[i].run();
        printf("%s %s\n", test_failed ? "FAILED" : "ok    ", tests[i].name);
        fflush(stdout);
        failures += test_failed;
    }
    printf("%d passed, %d failed\n", count - failures, failures);
    return failures == 0 ? 0 : 1;
}
