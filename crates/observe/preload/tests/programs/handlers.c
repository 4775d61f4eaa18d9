/*
 * handlers: threads that wait for a mutex and cannot take it: a signal handler has come in between
 * and waits for somebody who needs the mutex, as stop-the-world collectors and samplers do; or the
 * thread has left its wait by a jump out of a handler, or by asynchronous cancellation. Others must
 * get the mutex, and the thread itself when it goes on.
 */
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static pthread_mutex_t mutex;
static struct steps inside, go_on;
static atomic_int waiter;
static sigjmp_buf before_the_wait;

static int plainly(void) { return pthread_mutex_lock(&mutex); }

static int by_attempts(void) {
    int result;
    while ((result = pthread_mutex_trylock(&mutex)) == EBUSY)
        sched_yield();
    return result;
}

static int again_and_again(void) {
    int result;
    do {
        struct timespec until = in_ms(CLOCK_REALTIME, 1);
        result = pthread_mutex_timedlock(&mutex, &until);
    } while (result == ETIMEDOUT);
    return result;
}

static void suspend(int signal) {
    (void)signal;
    step(&inside);
    await_step(&go_on);
}

static void jump(int signal) {
    (void)signal;
    siglongjmp(before_the_wait, 1);
}

static void want_it_too(int signal) {
    (void)signal;
    step(&inside);
    MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

static void *waits(void *unused) {
    atomic_store(&waiter, gettid());
    MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    return unused;
}

static void *waits_or_jumps(void *unused) {
    if (sigsetjmp(before_the_wait, 1) == 0)
        waits(unused);
    return unused;
}

static void *waits_or_is_cancelled(void *unused) {
    MUST(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    return waits(unused);
}

static void use(int (*way)(void)) {
    MUST(way() == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
}

/* The main thread has the mutex, and another one waits for it, for longer than a guard's bound. */
static pthread_t begin(int kind, void *(*body)(void *)) {
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes) == 0);
    MUST(pthread_mutexattr_settype(&attributes, kind) == 0);
    MUST(pthread_mutex_init(&mutex, &attributes) == 0);
    MUST(pthread_mutex_lock(&mutex) == 0);
    pthread_t thread;
    atomic_store(&waiter, 0);
    MUST(pthread_create(&thread, NULL, body, NULL) == 0);
    while (atomic_load(&waiter) == 0)
        sched_yield();
    struct timespec outlasts_the_bound = {0, 3000000};
    nanosleep(&outlasts_the_bound, NULL);
    await_sleep(atomic_load(&waiter));
    return thread;
}

static const struct {
    const char *name;
    int kind;
} kinds[] = {
    {"normal", PTHREAD_MUTEX_NORMAL},
    {"recursive", PTHREAD_MUTEX_RECURSIVE},
    {"error-checking", PTHREAD_MUTEX_ERRORCHECK},
    {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP},
};

static const struct {
    const char *name;
    int (*way)(void);
} ways[] = {{"plainly", plainly}, {"by attempts", by_attempts}, {"again and again", again_and_again}};

static void suspended(int kind, int (*way)(void)) {
    pthread_t thread = begin(kind, waits);
    MUST(pthread_kill(thread, SIGUSR1) == 0);
    await_step(&inside);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    for (int turn = 0; turn < 100; turn++)
        use(way);
    step(&go_on);
    MUST(pthread_join(thread, NULL) == 0);
    use(plainly);
}

int main(void) {
    inside = new_steps();
    go_on = new_steps();
    MUST(signal(SIGUSR1, suspend) != SIG_ERR && signal(SIGUSR2, jump) != SIG_ERR);
    MUST(signal(SIGURG, want_it_too) != SIG_ERR);
    for (unsigned kind = 0; kind < 4; kind++) {
        for (unsigned way = 0; way < 3; way++) {
            suspended(kinds[kind].kind, ways[way].way);
            printf("%s, %s: taken\n", kinds[kind].name, ways[way].name);
        }
        pthread_t thread = begin(kinds[kind].kind, waits);
        MUST(pthread_kill(thread, SIGURG) == 0);
        await_step(&inside);
        MUST(pthread_mutex_unlock(&mutex) == 0);
        MUST(pthread_join(thread, NULL) == 0);
        use(plainly);
        printf("%s, in a handler: taken twice\n", kinds[kind].name);

        thread = begin(kinds[kind].kind, waits_or_jumps);
        MUST(pthread_kill(thread, SIGUSR2) == 0);
        MUST(pthread_join(thread, NULL) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
        use(plainly);
        printf("%s, after a jump: taken\n", kinds[kind].name);

        thread = begin(kinds[kind].kind, waits_or_is_cancelled);
        void *result;
        MUST(pthread_cancel(thread) == 0);
        MUST(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
        MUST(pthread_mutex_unlock(&mutex) == 0);
        use(plainly);
        printf("%s, after a cancellation: taken\n", kinds[kind].name);
    }
    return 0;
}
