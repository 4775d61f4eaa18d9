/*
 * rwlock [without-turns]: read-write locks of every preference: what each function answers, free,
 * read, written, and with a writer that waits. Who gets in then is what phase-fair locks change.
 */
#include "check.h"

static const struct {
    const char *name;
    int preference;
} preferences[] = {
    {"readers", PTHREAD_RWLOCK_PREFER_READER_NP},
    {"writers", PTHREAD_RWLOCK_PREFER_WRITER_NP},
    {"writers, not recursive", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP},
};

static pthread_rwlock_t lock;
#define L (&lock)

#define FREE(call)                                                                                 \
    if (TAKE(call) == 0)                                                                           \
    SHOW(pthread_rwlock_unlock(L))

/* Every way to take it while it is free. Here the time is checked before it is needed. */
static void free_lock(void) {
    FREE(pthread_rwlock_rdlock(L));
    FREE(pthread_rwlock_tryrdlock(L));
    FREE(pthread_rwlock_timedrdlock(L, FAR(CLOCK_REALTIME)));
    FREE(pthread_rwlock_timedrdlock(L, PAST(CLOCK_REALTIME)));
    FREE(pthread_rwlock_timedrdlock(L, NONE));
    FREE(pthread_rwlock_clockrdlock(L, CLOCK_MONOTONIC, FAR(CLOCK_MONOTONIC)));
    FREE(pthread_rwlock_clockrdlock(L, CLOCK_MONOTONIC, NONE));
    FREE(pthread_rwlock_clockrdlock(L, CLOCK_BOOTTIME, FAR(CLOCK_MONOTONIC)));
    FREE(pthread_rwlock_wrlock(L));
    FREE(pthread_rwlock_trywrlock(L));
    FREE(pthread_rwlock_timedwrlock(L, FAR(CLOCK_REALTIME)));
    FREE(pthread_rwlock_timedwrlock(L, PAST(CLOCK_REALTIME)));
    FREE(pthread_rwlock_timedwrlock(L, NONE));
    FREE(pthread_rwlock_clockwrlock(L, CLOCK_REALTIME, FAR(CLOCK_REALTIME)));
    FREE(pthread_rwlock_clockwrlock(L, CLOCK_REALTIME, NONE));
    FREE(pthread_rwlock_clockwrlock(L, 99, FAR(CLOCK_MONOTONIC)));
}

/* Every way to take it, by whoever has it or not; none of them waits for ever. */
static void *ask(void *unused) {
    FREE(pthread_rwlock_tryrdlock(L));
    FREE(pthread_rwlock_timedrdlock(L, PAST(CLOCK_REALTIME)));
    FREE(pthread_rwlock_timedrdlock(L, SOON(CLOCK_REALTIME)));
    FREE(pthread_rwlock_timedrdlock(L, NONE));
    FREE(pthread_rwlock_clockrdlock(L, CLOCK_MONOTONIC, SOON(CLOCK_MONOTONIC)));
    FREE(pthread_rwlock_clockrdlock(L, CLOCK_TAI, SOON(CLOCK_MONOTONIC)));
    FREE(pthread_rwlock_trywrlock(L));
    FREE(pthread_rwlock_timedwrlock(L, PAST(CLOCK_REALTIME)));
    FREE(pthread_rwlock_timedwrlock(L, SOON(CLOCK_REALTIME)));
    FREE(pthread_rwlock_timedwrlock(L, NONE));
    FREE(pthread_rwlock_clockwrlock(L, CLOCK_MONOTONIC, SOON(CLOCK_MONOTONIC)));
    return unused;
}

static pid_t waiter;
static struct steps started;
static int results[2];

static void *writes(void *unused) {
    waiter = gettid();
    step(&started);
    results[0] = took(pthread_rwlock_wrlock(L));
    results[1] = pthread_rwlock_unlock(L);
    return unused;
}

/* A writer waits behind a reader: may another reader come in? */
static void behind_a_writer(bool recursion_waits) {
    pthread_t thread;
    TAKE(pthread_rwlock_rdlock(L));
    MUST(pthread_create(&thread, NULL, writes, NULL) == 0);
    await_step(&started);
    await_sleep(waiter);
    atomic_fetch_add(&counts->waited, 1);
    run_thread(ask, NULL);
    if (!recursion_waits) {
        FREE(pthread_rwlock_rdlock(L));
    }
    int unlocked = pthread_rwlock_unlock(L);
    MUST(pthread_join(thread, NULL) == 0);
    printf("unlock %s, the writer: %s, %s\n", code_name(unlocked), code_name(results[0]),
           code_name(results[1]));
}

static void one(unsigned preference, bool with_turns) {
    printf("--- prefers %s\n", preferences[preference].name);
    pthread_rwlockattr_t attributes;
    MUST(pthread_rwlockattr_init(&attributes) == 0);
    MUST(pthread_rwlockattr_setkind_np(&attributes, preferences[preference].preference) == 0);
    SHOW(pthread_rwlock_init(L, &attributes));
    free_lock();
    TAKE(pthread_rwlock_rdlock(L));
    ask(NULL);
    run_thread(ask, NULL);
    SHOW(pthread_rwlock_unlock(L));
    TAKE(pthread_rwlock_wrlock(L));
    TAKE(pthread_rwlock_rdlock(L)); /* EDEADLK */
    TAKE(pthread_rwlock_wrlock(L));
    ask(NULL);
    run_thread(ask, NULL);
    SHOW(pthread_rwlock_unlock(L));
    if (with_turns)
        behind_a_writer(preferences[preference].preference ==
                        PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    SHOW(pthread_rwlock_destroy(L));
}

/* Two processes and one lock. */
static void between_processes(void) {
    printf("--- between processes\n");
    fflush(stdout);
    pthread_rwlockattr_t attributes;
    pthread_rwlock_t *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED && pthread_rwlockattr_init(&attributes) == 0);
    MUST(pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    MUST(pthread_rwlock_init(shared, &attributes) == 0);
    MUST(took(pthread_rwlock_wrlock(shared)) == 0);
    pid_t child = fork();
    if (child == 0) {
        step(&started);
        _exit(took(pthread_rwlock_rdlock(shared)) + pthread_rwlock_unlock(shared));
    }
    await_step(&started);
    int status;
    SHOW(pthread_rwlock_unlock(shared));
    MUST(waitpid(child, &status, 0) == child);
    printf("the child: %d\n", status);
}

int main(int count, char **arguments) {
    bool with_turns = count < 2 || strcmp(arguments[1], "without-turns") != 0;
    started = new_steps();
    for (unsigned preference = 0; preference < 3; preference++)
        one(preference, with_turns);
    between_processes();
    print_counts();
    return 0;
}
