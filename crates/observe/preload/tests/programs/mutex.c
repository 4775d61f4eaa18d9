/* Mutexes of every type: what each function answers, free, held, by the owner and by others. */
#include "check.h"

static const struct {
    const char *name;
    int type;
} types[] = {
    {"normal", PTHREAD_MUTEX_NORMAL},
    {"recursive", PTHREAD_MUTEX_RECURSIVE},
    {"errorcheck", PTHREAD_MUTEX_ERRORCHECK},
    {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP},
};
static const struct {
    const char *name;
    int protocol;
} protocols[] = {
    {"none", PTHREAD_PRIO_NONE}, {"inherit", PTHREAD_PRIO_INHERIT}, {"protect", PTHREAD_PRIO_PROTECT}};

struct case_of {
    pthread_mutex_t *mutex;
    int type;
    bool robust;
    struct steps done, go;
    int results[2];
};

static void init(pthread_mutex_t *mutex, int type, int protocol, bool robust, bool shared) {
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes) == 0);
    MUST(pthread_mutexattr_settype(&attributes, type) == 0);
    MUST(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
    if (protocol == PTHREAD_PRIO_PROTECT)
        MUST(pthread_mutexattr_setprioceiling(&attributes, 1) == 0);
    if (robust)
        MUST(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
    if (shared)
        MUST(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    SHOW(pthread_mutex_init(mutex, &attributes));
    MUST(pthread_mutexattr_destroy(&attributes) == 0);
}

/* Every way to take it while it is free. Some check the time though they need not wait. */
static void free_mutex(struct case_of *c) {
    pthread_mutex_t *m = c->mutex;
#define FREE(call)                                                                                 \
    if (TAKE(call) == 0)                                                                           \
    SHOW(pthread_mutex_unlock(m))
    FREE(pthread_mutex_lock(m));
    FREE(pthread_mutex_trylock(m));
    FREE(pthread_mutex_timedlock(m, FAR(CLOCK_REALTIME)));
    FREE(pthread_mutex_timedlock(m, PAST(CLOCK_REALTIME)));
    FREE(pthread_mutex_timedlock(m, NONE));
    FREE(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, FAR(CLOCK_MONOTONIC)));
    FREE(pthread_mutex_clocklock(m, CLOCK_REALTIME, PAST(CLOCK_REALTIME)));
    FREE(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, NONE));
    FREE(pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, FAR(CLOCK_MONOTONIC)));
    FREE(pthread_mutex_clocklock(m, -7, FAR(CLOCK_MONOTONIC)));
}

/* The owner asks again. A normal mutex would wait for ever. */
static void again(struct case_of *c) {
    pthread_mutex_t *m = c->mutex;
    if (TAKE(pthread_mutex_lock(m)) != 0)
        return;
    int more = 0;
    more += TAKE(pthread_mutex_trylock(m)) == 0;
    if (c->type == PTHREAD_MUTEX_RECURSIVE || c->type == PTHREAD_MUTEX_ERRORCHECK) {
        more += TAKE(pthread_mutex_lock(m)) == 0;
        more += TAKE(pthread_mutex_timedlock(m, SOON(CLOCK_REALTIME))) == 0;
        more += TAKE(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, SOON(CLOCK_MONOTONIC))) == 0;
    } else {
        TAKE(pthread_mutex_timedlock(m, PAST(CLOCK_REALTIME)));
    }
    for (; more >= 0; more--)
        SHOW(pthread_mutex_unlock(m));
    if (c->type == PTHREAD_MUTEX_RECURSIVE || c->type == PTHREAD_MUTEX_ERRORCHECK || c->robust)
        SHOW(pthread_mutex_unlock(m));
}

/* What others are answered while this one has it. */
static void *held_by_another(void *argument) {
    struct case_of *c = argument;
    pthread_mutex_t *m = c->mutex;
    TAKE(pthread_mutex_trylock(m));
    TAKE(pthread_mutex_timedlock(m, PAST(CLOCK_REALTIME)));
    TAKE(pthread_mutex_timedlock(m, SOON(CLOCK_REALTIME)));
    TAKE(pthread_mutex_timedlock(m, NONE));
    TAKE(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, SOON(CLOCK_MONOTONIC)));
    TAKE(pthread_mutex_clocklock(m, CLOCK_TAI, SOON(CLOCK_MONOTONIC)));
    if (c->type == PTHREAD_MUTEX_ERRORCHECK || c->type == PTHREAD_MUTEX_RECURSIVE || c->robust)
        SHOW(pthread_mutex_unlock(m));
    return NULL;
}

/* It waits until it is given the mutex. */
static void *waits(void *argument) {
    struct case_of *c = argument;
    pid_t thread = gettid();
    MUST(write(c->go.pipe[1], &thread, sizeof thread) == sizeof thread);
    c->results[0] = took(pthread_mutex_lock(c->mutex));
    c->results[1] = pthread_mutex_unlock(c->mutex);
    return NULL;
}

static void handed_over(struct case_of *c) {
    pthread_t thread;
    pid_t id;
    if (TAKE(pthread_mutex_lock(c->mutex)) != 0)
        return;
    run_thread(held_by_another, c);
    MUST(pthread_create(&thread, NULL, waits, c) == 0);
    MUST(read(c->go.pipe[0], &id, sizeof id) == sizeof id);
    await_sleep(id);
    atomic_fetch_add(&counts->waited, 1);
    SHOW(pthread_mutex_unlock(c->mutex));
    MUST(pthread_join(thread, NULL) == 0);
    printf("the other: %s, %s\n", code_name(c->results[0]), code_name(c->results[1]));
}

static void *dies_with_it(void *argument) {
    struct case_of *c = argument;
    TAKE(pthread_mutex_lock(c->mutex));
    return NULL;
}

/* An owner dies; the next one repairs it or not. */
static void owner_dies(struct case_of *c) {
    run_thread(dies_with_it, c);
    if (TAKE(pthread_mutex_lock(c->mutex)) == EOWNERDEAD) {
        SHOW(pthread_mutex_consistent(c->mutex));
        SHOW(pthread_mutex_unlock(c->mutex));
    }
    run_thread(dies_with_it, c);
    if (TAKE(pthread_mutex_trylock(c->mutex)) == EOWNERDEAD) {
        SHOW(pthread_mutex_consistent(c->mutex));
        SHOW(pthread_mutex_unlock(c->mutex));
    }
    run_thread(dies_with_it, c);
    if (TAKE(pthread_mutex_timedlock(c->mutex, FAR(CLOCK_REALTIME))) == EOWNERDEAD)
        SHOW(pthread_mutex_unlock(c->mutex));
    TAKE(pthread_mutex_lock(c->mutex));
    TAKE(pthread_mutex_lock(c->mutex));
    SHOW(pthread_mutex_unlock(c->mutex));
    /* glibc 2.36 leaves it locked after a trylock, so that the next one would wait for ever. */
    TAKE(pthread_mutex_trylock(c->mutex));
}

/* Two processes and one mutex. */
static void between_processes(struct case_of *c) {
    fflush(stdout);
    TAKE(pthread_mutex_lock(c->mutex));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        TAKE(pthread_mutex_trylock(c->mutex));
        TAKE(pthread_mutex_timedlock(c->mutex, SOON(CLOCK_REALTIME)));
        fflush(stdout);
        step(&c->done);
        if (TAKE(pthread_mutex_lock(c->mutex)) != 0)
            _exit(1);
        if (!c->robust)
            SHOW(pthread_mutex_unlock(c->mutex));
        fflush(stdout);
        _exit(0);
    }
    await_step(&c->done);
    int unlocked = pthread_mutex_unlock(c->mutex), status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    printf("the parent's unlock: %s\n", code_name(unlocked));
    if (TAKE(pthread_mutex_lock(c->mutex)) == EOWNERDEAD)
        SHOW(pthread_mutex_consistent(c->mutex));
    SHOW(pthread_mutex_unlock(c->mutex));
}

static void one(unsigned type, unsigned protocol, bool robust, bool shared) {
    printf("--- %s, protocol %s%s%s\n", types[type].name, protocols[protocol].name,
           robust ? ", robust" : "", shared ? ", shared" : "");
    struct case_of c = {.type = types[type].type, .robust = robust};
    c.done = new_steps();
    c.go = new_steps();
    c.mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(c.mutex != MAP_FAILED);
    init(c.mutex, c.type, protocols[protocol].protocol, robust, shared);
    free_mutex(&c);
    again(&c);
    handed_over(&c);
    if (shared)
        between_processes(&c);
    if (robust)
        owner_dies(&c);
    SHOW(pthread_mutex_destroy(c.mutex));
    close(c.done.pipe[0]), close(c.done.pipe[1]), close(c.go.pipe[0]), close(c.go.pipe[1]);
    munmap(c.mutex, 4096);
}

/* An ordinary thread cannot have a ceiling: glibc refuses the first attempt, and only that. */
static void ceiling_of_an_ordinary_thread(void) {
    pthread_mutex_t mutex;
    init(&mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_PROTECT, false, false);
    TAKE(pthread_mutex_lock(&mutex));
    if (TAKE(pthread_mutex_lock(&mutex)) == 0)
        SHOW(pthread_mutex_unlock(&mutex));
}

static void *ceilings(void *unused) {
    ceiling_of_an_ordinary_thread();
    return unused;
}

int main(void) {
    run_thread(ceilings, NULL);
    /* So that it has a priority that ceilings are compared with. */
    struct sched_param lowest = {.sched_priority = 1};
    unsigned protocols_allowed = 3;
    if (SHOW(pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest)) != 0)
        protocols_allowed = 2;
    for (unsigned type = 0; type < 4; type++)
        for (unsigned protocol = 0; protocol < protocols_allowed; protocol++)
            for (int robust = 0; robust < 2; robust++)
                for (int shared = 0; shared < 2; shared++)
                    if (!(robust && protocol == 2)) /* glibc has no such mutex */
                        one(type, protocol, robust, shared);
    static pthread_mutex_t zero;
    TAKE(pthread_mutex_lock(&zero));
    SHOW(pthread_mutex_destroy(&zero));
    SHOW(pthread_mutex_unlock(&zero));
    print_counts();
    return 0;
}
