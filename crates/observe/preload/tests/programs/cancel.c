/*
 * Threads that are cancelled: while they wait, and where they need not wait but are asked to look.
 * Every clean-up handler must run, and nothing that comes after the call.
 */
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static pthread_once_t once;
static atomic_int cleaned, passed;
static atomic_int thread_id;

static void clean(void *unlock) {
    atomic_fetch_add(&cleaned, 1);
    if (unlock != NULL)
        MUST(pthread_mutex_unlock(unlock) == 0); /* a cancelled wait has taken it again */
}

/* The thread function around each call. */
#define CANCELLED(name, unlock, ...)                                                               \
    static void *name(void *unused) {                                                              \
        pthread_cleanup_push(clean, NULL);                                                         \
        pthread_cleanup_push(clean, unlock);                                                       \
        atomic_store(&thread_id, gettid());                                                        \
        __VA_ARGS__;                                                                               \
        atomic_fetch_add(&passed, 1);                                                              \
        pthread_cleanup_pop(0);                                                                    \
        pthread_cleanup_pop(0);                                                                    \
        return unused;                                                                             \
    }

CANCELLED(in_cond_wait, &mutex, MUST(pthread_mutex_lock(&mutex) == 0);
          pthread_cond_wait(&condition, &mutex))
CANCELLED(in_cond_timedwait, &mutex, MUST(pthread_mutex_lock(&mutex) == 0);
          pthread_cond_timedwait(&condition, &mutex, FAR(CLOCK_REALTIME)))
CANCELLED(in_cond_clockwait, &mutex, MUST(pthread_mutex_lock(&mutex) == 0);
          pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, FAR(CLOCK_MONOTONIC)))
CANCELLED(in_sem_wait, NULL, sem_wait(&semaphore))
CANCELLED(in_sem_timedwait, NULL, sem_timedwait(&semaphore, FAR(CLOCK_REALTIME)))
CANCELLED(in_sem_clockwait, NULL,
          sem_clockwait(&semaphore, CLOCK_MONOTONIC, FAR(CLOCK_MONOTONIC)))

static void sleep_for_ever(void) {
    for (;;)
        pause();
}

/* A routine that is cancelled has not run: the next thread runs it. */
CANCELLED(in_once, NULL, pthread_once(&once, sleep_for_ever))

static void *result_of(pthread_t thread) {
    void *result;
    MUST(pthread_join(thread, &result) == 0);
    return result;
}

static void report(const char *name, void *result) {
    printf("%s: %s, %d handlers, %d passed\n", name,
           result == PTHREAD_CANCELED ? "cancelled" : "returned", atomic_exchange(&cleaned, 0),
           atomic_exchange(&passed, 0));
}

static void while_it_waits(const char *name, void *(*body)(void *)) {
    pthread_t thread;
    atomic_store(&thread_id, 0);
    MUST(sem_init(&semaphore, 0, 0) == 0);
    MUST(pthread_create(&thread, NULL, body, NULL) == 0);
    while (atomic_load(&thread_id) == 0)
        sched_yield();
    await_sleep(atomic_load(&thread_id));
    MUST(pthread_cancel(thread) == 0);
    report(name, result_of(thread));
    MUST(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

/* The request is there before the call, and the call could go on at once. */
static struct steps go;
#define PENDING(name, call)                                                                        \
    CANCELLED(name, NULL, MUST(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);         \
              await_step(&go); MUST(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);     \
              call)

PENDING(before_sem_wait, sem_wait(&semaphore))
PENDING(before_sem_timedwait, sem_timedwait(&semaphore, FAR(CLOCK_REALTIME)))
PENDING(before_sem_clockwait, sem_clockwait(&semaphore, CLOCK_REALTIME, FAR(CLOCK_REALTIME)))
PENDING(before_bad_sem_timedwait, sem_timedwait(&semaphore, NONE))
PENDING(before_sem_trywait, sem_trywait(&semaphore))
PENDING(before_lock, pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex))
PENDING(before_barrier, pthread_barrier_t barrier; pthread_barrier_init(&barrier, NULL, 1);
        pthread_barrier_wait(&barrier))

static void while_it_need_not(const char *name, void *(*body)(void *)) {
    pthread_t thread;
    int left;
    MUST(sem_init(&semaphore, 0, 1) == 0);
    MUST(pthread_create(&thread, NULL, body, NULL) == 0);
    MUST(pthread_cancel(thread) == 0);
    step(&go);
    report(name, result_of(thread));
    MUST(sem_getvalue(&semaphore, &left) == 0);
    printf("the semaphore has %d\n", left);
}

static void runs(void) {
    printf("runs after all\n");
}

/* Its only way out is a semaphore that never makes it wait. */
static void *never_waits(void *unused) {
    for (;;) {
        MUST(sem_post(&semaphore) == 0);
        MUST(sem_wait(&semaphore) == 0);
    }
    return unused;
}

static void endless(void) {
    pthread_t thread;
    MUST(sem_init(&semaphore, 0, 1) == 0);
    MUST(pthread_create(&thread, NULL, never_waits, NULL) == 0);
    MUST(pthread_cancel(thread) == 0);
    report("an endless loop", result_of(thread));
}

#define WAITING(body) while_it_waits(#body, body)
#define READY(body) while_it_need_not(#body, body)

int main(void) {
    go = new_steps();
    WAITING(in_cond_wait);
    WAITING(in_cond_timedwait);
    WAITING(in_cond_clockwait);
    WAITING(in_sem_wait);
    WAITING(in_sem_timedwait);
    WAITING(in_sem_clockwait);
    WAITING(in_once);
    MUST(pthread_once(&once, runs) == 0);
    READY(before_sem_wait);
    READY(before_sem_timedwait);
    READY(before_sem_clockwait);
    READY(before_bad_sem_timedwait);
    READY(before_sem_trywait);
    READY(before_lock);
    READY(before_barrier);
    endless();
    return 0;
}
