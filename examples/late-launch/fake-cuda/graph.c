/*
 * Graphs and their nodes.
 *
 * A node can only follow nodes that exist, so the order of creation is an order in which the work
 * may run.
 */
#include "graph.h"
#include "launch.h"

#include <stdlib.h>
#include <string.h>

enum { GRAPH_MAGIC = 0x47524150, NODE_MAGIC = 0x4e4f4445 };

static atomic_ullong graph_ids;

pthread_mutex_t *graph_mutex(struct context *context) {
    return pooled_mutex(&context->locks, GRAPH_MUTEXES, atomic_fetch_add(&graph_ids, 1));
}

/* ---- Graphs -------------------------------------------------------------------------------- */

struct graph *graph_new(struct context *context) {
    struct graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL)
        return NULL;
    graph->magic = GRAPH_MAGIC;
    graph->mutex = graph_mutex(context);
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

CUresult graph_of(CUgraph handle, struct graph **graph) {
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
    CUresult rc = graph_of(handle, &graph);
    if (rc == CUDA_SUCCESS)
        graph_free(graph);
    return rc;
}

CUresult graph_add(CUgraphNode *handle, CUgraph graph_handle, const CUgraphNode *follows,
                   size_t follows_length, const struct work *work) {
    struct graph *graph;
    CUresult rc = graph_of(graph_handle, &graph);
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
    return rc == CUDA_SUCCESS ? graph_add(node, graph, follows, follows_length, &work) : rc;
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
    return graph_add(node, graph, follows, follows_length, &work);
}

EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *length) {
    struct graph *graph;
    CUresult rc = graph_of(handle, &graph);
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
