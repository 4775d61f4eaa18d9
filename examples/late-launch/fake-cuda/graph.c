/*
 * Graphs, executable graphs, and launching these.
 *
 * A node can only follow nodes that exist, so the order of creation is an order in which the work
 * may run. An executable graph is the list of its work in that order. A launch is one entry of a
 * stream's queue: the engines run the nodes one by one, each on its engine, and the call takes the
 * same 15 locks whatever the number of nodes.
 */
#include "graph.h"
#include "launch.h"

#include <stdlib.h>
#include <string.h>

enum { GRAPH_MAGIC = 0x47524150, NODE_MAGIC = 0x4e4f4445, EXEC_MAGIC = 0x45584543 };

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

static atomic_ullong graph_ids;

static pthread_mutex_t *next_mutex(struct context *context) {
    return pooled_mutex(&context->locks, GRAPH_MUTEXES, atomic_fetch_add(&graph_ids, 1));
}

/* ---- Graphs -------------------------------------------------------------------------------- */

struct graph *graph_new(struct context *context) {
    struct graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL)
        return NULL;
    graph->magic = GRAPH_MAGIC;
    graph->mutex = next_mutex(context);
    return graph;
}

void graph_free(struct graph *graph) {
    if (graph == NULL)
        return;
    graph->magic = 0;
    for (size_t i = 0; i < graph->nodes; i++) {
        graph->node[i]->magic = 0;
        free(graph->node[i]->follows);
        free(graph->node[i]);
    }
    free(graph->node);
    free(graph);
}

struct graph_node *graph_append(struct graph *graph, const struct work *work,
                                const size_t *follows, size_t follows_length) {
    struct graph_node **larger = realloc(graph->node, (graph->nodes + 1) * sizeof *larger);
    if (larger == NULL)
        return NULL;
    graph->node = larger;
    struct graph_node *node = calloc(1, sizeof *node);
    size_t *copy = calloc(follows_length + 1, sizeof *copy);
    if (node == NULL || copy == NULL) {
        free(node);
        free(copy);
        return NULL;
    }
    if (follows_length > 0)
        memcpy(copy, follows, follows_length * sizeof *copy);
    *node = (struct graph_node){NODE_MAGIC, graph, graph->nodes, *work, copy, follows_length};
    graph->node[graph->nodes++] = node;
    return node;
}

static CUresult use_graph(CUgraph handle, struct graph **graph) {
    *graph = (struct graph *)handle;
    bool valid = *graph != NULL && (*graph)->magic == GRAPH_MAGIC;
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphCreate(CUgraph *handle, unsigned flags) {
    struct context *context;
    CUresult rc = enter(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (handle == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct graph *graph = graph_new(context);
    if (graph == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = (CUgraph)graph;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph handle) {
    struct graph *graph;
    CUresult rc = use_graph(handle, &graph);
    if (rc == CUDA_SUCCESS)
        graph_free(graph);
    return rc;
}

static CUresult add_node(CUgraphNode *handle, CUgraph graph_handle, const CUgraphNode *follows,
                         size_t follows_length, const struct work *work) {
    struct graph *graph;
    CUresult rc = use_graph(graph_handle, &graph);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (handle == NULL || (follows == NULL && follows_length > 0))
        return CUDA_ERROR_INVALID_VALUE;
    size_t *indices = calloc(follows_length + 1, sizeof *indices);
    if (indices == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < follows_length && rc == CUDA_SUCCESS; i++) {
        const struct graph_node *node = (struct graph_node *)follows[i];
        if (node == NULL || node->magic != NODE_MAGIC || node->graph != graph)
            rc = CUDA_ERROR_INVALID_VALUE;
        else
            indices[i] = node->index;
    }
    if (rc == CUDA_SUCCESS) {
        lock(graph->mutex);
        struct graph_node *node = graph_append(graph, work, indices, follows_length);
        unlock(graph->mutex);
        *handle = (CUgraphNode)node;
        rc = node != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    free(indices);
    return rc;
}

static CUresult add_kernel(CUgraphNode *node, CUgraph graph, const CUgraphNode *follows,
                           size_t follows_length, const struct launch *launch) {
    struct context *context;
    struct work work;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = prepare_kernel(context, launch, &work);
    return rc == CUDA_SUCCESS ? add_node(node, graph, follows, follows_length, &work) : rc;
}

EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *follows,
                                     size_t follows_length,
                                     const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct launch launch = {params->func,
                            {params->gridDimX, params->gridDimY, params->gridDimZ},
                            {params->blockDimX, params->blockDimY, params->blockDimZ},
                            params->kernelParams,
                            params->extra};
    return add_kernel(node, graph, follows, follows_length, &launch);
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph,
                                        const CUgraphNode *follows, size_t follows_length,
                                        const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct launch launch = {params->func != NULL ? params->func : (CUfunction)params->kern,
                            {params->gridDimX, params->gridDimY, params->gridDimZ},
                            {params->blockDimX, params->blockDimY, params->blockDimZ},
                            params->kernelParams,
                            params->extra};
    return add_kernel(node, graph, follows, follows_length, &launch);
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *follows,
                                    size_t follows_length) {
    struct work work = {.kind = WORK_EMPTY};
    return add_node(node, graph, follows, follows_length, &work);
}

EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *length) {
    struct graph *graph;
    CUresult rc = use_graph(handle, &graph);
    if (rc != CUDA_SUCCESS || length == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    lock(graph->mutex);
    for (size_t i = 0; nodes != NULL && i < *length; i++)
        nodes[i] = i < graph->nodes ? (CUgraphNode)graph->node[i] : NULL;
    if (nodes == NULL || graph->nodes < *length)
        *length = graph->nodes;
    unlock(graph->mutex);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type) {
    const struct graph_node *node = (struct graph_node *)handle;
    if (node == NULL || node->magic != NODE_MAGIC || type == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (node->work.kind) {
    case WORK_KERNEL:
        *type = CU_GRAPH_NODE_TYPE_KERNEL;
        break;
    case WORK_COPY:
        *type = CU_GRAPH_NODE_TYPE_MEMCPY;
        break;
    case WORK_FILL:
        *type = CU_GRAPH_NODE_TYPE_MEMSET;
        break;
    case WORK_HOST:
        *type = CU_GRAPH_NODE_TYPE_HOST;
        break;
    default:
        *type = CU_GRAPH_NODE_TYPE_EMPTY;
        break;
    }
    return CUDA_SUCCESS;
}

/* ---- Executable graphs --------------------------------------------------------------------- */

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
        rc = use_graph(graph_handle, &graph);
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
    exec->mutex = next_mutex(context);
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

EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
    struct graph_exec *exec = (struct graph_exec *)handle;
    if (exec == NULL || exec->magic != EXEC_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    exec->magic = 0;
    release_exec(exec);
    return CUDA_SUCCESS;
}

/* ---- Launching ----------------------------------------------------------------------------- */

static bool is_exec(struct context *context, const struct graph_exec *exec) {
    lock_shared(&context->locks.rwlocks[GRAPHS]);
    bool valid = exec != NULL && exec->magic == EXEC_MAGIC && exec->context == context;
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
