/*
 * The program that `keeptime-lab bench locks` measures: threads that want the same locks. It knows
 * nothing of Keeptime, and runs unchanged under the preload library. It is compiled when the
 * command runs, by the machine's own compiler; with WITH_CK it also has Concurrency Kit's
 * phase-fair lock.
 *
 *   contend NAME=NUMBER ...
 *
 *   lock          0 a mutex; 1 two mutexes, one inside the other; 2 a read-write lock;
 *                 3 Concurrency Kit's phase-fair lock
 *   inherit       whether the mutexes are made inheritance mutexes by the program itself
 *   threads       that share the locks
 *   fifo          SCHED_FIFO priority, 0 for none: of all threads, or of the launching one only
 *   launch        whether the first thread launches: it sleeps between its short sections, and
 *                 only its waits are counted
 *   pin           whether each thread stays on a core of its own, the last one first
 *   section_ns    how long a lock is held
 *   think_ns      and how long a thread then wants none
 *   reads         of 100 sections of a read-write lock, how many read
 *   calls         0: waits, by the clock. 1: the processor time of each call. 2: one thread, the
 *                 time of calls on locks that nobody else wants
 *   warm_up_ms    that is not counted
 *   measured_ms   that is
 *
 * What is printed: for each histogram its name with the number of samples, their sum, the largest
 * and how many acquisitions fell in the measured time, then its name with the upper limit of each
 * bucket that is not empty and the samples in it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_CK
#include <ck_pflock.h>
#endif

enum { MUTEX, NESTED, RWLOCK, CK };
enum { WAITS, PROCESSOR_TIME, FREE_LOCKS };
enum { WARM_UP, MEASURED, END };

#define MOST_THREADS 1000
/* Locks in a row, all taken and then all let go: one call is shorter than reading the clock. */
#define ROW 16
/* Between two of its short sections, the launching thread sleeps. */
#define LAUNCH_SECTION_NS 1000
#define LAUNCH_SLEEP_NS 500000
/* Threads of real-time priority rest, or nobody else would ever run. */
#define REST_ROUNDS 64
#define REST_NS 50000
/* Of a program that does not end. */
#define PATIENCE_S 30
#define STACK_BYTES (256 << 10)

/* Each power of two is divided into 64 buckets. */
#define PARTS 64
#define BUCKETS (PARTS * 40)

struct histogram {
    unsigned long long count, sum, max, operations;
    unsigned buckets[BUCKETS];
};

/* Of a lock and of an unlock: [0] of writers and mutexes, [1] of readers. */
struct worker {
    pthread_t thread;
    int number, has_fifo;
    unsigned random;
    long switches;
    struct histogram locked[2], unlocked[2];
};

struct lock {
    pthread_mutex_t mutex __attribute__((aligned(64)));
    pthread_rwlock_t rwlock __attribute__((aligned(64)));
#ifdef WITH_CK
    ck_pflock_t ck __attribute__((aligned(64)));
#endif
};

static struct {
    long lock, inherit, threads, fifo, launch, pin, section_ns, think_ns, reads, calls;
    long warm_up_ms, measured_ms;
} plan;

static struct lock locks[ROW], inner;
static struct worker *workers;
static pthread_barrier_t line;
static _Atomic int phase;
static long section_turns, think_turns, launch_turns;
static unsigned long long cost_ns;

static void refuse(const char *what, int error) {
    fprintf(stderr, "contend: %s: %s\n", what, strerror(error));
    exit(1);
}

static unsigned long long now_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (unsigned long long)time.tv_sec * 1000000000 + (unsigned long long)time.tv_nsec;
}

static void sleep_ns(long ns) {
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

static void note(struct histogram *histogram, unsigned long long ns) {
    unsigned long index = ns;
    if (ns >= PARTS) {
        int shift = 63 - __builtin_clzll(ns) - 6;
        index = (unsigned long)(shift + 1) * PARTS + ((ns >> shift) - PARTS);
    }
    histogram->buckets[index < BUCKETS ? index : BUCKETS - 1]++;
    histogram->count++;
    histogram->sum += ns;
    if (ns > histogram->max) histogram->max = ns;
}

static void print(const char *name, int which, int is_unlock) {
    unsigned long long count = 0, sum = 0, max = 0, operations = 0;
    for (long i = 0; i < plan.threads; i++) {
        struct worker *worker = &workers[i];
        struct histogram *one = is_unlock ? &worker->unlocked[which] : &worker->locked[which];
        count += one->count;
        sum += one->sum;
        operations += one->operations;
        if (one->max > max) max = one->max;
    }
    printf("%s_total %llu %llu %llu %llu\n", name, count, sum, max, operations);
    for (unsigned long index = 0; index < BUCKETS; index++) {
        unsigned long long samples = 0, upper = index;
        for (long i = 0; i < plan.threads; i++) {
            struct worker *worker = &workers[i];
            struct histogram *one = is_unlock ? &worker->unlocked[which] : &worker->locked[which];
            samples += one->buckets[index];
        }
        if (index >= PARTS) {
            upper = ((unsigned long long)(index % PARTS + PARTS + 1) << (index / PARTS - 1)) - 1;
        }
        if (samples > 0) printf("%s %llu %llu\n", name, upper, samples);
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
        unsigned long long start_ns = now_ns(CLOCK_MONOTONIC);
        turn(turns);
        double found = (double)turns / (double)(now_ns(CLOCK_MONOTONIC) - start_ns + 1);
        if (found > most) most = found;
    }
    return most;
}

/* What two readings of a clock differ by when nothing is between them, at best. */
static unsigned long long cost_of(clockid_t clock) {
    unsigned long long least = 1000000;
    for (int i = 0; i < 2000; i++) {
        unsigned long long start_ns = now_ns(clock), ns = now_ns(clock) - start_ns;
        if (ns < least) least = ns;
    }
    return least;
}

static inline void take(struct lock *lock, int reads) {
    switch (plan.lock) {
    case RWLOCK:
        if (reads) {
            pthread_rwlock_rdlock(&lock->rwlock);
        } else {
            pthread_rwlock_wrlock(&lock->rwlock);
        }
        break;
#ifdef WITH_CK
    case CK:
        if (reads) {
            ck_pflock_read_lock(&lock->ck);
        } else {
            ck_pflock_write_lock(&lock->ck);
        }
        break;
#endif
    default: pthread_mutex_lock(&lock->mutex);
    }
}

static inline void give(struct lock *lock, int reads) {
    (void)reads;
    switch (plan.lock) {
    case RWLOCK: pthread_rwlock_unlock(&lock->rwlock); break;
#ifdef WITH_CK
    case CK:
        if (reads) {
            ck_pflock_read_unlock(&lock->ck);
        } else {
            ck_pflock_write_unlock(&lock->ck);
        }
        break;
#endif
    default: pthread_mutex_unlock(&lock->mutex);
    }
}

static int next_reads(struct worker *worker) {
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 17;
    worker->random ^= worker->random << 5;
    return plan.lock >= RWLOCK && worker->random % 100 < (unsigned)plan.reads;
}

/* One acquisition. A wait counts if any of it was in the measured time: of a thread that got no
 * lock in all that time, it is the one that tells. Every other acquisition of nested locks takes
 * only the inner, so that it is wanted by more than the one thread that has the outer; of those,
 * the waits are not counted. */
static void acquire(struct worker *worker, unsigned long round) {
    int launches = plan.launch && worker->number == 0, reads = next_reads(worker);
    int inner_only = plan.lock == NESTED && round % 2 != 0;
    long turns = launches ? launch_turns : section_turns;
    unsigned long long start_ns = now_ns(CLOCK_MONOTONIC);
    if (!inner_only) take(&locks[0], reads);
    if (plan.lock == NESTED) take(&inner, 0);
    unsigned long long ns = now_ns(CLOCK_MONOTONIC) - start_ns;
    int now = atomic_load_explicit(&phase, memory_order_relaxed);
    turn(turns);
    if (plan.lock == NESTED) give(&inner, 0);
    if (!inner_only) give(&locks[0], reads);
    if (now == WARM_UP || inner_only) return;
    if (!plan.launch || launches) note(&worker->locked[reads], ns);
    if (now == MEASURED) worker->locked[reads].operations++;
}

/* The same, and the processor time of both calls instead of the wait. */
static void acquire_and_time(struct worker *worker, int now) {
    int reads = next_reads(worker);
    unsigned long long times[4];
    times[0] = now_ns(CLOCK_THREAD_CPUTIME_ID);
    take(&locks[0], reads);
    times[1] = now_ns(CLOCK_THREAD_CPUTIME_ID);
    turn(section_turns);
    times[2] = now_ns(CLOCK_THREAD_CPUTIME_ID);
    give(&locks[0], reads);
    times[3] = now_ns(CLOCK_THREAD_CPUTIME_ID);
    if (now != MEASURED) return;
    unsigned long long locked = times[1] - times[0], unlocked = times[3] - times[2];
    note(&worker->locked[reads], locked > cost_ns ? locked - cost_ns : 0);
    note(&worker->unlocked[reads], unlocked > cost_ns ? unlocked - cost_ns : 0);
    worker->locked[reads].operations++;
}

/* A row of locks that nobody else wants, taken and let go: the time of all. */
static void acquire_row(struct worker *worker, unsigned long round, int now) {
    int reads = plan.lock >= RWLOCK && round % 2 == 0;
    unsigned long long times[3];
    times[0] = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < ROW; i++) take(&locks[i], reads);
    times[1] = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < ROW; i++) give(&locks[i], reads);
    times[2] = now_ns(CLOCK_MONOTONIC);
    if (now != MEASURED) return;
    unsigned long long locked = times[1] - times[0], unlocked = times[2] - times[1];
    note(&worker->locked[reads], locked > cost_ns ? locked - cost_ns : 0);
    note(&worker->unlocked[reads], unlocked > cost_ns ? unlocked - cost_ns : 0);
    worker->locked[reads].operations += ROW;
}

static long switches(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

static int set_fifo(int priority) {
    struct sched_param parameter = {.sched_priority = priority};
    return sched_setscheduler(0, SCHED_FIFO, &parameter) == 0;
}

/* Keeps the calling thread on a core of those that the program may use. */
static void stay_on_core(int number) {
    cpu_set_t all, own;
    if (sched_getaffinity(0, sizeof all, &all) != 0) refuse("sched_getaffinity", errno);
    int left = CPU_COUNT(&all) - 1 - number % CPU_COUNT(&all);
    CPU_ZERO(&own);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &all) && left-- == 0) CPU_SET(core, &own);
    }
    if (sched_setaffinity(0, sizeof own, &own) != 0) refuse("sched_setaffinity", errno);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    int launches = plan.launch && worker->number == 0, before = WARM_UP;
    int wants_fifo = plan.fifo > 0 && (launches || !plan.launch);
    if (plan.pin) stay_on_core(worker->number);
    if (wants_fifo) worker->has_fifo = set_fifo((int)plan.fifo);
    pthread_barrier_wait(&line);
    long at_start = switches();
    for (unsigned long round = 0;; round++) {
        int now = atomic_load_explicit(&phase, memory_order_relaxed);
        if (now == END) break;
        if (now != before) at_start = switches();
        before = now;
        switch (plan.calls) {
        case FREE_LOCKS: acquire_row(worker, round, now); break;
        case PROCESSOR_TIME: acquire_and_time(worker, now); break;
        default: acquire(worker, round);
        }
        if (launches) {
            sleep_ns(LAUNCH_SLEEP_NS);
        } else {
            turn(think_turns);
            if (wants_fifo && round % REST_ROUNDS == REST_ROUNDS - 1) sleep_ns(REST_NS);
        }
    }
    worker->switches = switches() - at_start;
    return NULL;
}

static void make_locks(struct lock *lock, long count) {
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    if (error == 0 && plan.inherit) {
        error = pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    }
    for (long i = 0; i < count && error == 0; i++) {
        error = pthread_mutex_init(&lock[i].mutex, &attributes);
        if (error == 0) error = pthread_rwlock_init(&lock[i].rwlock, NULL);
#ifdef WITH_CK
        ck_pflock_init(&lock[i].ck);
#endif
    }
    if (error != 0) refuse("a lock", error);
}

static void start(struct worker *worker) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error == 0) error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (error == 0) error = pthread_create(&worker->thread, &attributes, work, worker);
    if (error != 0) refuse("pthread_create", error);
}

/* Reads NAME=NUMBER. */
static void read_word(const char *word) {
    const struct { const char *name; long *number, least, most; } names[] = {
#ifdef WITH_CK
        {"lock", &plan.lock, MUTEX, CK},
#else
        {"lock", &plan.lock, MUTEX, RWLOCK},
#endif
        {"inherit", &plan.inherit, 0, 1},
        {"threads", &plan.threads, 1, MOST_THREADS},
        {"fifo", &plan.fifo, 0, 98},
        {"launch", &plan.launch, 0, 1},
        {"pin", &plan.pin, 0, 1},
        {"section_ns", &plan.section_ns, 0, 1000000000},
        {"think_ns", &plan.think_ns, 0, 1000000000},
        {"reads", &plan.reads, 0, 100},
        {"calls", &plan.calls, WAITS, FREE_LOCKS},
        {"warm_up_ms", &plan.warm_up_ms, 0, 1000000},
        {"measured_ms", &plan.measured_ms, 1, 1000000},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i].name);
        if (strncmp(word, names[i].name, length) != 0 || word[length] != '=') continue;
        char *end;
        long number = strtol(word + length + 1, &end, 10);
        if (*end == '\0' && end != word + length + 1 && number >= names[i].least &&
            number <= names[i].most) {
            *names[i].number = number;
            return;
        }
        fprintf(stderr, "contend: %s; expected %ld to %ld\n", word, names[i].least, names[i].most);
        exit(2);
    }
    fprintf(stderr, "contend: %s: no such name\n", word);
    exit(2);
}

static void print_all(double measured_ns) {
    int has_fifo = plan.fifo > 0;
    long all_switches = 0;
    for (long i = 0; i < plan.threads; i++) {
        all_switches += workers[i].switches;
        if (!workers[i].has_fifo && (i == 0 || !plan.launch)) has_fifo = 0;
    }
    printf("fifo %d\nclock_ns %llu\nmeasured_ns %.0f\nswitches %ld\n", has_fifo, cost_ns,
           measured_ns, all_switches);
    print("locked", 0, 0);
    if (plan.calls != WAITS) print("unlocked", 0, 1);
    if (plan.lock >= RWLOCK) print("read_locked", 1, 0);
    if (plan.lock >= RWLOCK && plan.calls != WAITS) print("read_unlocked", 1, 1);
}

int main(int count, char **words) {
    plan.threads = 1;
    plan.measured_ms = 100;
    for (int i = 1; i < count; i++) read_word(words[i]);
    alarm(PATIENCE_S + (unsigned)((plan.warm_up_ms + plan.measured_ms) / 1000));
    double turns = turns_per_ns();
    section_turns = (long)(turns * (double)plan.section_ns);
    think_turns = (long)(turns * (double)plan.think_ns);
    launch_turns = (long)(turns * LAUNCH_SECTION_NS);
    cost_ns = cost_of(plan.calls == PROCESSOR_TIME ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
    make_locks(locks, ROW);
    make_locks(&inner, 1);
    workers = calloc((size_t)plan.threads, sizeof *workers);
    if (workers == NULL) refuse("memory for threads", ENOMEM);
    int error = pthread_barrier_init(&line, NULL, (unsigned)plan.threads + 1);
    if (error != 0) refuse("pthread_barrier_init", error);
    for (long i = 0; i < plan.threads; i++) {
        workers[i].number = (int)i;
        workers[i].random = 2463534242u + 7919u * (unsigned)i;
        start(&workers[i]);
    }
    /* Above all others, or it could not end the run. */
    if (plan.fifo > 0) set_fifo((int)plan.fifo + 1);
    pthread_barrier_wait(&line);
    sleep_ns(plan.warm_up_ms * 1000000);
    unsigned long long start_ns = now_ns(CLOCK_MONOTONIC);
    atomic_store(&phase, MEASURED);
    sleep_ns(plan.measured_ms * 1000000);
    atomic_store(&phase, END);
    double measured_ns = (double)(now_ns(CLOCK_MONOTONIC) - start_ns);
    for (long i = 0; i < plan.threads; i++) pthread_join(workers[i].thread, NULL);
    print_all(measured_ns);
    return 0;
}
