/*
 * launch-cost CALLS: what calls cost, in nanoseconds, on a driver whose calls cost nothing
 * (null-driver.c). Four numbers:
 *   a launch on a stream that has work already;
 *   a launch on a stream without work and a wait for it, together: the lock is taken and given back;
 *   the first launch after a pause of 100 ms, in which the regulator has fallen asleep;
 *   for comparison, waking a thread of this process that has slept for 100 ms.
 * Each is the median of batches, or of single calls where it has to be.
 */
#include "check.h"

#include <linux/futex.h>
#include <sys/syscall.h>

int cuInit(unsigned);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void *, void **, void **);
int cuStreamSynchronize(void *);

enum { BATCHES = 101, PAUSES = 15 };

static void *const stream = (void *)0x7f0000001000;

static double now_ns(void) {
    struct timespec now;
    MUST(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void launch(void) {
    MUST(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) == 0);
}

static void synchronise(void) {
    MUST(cuStreamSynchronize(stream) == 0);
}

static void launch_and_wait(void) {
    launch();
    synchronise();
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t length) {
    qsort(values, length, sizeof *values, compare);
    return values[length / 2];
}

static double each(void (*call)(void), long calls) {
    double batches[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        double begin = now_ns();
        for (long i = 0; i < calls / BATCHES; i++)
            call();
        batches[batch] = (now_ns() - begin) / (double)(calls / BATCHES);
    }
    return median(batches, BATCHES);
}

static double after_a_pause(void (*before)(void), void (*call)(void)) {
    double calls[PAUSES];
    for (int i = 0; i < PAUSES; i++) {
        before();
        struct timespec pause = {.tv_nsec = 100000000};
        nanosleep(&pause, NULL);
        double begin = now_ns();
        call();
        calls[i] = now_ns() - begin;
    }
    return median(calls, PAUSES);
}

static atomic_uint word;

static void *sleeper(void *unused) {
    for (;;)
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return unused;
}

static void wake(void) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void nothing(void) {
}

int main(int arguments, char **argument) {
    MUST(arguments == 2);
    long calls = atol(argument[1]);
    MUST(calls >= BATCHES && cuInit(0) == 0);
    launch();
    double same = each(launch, calls);
    synchronise();
    double change = each(launch_and_wait, calls);
    double first = after_a_pause(synchronise, launch);
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    printf("%.1f %.1f %.1f %.1f\n", same, change, first, after_a_pause(nothing, wake));
    return 0;
}
