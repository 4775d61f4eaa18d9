/*
 * The tracing experiment of the study "Autonomy Today: Many Delay-Prone Black Boxes" (its
 * Algorithm 2), without the CUDA calls: threads that copy, threads that launch, the time of every
 * call, and a check of the results. algorithm2.c supplies the calls of the driver interface,
 * algorithm2.cu those of the runtime interface.
 */
#ifndef EXPERIMENT_H
#define EXPERIMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct options {
    unsigned copy_threads, launch_threads;
    int launch_priority; /* SCHED_FIFO; 0: as the program was started */
    uint64_t launch_period_ns, copy_period_ns; /* 0: the next call comes at once */
    double seconds;      /* 0: until the iterations are done */
    uint64_t iterations; /* of each thread; 0: until the time is over */
    size_t bytes;        /* of one copy; a launch works on as many, if its grid has the threads */
    unsigned buffers;    /* that a copy thread copies from in turn */
    unsigned grid, block;
    uint64_t sync_every; /* calls; 0: only at the end */
    bool pinned, json;
};

enum role { COPYING, LAUNCHING };

/* One thread of the experiment, as the calls see it. */
struct thread_work {
    const struct options *options;
    enum role role;
    unsigned index;   /* among the threads of its role */
    uint64_t calls;   /* that were made */
    void *state;      /* the calls' own */
};

/* The number of elements that a launch works on. */
unsigned elements_of(const struct options *options);

/* How much host memory a copy thread has, and where in it a copy begins. */
size_t host_bytes(const struct options *options);
size_t host_offset(const struct thread_work *work);

/* The host memory of a copy thread: an own pattern for each thread, so that a mix-up shows. */
void fill_pattern(unsigned char *memory, size_t bytes, unsigned index);
bool pattern_intact(const unsigned char *memory, size_t bytes, unsigned index);

/* A launch thread adds 1 to each element with each launch, starting from 0. */
bool sums_right(const float *memory, unsigned elements, uint64_t launches);

/* What differs between the interfaces. On an error they print it and end the program. */
struct calls {
    void (*open)(struct thread_work *work);
    void (*call)(struct thread_work *work); /* the one that is timed */
    void (*synchronise)(struct thread_work *work);
    bool (*results_right)(struct thread_work *work);
    void (*close)(struct thread_work *work);
};

/* Reads the command line. On an error it prints it and ends the program with status 2. */
struct options read_options(int argc, char **argv);

/* Runs the experiment and prints its report. Returns the exit status: 1 if a result was wrong. */
int run_experiment(const char *program, const struct options *options, const struct calls *calls);

#ifdef __cplusplus
}
#endif
#endif
