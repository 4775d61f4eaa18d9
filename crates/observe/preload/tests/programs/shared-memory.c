/*
 * Processes that share their memory (CLONE_VM): threads of two of them take the same locks, and
 * one of them waits for a lock that the other one reads, with the thread-local storage of the
 * other. Also a child of vfork, which borrows its parent's thread.
 */
#include "check.h"

#include <sched.h>

enum { THREADS = 2, ROUNDS = 2000, HANDOVERS = 200, STACK = 1 << 18 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long written, counted, torn[2];
static atomic_long broken;
static sem_t go, done;

static void spin(int times) {
    for (volatile int i = 0; i < times; i++)
        ;
}

static void pause_for_others(void) {
    struct timespec time = {0, 50000};
    nanosleep(&time, NULL);
}

static void *contend(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525 + 1013904223;
        if (seed >> 30 == 0) {
            MUST(pthread_rwlock_wrlock(&lock) == 0);
            torn[0]++;
            spin(seed >> 20 & 255);
            torn[1]++;
            written++;
        } else {
            MUST(pthread_rwlock_rdlock(&lock) == 0);
            if (torn[0] != torn[1])
                atomic_fetch_add(&broken, 1);
            spin(seed >> 20 & 255);
        }
        if (round % 32 == 0)
            pause_for_others();
        MUST(pthread_rwlock_unlock(&lock) == 0);
        MUST(pthread_mutex_lock(&mutex) == 0);
        counted++;
        if (round % 64 == 0)
            pause_for_others();
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    return NULL;
}

static void start(pthread_t *threads, long first) {
    for (long i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, contend, (void *)(first + i)) == 0);
}

static void join(pthread_t *threads) {
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
}

static int with_threads(void *unused) {
    (void)unused;
    pthread_t threads[THREADS];
    start(threads, 7);
    join(threads);
    return 0;
}

/* Writes each time that the parent reads, and so waits for it. */
static int writer(void *unused) {
    (void)unused;
    for (long round = 1; round <= HANDOVERS; round++) {
        MUST(sem_wait(&go) == 0);
        MUST(pthread_rwlock_wrlock(&lock) == 0);
        written++;
        MUST(pthread_rwlock_unlock(&lock) == 0);
        MUST(sem_post(&done) == 0);
    }
    return 0;
}

static pid_t share(int (*child)(void *)) {
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stack != MAP_FAILED);
    pid_t pid = clone(child, stack + STACK, CLONE_VM | SIGCHLD, NULL);
    MUST(pid > 0);
    return pid;
}

static void await(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    MUST(sem_init(&go, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
    pid_t child = share(writer);
    for (long round = 1; round <= HANDOVERS; round++) {
        MUST(pthread_rwlock_rdlock(&lock) == 0);
        MUST(sem_post(&go) == 0);
        /* Mostly it waits by the end of this. */
        pause_for_others();
        MUST(pthread_rwlock_unlock(&lock) == 0);
        MUST(sem_wait(&done) == 0);
    }
    await(child);
    printf("%ld written in turn\n", written);

    pthread_t threads[THREADS];
    start(threads, 1);
    child = share(with_threads);
    join(threads);
    await(child);
    printf("%ld counted, %ld broken, torn by %ld\n", counted, atomic_load(&broken),
           torn[0] - torn[1]);

    child = vfork();
    if (child == 0) {
        int codes = pthread_rwlock_wrlock(&lock) | pthread_rwlock_unlock(&lock);
        _exit(codes | pthread_mutex_lock(&mutex) | pthread_mutex_unlock(&mutex));
    }
    await(child);
    SHOW(pthread_rwlock_trywrlock(&lock));
    SHOW(pthread_rwlock_unlock(&lock));
    return 0;
}
