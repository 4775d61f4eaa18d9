/*
 * The lock structure of the fake driver, seen from where a recorder stands: this program defines
 * the pthread functions that the driver calls, counts, and passes on to glibc.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { MAX_HELD = 16, MAX_HOLDS = 4096 };

/* What the calling thread did since begin(). */
static __thread struct {
    bool on;
    unsigned reads, writes, mutexes, depth, deepest;
    struct {
        pthread_mutex_t *mutex;
        uint64_t since_ns;
    } held[MAX_HELD];
    uint64_t hold_ns[MAX_HOLDS]; /* one for each mutex that was unlocked */
    unsigned holds;
    uint64_t longest_wait_ns; /* for a mutex */
} seen;

static unsigned mutexes_initialised, rwlocks_initialised, with_attributes;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* glibc's function of this name, looked up once; two threads that look both find the same. */
#define REAL(type, name)                                                                           \
    static type cached;                                                                            \
    type real = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);                                        \
    if (real == NULL) {                                                                            \
        real = (type)dlsym(RTLD_NEXT, name);                                                       \
        __atomic_store_n(&cached, real, __ATOMIC_RELEASE);                                         \
    }

typedef int (*on_mutex)(pthread_mutex_t *);
typedef int (*on_rwlock)(pthread_rwlock_t *);
typedef int (*init_mutex)(pthread_mutex_t *, const pthread_mutexattr_t *);
typedef int (*init_rwlock)(pthread_rwlock_t *, const pthread_rwlockattr_t *);

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
    REAL(init_mutex, "pthread_mutex_init")
    mutexes_initialised++;
    with_attributes += attributes != NULL;
    return real(mutex, attributes);
}

int pthread_rwlock_init(pthread_rwlock_t *rwlock, const pthread_rwlockattr_t *attributes) {
    REAL(init_rwlock, "pthread_rwlock_init")
    rwlocks_initialised++;
    with_attributes += attributes != NULL;
    return real(rwlock, attributes);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    REAL(on_mutex, "pthread_mutex_lock")
    uint64_t start_ns = seen.on ? now_ns() : 0;
    int rc = real(mutex);
    if (seen.on && seen.depth < MAX_HELD) {
        uint64_t wait_ns = now_ns() - start_ns;
        if (wait_ns > seen.longest_wait_ns)
            seen.longest_wait_ns = wait_ns;
        seen.mutexes++;
        seen.held[seen.depth].mutex = mutex;
        seen.held[seen.depth++].since_ns = now_ns();
        if (seen.depth > seen.deepest)
            seen.deepest = seen.depth;
    }
    return rc;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    REAL(on_mutex, "pthread_mutex_unlock")
    if (seen.on && seen.depth > 0 && seen.held[seen.depth - 1].mutex == mutex) {
        uint64_t hold_ns = now_ns() - seen.held[--seen.depth].since_ns;
        if (seen.holds < MAX_HOLDS)
            seen.hold_ns[seen.holds++] = hold_ns;
    }
    return real(mutex);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *rwlock) {
    REAL(on_rwlock, "pthread_rwlock_rdlock")
    seen.reads += seen.on;
    return real(rwlock);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *rwlock) {
    REAL(on_rwlock, "pthread_rwlock_wrlock")
    seen.writes += seen.on;
    return real(rwlock);
}

static void begin(void) {
    memset(&seen, 0, sizeof seen);
    seen.on = true;
}

static unsigned end(void) {
    seen.on = false;
    return seen.reads + seen.writes + seen.mutexes;
}

/* How many mutexes were held for at least this long. */
static unsigned held_for(uint64_t ns) {
    unsigned mutexes = 0;
    for (unsigned i = 0; i < seen.holds; i++)
        mutexes += seen.hold_ns[i] >= ns;
    return mutexes;
}

/* ---- Tests --------------------------------------------------------------------------------- */

static CUstream stream;

static void a_context_brings_default_locks_only(void) {
    EXPECT(mutexes_initialised == 390 - 2); /* two of each are static */
    EXPECT(rwlocks_initialised == 76 - 2);
    EXPECT(with_attributes == 0);
}

static void a_launch_takes_four_read_locks_one_write_lock_and_five_mutexes(void) {
    for (int i = 0; i < 3; i++) {
        begin();
        SUCCEEDS(launch_spin(stream, 0));
        end();
        EXPECT(seen.reads == 4);
        EXPECT(seen.writes == 1);
        EXPECT(seen.mutexes == 5);
        EXPECT(seen.deepest == 2); /* some are nested, some are not */
    }
    SUCCEEDS(cuStreamSynchronize(stream));
}

static bool graph_locks(unsigned nodes, unsigned *locks) {
    CUgraph graph;
    CUgraphExec exec;
    if (cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
        return false;
    for (unsigned i = 0; i < nodes; i++)
        MUST(launch_spin(stream, 0));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    begin();
    CUresult rc = cuGraphLaunch(exec, stream);
    *locks = end();
    MUST(cuStreamSynchronize(stream));
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
    return rc == CUDA_SUCCESS && seen.writes == 0;
}

static void a_graph_launch_takes_as_many_locks_whatever_its_nodes(void) {
    unsigned of_one, of_sixty;
    EXPECT(graph_locks(1, &of_one));
    EXPECT(graph_locks(60, &of_sixty));
    EXPECT(of_one == 15);
    EXPECT(of_sixty == 15);
}

static void a_pageable_copy_holds_two_mutexes_from_end_to_end(void) {
    enum { BYTES = 4 * 1024 * 1024 };
    CUdeviceptr device;
    void *host = malloc(BYTES);
    memset(host, 1, BYTES);
    SUCCEEDS(cuMemAlloc_v2(&device, BYTES));
    begin();
    uint64_t start_ns = now_ns();
    SUCCEEDS(cuMemcpyHtoDAsync_v2(device, host, BYTES, stream));
    uint64_t call_ns = now_ns() - start_ns;
    end();
    SUCCEEDS(cuStreamSynchronize(stream));
    EXPECT(seen.deepest == 3); /* the two, and a queue for each chunk */
    uint64_t longest_ns = 0, second_ns = 0;
    for (unsigned i = 0; i < seen.holds; i++) {
        if (seen.hold_ns[i] > longest_ns) {
            second_ns = longest_ns;
            longest_ns = seen.hold_ns[i];
        } else if (seen.hold_ns[i] > second_ns) {
            second_ns = seen.hold_ns[i];
        }
    }
    printf("       of %.0f us: held %.0f us and %.0f us\n", (double)call_ns / 1e3,
           (double)longest_ns / 1e3, (double)second_ns / 1e3);
    EXPECT(second_ns > call_ns / 2);
    free(host);
    SUCCEEDS(cuMemFree_v2(device));
}

/* However much it copies: the copy engine does the work. */
static void a_pinned_copy_takes_short_locks_only(void) {
    enum { BYTES = 32 * 1024 * 1024, CALLS = 20 };
    CUdeviceptr device;
    void *host;
    unsigned with_long_hold = 0;
    SUCCEEDS(cuMemAllocHost_v2(&host, BYTES));
    SUCCEEDS(cuMemAlloc_v2(&device, BYTES));
    for (int i = 0; i < CALLS; i++) {
        begin();
        SUCCEEDS(cuMemcpyHtoDAsync_v2(device, host, BYTES, stream));
        unsigned locks = end();
        EXPECT(locks <= 8);
        EXPECT(seen.mutexes == 4);
        with_long_hold += held_for(100000) > 0;
    }
    EXPECT(with_long_hold < CALLS); /* all of them cannot have been preempted */
    SUCCEEDS(cuStreamSynchronize(stream));
    SUCCEEDS(cuMemFree_v2(device));
    SUCCEEDS(cuMemFreeHost(host));
}

/* Copies again and again until it is told to stop. */
struct copying {
    pthread_t thread;
    CUdeviceptr device;
    void *host;
    atomic_bool stop;
};

enum { LARGE_BYTES = 64 * 1024 * 1024 };

static void *copy_large(void *argument) {
    struct copying *copying = argument;
    CUstream own;
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    while (!atomic_load(&copying->stop)) {
        MUST(cuMemcpyHtoDAsync_v2(copying->device, copying->host, LARGE_BYTES, own));
        MUST(cuStreamSynchronize(own));
    }
    MUST(cuStreamDestroy_v2(own));
    return NULL;
}

/* The copies take many milliseconds each; a launch that needed no lock of theirs would not. */
static void a_launch_waits_while_a_pageable_copy_holds_the_channel(void) {
    struct copying copying = {.host = malloc(LARGE_BYTES)};
    uint64_t longest_ns = 0, start_ns = now_ns();
    memset(copying.host, 1, LARGE_BYTES);
    SUCCEEDS(cuMemAlloc_v2(&copying.device, LARGE_BYTES));
    EXPECT(pthread_create(&copying.thread, NULL, copy_large, &copying) == 0);
    while (longest_ns < 1000000 && now_ns() - start_ns < 10000000000u) {
        begin();
        SUCCEEDS(launch_spin(stream, 0));
        end();
        longest_ns = seen.longest_wait_ns > longest_ns ? seen.longest_wait_ns : longest_ns;
        SUCCEEDS(cuStreamSynchronize(stream));
    }
    atomic_store(&copying.stop, true);
    pthread_join(copying.thread, NULL);
    EXPECT(longest_ns >= 1000000);
    SUCCEEDS(cuMemFree_v2(copying.device));
    free(copying.host);
}

int main(void) {
    static const struct test tests[] = {
        TEST(a_context_brings_default_locks_only),
        TEST(a_launch_takes_four_read_locks_one_write_lock_and_five_mutexes),
        TEST(a_graph_launch_takes_as_many_locks_whatever_its_nodes),
        TEST(a_pageable_copy_holds_two_mutexes_from_end_to_end),
        TEST(a_pinned_copy_takes_short_locks_only),
        TEST(a_launch_waits_while_a_pageable_copy_holds_the_channel),
    };
    open_device();
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return RUN_TESTS(tests);
}
