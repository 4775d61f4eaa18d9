/*
 * What the GPU still has to do, and random times of work.
 *
 * With FAKE_CUDA_OUTSTANDING=path in the environment the counters are in that file, which must be
 * there with at least 32 bytes, so that another process can look at them at any time:
 *
 *   byte 0   submitted   kernels, copies, fills and launches of graphs, before an engine can see them
 *        8   ended       of those, before anybody can see that they have ended
 *       16   queued      all entries of streams, waits and events included
 *       24   drained     of those, when everybody can see that they have ended
 *
 * So there is work for certain while submitted, read first, is more than ended, read last; and
 * there is none for certain while queued and drained are the same.
 *
 * With FAKE_CUDA_RANDOM=seed each piece of work takes a random time: mostly none, sometimes up to
 * 50 us, seldom up to 1 ms.
 */
#include "outstanding.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct outstanding {
    atomic_ullong submitted, ended, queued, drained;
};

static struct outstanding own;
static struct outstanding *outstanding = &own;
static bool is_random;
static uint64_t seed;

static void fail(const char *variable, const char *value, const char *reason) {
    fprintf(stderr, "fake libcuda: %s=%s: %s\n", variable, value, reason);
    exit(1);
}

static void map_counters(const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *memory = MAP_FAILED;
    if (file >= 0)
        memory = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        fail("FAKE_CUDA_OUTSTANDING", path, strerror(errno));
    close(file);
    outstanding = memory;
}

__attribute__((constructor)) static void read_environment(void) {
    const char *path = getenv("FAKE_CUDA_OUTSTANDING");
    if (path != NULL && *path != '\0')
        map_counters(path);
    const char *number = getenv("FAKE_CUDA_RANDOM");
    if (number == NULL || *number == '\0')
        return;
    char *end;
    seed = strtoull(number, &end, 0);
    if (*end != '\0')
        fail("FAKE_CUDA_RANDOM", number, "expected a number");
    is_random = true;
}

static bool is_for_gpu(const struct work *work) {
    return work->kind == WORK_KERNEL || work->kind == WORK_FILL || work->kind == WORK_COPY ||
           work->kind == WORK_GRAPH;
}

void outstanding_submitted(const struct work *work) {
    if (is_for_gpu(work))
        atomic_fetch_add(&outstanding->submitted, 1);
    atomic_fetch_add(&outstanding->queued, 1);
}

void outstanding_ended(const struct work *work) {
    if (is_for_gpu(work))
        atomic_fetch_add(&outstanding->ended, 1);
}

void outstanding_drained(void) {
    atomic_fetch_add(&outstanding->drained, 1);
}

/* SplitMix64, for each engine its own sequence. */
static uint64_t next_random(void) {
    static atomic_uint engines;
    static __thread uint64_t state;
    static __thread bool has_begun;
    if (!has_begun) {
        state = seed + ((uint64_t)atomic_fetch_add(&engines, 1) << 32);
        has_begun = true;
    }
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

void outstanding_last(const struct work *work) {
    if (!is_random || !is_for_gpu(work))
        return;
    uint64_t random = next_random();
    long most_ns = random % 64 == 0 ? 1000000 : random % 64 < 6 ? 50000 : 0;
    struct timespec time = {.tv_nsec = most_ns == 0 ? 0 : (long)(random >> 32) % most_ns};
    if (most_ns > 0)
        nanosleep(&time, NULL);
}
