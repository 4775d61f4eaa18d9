/*
 * let-go: mutexes that another thread lets go than the one that took them, as the C library allows
 * for ordinary and adaptive ones: after a fork, in another thread, after its end, and while others
 * wait; also in a mutex that a condition is waited for with. And mutexes that nobody has.
 */
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t over_fork = PTHREAD_MUTEX_INITIALIZER;
static atomic_int waiter;
static struct steps ready, go_on;
static long uses;

static void take(void) { MUST(pthread_mutex_lock(&over_fork) == 0); }

static void let_go(void) { MUST(pthread_mutex_unlock(&over_fork) == 0); }

static void in_both_processes(void) {
    MUST(pthread_atfork(take, let_go, let_go) == 0);
    fflush(stdout);
    for (int generation = 0; generation < 3; generation++) {
        pid_t child = fork();
        if (child == 0) {
            /* The child of a child, too; the last one tells. */
            take();
            let_go();
            if (generation == 2)
                _exit(7);
            continue;
        }
        int status;
        MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
        take();
        let_go();
        if (generation > 0)
            _exit(WEXITSTATUS(status));
        printf("over fork: %d\n", WEXITSTATUS(status));
        return;
    }
}

static void *takes(void *unused) {
    MUST(pthread_mutex_lock(&mutex) == 0);
    return unused;
}

static void *takes_and_stays(void *unused) {
    MUST(pthread_mutex_lock(&mutex) == 0);
    step(&ready);
    await_step(&go_on);
    return unused;
}

static void *waits(void *unused) {
    atomic_store(&waiter, gettid());
    MUST(pthread_mutex_lock(&mutex) == 0);
    uses++;
    MUST(pthread_mutex_unlock(&mutex) == 0);
    return unused;
}

static pthread_t begin(void *(*body)(void *)) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, body, NULL) == 0);
    return thread;
}

static void by_another_thread(int kind, const char *name) {
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes) == 0);
    MUST(pthread_mutexattr_settype(&attributes, kind) == 0);
    MUST(pthread_mutex_init(&mutex, &attributes) == 0);
    puts("nobody");
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_destroy(&mutex));
    MUST(pthread_mutex_init(&mutex, &attributes) == 0);

    run_thread(takes, NULL);
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));

    /* While others wait, and the owner ends as soon as it can. */
    for (int turn = 0; turn < 20; turn++) {
        pthread_t owner = begin(takes_and_stays);
        await_step(&ready);
        pthread_t others[3];
        for (int number = 0; number < 3; number++) {
            atomic_store(&waiter, 0);
            others[number] = begin(waits);
            while (atomic_load(&waiter) == 0)
                sched_yield();
            await_sleep(atomic_load(&waiter));
        }
        MUST(pthread_mutex_unlock(&mutex) == 0);
        step(&go_on);
        for (int number = 0; number < 3; number++)
            MUST(pthread_join(others[number], NULL) == 0);
        MUST(pthread_join(owner, NULL) == 0);
    }
    printf("%s: %ld uses\n", name, uses);
    uses = 0;
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_timedlock(&mutex, SOON(CLOCK_REALTIME)));
    SHOW(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, SOON(CLOCK_MONOTONIC)));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_destroy(&mutex));
}

/* What the C library refuses stays refused. */
static void refused(int kind, const char *name) {
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes) == 0);
    MUST(pthread_mutexattr_settype(&attributes, kind) == 0);
    MUST(pthread_mutex_init(&mutex, &attributes) == 0);
    printf("%s\n", name);
    SHOW(pthread_mutex_unlock(&mutex));
    pthread_t owner = begin(takes_and_stays);
    await_step(&ready);
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_timedlock(&mutex, SOON(CLOCK_REALTIME)));
    step(&go_on);
    MUST(pthread_join(owner, NULL) == 0);
}

int main(void) {
    ready = new_steps();
    go_on = new_steps();
    by_another_thread(PTHREAD_MUTEX_NORMAL, "normal");
    by_another_thread(PTHREAD_MUTEX_ADAPTIVE_NP, "adaptive");
    refused(PTHREAD_MUTEX_RECURSIVE, "recursive");
    refused(PTHREAD_MUTEX_ERRORCHECK, "error-checking");
    in_both_processes();
    return 0;
}
