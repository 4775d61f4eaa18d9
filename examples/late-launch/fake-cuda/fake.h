/*
 * The fake driver's own types: locks, contexts, counters, and what every entry point does first.
 *
 * A call enters (context.c), finds its stream (stream.c), and hands a piece of work to the stream's
 * queue (gpu.h), from where the engines (gpu.c) take it. The locks on that way are those observed
 * on a real driver; locks.c says which call takes which.
 */
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../driver_api.h"

/* The library is built with hidden visibility: only what the CUDA interface names is seen. */
#define EXPORT __attribute__((visibility("default")))

/* ---- locks.c ------------------------------------------------------------------------------- */

/* The process has 390 mutexes and 76 read-write locks once it has one context: two of each are
 * static, the others are initialised with the context. */
enum context_mutex {
    ERROR_STATE,    /* the error that ended the context, if any */
    PARAMETER_BANK, /* the buffer in which launch parameters are laid out */
    CHANNEL,        /* submission to the GPU; also held by a pageable copy from end to end */
    STAGING,        /* the bounce buffer; held by a pageable copy from end to end */
    TRACKER,        /* the context's submission numbers */
    UPLOAD,         /* which executable graphs are on the device */
    GRAPH_MEMORY,   /* memory of executable graphs */
    FENCES,         /* the completion markers */
    POOL,           /* stream-ordered allocation */
    COMPLETION,     /* waiting for any work of the context */
    FIRST_POOLED_MUTEX,
};

/* Locks of which there are many: an object takes the one that its number selects. */
enum mutex_pool {
    QUEUE_MUTEXES = FIRST_POOLED_MUTEX,
    SYNC_MUTEXES = QUEUE_MUTEXES + 128,
    EVENT_MUTEXES = SYNC_MUTEXES + 128,
    GRAPH_MUTEXES = EVENT_MUTEXES + 64,
    CONTEXT_MUTEXES = GRAPH_MUTEXES + 58,
};

enum context_rwlock { MODULES, USAGE, GRAPHS, FIRST_POOLED_RWLOCK };

enum rwlock_pool {
    FUNCTION_RWLOCKS = FIRST_POOLED_RWLOCK,
    STREAM_RWLOCKS = FUNCTION_RWLOCKS + 39,
    CONTEXT_RWLOCKS = STREAM_RWLOCKS + 32,
};

enum { STATIC_MUTEXES = 2, STATIC_RWLOCKS = 2 };
_Static_assert(CONTEXT_MUTEXES + STATIC_MUTEXES == 390, "as many mutexes as a real driver has");
_Static_assert(CONTEXT_RWLOCKS + STATIC_RWLOCKS == 76, "as many rwlocks as a real driver has");

struct locks {
    pthread_mutex_t mutexes[CONTEXT_MUTEXES];
    pthread_rwlock_t rwlocks[CONTEXT_RWLOCKS];
};

extern pthread_mutex_t start_mutex;      /* cuInit */
extern pthread_mutex_t primary_mutex;    /* the primary context */
extern pthread_rwlock_t contexts_rwlock; /* which contexts live */
extern pthread_rwlock_t map_rwlock;      /* which memory is device or pinned memory */

/* The only places where the driver takes a lock for a caller: they count it. */
void lock(pthread_mutex_t *mutex);
void unlock(pthread_mutex_t *mutex);
void lock_shared(pthread_rwlock_t *rwlock);
void lock_exclusive(pthread_rwlock_t *rwlock);
void unlock_rw(pthread_rwlock_t *rwlock);

bool locks_init(struct locks *locks);
pthread_mutex_t *pooled_mutex(struct locks *locks, enum mutex_pool pool, uint64_t id);
pthread_rwlock_t *pooled_rwlock(struct locks *locks, enum rwlock_pool pool, uint64_t id);

/* A place where callers sleep until the engines have made progress. */
struct waitpoint {
    pthread_mutex_t *mutex;
    pthread_cond_t ended;
    atomic_ullong wanted; /* the least progress that a sleeper waits for */
};

/* For a condition that is not a matter of progress: every piece of work that ends may do. */
enum { ANY_PROGRESS = 0 };

/* Waits until the condition holds, which it cannot before the progress is this far. */
void waitpoint_init(struct waitpoint *point, pthread_mutex_t *mutex);
void waitpoint_wait(struct waitpoint *point, unsigned long long progress,
                    bool (*reached)(const void *), const void *what);
void waitpoint_signal(struct waitpoint *point, unsigned long long progress);

/* ---- futex.c ------------------------------------------------------------------------------- */

/* What the engines, which stand for hardware, use in place of pthread locks. */
void futex_wait(atomic_uint *word, unsigned seen);
void futex_wake(atomic_uint *word, int threads);

/* A one-shot signal from an engine to one thread: set, then cleared by the engine. */
struct latch {
    atomic_uint state;
};
void latch_set(struct latch *latch);
void latch_clear(struct latch *latch);
void latch_wait_clear(struct latch *latch);

/* ---- count.c ------------------------------------------------------------------------------- */

/* What the driver did, written to the file that FAKE_CUDA_COUNT names when the process ends. */
struct counters {
    atomic_ullong launches, kernels_executed, copies, memsets, graph_launches, locks;
    atomic_ullong captured, copies_executed, memsets_executed, host_functions_executed;
    atomic_ullong engine_locks, unsupported, stale, allocated, freed;
};
extern struct counters count;

static inline void count_one(atomic_ullong *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Counts a call of an entry point that the fake does not implement. */
CUresult fake_not_supported(void);

/* ---- context.c ----------------------------------------------------------------------------- */

struct capture;
struct module;
struct staging;
struct stream;

struct context {
    struct locks locks;
    struct context *next; /* under contexts_rwlock, like alive */
    uint64_t id;
    unsigned flags;
    atomic_bool alive;
    atomic_bool ending;             /* what never ends, ends now */
    atomic_uint error;              /* the CUresult that every call returns, if not 0 */
    uint64_t submissions;           /* under TRACKER */
    uint64_t kernel_launches;       /* outside graphs, under USAGE */
    uint64_t fences;                /* under FENCES */
    size_t graph_bytes;             /* under GRAPH_MEMORY */
    atomic_uint capturing_blocking; /* captures that the legacy default stream would break */
    struct waitpoint ended;         /* any work of the context */
    struct capture *captures;       /* that have not ended, under GRAPHS */
    struct module *modules;         /* under MODULES */
    struct stream *legacy;
    struct staging *staging;
};

/* True between cuInit and a fork. */
bool driver_ready(void);

/* What every call does first: the calling thread's context, if it lives and has not failed. */
CUresult enter(struct context **context);
CUresult enter_context(struct context *context, struct context **found);

/* Breaks the context: every later call in it returns this error, and what it still has to do is
 * thrown away. The first error stays. */
CUresult fail_context(struct context *context, CUresult error);

/* What is wrong with the context, for a caller that has waited in it. */
CUresult error_of(const struct context *context);

/* Counts the use of a handle that was made in a context that is gone. */
void count_stale_handle(void);

/* Waits until all work that was submitted to the context before the call has ended. */
void context_drain(struct context *context);

#endif
