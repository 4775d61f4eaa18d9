/*
 * readers: readers that need other readers while a writer waits. By the C library's default all of
 * them get in. The main thread reads until another thread has read too, in every way to read; then
 * threads of both kinds use the lock, and none may see another's half of a change.
 */
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct steps writer_is_ready;
static pid_t writer;

static void *writes(void *unused) {
    writer = gettid();
    step(&writer_is_ready);
    MUST(pthread_rwlock_wrlock(&lock) == 0 && pthread_rwlock_unlock(&lock) == 0);
    return unused;
}

static int plainly(void) { return pthread_rwlock_rdlock(&lock); }

static int with_a_deadline(void) {
    struct timespec until = in_ms(CLOCK_REALTIME, 600000);
    return pthread_rwlock_timedrdlock(&lock, &until);
}

/* Deadlines that come before any limit of a wait. */
static int again_and_again(void) {
    int result;
    do {
        struct timespec until = in_ms(CLOCK_MONOTONIC, 2);
        result = pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &until);
    } while (result == ETIMEDOUT);
    return result;
}

static int by_attempts(void) {
    int result;
    while ((result = pthread_rwlock_tryrdlock(&lock)) == EBUSY)
        sched_yield();
    return result;
}

static void *reads(void *way) {
    int (*read_lock)(void) = way;
    MUST(read_lock() == 0 && pthread_rwlock_unlock(&lock) == 0);
    return NULL;
}

static void need_a_reader(const char *name, int (*way)(void)) {
    pthread_t thread;
    MUST(pthread_rwlock_init(&lock, NULL) == 0);
    MUST(pthread_rwlock_rdlock(&lock) == 0);
    MUST(pthread_create(&thread, NULL, writes, NULL) == 0);
    await_step(&writer_is_ready);
    await_sleep(writer);
    run_thread(reads, way);
    /* From now on by the C library's order: at once. */
    run_thread(reads, plainly);
    MUST(pthread_rwlock_unlock(&lock) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    printf("%s: read\n", name);
}

enum { THREADS = 4, TURNS = 20000 };
static volatile long pair[2];

static void *uses(void *number) {
    for (long turn = 0; turn < TURNS; turn++) {
        bool change = (turn + (long)number) % 3 == 0;
        MUST((change ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock)) == 0);
        MUST(pair[0] == pair[1]);
        if (change) {
            pair[0]++;
            if (turn % 64 == 0)
                sched_yield();
            pair[1]++;
        }
        MUST(pthread_rwlock_unlock(&lock) == 0);
    }
    return NULL;
}

int main(void) {
    writer_is_ready = new_steps();
    need_a_reader("with a deadline", with_a_deadline);
    need_a_reader("again and again", again_and_again);
    need_a_reader("by attempts", by_attempts);
    need_a_reader("plainly", plainly);
    pthread_t threads[THREADS];
    for (long number = 0; number < THREADS; number++)
        MUST(pthread_create(&threads[number], NULL, uses, (void *)number) == 0);
    for (int number = 0; number < THREADS; number++)
        MUST(pthread_join(threads[number], NULL) == 0);
    printf("%ld changes\n", pair[0]);
    return 0;
}
