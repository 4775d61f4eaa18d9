/*
 * The threads of the experiment: they start together, make the timed call again and again, and
 * check what their calls did when all have made their last: checking copies, too.
 */
#include "experiment.h"
#include "latency.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct thread {
    pthread_t id;
    struct thread_work work;
    const struct calls *calls;
    pthread_barrier_t *together;
    struct latency latency;
    uint64_t end_ns; /* of the last call */
    bool right;
};

unsigned elements_of(const struct options *options) {
    uint64_t threads = (uint64_t)options->grid * options->block;
    uint64_t floats = options->bytes / sizeof(float);
    return (unsigned)(floats < threads ? floats : threads);
}

size_t host_bytes(const struct options *options) {
    return options->bytes * options->buffers;
}

size_t host_offset(const struct thread_work *work) {
    return (size_t)(work->calls % work->options->buffers) * work->options->bytes;
}

static unsigned char pattern(size_t i, unsigned index) {
    return (unsigned char)(i * 31 + i / 251 + index * 17 + 5);
}

void fill_pattern(unsigned char *memory, size_t bytes, unsigned index) {
    for (size_t i = 0; i < bytes; i++)
        memory[i] = pattern(i, index);
}

bool pattern_intact(const unsigned char *memory, size_t bytes, unsigned index) {
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i] != pattern(i, index)) {
            fprintf(stderr, "copy thread %u: byte %zu is %u, expected %u\n", index, i, memory[i],
                    pattern(i, index));
            return false;
        }
    }
    return true;
}

/* Adding 1 to a float stops at 2^24: the next number has no float. */
bool sums_right(const float *memory, unsigned elements, uint64_t launches) {
    float expected = (float)(launches < 16777216 ? launches : 16777216);
    for (unsigned i = 0; i < elements; i++) {
        if (memory[i] != expected) {
            fprintf(stderr, "element %u is %g after %llu launches, expected %g\n", i, memory[i],
                    (unsigned long long)launches, expected);
            return false;
        }
    }
    return true;
}

/* Sleeps until the next call is due; whoever is late does not catch up. */
static uint64_t await_next(uint64_t due_ns) {
    struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000u),
                           .tv_nsec = (long)(due_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
        continue;
    return clock_ns();
}

static void make_calls(struct thread *thread) {
    const struct options *options = thread->work.options;
    uint64_t deadline_ns =
        options->seconds > 0 ? clock_ns() + (uint64_t)(options->seconds * 1e9) : UINT64_MAX;
    uint64_t most = options->iterations > 0 ? options->iterations : UINT64_MAX;
    uint64_t period_ns = thread->work.role == COPYING ? options->copy_period_ns
                                                      : options->launch_period_ns;
    uint64_t start_ns = clock_ns();
    while (thread->work.calls < most && start_ns < deadline_ns) {
        thread->calls->call(&thread->work);
        latency_add(&thread->latency, clock_ns() - start_ns);
        thread->work.calls++;
        if (options->sync_every > 0 && thread->work.calls % options->sync_every == 0)
            thread->calls->synchronise(&thread->work);
        start_ns = period_ns > 0 ? await_next(start_ns + period_ns) : clock_ns();
    }
    thread->end_ns = start_ns;
}

static void take_priority(const struct thread_work *work) {
    struct sched_param parameters = {.sched_priority = work->options->launch_priority};
    if (work->role != LAUNCHING || parameters.sched_priority == 0)
        return;
    int rc = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
    if (rc != 0) {
        fprintf(stderr, "--launch-priority: %d: %s\n", parameters.sched_priority, strerror(rc));
        exit(2);
    }
}

static void *run_thread(void *argument) {
    struct thread *thread = argument;
    take_priority(&thread->work);
    thread->calls->open(&thread->work);
    pthread_barrier_wait(thread->together);
    make_calls(thread);
    thread->calls->synchronise(&thread->work);
    pthread_barrier_wait(thread->together);
    thread->right = thread->calls->results_right(&thread->work);
    thread->calls->close(&thread->work);
    return NULL;
}

static struct thread *start_threads(const struct options *options, const struct calls *calls,
                                    pthread_barrier_t *together) {
    unsigned count = options->copy_threads + options->launch_threads;
    struct thread *threads = calloc(count, sizeof *threads);
    if (threads == NULL) {
        fprintf(stderr, "no memory for %u threads\n", count);
        exit(2);
    }
    for (unsigned i = 0; i < count; i++) {
        bool copies = i < options->copy_threads;
        threads[i].work.options = options;
        threads[i].work.role = copies ? COPYING : LAUNCHING;
        threads[i].work.index = copies ? i : i - options->copy_threads;
        threads[i].calls = calls;
        threads[i].together = together;
        int rc = pthread_create(&threads[i].id, NULL, run_thread, &threads[i]);
        if (rc != 0) {
            fprintf(stderr, "thread %u of %u: %s\n", i + 1, count, strerror(rc));
            exit(2);
        }
    }
    return threads;
}

static void print_report(const char *program, const struct options *options,
                         const struct latency *copies, const struct latency *launches,
                         double seconds, bool right) {
    const char *memory = options->pinned ? "pinned" : "pageable";
    if (options->json) {
        printf("{\"program\": \"%s\", \"copy_threads\": %u, \"launch_threads\": %u, "
               "\"bytes\": %zu, \"memory\": \"%s\", \"seconds\": %.3f, \"copies\": {",
               program, options->copy_threads, options->launch_threads, options->bytes, memory,
               seconds);
        latency_print_json(copies);
        printf("}, \"launches\": {");
        latency_print_json(launches);
        printf("}, \"results_right\": %s}\n", right ? "true" : "false");
        return;
    }
    printf("%s: %u threads copy %zu bytes (%s), %u threads launch %u x %u, %.2f s\n", program,
           options->copy_threads, options->bytes, memory, options->launch_threads, options->grid,
           options->block, seconds);
    if (copies->count > 0)
        latency_print("copies", copies);
    if (launches->count > 0)
        latency_print("launches", launches);
    printf("results    %s\n", right ? "right" : "WRONG");
}

int run_experiment(const char *program, const struct options *options, const struct calls *calls) {
    static struct latency copies, launches;
    pthread_barrier_t together;
    unsigned count = options->copy_threads + options->launch_threads;
    pthread_barrier_init(&together, NULL, count + 1);
    struct thread *threads = start_threads(options, calls, &together);
    pthread_barrier_wait(&together);
    uint64_t begin_ns = clock_ns(), end_ns = begin_ns;
    pthread_barrier_wait(&together);
    bool right = true;
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
        latency_merge(threads[i].work.role == COPYING ? &copies : &launches, &threads[i].latency);
        right = right && threads[i].right;
        if (threads[i].end_ns > end_ns)
            end_ns = threads[i].end_ns;
    }
    print_report(program, options, &copies, &launches, (double)(end_ns - begin_ns) / 1e9, right);
    pthread_barrier_destroy(&together);
    free(threads);
    return right ? 0 : 1;
}
