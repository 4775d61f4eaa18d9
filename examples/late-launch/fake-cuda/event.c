/*
 * Events. Recording makes a fence, which the event and all who wait for it share; a later recording
 * replaces the event's fence and leaves those who wait for the earlier one alone.
 */
#include "event.h"

#include <stdlib.h>

enum { EVENT_MAGIC = 0x45564e54 };

static CUresult use_event(CUevent handle, struct event **event) {
    struct event *candidate = (struct event *)handle;
    if (candidate == NULL || candidate->magic != EVENT_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!atomic_load(&candidate->context->alive)) {
        count_stale_handle();
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    *event = candidate;
    return CUDA_SUCCESS;
}

/* The event's latest fence, or NULL if it was never recorded. The caller releases it. */
static struct fence *latest_fence(struct event *event) {
    lock(event->mutex);
    struct fence *fence = event->fence != NULL ? fence_share(event->fence) : NULL;
    unlock(event->mutex);
    return fence;
}

/* An event that a capture has recorded stands for a place in a graph: it never happens. */
static bool is_captured(struct event *event) {
    lock(event->mutex);
    bool captured = event->capture_id != 0;
    unlock(event->mutex);
    return captured;
}

EXPORT CUresult cuEventCreate(CUevent *handle, unsigned flags) {
    struct context *context;
    CUresult rc = enter(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct event *event = calloc(1, sizeof *event);
    if (event == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    static atomic_ullong ids;
    event->magic = EVENT_MAGIC;
    event->flags = flags;
    event->context = context;
    event->mutex = pooled_mutex(&context->locks, EVENT_MUTEXES, atomic_fetch_add(&ids, 1));
    *handle = (CUevent)event;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUevent handle) {
    struct event *event;
    CUresult rc = use_event(handle, &event);
    if (rc != CUDA_SUCCESS)
        return rc;
    event->magic = 0;
    fence_release(event->fence);
    free(event->frontier);
    free(event);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(CUevent event) {
    return destroy(event);
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
    return destroy(event);
}

static CUresult record(CUevent handle, CUstream stream_handle, enum null_stream null) {
    struct context *context;
    struct event *event;
    struct stream *stream;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_event(handle, &event);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, stream_handle, null, &stream, &capturing);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (capturing)
        return capture_record(stream, event);
    struct work work = {.kind = WORK_RECORD};
    work.fence = fence_new();
    if (work.fence == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* In one piece: who waits for the event must come after it in the stream. */
    stream_reserve(stream);
    lock(event->mutex);
    fence_release(event->fence);
    event->fence = fence_share(work.fence);
    event->capture_id = 0;
    submit_reserved(stream, &work);
    unlock(event->mutex);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    return record(event, stream, LEGACY);
}

EXPORT CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
    return record(event, stream, PER_THREAD);
}

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    return flags == 0 ? record(event, stream, LEGACY) : fake_not_supported();
}

EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
    return flags == 0 ? record(event, stream, PER_THREAD) : fake_not_supported();
}

static CUresult wait(CUstream stream_handle, CUevent handle, enum null_stream null) {
    struct context *context;
    struct event *event;
    struct stream *stream;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_event(handle, &event);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, stream_handle, null, &stream, &capturing);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (capturing || is_captured(event))
        return capture_wait(stream, event);
    struct work work = {.kind = WORK_WAIT};
    work.fence = latest_fence(event);
    if (work.fence != NULL)
        submit(stream, &work);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    return flags == 0 ? wait(stream, event, LEGACY) : fake_not_supported();
}

EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags) {
    return flags == 0 ? wait(stream, event, PER_THREAD) : fake_not_supported();
}

static bool fence_reached(const void *what) {
    const struct fence *fence = what;
    return atomic_load(&fence->done);
}

EXPORT CUresult cuEventSynchronize(CUevent handle) {
    struct context *context;
    struct event *event;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_event(handle, &event);
    if (rc == CUDA_SUCCESS && is_captured(event))
        rc = CUDA_ERROR_CAPTURED_EVENT;
    if (rc != CUDA_SUCCESS)
        return rc;
    struct fence *fence = latest_fence(event);
    struct context *waits_in = event->context;
    if (fence != NULL) {
        waitpoint_wait(&waits_in->ended, ANY_PROGRESS, fence_reached, fence);
        fence_release(fence);
    }
    return error_of(waits_in);
}

EXPORT CUresult cuEventQuery(CUevent handle) {
    struct context *context;
    struct event *event;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_event(handle, &event);
    if (rc == CUDA_SUCCESS && is_captured(event))
        rc = CUDA_ERROR_CAPTURED_EVENT;
    if (rc != CUDA_SUCCESS)
        return rc;
    struct fence *fence = latest_fence(event);
    bool done = fence == NULL || atomic_load(&fence->done);
    fence_release(fence);
    /* What broke the context since it was entered comes before the event. */
    return done ? error_of(event->context) : CUDA_ERROR_NOT_READY;
}

static CUresult time_of(CUevent handle, uint64_t *time_ns) {
    struct event *event;
    CUresult rc = use_event(handle, &event);
    if (rc != CUDA_SUCCESS)
        return rc;
    if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    struct fence *fence = latest_fence(event);
    if (fence == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    bool done = atomic_load(&fence->done);
    if (done)
        *time_ns = fence->time_ns;
    fence_release(fence);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end) {
    uint64_t start_ns, end_ns;
    if (milliseconds == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = time_of(start, &start_ns);
    if (rc == CUDA_SUCCESS)
        rc = time_of(end, &end_ns);
    if (rc == CUDA_SUCCESS)
        *milliseconds = (float)((double)(int64_t)(end_ns - start_ns) / 1e6);
    return rc;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    return elapsed(milliseconds, start, end);
}

EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    return elapsed(milliseconds, start, end);
}
