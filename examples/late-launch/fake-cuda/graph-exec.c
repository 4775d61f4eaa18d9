/*
 * Executable graphs, and launching these.
 *
 * An executable graph is the list of a graph's work in the order in which it was added. A launch is
 * one entry of a stream's queue: the engines run the nodes one by one, each on its engine, and the
 * call takes the same 15 locks whatever the number of nodes.
 */
#include "graph.h"

#include <stdlib.h>

enum { EXEC_MAGIC = 0x45584543 };

struct graph_exec {
    uint32_t magic;
    struct context *context;
    atomic_uint owners;          /* the handle, and each launch that has not ended */
    atomic_ullong ended;         /* launches */
    pthread_mutex_t *mutex;      /* for the following */
    unsigned long long launched; /* launches */
    bool uploaded;
    size_t nodes;
    struct work work[];
};

size_t exec_nodes(const struct graph_exec *exec) {
    return exec->nodes;
}

const struct work *exec_work(const struct graph_exec *exec, size_t node) {
    return &exec->work[node];
}

bool exec_turn(const struct graph_exec *exec, uint64_t turn) {
    return atomic_load(&exec->ended) == turn;
}

static void release_exec(struct graph_exec *exec) {
    if (atomic_fetch_sub(&exec->owners, 1) == 1)
        free(exec);
}

void exec_launch_ended(struct graph_exec *exec) {
    atomic_fetch_add(&exec->ended, 1);
    release_exec(exec);
}

static CUresult instantiate(CUgraphExec *handle, CUgraph graph_handle, unsigned long long flags) {
    enum { FLAGS_THAT_CHANGE_NOTHING = 1 | 2 | 8 };
    struct context *context;
    struct graph *graph;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = graph_of(graph_handle, &graph);
    if (rc == CUDA_SUCCESS && handle == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS)
        return rc;
    if ((flags & ~(unsigned long long)FLAGS_THAT_CHANGE_NOTHING) != 0)
        return fake_not_supported();
    lock(graph->mutex);
    struct graph_exec *exec = calloc(1, sizeof *exec + graph->nodes * sizeof *exec->work);
    for (size_t i = 0; exec != NULL && i < graph->nodes; i++)
        exec->work[i] = graph->node[i]->work;
    if (exec != NULL)
        exec->nodes = graph->nodes;
    unlock(graph->mutex);
    if (exec == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->magic = EXEC_MAGIC;
    exec->context = context;
    exec->mutex = graph_mutex(context);
    atomic_init(&exec->owners, 1);
    *handle = (CUgraphExec)exec;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node,
                                   char *log, size_t log_bytes) {
    if (error_node != NULL)
        *error_node = NULL;
    if (log != NULL && log_bytes > 0)
        *log = '\0';
    return instantiate(exec, graph, 0);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node,
                                      char *log, size_t log_bytes) {
    return cuGraphInstantiate(exec, graph, error_node, log, log_bytes);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                            unsigned long long flags) {
    return instantiate(exec, graph, flags);
}

/* CUDA_GRAPH_INSTANTIATE_PARAMS. */
struct instantiate_params {
    cuuint64_t flags;
    CUstream upload_stream;
    CUgraphNode error_node;
    unsigned result; /* 0 is success, 1 an error that the call returns */
};

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                             struct instantiate_params *params) {
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = instantiate(exec, graph, params->flags);
    params->error_node = NULL;
    params->result = rc != CUDA_SUCCESS;
    return rc;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
    struct graph_exec *exec = (struct graph_exec *)handle;
    if (exec == NULL || exec->magic != EXEC_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (!atomic_load(&exec->context->alive)) {
        count_stale_handle();
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    exec->magic = 0;
    release_exec(exec);
    return CUDA_SUCCESS;
}

/* ---- Launching ----------------------------------------------------------------------------- */

static bool is_exec(struct context *context, const struct graph_exec *exec) {
    lock_shared(&context->locks.rwlocks[GRAPHS]);
    bool valid = exec != NULL && exec->magic == EXEC_MAGIC && exec->context == context;
    if (exec != NULL && exec->magic == EXEC_MAGIC && !atomic_load(&exec->context->alive))
        count_stale_handle();
    unlock_rw(&context->locks.rwlocks[GRAPHS]);
    return valid;
}

/* What a real driver does once per executable graph, and looks at on every launch. */
static void upload(struct context *context, struct graph_exec *exec) {
    lock(exec->mutex);
    lock(&context->locks.mutexes[PARAMETER_BANK]);
    lock_shared(&map_rwlock);
    bool first = !exec->uploaded;
    unlock_rw(&map_rwlock);
    unlock(&context->locks.mutexes[PARAMETER_BANK]);
    lock(&context->locks.mutexes[UPLOAD]);
    exec->uploaded = true;
    unlock(&context->locks.mutexes[UPLOAD]);
    lock(&context->locks.mutexes[GRAPH_MEMORY]);
    if (first)
        context->graph_bytes += exec->nodes * sizeof *exec->work;
    unlock(&context->locks.mutexes[GRAPH_MEMORY]);
    unlock(exec->mutex);
}

/* Takes its turn among the launches of the graph, and the place in the stream, in one piece. */
static void submit_exec(struct stream *stream, struct graph_exec *exec) {
    struct work work = {.kind = WORK_GRAPH};
    atomic_fetch_add(&exec->owners, 1);
    stream_reserve(stream);
    lock(exec->mutex);
    work.graph.exec = exec;
    work.graph.turn = exec->launched++;
    submit_reserved(stream, &work);
    unlock(exec->mutex);
}

static CUresult upload_now(CUgraphExec handle, CUstream stream_handle, enum null_stream null) {
    struct context *context;
    struct stream *stream;
    struct graph_exec *exec = (struct graph_exec *)handle;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, stream_handle, null, &stream, &capturing);
    if (rc == CUDA_SUCCESS && capturing)
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (rc == CUDA_SUCCESS && !is_exec(context, exec))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        upload(context, exec);
    return rc;
}

EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    return upload_now(exec, stream, LEGACY);
}

EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
    return upload_now(exec, stream, PER_THREAD);
}

static CUresult launch(CUgraphExec handle, CUstream stream_handle, enum null_stream null) {
    struct context *context;
    struct stream *stream;
    struct graph_exec *exec = (struct graph_exec *)handle;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, stream_handle, null, &stream, &capturing);
    if (rc == CUDA_SUCCESS && capturing)
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (rc == CUDA_SUCCESS && !is_exec(context, exec))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS)
        return rc;
    upload(context, exec);
    lock_shared(&context->locks.rwlocks[USAGE]);
    uint64_t launches_before = context->kernel_launches;
    unlock_rw(&context->locks.rwlocks[USAGE]);
    submit_exec(stream, exec);
    lock(&context->locks.mutexes[FENCES]);
    context->fences = launches_before;
    unlock(&context->locks.mutexes[FENCES]);
    track(context);
    count_one(&count.graph_launches);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    return launch(exec, stream, LEGACY);
}

EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
    return launch(exec, stream, PER_THREAD);
}
