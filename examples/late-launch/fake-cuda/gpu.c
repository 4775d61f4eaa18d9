/*
 * The engines: one compute thread, one copy-engine thread, and one for host functions.
 *
 * Each looks through the heads of all streams for work of its own kind that may start, takes the
 * one of the highest stream priority (of these, from the stream that was served longest ago), runs
 * it, and looks again.
 * An engine that finds nothing sleeps at its doorbell. Whoever makes work available rings: a caller
 * that submits, and an engine that sees, while it looks, that another one's work may start.
 *
 * What a broken context still has to do is thrown away, so that whoever waits for it wakes.
 *
 * The engines take no pthread lock except to wake callers who wait: they stand for hardware. The
 * list of streams has a lock of its own, made of a futex.
 */
#include "gpu.h"
#include "memory.h"
#include "outstanding.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum engine_kind { COMPUTE, COPY, HOST, ENGINES, ANY_ENGINE };

struct engine {
    atomic_uint bell; /* counts rings; the word that the engine sleeps on */
    atomic_bool asleep;
};

static struct engine engines[ENGINES];
static struct stream *streams; /* under the hardware lock */
static atomic_ullong tickets;
static atomic_ullong stream_ids;
static atomic_uint hardware; /* 0 is free, 1 is held, 2 is held and waited for */

/* Whose work the calling engine runs. */
static __thread struct context *running;

enum { STREAM_MAGIC = 0x53545245, RESET_MAGIC = 0x52455354 };

static void hardware_lock(void) {
    unsigned seen = 0;
    if (atomic_compare_exchange_strong(&hardware, &seen, 1))
        return;
    while (atomic_exchange(&hardware, 2) != 0)
        futex_wait(&hardware, 2);
}

static void hardware_unlock(void) {
    if (atomic_exchange(&hardware, 0) == 2)
        futex_wake(&hardware, 1);
}

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct fence *fence_new(void) {
    struct fence *fence = calloc(1, sizeof *fence);
    if (fence != NULL)
        atomic_init(&fence->owners, 1);
    return fence;
}

struct fence *fence_share(struct fence *fence) {
    atomic_fetch_add(&fence->owners, 1);
    return fence;
}

void fence_release(struct fence *fence) {
    if (fence != NULL && atomic_fetch_sub(&fence->owners, 1) == 1)
        free(fence);
}

/* ---- What may run -------------------------------------------------------------------------- */

static struct queued *head_of(const struct stream *stream) {
    unsigned long long completed = atomic_load(&stream->completed);
    if (completed == atomic_load(&stream->submitted))
        return NULL;
    return &stream->queue[completed % QUEUE_LENGTH];
}

static enum engine_kind engine_of(const struct work *work) {
    switch (work->kind) {
    case WORK_KERNEL:
    case WORK_FILL:
        return COMPUTE;
    case WORK_COPY:
        return COPY;
    case WORK_HOST:
        return HOST;
    case WORK_GRAPH:
        if (work->graph.next < exec_nodes(work->graph.exec))
            return engine_of(exec_work(work->graph.exec, work->graph.next));
        return ANY_ENGINE;
    default:
        return ANY_ENGINE;
    }
}

static bool blocking(const struct stream *stream) {
    return (stream->flags & CU_STREAM_NON_BLOCKING) == 0;
}

/* The legacy default stream waits for all earlier work of blocking streams, and they for its. */
static bool held_by_default_stream(const struct stream *stream, uint64_t ticket) {
    const struct stream *legacy = stream->context->legacy;
    if (stream != legacy) {
        const struct queued *head = blocking(stream) && legacy != NULL ? head_of(legacy) : NULL;
        return head != NULL && head->ticket < ticket;
    }
    for (const struct stream *other = streams; other != NULL; other = other->next) {
        if (other == stream || other->context != stream->context || !blocking(other))
            continue;
        const struct queued *head = head_of(other);
        if (head != NULL && head->ticket < ticket)
            return true;
    }
    return false;
}

static bool may_start(const struct stream *stream, const struct queued *head) {
    if (head->work.kind == WORK_WAIT && !atomic_load(&head->work.fence->done))
        return false;
    if (head->work.kind == WORK_GRAPH && !exec_turn(head->work.graph.exec, head->work.graph.turn))
        return false;
    return !held_by_default_stream(stream, head->ticket);
}

static bool goes_before(const struct stream *a, const struct stream *b) {
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->served < b->served;
}

/* The stream whose head this engine runs next, and which other engines have something to run. */
static struct stream *pick(enum engine_kind self, bool others[ENGINES]) {
    struct stream *best = NULL;
    memset(others, 0, ENGINES * sizeof *others);
    for (struct stream *stream = streams; stream != NULL; stream = stream->next) {
        const struct queued *head = stream->busy ? NULL : head_of(stream);
        if (head == NULL || !may_start(stream, head))
            continue;
        enum engine_kind engine = engine_of(&head->work);
        if (engine != self && engine != ANY_ENGINE)
            others[engine] = true;
        else if (best == NULL || goes_before(stream, best))
            best = stream;
    }
    return best;
}

/* ---- Running ------------------------------------------------------------------------------- */

void gpu_break_context(CUresult error) {
    fail_context(running, error);
}

void gpu_wait_for_end(void) {
    struct timespec moment = {.tv_nsec = 200000};
    while (!atomic_load(&running->ending) && error_of(running) == CUDA_SUCCESS)
        nanosleep(&moment, NULL);
}

static void run_kernel(const struct work *work) {
    const unsigned *grid = work->kernel.grid, *block = work->kernel.block;
    const struct kernel *kernel = work->kernel.kernel;
    uint64_t rows = (uint64_t)grid[1] * grid[2] * block[1] * block[2];
    if (kernel->whole != NULL)
        kernel->whole(work->kernel.params, grid);
    for (uint64_t row = 0; row < rows && kernel->row != NULL; row++)
        for (unsigned x = 0; x < grid[0]; x++)
            kernel->row(work->kernel.params, (uint64_t)x * block[0], block[0]);
    count_one(&count.kernels_executed);
}

static void run_fill(const struct work *work) {
    unsigned char *to = work->fill.to;
    if (work->fill.width_bytes == 1)
        memset(to, (int)work->fill.value, work->fill.count);
    else
        for (size_t i = 0; i < work->fill.count; i++)
            memcpy(to + i * work->fill.width_bytes, &work->fill.value, work->fill.width_bytes);
    count_one(&count.memsets_executed);
}

static void run_copy(const struct work *work) {
    if (error_of(running) == CUDA_SUCCESS) {
        memmove(work->copy.to, work->copy.from, work->copy.bytes);
        if (work->copy.ends_copy)
            count_one(&count.copies_executed);
    }
}

/* Runs a piece of work, or the next node of a graph. Returns true if that was all of it. */
static bool run(struct work *work) {
    bool sound = error_of(running) == CUDA_SUCCESS;
    switch (work->kind) {
    case WORK_EMPTY:
        break;
    case WORK_KERNEL:
        if (sound)
            run_kernel(work);
        break;
    case WORK_FILL:
        if (sound)
            run_fill(work);
        break;
    case WORK_COPY:
        run_copy(work);
        break;
    case WORK_HOST:
        if (sound) {
            work->host.function(work->host.argument);
            count_one(&count.host_functions_executed);
        }
        break;
    case WORK_RECORD:
        work->fence->time_ns = now_ns();
        atomic_store(&work->fence->done, true);
        fence_release(work->fence);
        break;
    case WORK_WAIT:
        fence_release(work->fence);
        break;
    case WORK_RELEASE:
        memory_unmap(work->release.base, work->release.bytes);
        break;
    case WORK_GRAPH:
        if (work->graph.next < exec_nodes(work->graph.exec)) {
            struct work node = *exec_work(work->graph.exec, work->graph.next++);
            run(&node);
        }
        if (work->graph.next < exec_nodes(work->graph.exec))
            return false;
        exec_launch_ended(work->graph.exec);
        break;
    }
    return true;
}

static void wake_engine(enum engine_kind engine) {
    futex_wake(&engines[engine].bell, 1);
}

/* The bell changes before a sleeper is looked for: whoever is on its way to bed wakes by itself. */
static void ring(enum engine_kind engine) {
    atomic_fetch_add(&engines[engine].bell, 1);
    if (atomic_load(&engines[engine].asleep))
        wake_engine(engine);
}

/* All bells change, so that nobody falls asleep over the work, but one sleeper is enough. */
static void ring_any(void) {
    bool woken = false;
    for (int engine = 0; engine < ENGINES; engine++) {
        atomic_fetch_add(&engines[engine].bell, 1);
        if (!woken && atomic_load(&engines[engine].asleep)) {
            wake_engine((enum engine_kind)engine);
            woken = true;
        }
    }
}

static void ring_others(const bool others[ENGINES]) {
    for (int engine = 0; engine < ENGINES; engine++)
        if (others[engine])
            ring((enum engine_kind)engine);
}

/* All of the context's work with a ticket up to this one has ended. */
static unsigned long long progress_of(const struct context *context) {
    unsigned long long oldest = ULLONG_MAX;
    for (const struct stream *stream = streams; stream != NULL; stream = stream->next) {
        const struct queued *head = stream->context == context ? head_of(stream) : NULL;
        if (head != NULL && head->ticket < oldest)
            oldest = head->ticket;
    }
    return oldest - 1;
}

static void free_stream(struct stream *stream) {
    struct stream **link = &streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    pthread_cond_destroy(&stream->ended.ended);
    free(stream->frontier);
    free(stream->queue);
    bool reset = error_of(stream->context) != CUDA_SUCCESS;
    stream->magic = reset ? RESET_MAGIC : 0;
    /* Kept after a reset, so that its further use is seen. */
    if (!reset)
        free(stream);
}

static bool can_be_freed(const struct stream *stream) {
    return stream->retired && !stream->busy && head_of(stream) == NULL;
}

/*
 * The stream stays busy until those who wait for it have been told: a caller who sees its work
 * ended may destroy the stream at once, and must not pull it away under this engine.
 */
static void run_head(struct stream *stream) {
    static uint64_t serial;
    struct queued *head = head_of(stream);
    stream->busy = true;
    stream->served = ++serial;
    hardware_unlock();
    running = stream->context;
    outstanding_last(&head->work);
    bool ended = run(&head->work);
    hardware_lock();
    if (ended) {
        outstanding_ended(&head->work);
        /* Whoever waits for a chunk may return from its call at once. */
        if (head->work.kind == WORK_COPY && head->work.copy.slot != NULL)
            latch_clear(head->work.copy.slot);
        unsigned long long completed = atomic_fetch_add(&stream->completed, 1) + 1;
        outstanding_drained();
        unsigned long long progress = progress_of(stream->context);
        hardware_unlock();
        waitpoint_signal(&stream->ended, completed);
        waitpoint_signal(&stream->context->ended, progress);
        hardware_lock();
    }
    stream->busy = false;
    if (can_be_freed(stream))
        free_stream(stream);
}

static void *engine_thread(void *argument) {
    enum engine_kind self = (enum engine_kind)(uintptr_t)argument;
    struct engine *engine = &engines[self];
    bool others[ENGINES];
    hardware_lock();
    for (;;) {
        unsigned bell = atomic_load(&engine->bell);
        struct stream *stream = pick(self, others);
        ring_others(others);
        if (stream != NULL) {
            run_head(stream);
            continue;
        }
        hardware_unlock();
        atomic_store(&engine->asleep, true);
        futex_wait(&engine->bell, bell);
        atomic_store(&engine->asleep, false);
        hardware_lock();
    }
    return NULL;
}

/* An engine is hardware: it inherits neither the priority nor the cores of whoever starts it. */
static bool start_engine(enum engine_kind kind, const char *name) {
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    sigset_t every, before;
    sigfillset(&every);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
    pthread_attr_setaffinity_np(&attributes, sizeof all, &all);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int rc = pthread_create(&thread, &attributes, engine_thread, (void *)(uintptr_t)kind);
    if (rc == 0)
        pthread_setname_np(thread, name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return rc == 0;
}

bool gpu_start(void) {
    return start_engine(COMPUTE, "gpu-compute") && start_engine(COPY, "gpu-copy") &&
           start_engine(HOST, "gpu-host");
}

/* ---- Streams as queues --------------------------------------------------------------------- */

struct stream *gpu_add_stream(struct context *context, unsigned flags, int priority) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->queue = calloc(QUEUE_LENGTH, sizeof *stream->queue);
    if (stream->queue == NULL) {
        free(stream);
        return NULL;
    }
    stream->magic = STREAM_MAGIC;
    stream->id = atomic_fetch_add(&stream_ids, 1) + 1;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->queue_mutex = pooled_mutex(&context->locks, QUEUE_MUTEXES, stream->id);
    stream->state_rwlock = pooled_rwlock(&context->locks, STREAM_RWLOCKS, stream->id);
    waitpoint_init(&stream->ended, pooled_mutex(&context->locks, SYNC_MUTEXES, stream->id));
    hardware_lock();
    stream->next = streams;
    streams = stream;
    hardware_unlock();
    return stream;
}

bool gpu_is_stream(const struct stream *stream) {
    return stream->magic == STREAM_MAGIC;
}

bool gpu_was_reset(const struct stream *stream) {
    return stream->magic == RESET_MAGIC;
}

static void retire(struct stream *stream) {
    stream->retired = true;
    if (can_be_freed(stream))
        free_stream(stream);
}

void gpu_retire_stream(struct stream *stream) {
    hardware_lock();
    retire(stream);
    hardware_unlock();
}

/* For a thread that ends after its context: the number finds nothing then. */
void gpu_retire_stream_numbered(uint64_t id) {
    hardware_lock();
    for (struct stream *stream = streams; stream != NULL; stream = stream->next) {
        if (stream->id == id) {
            retire(stream);
            break;
        }
    }
    hardware_unlock();
}

void gpu_retire_streams_of(struct context *context) {
    hardware_lock();
    context->legacy = NULL;
    for (struct stream *stream = streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->context == context)
            retire(stream);
    }
    hardware_unlock();
}

void stream_reserve(struct stream *stream) {
    unsigned long long reserved = atomic_load(&stream->reserved);
    for (;;) {
        if (reserved - atomic_load(&stream->completed) >= QUEUE_LENGTH) {
            sched_yield();
            reserved = atomic_load(&stream->reserved);
        } else if (atomic_compare_exchange_weak(&stream->reserved, &reserved, reserved + 1)) {
            return;
        }
    }
}

uint64_t stream_push(struct stream *stream, const struct work *work) {
    unsigned long long submitted = atomic_load(&stream->submitted);
    struct queued *slot = &stream->queue[submitted % QUEUE_LENGTH];
    uint64_t ticket = atomic_fetch_add(&tickets, 1) + 1;
    enum engine_kind engine = engine_of(work);
    slot->ticket = ticket;
    slot->work = *work;
    outstanding_submitted(work);
    atomic_store(&stream->submitted, submitted + 1);
    if (engine == ANY_ENGINE)
        ring_any();
    else
        ring(engine);
    return ticket;
}

uint64_t gpu_latest_ticket(void) {
    return atomic_load(&tickets);
}

bool gpu_passed(const struct context *context, uint64_t ticket, bool blocking_streams_only) {
    bool passed = true;
    hardware_lock();
    for (const struct stream *stream = streams; stream != NULL; stream = stream->next) {
        if (stream->context != context || (blocking_streams_only && !blocking(stream)))
            continue;
        const struct queued *head = head_of(stream);
        if (head != NULL && head->ticket <= ticket)
            passed = false;
    }
    hardware_unlock();
    return passed;
}
