/*
 * What the driver did, for a test that compares it with what a recorder saw.
 *
 * With FAKE_CUDA_COUNT=path in the environment the process writes one line to the path when it ends
 * through exit() or a return from main. The keys:
 *
 *   launches, copies, memsets, graph_launches  calls that put work on a stream
 *   captured                                   calls that put work into a graph instead
 *   kernels_executed, copies_executed, memsets_executed, host_functions_executed
 *                                              what the engines did, nodes of graphs included
 *   locks                                      mutexes, read and write locks taken in calls
 *   engine_locks                               mutexes that the engines took to wake callers
 *   unsupported                                calls of entry points that do nothing here
 *   stale                                      calls with a stream, event or graph of a context
 *                                              that was reset: a real driver may crash
 *   allocated, freed                           pieces of device memory; those that go with their
 *                                              context were not freed
 *
 * A forked child writes nothing: it would overwrite its parent's line.
 */
#include "fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct counters count;

static pid_t owner;

CUresult fake_not_supported(void) {
    count_one(&count.unsupported);
    return CUDA_ERROR_NOT_SUPPORTED;
}

__attribute__((constructor)) static void remember_process(void) {
    owner = getpid();
}

static unsigned long long value(atomic_ullong *counter) {
    return atomic_load(counter);
}

__attribute__((destructor)) static void write_counts(void) {
    const char *path = getenv("FAKE_CUDA_COUNT");
    if (path == NULL || *path == '\0' || getpid() != owner)
        return;
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "fake libcuda: FAKE_CUDA_COUNT=%s: %s\n", path, strerror(errno));
        return;
    }
    fprintf(file,
            "launches=%llu kernels_executed=%llu copies=%llu memsets=%llu graph_launches=%llu "
            "locks=%llu captured=%llu copies_executed=%llu memsets_executed=%llu "
            "host_functions_executed=%llu engine_locks=%llu unsupported=%llu stale=%llu "
            "allocated=%llu freed=%llu\n",
            value(&count.launches), value(&count.kernels_executed), value(&count.copies),
            value(&count.memsets), value(&count.graph_launches), value(&count.locks),
            value(&count.captured), value(&count.copies_executed),
            value(&count.memsets_executed), value(&count.host_functions_executed),
            value(&count.engine_locks), value(&count.unsupported), value(&count.stale),
            value(&count.allocated), value(&count.freed));
    fclose(file);
}
