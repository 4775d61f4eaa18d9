/*
 * Streams as the application sees them: handles, the way in for work, and waiting.
 */
#include "gpu.h"

#include <stdlib.h>

/* ---- Handles ------------------------------------------------------------------------------- */

/* The per-thread default streams of this thread, one for each context that it has used. */
struct own_stream {
    struct own_stream *next;
    uint64_t context_id, stream_id;
    struct stream *stream;
};

static __thread struct own_stream *own_streams;
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

/* By number, because the context may have ended before the thread, and its streams with it. */
static void retire_own_streams(void *first) {
    for (struct own_stream *own = first, *next; own != NULL; own = next) {
        next = own->next;
        gpu_retire_stream_numbered(own->stream_id);
        free(own);
    }
}

static void create_thread_end(void) {
    pthread_key_create(&thread_end, retire_own_streams);
}

static struct stream *per_thread_stream(struct context *context) {
    for (struct own_stream *own = own_streams; own != NULL; own = own->next)
        if (own->context_id == context->id)
            return own->stream;
    struct own_stream *own = calloc(1, sizeof *own);
    if (own == NULL)
        return NULL;
    own->stream = gpu_add_stream(context, CU_STREAM_DEFAULT, LEAST_PRIORITY);
    if (own->stream == NULL) {
        free(own);
        return NULL;
    }
    own->context_id = context->id;
    own->stream_id = own->stream->id;
    own->next = own_streams;
    own_streams = own;
    pthread_once(&thread_end_once, create_thread_end);
    pthread_setspecific(thread_end, own);
    return own->stream;
}

static struct stream *named_stream(struct context *context, CUstream handle,
                                   enum null_stream null) {
    if (handle == NULL)
        handle = null == LEGACY ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
    if (handle == CU_STREAM_LEGACY)
        return context->legacy;
    if (handle == CU_STREAM_PER_THREAD)
        return per_thread_stream(context);
    struct stream *stream = (struct stream *)handle;
    if (gpu_was_reset(stream))
        count_stale_handle();
    return gpu_is_stream(stream) && stream->context == context ? stream : NULL;
}

CUresult use_stream(struct context *context, CUstream handle, enum null_stream null,
                    struct stream **found, bool *capturing) {
    struct stream *stream = named_stream(context, handle, null);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    lock_shared(stream->state_rwlock);
    *capturing = stream->capture != NULL;
    unlock_rw(stream->state_rwlock);
    if (stream == context->legacy && atomic_load(&context->capturing_blocking) > 0)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *found = stream;
    return CUDA_SUCCESS;
}

/* ---- The way in ---------------------------------------------------------------------------- */

void submit(struct stream *stream, const struct work *work) {
    stream_reserve(stream);
    submit_reserved(stream, work);
}

void submit_reserved(struct stream *stream, const struct work *work) {
    struct context *context = stream->context;
    lock(&context->locks.mutexes[CHANNEL]);
    lock(stream->queue_mutex);
    stream_push(stream, work);
    unlock(stream->queue_mutex);
    unlock(&context->locks.mutexes[CHANNEL]);
}

void track(struct context *context) {
    lock(&context->locks.mutexes[TRACKER]);
    context->submissions++;
    unlock(&context->locks.mutexes[TRACKER]);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

struct target {
    const struct stream *stream;
    unsigned long long submitted;
    uint64_t ticket;
};

/* The legacy default stream has reached a point only when all blocking streams have. */
static bool target_reached(const void *what) {
    const struct target *target = what;
    const struct stream *stream = target->stream;
    if (stream == stream->context->legacy)
        return gpu_passed(stream->context, target->ticket, true);
    return atomic_load(&stream->completed) >= target->submitted;
}

static struct target target_now(struct stream *stream) {
    struct target target = {.stream = stream};
    lock(stream->queue_mutex);
    target.submitted = atomic_load(&stream->submitted);
    target.ticket = gpu_latest_ticket();
    unlock(stream->queue_mutex);
    return target;
}

void stream_drain(struct stream *stream) {
    struct target target = target_now(stream);
    struct context *context = stream->context;
    if (stream == context->legacy)
        waitpoint_wait(&context->ended, ANY_PROGRESS, target_reached, &target);
    else
        waitpoint_wait(&stream->ended, target.submitted, target_reached, &target);
}

/* What may not be done to a stream that captures, and ends the capture if it is tried. */
static CUresult use_idle_stream(CUstream handle, enum null_stream null, struct stream **stream) {
    struct context *context;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, handle, null, stream, &capturing);
    if (rc != CUDA_SUCCESS || !capturing)
        return rc;
    capture_invalidate(*stream);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult synchronize(CUstream handle, enum null_stream null) {
    struct stream *stream;
    CUresult rc = use_idle_stream(handle, null, &stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct context *context = stream->context;
    stream_drain(stream);
    return error_of(context);
}

static CUresult query(CUstream handle, enum null_stream null) {
    struct stream *stream;
    CUresult rc = use_idle_stream(handle, null, &stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct target target = target_now(stream);
    return target_reached(&target) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    return synchronize(stream, LEGACY);
}

EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream) {
    return synchronize(stream, PER_THREAD);
}

EXPORT CUresult cuStreamQuery(CUstream stream) {
    return query(stream, LEGACY);
}

EXPORT CUresult cuStreamQuery_ptsz(CUstream stream) {
    return query(stream, PER_THREAD);
}

/* ---- Creating and destroying --------------------------------------------------------------- */

static CUresult create(CUstream *handle, unsigned flags, int priority) {
    struct context *context;
    CUresult rc = enter(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (handle == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (priority > LEAST_PRIORITY)
        priority = LEAST_PRIORITY;
    if (priority < GREATEST_PRIORITY)
        priority = GREATEST_PRIORITY;
    struct stream *stream = gpu_add_stream(context, flags, priority);
    if (stream == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = (CUstream)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    return create(stream, flags, LEAST_PRIORITY);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    return create(stream, flags, priority);
}

/* Returns at once; what is in the queue still runs. */
static CUresult destroy(CUstream handle) {
    struct stream *stream;
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult rc = use_idle_stream(handle, LEGACY, &stream);
    if (rc == CUDA_SUCCESS)
        gpu_retire_stream(stream);
    return rc;
}

EXPORT CUresult cuStreamDestroy(CUstream stream) {
    return destroy(stream);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
    return destroy(stream);
}

/* ---- What a stream is ---------------------------------------------------------------------- */

enum stream_question { ASK_FLAGS, ASK_PRIORITY, ASK_ID, ASK_DEVICE, ASK_CONTEXT };

static CUresult ask(CUstream handle, enum null_stream null, enum stream_question question,
                    void *answer) {
    struct context *context;
    struct stream *stream;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, handle, null, &stream, &capturing);
    if (rc == CUDA_SUCCESS && answer == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS)
        return rc;
    switch (question) {
    case ASK_FLAGS:
        *(unsigned *)answer = stream->flags;
        break;
    case ASK_PRIORITY:
        *(int *)answer = stream->priority;
        break;
    case ASK_ID:
        *(unsigned long long *)answer = stream->id;
        break;
    case ASK_DEVICE:
        *(CUdevice *)answer = 0;
        break;
    case ASK_CONTEXT:
        *(CUcontext *)answer = (CUcontext)stream->context;
        break;
    }
    return CUDA_SUCCESS;
}

#define STREAM_GETTER(name, type, question)                                                        \
    EXPORT CUresult name(CUstream stream, type *answer) {                                          \
        return ask(stream, LEGACY, question, answer);                                              \
    }                                                                                              \
    EXPORT CUresult name##_ptsz(CUstream stream, type *answer) {                                   \
        return ask(stream, PER_THREAD, question, answer);                                          \
    }

STREAM_GETTER(cuStreamGetFlags, unsigned, ASK_FLAGS)
STREAM_GETTER(cuStreamGetPriority, int, ASK_PRIORITY)
STREAM_GETTER(cuStreamGetId, unsigned long long, ASK_ID)
STREAM_GETTER(cuStreamGetDevice, CUdevice, ASK_DEVICE)
STREAM_GETTER(cuStreamGetCtx, CUcontext, ASK_CONTEXT)
