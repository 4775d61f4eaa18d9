/* Condition variables: results of waits that end by a signal, by time, and by a mistake. */
#include "check.h"

static pthread_mutex_t mutex;
static pthread_cond_t condition;
static int turn, waiting;
static long waits_begun, signals;

#define M (&mutex)
#define C (&condition)
#define WAIT(call) (waits_begun++, SHOW(call))

static void timeouts(void) {
    MUST(pthread_mutex_lock(M) == 0);
    WAIT(pthread_cond_timedwait(C, M, PAST(CLOCK_REALTIME)));
    WAIT(pthread_cond_timedwait(C, M, SOON(CLOCK_REALTIME)));
    WAIT(pthread_cond_timedwait(C, M, NONE));
    WAIT(pthread_cond_clockwait(C, M, CLOCK_MONOTONIC, SOON(CLOCK_MONOTONIC)));
    WAIT(pthread_cond_clockwait(C, M, CLOCK_REALTIME, PAST(CLOCK_REALTIME)));
    WAIT(pthread_cond_clockwait(C, M, CLOCK_TAI, SOON(CLOCK_REALTIME)));
    SHOW(pthread_mutex_unlock(M));
}

/* The mutex is checked: a wait without it is refused. */
static void not_the_owner(void) {
    WAIT(pthread_cond_wait(C, M));
    WAIT(pthread_cond_timedwait(C, M, SOON(CLOCK_REALTIME)));
    SHOW(pthread_mutex_unlock(M));
}

enum { ROUNDS = 200 };

/* Two threads hand a turn to and fro, with every kind of wait in between. */
static void *ping_pong(void *argument) {
    int own = (int)(long)argument;
    MUST(pthread_mutex_lock(M) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        while (turn != own) {
            int rc;
            waits_begun++;
            if (round % 3 == 0)
                rc = pthread_cond_wait(C, M);
            else if (round % 3 == 1)
                rc = pthread_cond_timedwait(C, M, FAR(CLOCK_REALTIME));
            else
                rc = pthread_cond_clockwait(C, M, CLOCK_MONOTONIC, FAR(CLOCK_MONOTONIC));
            MUST(rc == 0);
        }
        turn = 1 - own;
        signals++;
        MUST(pthread_cond_signal(C) == 0);
    }
    MUST(pthread_mutex_unlock(M) == 0);
    return NULL;
}

static void *wait_for_all(void *unused) {
    MUST(pthread_mutex_lock(M) == 0);
    waiting++;
    int own = turn;
    while (turn == own) {
        waits_begun++;
        MUST(pthread_cond_wait(C, M) == 0);
    }
    waiting--;
    MUST(pthread_mutex_unlock(M) == 0);
    return unused;
}

static void broadcast(void) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, wait_for_all, NULL) == 0);
    for (int all = 0; !all;) {
        MUST(pthread_mutex_lock(M) == 0);
        all = waiting == THREADS;
        if (all) {
            turn = 1 - turn;
            signals++;
            SHOW(pthread_cond_broadcast(C));
        }
        MUST(pthread_mutex_unlock(M) == 0);
        sched_yield();
    }
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    printf("%d wait\n", waiting);
}

int main(void) {
    pthread_mutexattr_t mutex_attributes;
    pthread_condattr_t attributes;
    MUST(pthread_mutexattr_init(&mutex_attributes) == 0);
    MUST(pthread_mutexattr_settype(&mutex_attributes, PTHREAD_MUTEX_ERRORCHECK) == 0);
    MUST(pthread_mutex_init(M, &mutex_attributes) == 0);
    MUST(pthread_condattr_init(&attributes) == 0);
    for (int monotonic = 0; monotonic < 2; monotonic++) {
        if (monotonic) {
            MUST(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
            SHOW(pthread_cond_init(C, &attributes));
            MUST(pthread_mutex_lock(M) == 0);
            WAIT(pthread_cond_timedwait(C, M, SOON(CLOCK_MONOTONIC)));
            MUST(pthread_mutex_unlock(M) == 0);
            SHOW(pthread_cond_destroy(C));
        }
        SHOW(pthread_cond_init(C, NULL));
        timeouts();
        not_the_owner();
        turn = 0;
        pthread_t other;
        MUST(pthread_create(&other, NULL, ping_pong, (void *)1L) == 0);
        ping_pong(NULL);
        MUST(pthread_join(other, NULL) == 0);
        broadcast();
        SHOW(pthread_cond_signal(C));
        signals++;
        SHOW(pthread_cond_destroy(C));
    }
    /* How many waits there were differs from run to run. */
    fprintf(stderr, "waits %ld\nsignals %ld\n", waits_begun, signals);
    return 0;
}
