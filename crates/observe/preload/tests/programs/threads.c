/* Threads: very many, very small, interrupted all the time. Each mode of it is an argument. */
#include "check.h"

#include <limits.h>
#include <signal.h>
#include <sys/auxv.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_long locked;

static void lock(long times) {
    for (long i = 0; i < times; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    atomic_fetch_add(&locked, times);
}

static void *lock_in_thread(void *times) {
    lock((long)times);
    return NULL;
}

/* ---- Many ------------------------------------------------------------------------------------- */

static void many(long threads, long times) {
    enum { AT_ONCE = 8 };
    for (long i = 0; i < threads; i += AT_ONCE) {
        pthread_t some[AT_ONCE];
        for (int j = 0; j < AT_ONCE; j++)
            MUST(pthread_create(&some[j], NULL, lock_in_thread, (void *)times) == 0);
        for (int j = 0; j < AT_ONCE; j++)
            MUST(pthread_join(some[j], NULL) == 0);
    }
}

/* ---- What runs when they end ------------------------------------------------------------------ */

static pthread_key_t keys[3];
static atomic_int destroyed;

/* Comes back as often as a destructor may. */
static void destroy(void *rounds) {
    long left = (long)rounds;
    lock(10);
    atomic_fetch_add(&destroyed, 1);
    if (left > 1)
        MUST(pthread_setspecific(keys[0], (void *)(left - 1)) == 0);
}

static void *with_destructors(void *unused) {
    for (int i = 0; i < 3; i++)
        MUST(pthread_setspecific(keys[i], (void *)1) == 0);
    MUST(pthread_setspecific(keys[0], (void *)3) == 0);
    return unused; /* its first lock is in a destructor */
}

static void destructors(void) {
    for (int i = 0; i < 3; i++)
        MUST(pthread_key_create(&keys[i], destroy) == 0);
    for (int i = 0; i < 50; i++)
        run_thread(with_destructors, NULL);
    printf("destroyed %d\n", atomic_load(&destroyed));
}

/* ---- Small stacks ----------------------------------------------------------------------------- */

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t read_write = PTHREAD_RWLOCK_INITIALIZER;
static long turns;

static void *contends(void *unused) {
    for (int i = 0; i < 200; i++) {
        lock(1);
        MUST(pthread_rwlock_wrlock(&read_write) == 0 && pthread_rwlock_unlock(&read_write) == 0);
        MUST(pthread_rwlock_rdlock(&read_write) == 0 && pthread_rwlock_unlock(&read_write) == 0);
        MUST(pthread_mutex_lock(&mutex) == 0);
        turns++;
        if (i % 20 == 0)
            pthread_cond_timedwait(&condition, &mutex, PAST(CLOCK_REALTIME));
        MUST(pthread_cond_broadcast(&condition) == 0);
        sched_yield(); /* so that others wait */
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    return unused;
}

static void small_stacks(void) {
    enum { THREADS = 12 };
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    MUST(pthread_attr_init(&attributes) == 0);
    MUST(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], &attributes, contends, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    printf("turns %ld\n", turns);
}

/* ---- Signals ---------------------------------------------------------------------------------- */

static pthread_spinlock_t spin;
static sem_t semaphore;
static atomic_long handled, caught;
static _Thread_local volatile long handled_here;

static void handler(int number) {
    (void)number;
    int before = errno;
    /* Nobody else on this thread can have it. */
    if (pthread_spin_trylock(&spin) == 0) {
        atomic_fetch_add(&caught, 1);
        pthread_spin_unlock(&spin);
    }
    sem_post(&semaphore);
    MUST(errno == before);
    atomic_fetch_add(&handled, 1);
    handled_here++;
}

static atomic_long interrupted;

/* A timer that signals the calling thread, as often as the kernel can. */
static timer_t interrupt_me(long every_ns) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = gettid();
    struct itimerspec often = {{0, every_ns}, {0, every_ns}};
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    MUST(timer_settime(timer, 0, &often, NULL) == 0);
    return timer;
}

/* Locks all the time, until it was interrupted often or the recording is nearly full. */
static void *is_interrupted(void *times) {
    enum { MOST = 600000, AT_ONCE = 10 };
    timer_t timer = interrupt_me(15000);
    for (long i = 0; i < MOST && handled_here < (long)times; i += AT_ONCE)
        lock(AT_ONCE);
    MUST(timer_delete(timer) == 0);
    atomic_fetch_add(&interrupted, handled_here);
    return NULL;
}

/* Its only locks are the handler's. */
static void *sleeps(void *times) {
    timer_t timer = interrupt_me(100000);
    while (handled_here < (long)times / 10)
        pause();
    MUST(timer_delete(timer) == 0);
    return NULL;
}

/* Its first lock may be its own or the handler's, and either may be in the middle of the other. */
static void *is_young(void *unused) {
    lock(3);
    return unused;
}

static void signals(long times) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    void *(*const bodies[])(void *) = {is_interrupted, is_interrupted, sleeps};
    pthread_t threads[3];
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&threads[i], NULL, bodies[i], (void *)times) == 0);
    for (long i = 0; i < times / 10; i++) {
        pthread_t young;
        MUST(pthread_create(&young, NULL, is_young, NULL) == 0);
        MUST(pthread_kill(young, SIGUSR1) == 0);
        MUST(pthread_join(young, NULL) == 0);
    }
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
}

/* ---- Stacks of signal handlers ---------------------------------------------------------------- */

static size_t used;

/* Fills the stack below it, to see how far others get. */
static void *on_a_stack_of_its_own(void *bytes) {
    size_t size = (size_t)bytes, page = 4096;
    size_t rounded = (size + page - 1) / page * page;
    char *memory = mmap(NULL, rounded + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    MUST(memory != MAP_FAILED && mprotect(memory, page, PROT_NONE) == 0);
    memset(memory + page, 0x5a, rounded);
    char *lowest = memory + page + rounded - size;
    stack_t stack = {.ss_sp = lowest, .ss_size = size};
    MUST(sigaltstack(&stack, NULL) == 0);
    MUST(pthread_kill(pthread_self(), SIGUSR1) == 0);
    size_t untouched = 0;
    while (untouched < size && lowest[untouched] == 0x5a)
        untouched++;
    if (size - untouched > used)
        used = size - untouched;
    /* What lies below belongs to somebody else. */
    for (char *byte = memory + page; byte < lowest; byte++)
        MUST(*byte == 0x5a);
    return NULL;
}

static void alternate_stacks(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    size_t least = getauxval(AT_MINSIGSTKSZ);
    if (least < (size_t)MINSIGSTKSZ)
        least = (size_t)MINSIGSTKSZ;
    for (int i = 0; i < 20; i++)
        run_thread(on_a_stack_of_its_own, (void *)(least + 2048));
    fprintf(stderr, "stack %zu\nleast %zu\n", used, least);
}

int main(int count, char **arguments) {
    MUST(count >= 2);
    const char *mode = arguments[1];
    long first = count > 2 ? atol(arguments[2]) : 0, second = count > 3 ? atol(arguments[3]) : 0;
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
    MUST(sem_init(&semaphore, 0, 0) == 0);
#define MODE(name) (strcmp(mode, name) == 0)
    if (MODE("many"))
        many(first, second);
    else if (MODE("one"))
        lock(first);
    else if (MODE("destructors"))
        destructors();
    else if (MODE("small-stacks"))
        small_stacks();
    else if (MODE("signals"))
        signals(first);
    else if (MODE("alternate-stacks"))
        alternate_stacks();
    else
        return 97;
    fprintf(stderr, "locked %ld\ncaught %ld\nhandled %ld\ninterrupted %ld\n",
            atomic_load(&locked), atomic_load(&caught), atomic_load(&handled),
            atomic_load(&interrupted));
    printf("done\n");
    return 0;
}
