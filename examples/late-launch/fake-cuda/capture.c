/*
 * Stream capture: calls on a capturing stream become nodes of a graph.
 *
 * Each stream of a capture has a frontier, the nodes that its next node follows. A node that the
 * stream adds becomes its frontier. An event recorded in the capture takes a copy of the frontier;
 * a stream that waits for the event adds that to its own, and joins the capture if it was outside.
 * At the end every node must lie before the frontier of the stream in which the capture began.
 */
#include "event.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct capture {
    struct capture *next; /* under GRAPHS */
    uint64_t id;
    struct graph *graph;
    struct stream *origin;
    CUstreamCaptureMode mode;
    pthread_t thread;
    atomic_bool invalidated;

    /* Under the graph's mutex. */
    struct stream **streams;
    size_t streams_length;
};

static atomic_ullong capture_ids;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static pthread_rwlock_t *graphs_rwlock(const struct stream *stream) {
    return &stream->context->locks.rwlocks[GRAPHS];
}

static struct capture *capture_of(struct stream *stream) {
    lock_shared(stream->state_rwlock);
    struct capture *capture = stream->capture;
    unlock_rw(stream->state_rwlock);
    return capture;
}

/* ---- Frontiers ----------------------------------------------------------------------------- */

static bool set_frontier(size_t **frontier, size_t *length, const size_t *nodes, size_t count_of) {
    size_t *copy = realloc(*frontier, (count_of + 1) * sizeof *copy);
    if (copy == NULL)
        return false;
    if (count_of > 0)
        memcpy(copy, nodes, count_of * sizeof *copy);
    *frontier = copy;
    *length = count_of;
    return true;
}

static bool add_to_frontier(struct stream *stream, const size_t *nodes, size_t count_of) {
    size_t *larger =
        realloc(stream->frontier, (stream->frontier_length + count_of + 1) * sizeof *larger);
    if (larger == NULL)
        return false;
    stream->frontier = larger;
    for (size_t i = 0; i < count_of; i++) {
        bool there = false;
        for (size_t j = 0; j < stream->frontier_length; j++)
            there = there || larger[j] == nodes[i];
        if (!there)
            larger[stream->frontier_length++] = nodes[i];
    }
    return true;
}

/* ---- While it captures --------------------------------------------------------------------- */

CUresult capture_work(struct stream *stream, const struct work *work) {
    CUresult rc = CUDA_SUCCESS;
    lock_exclusive(stream->state_rwlock);
    struct capture *capture = stream->capture;
    if (capture == NULL || atomic_load(&capture->invalidated)) {
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        lock(capture->graph->mutex);
        struct graph_node *node = graph_append(capture->graph, work, stream->frontier,
                                               stream->frontier_length);
        unlock(capture->graph->mutex);
        if (node == NULL || !set_frontier(&stream->frontier, &stream->frontier_length,
                                          &node->index, 1))
            rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    unlock_rw(stream->state_rwlock);
    if (rc == CUDA_SUCCESS)
        count_one(&count.captured);
    return rc;
}

void capture_invalidate(struct stream *stream) {
    struct capture *capture = capture_of(stream);
    if (capture != NULL)
        atomic_store(&capture->invalidated, true);
}

CUresult capture_record(struct stream *stream, struct event *event) {
    CUresult rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    lock_shared(stream->state_rwlock);
    const struct capture *capture = stream->capture;
    if (capture != NULL && !atomic_load(&capture->invalidated)) {
        lock(event->mutex);
        event->capture_id = capture->id;
        rc = set_frontier(&event->frontier, &event->frontier_length, stream->frontier,
                          stream->frontier_length)
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_OUT_OF_MEMORY;
        unlock(event->mutex);
    }
    unlock_rw(stream->state_rwlock);
    return rc;
}

static struct capture *capture_numbered(const struct stream *stream, uint64_t id) {
    lock_shared(graphs_rwlock(stream));
    struct capture *capture = stream->context->captures;
    while (capture != NULL && capture->id != id)
        capture = capture->next;
    unlock_rw(graphs_rwlock(stream));
    return capture;
}

static bool is_blocking(const struct stream *stream) {
    return (stream->flags & CU_STREAM_NON_BLOCKING) == 0;
}

/* The stream takes part in the capture from here on. */
static bool enrol(struct capture *capture, struct stream *stream) {
    lock(capture->graph->mutex);
    struct stream **larger =
        realloc(capture->streams, (capture->streams_length + 1) * sizeof *larger);
    if (larger != NULL) {
        capture->streams = larger;
        larger[capture->streams_length++] = stream;
    }
    unlock(capture->graph->mutex);
    if (larger == NULL)
        return false;
    stream->capture = capture;
    stream->frontier_length = 0;
    if (is_blocking(stream))
        atomic_fetch_add(&stream->context->capturing_blocking, 1);
    return true;
}

/* With the stream's state held for writing. The event is one of a capture, or ends this one. */
static CUresult join(struct stream *stream, struct capture *of_event, const struct event *event) {
    struct capture *capture = stream->capture;
    if (of_event == NULL || (capture != NULL && capture != of_event)) {
        if (capture == NULL)
            return CUDA_ERROR_CAPTURED_EVENT;
        atomic_store(&capture->invalidated, true);
        if (of_event != NULL)
            atomic_store(&of_event->invalidated, true);
        return of_event != NULL ? CUDA_ERROR_STREAM_CAPTURE_MERGE
                                : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (atomic_load(&of_event->invalidated))
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream == stream->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (capture == NULL && !enrol(of_event, stream))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return add_to_frontier(stream, event->frontier, event->frontier_length)
               ? CUDA_SUCCESS
               : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_wait(struct stream *stream, struct event *event) {
    lock(event->mutex);
    uint64_t id = event->capture_id;
    unlock(event->mutex);
    struct capture *of_event = id != 0 ? capture_numbered(stream, id) : NULL;
    lock_exclusive(stream->state_rwlock);
    lock(event->mutex);
    CUresult rc = join(stream, of_event, event);
    unlock(event->mutex);
    unlock_rw(stream->state_rwlock);
    return rc;
}

/* ---- Begin --------------------------------------------------------------------------------- */

static CUresult use(CUstream handle, enum null_stream null, struct stream **stream) {
    struct context *context;
    bool capturing;
    CUresult rc = enter(&context);
    return rc == CUDA_SUCCESS ? use_stream(context, handle, null, stream, &capturing) : rc;
}

static struct capture *capture_new(struct stream *stream, CUstreamCaptureMode mode) {
    struct capture *capture = calloc(1, sizeof *capture);
    if (capture == NULL)
        return NULL;
    capture->graph = graph_new(stream->context);
    if (capture->graph == NULL) {
        free(capture);
        return NULL;
    }
    capture->id = atomic_fetch_add(&capture_ids, 1) + 1;
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = pthread_self();
    return capture;
}

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, enum null_stream null) {
    struct stream *stream;
    CUresult rc = use(handle, null, &stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (stream == stream->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct capture *capture = capture_new(stream, mode);
    if (capture == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    lock_exclusive(stream->state_rwlock);
    if (stream->capture != NULL)
        rc = CUDA_ERROR_ILLEGAL_STATE;
    else if (!enrol(capture, stream))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    unlock_rw(stream->state_rwlock);
    if (rc != CUDA_SUCCESS) {
        graph_free(capture->graph);
        free(capture);
        return rc;
    }
    lock_exclusive(graphs_rwlock(stream));
    capture->next = stream->context->captures;
    stream->context->captures = capture;
    unlock_rw(graphs_rwlock(stream));
    return CUDA_SUCCESS;
}

/* The first form had no mode; it was the global one. */
EXPORT CUresult cuStreamBeginCapture(CUstream stream) {
    return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, LEGACY);
}

EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
    return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, PER_THREAD);
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return begin(stream, mode, LEGACY);
}

EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    return begin(stream, mode, PER_THREAD);
}

/* ---- End ----------------------------------------------------------------------------------- */

/* True if every node lies before the frontier: walks back from it, highest index first. */
static bool all_joined(const struct graph *graph, const size_t *frontier, size_t length) {
    bool *reached = calloc(graph->nodes + 1, sizeof *reached);
    bool all = reached != NULL;
    for (size_t i = 0; all && i < length; i++)
        reached[frontier[i]] = true;
    for (size_t i = graph->nodes; all && i-- > 0;) {
        all = reached[i];
        for (size_t j = 0; j < graph->node[i]->follows_length; j++)
            reached[graph->node[i]->follows[j]] = true;
    }
    free(reached);
    return all;
}

static void dismiss(struct stream *stream) {
    lock_exclusive(stream->state_rwlock);
    stream->capture = NULL;
    stream->frontier_length = 0;
    unlock_rw(stream->state_rwlock);
    if (is_blocking(stream))
        atomic_fetch_sub(&stream->context->capturing_blocking, 1);
}

static void forget(struct capture *capture) {
    struct context *context = capture->origin->context;
    lock_exclusive(&context->locks.rwlocks[GRAPHS]);
    struct capture **link = &context->captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    unlock_rw(&context->locks.rwlocks[GRAPHS]);
}

static CUresult end(CUstream handle, CUgraph *graph, enum null_stream null) {
    struct stream *stream;
    CUresult rc = use(handle, null, &stream);
    if (rc == CUDA_SUCCESS && graph == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS)
        return rc;
    struct capture *capture = capture_of(stream);
    *graph = NULL;
    if (capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (atomic_load(&capture->invalidated))
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(capture->graph, stream->frontier, stream->frontier_length))
        rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    forget(capture);
    for (size_t i = 0; i < capture->streams_length; i++)
        dismiss(capture->streams[i]);
    if (rc == CUDA_SUCCESS)
        *graph = (CUgraph)capture->graph;
    else
        graph_free(capture->graph);
    free(capture->streams);
    free(capture);
    return rc;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    return end(stream, graph, LEGACY);
}

EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    return end(stream, graph, PER_THREAD);
}

/* ---- Questions ----------------------------------------------------------------------------- */

static CUresult is_capturing(CUstream handle, CUstreamCaptureStatus *status,
                             enum null_stream null) {
    struct stream *stream;
    CUresult rc = use(handle, null, &stream);
    if (rc == CUDA_SUCCESS && status == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS)
        return rc;
    const struct capture *capture = capture_of(stream);
    *status = capture == NULL                         ? CU_STREAM_CAPTURE_STATUS_NONE
              : atomic_load(&capture->invalidated) ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    return is_capturing(stream, status, LEGACY);
}

EXPORT CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *status) {
    return is_capturing(stream, status, PER_THREAD);
}

/* The mode is kept for the thread, but the fake forbids nothing that depends on it. */
EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    if (mode == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
