/*
 * For the test programs: calls whose results are printed by name, so that two runs can be compared,
 * and counts of what a recording must have.
 */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { UNTOUCHED = 12345 };

static inline const char *code_name(int code) {
    const char *name = code == 0 ? "0" : strerrorname_np(code);
    return name != NULL ? name : "a number without a name";
}

/* Prints a result, and errno if the call touched it. */
static inline int show(const char *call, int code) {
    int after = errno;
    printf("%s = %s", call, code == -1 ? "-1" : code_name(code));
    if (after != UNTOUCHED)
        printf(", errno %s", code_name(after));
    printf("\n");
    return code;
}

#define SHOW(call) (errno = UNTOUCHED, show(#call, (call)))

/* For what is not under test: it must work. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            fflush(stdout);                                                                        \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

/* Counts that forked children share. */
struct counts {
    atomic_long acquired, waited;
};

static struct counts *counts;

__attribute__((constructor)) static inline void make_counts(void) {
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(counts != MAP_FAILED);
}

/* A call that takes a lock, if it succeeds. */
static inline int took(int code) {
    int before = errno;
    if (code == 0 || code == EOWNERDEAD)
        atomic_fetch_add(&counts->acquired, 1);
    errno = before;
    return code;
}

#define TAKE(call) (errno = UNTOUCHED, show(#call, took(call)))

/* What the test reads. */
static inline void print_counts(void) {
    printf("acquired %ld\nwaited %ld\n", atomic_load(&counts->acquired),
           atomic_load(&counts->waited));
}

enum { NEVER_NS = 1000000000 };

static inline struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec time;
    MUST(clock_gettime(clock, &time) == 0);
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

/* A time that is over, one far away, and one that is none. */
#define PAST(clock) (&(struct timespec){1, 0})
#define SOON(clock) (&(struct timespec[1]){in_ms(clock, 5)}[0])
#define FAR(clock) (&(struct timespec[1]){in_ms(clock, 600000)}[0])
#define NONE (&(struct timespec){1, NEVER_NS})

/* Waits until a thread, or a process of one thread, sleeps in the kernel. */
static inline void await_sleep(pid_t thread) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)thread);
    for (;;) {
        FILE *file = fopen(path, "r");
        MUST(file != NULL && fgets(line, sizeof line, file) != NULL);
        fclose(file);
        if (strrchr(line, ')')[2] == 'S')
            return;
        sched_yield();
    }
}

/* Steps of two threads, one after the other; by pipes, which are not under test. */
struct steps {
    int pipe[2];
};

static inline struct steps new_steps(void) {
    struct steps steps;
    MUST(pipe(steps.pipe) == 0);
    return steps;
}

static inline void step(struct steps *steps) {
    MUST(write(steps->pipe[1], "", 1) == 1);
}

static inline void await_step(struct steps *steps) {
    char byte;
    while (read(steps->pipe[0], &byte, 1) != 1)
        MUST(errno == EINTR);
}

static inline void run_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, body, argument) == 0);
    MUST(pthread_join(thread, NULL) == 0);
}

#endif
