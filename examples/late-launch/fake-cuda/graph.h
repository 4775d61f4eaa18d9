/* Graphs: nodes of work with what they follow. */
#ifndef GRAPH_H
#define GRAPH_H

#include "gpu.h"

struct graph;

struct graph_node {
    uint32_t magic;
    struct graph *graph;
    size_t index;
    struct work work;
    size_t *follows; /* indices of earlier nodes */
    size_t follows_length;
};

struct graph {
    uint32_t magic;
    pthread_mutex_t *mutex; /* for all below */
    struct graph_node **node;
    size_t nodes;
};

struct graph *graph_new(struct context *context);
void graph_free(struct graph *graph);

/* Adds a node behind the given ones; NULL if there is no memory. The caller holds the mutex. */
struct graph_node *graph_append(struct graph *graph, const struct work *work,
                                const size_t *follows, size_t follows_length);

/* The graph that a handle names. */
CUresult graph_of(CUgraph handle, struct graph **graph);

/* The next of the mutexes that graphs share. */
pthread_mutex_t *graph_mutex(struct context *context);

/* What adds a node to a graph does: checks the handles, and hands out the new node's. */
CUresult graph_add(CUgraphNode *node, CUgraph graph, const CUgraphNode *follows,
                   size_t follows_length, const struct work *work);

#endif
