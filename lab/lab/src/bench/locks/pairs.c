/*
 * The program that `keeptime-lab bench locks` measures, under one recorder after another. It is
 * compiled when the command runs, by the machine's own compiler, with calls through the table of
 * jumps, which each of the recorders can hook.
 *
 *   pairs mutex  CORE PRIORITY WARM_UP BATCHES ROUNDS
 *   pairs rwlock CORE PRIORITY WARM_UP BATCHES ROUNDS
 *   pairs two    CORE PRIORITY WARM_UP BATCHES ROUNDS CORE2 HELD_NS OUTSIDE_NS
 *
 * A round is: a mutex locked and unlocked; two read locks of one lock, one inside the other; a
 * mutex locked by both of two threads, held, unlocked and left alone. ROUNDS are those of one
 * batch. The time of each batch is printed, so that one in which the machine did something else
 * can be told from the others. The warm-up works on another lock than the batches, so that a
 * recording can be searched for the batches' records alone. One more thread sleeps all the time:
 * while a process has one thread only, glibc takes its locks without atomic instructions, in half
 * of the time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MOST_BATCHES 1000

/* Each begins a cache line. Zero is what their static initialisers are. */
static pthread_mutex_t warm_mutex __attribute__((aligned(64))), mutex __attribute__((aligned(64)));
static pthread_rwlock_t warm_rwlock __attribute__((aligned(64))), rwlock __attribute__((aligned(64)));

/* What one thread is to do, and what came of it. */
struct worker {
    int core, priority, fifo;
    int batches;
    long warm_up, rounds;
    long held, outside; /* turns of the empty loop */
    long switches;      /* voluntary ones, in the batches */
    long long batch_ns[MOST_BATCHES];
};

static struct worker first, second;
static pthread_barrier_t line;

static void refuse(const char *what, int error) {
    fprintf(stderr, "pairs: %s: %s\n", what, strerror(error));
    exit(1);
}

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Pins the calling thread, and gives it its real-time priority where that is allowed. */
static void settle(struct worker *worker) {
    struct sched_param parameter = {.sched_priority = worker->priority};
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(worker->core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) refuse("sched_setaffinity", errno);
    worker->fifo = worker->priority > 0 && sched_setscheduler(0, SCHED_FIFO, &parameter) == 0;
}

static void start(void *(*work)(void *), void *argument, pthread_t *thread) {
    int error = pthread_create(thread, NULL, work, argument);
    if (error != 0) refuse("pthread_create", error);
}

static void *sleep_for_ever(void *unused) {
    for (;;) pause();
    return unused;
}

static void __attribute__((noinline)) lock_mutex(pthread_mutex_t *lock, long rounds) {
    for (long i = 0; i < rounds; i++) {
        pthread_mutex_lock(lock);
        pthread_mutex_unlock(lock);
    }
}

static void __attribute__((noinline)) nest_reads(pthread_rwlock_t *lock, long rounds) {
    for (long i = 0; i < rounds; i++) {
        pthread_rwlock_rdlock(lock);
        pthread_rwlock_rdlock(lock);
        pthread_rwlock_unlock(lock);
        pthread_rwlock_unlock(lock);
    }
}

static void __attribute__((noinline)) turn(long turns) {
    for (long i = 0; i < turns; i++) __asm__ volatile("" ::: "memory");
}

/* How many turns of the empty loop a nanosecond has, at its fastest. */
static double turns_per_ns(void) {
    const long turns = 200000;
    double most = 0;
    for (int i = 0; i < 20; i++) {
        long long start_ns = now_ns();
        turn(turns);
        double found = (double)turns / (double)(now_ns() - start_ns + 1);
        if (found > most) most = found;
    }
    return most;
}

static void contend(struct worker *worker, pthread_mutex_t *lock, long rounds) {
    for (long i = 0; i < rounds; i++) {
        pthread_mutex_lock(lock);
        turn(worker->held);
        pthread_mutex_unlock(lock);
        turn(worker->outside);
    }
}

static long voluntary_switches(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static void *compete(void *argument) {
    struct worker *worker = argument;
    settle(worker);
    pthread_barrier_wait(&line);
    contend(worker, &warm_mutex, worker->warm_up);
    for (int i = 0; i < worker->batches; i++) {
        pthread_barrier_wait(&line);
        long before = voluntary_switches();
        long long start_ns = now_ns();
        contend(worker, &mutex, worker->rounds);
        worker->batch_ns[i] = now_ns() - start_ns;
        worker->switches += voluntary_switches() - before;
    }
    return NULL;
}

static void measure_two(void) {
    pthread_t other;
    int error = pthread_barrier_init(&line, NULL, 2);
    if (error != 0) refuse("pthread_barrier_init", error);
    start(compete, &second, &other);
    compete(&first);
    pthread_join(other, NULL);
    /* Both began at the same barrier: a batch took as long as its slower half. */
    for (int i = 0; i < first.batches; i++) {
        if (second.batch_ns[i] > first.batch_ns[i]) first.batch_ns[i] = second.batch_ns[i];
    }
    first.switches += second.switches;
    first.fifo = first.fifo && second.fifo;
}

static void measure_one(int is_rwlock) {
    settle(&first);
    if (is_rwlock) {
        nest_reads(&warm_rwlock, first.warm_up);
    } else {
        lock_mutex(&warm_mutex, first.warm_up);
    }
    for (int i = 0; i < first.batches; i++) {
        long long start_ns = now_ns();
        if (is_rwlock) {
            nest_reads(&rwlock, first.rounds);
        } else {
            lock_mutex(&mutex, first.rounds);
        }
        first.batch_ns[i] = now_ns() - start_ns;
    }
}

static long number(const char *text, const char *what, long least, long most) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most) {
        fprintf(stderr, "pairs: %s: %s; expected %ld to %ld\n", what, text, least, most);
        exit(2);
    }
    return value;
}

int main(int count, char **words) {
    int is_rwlock = count == 7 && strcmp(words[1], "rwlock") == 0;
    int is_two = count == 10 && strcmp(words[1], "two") == 0;
    pthread_t sleeper;
    if (!is_rwlock && !is_two && (count != 7 || strcmp(words[1], "mutex") != 0)) {
        fprintf(stderr, "pairs: expected what is measured and its numbers\n");
        return 2;
    }
    first.core = (int)number(words[2], "CORE", 0, CPU_SETSIZE - 1);
    first.priority = (int)number(words[3], "PRIORITY", 0, 99);
    first.warm_up = number(words[4], "WARM_UP", 0, 1L << 40);
    first.batches = (int)number(words[5], "BATCHES", 1, MOST_BATCHES);
    first.rounds = number(words[6], "ROUNDS", 1, 1L << 40);
    start(sleep_for_ever, NULL, &sleeper);
    if (is_two) {
        double turns = turns_per_ns();
        first.held = (long)(turns * (double)number(words[8], "HELD_NS", 0, 1000000000));
        first.outside = (long)(turns * (double)number(words[9], "OUTSIDE_NS", 0, 1000000000));
        second = first;
        second.core = (int)number(words[7], "CORE2", 0, CPU_SETSIZE - 1);
        measure_two();
    } else {
        measure_one(is_rwlock);
    }
    printf("lock %p\n", is_rwlock ? (void *)&rwlock : (void *)&mutex);
    printf("fifo %d\n", first.fifo);
    printf("switches %ld\n", first.switches);
    for (int i = 0; i < first.batches; i++) printf("batch_ns %lld\n", first.batch_ns[i]);
    return 0;
}
