/*
 * progress WHAT: how far threads get that others keep from a lock. Prints one number, or two.
 *   inversion   milliseconds that an urgent thread waits for a mutex while a middle one computes for
 *               400 ms on the processor of the owner, which needs 20 ms; and 1 if the middle one was
 *               through before, 0 if not
 *   read, write the same with a read-write lock that the slow one has for writing
 *   readers, readers-timed, readers-late
 *               the same with two slow ones that have it for reading, and an urgent one that
 *               writes: plainly, by a deadline, or when the slow ones were let in by a writer just
 *               before and have not run since
 *   bypass      how often a thread that holds a mutex for 1 ms and comes back at once took it while
 *               one waiter waited, at most, in two seconds
 *   bypass-5    the same, until it is 5 times
 *   equals      how often 16 threads of one real-time priority took a mutex in a second
 *   writes      how often a writer got a read-write lock in a second of overlapping readers
 *   writes-20   the same, until it is 20 times
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(99);                                                                              \
        }                                                                                          \
    } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_bool stop;
static atomic_int step;

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    MUST(clock_gettime(clock, &now) == 0);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Time of this thread on a processor. */
static void compute_ms(int64_t ms) {
    int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}

static void pause_us(int64_t us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* A field of what the kernel says about a thread, behind its name. */
static const char *field_of(long thread, int number) {
    static _Thread_local char text[512];
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", thread);
    FILE *file = fopen(path, "r");
    MUST(file);
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = 0;
    char *at = strrchr(text, ')');
    for (int field = 2; field < number; field++)
        MUST(at && (at = strchr(at + 1, ' ')));
    return at + 1;
}

static long own_id(void) {
    return syscall(SYS_gettid);
}

/* Until a thread has told its number and sleeps in the kernel. */
static void await_sleep(atomic_long *id) {
    while (!atomic_load(id) || *field_of(atomic_load(id), 3) != 'S')
        pause_us(100);
}

static pthread_t start(void *(*run)(void *), void *argument) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

/* ---- inversion --------------------------------------------------------------------------------- */

static void become(int priority) {
    struct sched_param parameters = {.sched_priority = priority};
    MUST(pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0);
}

static void pin_to(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    MUST(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0);
}

static int last_processor(void) {
    cpu_set_t set;
    MUST(sched_getaffinity(0, sizeof set, &set) == 0);
    int last = 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            last = i;
    return last;
}

static int shared_processor;
static atomic_bool middle_is_there, middle_is_through;
static atomic_long urgent_id;

/* What the urgent thread got. */
struct waited {
    int64_t ms;
    bool behind_the_middle;
};

static void wait_ends(struct waited *waited, int64_t begin_ns) {
    waited->ms = (clock_ns(CLOCK_MONOTONIC) - begin_ns) / 1000000;
    waited->behind_the_middle = atomic_load(&middle_is_through);
}

static void print_waited(const struct waited *waited) {
    printf("%lld %d\n", (long long)waited->ms, waited->behind_the_middle);
}

/* What the slow one takes, and what the urgent one does. */
static enum { MUTEX, READ, WRITE } kind;

static void take(bool urgent) {
    if (kind == MUTEX)
        MUST(pthread_mutex_lock(&mutex) == 0);
    else if (urgent && kind == READ)
        MUST(pthread_rwlock_rdlock(&rwlock) == 0);
    else
        MUST(pthread_rwlock_wrlock(&rwlock) == 0);
}

static void let_go(void) {
    MUST((kind == MUTEX ? pthread_mutex_unlock(&mutex) : pthread_rwlock_unlock(&rwlock)) == 0);
}

/* What a slow one does with the lock, not before the middle one is there. */
static void work(void) {
    while (!atomic_load(&middle_is_there)) {
    }
    compute_ms(20);
}

static void *low(void *unused) {
    pin_to(shared_processor);
    become(10);
    take(false);
    atomic_store(&step, 1);
    work();
    let_go();
    return unused;
}

static void *middle(void *unused) {
    pin_to(shared_processor);
    /* Still more urgent than all others. */
    atomic_store(&middle_is_there, true);
    become(20);
    compute_ms(400);
    atomic_store(&middle_is_through, true);
    return unused;
}

static void *high(void *waited) {
    pin_to(shared_processor);
    become(30);
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    atomic_store(&urgent_id, own_id());
    take(true);
    wait_ends(waited, begin_ns);
    let_go();
    return NULL;
}

static void inversion(void) {
    struct waited waited;
    shared_processor = last_processor();
    become(40);
    pthread_t threads[3] = {start(low, NULL)};
    while (atomic_load(&step) == 0)
        pause_us(100);
    threads[1] = start(high, &waited);
    await_sleep(&urgent_id);
    threads[2] = start(middle, NULL);
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    print_waited(&waited);
}

/* ---- readers ----------------------------------------------------------------------------------- */

static bool is_timed, is_late;

/* The calling thread's priority, 1 to 99, with what it was lent. */
static int effective_priority(void) {
    return -1 - atoi(field_of(own_id(), 18));
}

static atomic_long readers_id[2];
static atomic_int inside;

static void *low_reader(void *number) {
    pin_to(shared_processor);
    become(10);
    atomic_store(&readers_id[(intptr_t)number], own_id());
    MUST(pthread_rwlock_rdlock(&rwlock) == 0);
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&inside) < 2)
        pause_us(100);
    work();
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    MUST(effective_priority() == 10);
    return NULL;
}

static void *high_writer(void *waited) {
    pin_to(shared_processor);
    become(30);
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    atomic_store(&urgent_id, own_id());
    if (is_timed) {
        struct timespec until;
        MUST(clock_gettime(CLOCK_REALTIME, &until) == 0);
        until.tv_sec += 30;
        MUST(pthread_rwlock_timedwrlock(&rwlock, &until) == 0);
    } else {
        MUST(pthread_rwlock_wrlock(&rwlock) == 0);
    }
    wait_ends(waited, begin_ns);
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    MUST(effective_priority() == 30);
    return NULL;
}

static void readers(void) {
    struct waited waited;
    shared_processor = last_processor();
    become(40);
    pthread_t threads[4];
    if (is_late)
        MUST(pthread_rwlock_wrlock(&rwlock) == 0);
    for (int i = 0; i < 2; i++)
        threads[i] = start(low_reader, (void *)(intptr_t)i);
    if (is_late) {
        /* Both slow ones wait for the lock. */
        for (int i = 0; i < 2; i++)
            await_sleep(&readers_id[i]);
        threads[3] = start(middle, NULL);
        while (!atomic_load(&middle_is_there))
            pause_us(100);
        MUST(pthread_rwlock_unlock(&rwlock) == 0);
        threads[2] = start(high_writer, &waited);
    } else {
        while (atomic_load(&inside) < 2)
            pause_us(100);
        threads[2] = start(high_writer, &waited);
        await_sleep(&urgent_id);
        threads[3] = start(middle, NULL);
    }
    for (int i = 0; i < 4; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    print_waited(&waited);
}

/* ---- bypass ------------------------------------------------------------------------------------ */

static int64_t taken; /* behind the mutex */
static atomic_llong announced, most;

/* Takes the mutex again as soon as it has let it go. */
static void *hog(void *unused) {
    while (!atomic_load(&stop)) {
        pthread_mutex_lock(&mutex);
        taken++;
        atomic_store(&announced, taken);
        compute_ms(1);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *waiter(void *unused) {
    while (!atomic_load(&stop)) {
        int64_t before = atomic_load(&announced);
        pthread_mutex_lock(&mutex);
        if (taken - before > atomic_load(&most))
            atomic_store(&most, taken - before);
        pthread_mutex_unlock(&mutex);
        pause_us(200);
    }
    return unused;
}

/* For two seconds if `enough` is 0. */
static void bypass(int64_t enough) {
    pthread_t threads[4] = {start(hog, NULL)};
    for (int i = 1; i < 4; i++)
        threads[i] = start(waiter, NULL);
    do
        pause_us(enough ? 1000 : 2000000);
    while (atomic_load(&most) < enough);
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    printf("%lld\n", (long long)atomic_load(&most));
}

/* ---- writes ------------------------------------------------------------------------------------ */

static void *reader(void *number) {
    pause_us(500 * (int64_t)(intptr_t)number);
    while (!atomic_load(&stop)) {
        MUST(pthread_rwlock_rdlock(&rwlock) == 0);
        pause_us(2000);
        MUST(pthread_rwlock_unlock(&rwlock) == 0);
    }
    return NULL;
}

static void *writer(void *writes) {
    while (!atomic_load(&stop)) {
        MUST(pthread_rwlock_wrlock(&rwlock) == 0);
        if (!atomic_load(&stop))
            atomic_fetch_add((atomic_long *)writes, 1);
        MUST(pthread_rwlock_unlock(&rwlock) == 0);
        pause_us(200);
    }
    return NULL;
}

static void writes(long enough) {
    atomic_long count = 0;
    pthread_t threads[5];
    for (int i = 0; i < 4; i++)
        threads[i] = start(reader, (void *)(intptr_t)i);
    pause_us(10000);
    threads[4] = start(writer, &count);
    if (enough == 0)
        pause_us(1000000);
    while (atomic_load(&count) < enough)
        pause_us(1000);
    atomic_store(&stop, true);
    for (int i = 0; i < 5; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    printf("%ld\n", atomic_load(&count));
}

/* ---- equals ------------------------------------------------------------------------------------ */

static void *equal(void *unused) {
    become(10);
    while (!atomic_load(&stop)) {
        pthread_mutex_lock(&mutex);
        /* Real-time threads must leave something to others. */
        bool is_tired = ++taken % 64 == 0;
        pthread_mutex_unlock(&mutex);
        if (is_tired)
            pause_us(50);
    }
    return unused;
}

static void equals(void) {
    pthread_t threads[16];
    become(20);
    for (int i = 0; i < 16; i++)
        threads[i] = start(equal, NULL);
    pause_us(1000000);
    atomic_store(&stop, true);
    for (int i = 0; i < 16; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    printf("%lld\n", (long long)taken);
}

int main(int count, char **arguments) {
    const char *what = count == 2 ? arguments[1] : "";
    kind = strcmp(what, "read") == 0 ? READ : strcmp(what, "write") == 0 ? WRITE : MUTEX;
    is_timed = strcmp(what, "readers-timed") == 0;
    is_late = strcmp(what, "readers-late") == 0;
    if (strcmp(what, "inversion") == 0 || kind != MUTEX)
        inversion();
    else if (strcmp(what, "readers") == 0 || is_timed || is_late)
        readers();
    else if (strcmp(what, "bypass") == 0)
        bypass(0);
    else if (strcmp(what, "bypass-5") == 0)
        bypass(5);
    else if (strcmp(what, "equals") == 0)
        equals();
    else if (strcmp(what, "writes") == 0)
        writes(0);
    else if (strcmp(what, "writes-20") == 0)
        writes(20);
    else
        return 2;
    return 0;
}
