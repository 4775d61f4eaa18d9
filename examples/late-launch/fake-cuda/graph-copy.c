/* Nodes that copy: lines of bytes, with both ends pinned or on the device. */
#include "graph.h"
#include "memory.h"

enum memory_type { HOST_MEMORY = 1, DEVICE_MEMORY = 2, ARRAY_MEMORY = 3, UNIFIED_MEMORY = 4 };

/* CUDA_MEMCPY3D. */
struct end {
    size_t x_bytes, y, z, lod;
    unsigned type;
    const void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
};

struct copy3d {
    struct end from, to;
    size_t width_bytes, height, depth;
};

_Static_assert(sizeof(struct copy3d) == 25 * 8, "as the driver's interface has it");

/* NULL if it is an array, or of another place than its type says. */
static unsigned char *address_of(const struct end *end, size_t bytes) {
    unsigned char *start = NULL;
    if (end->type == HOST_MEMORY)
        start = (unsigned char *)end->host;
    else if (end->type == DEVICE_MEMORY || end->type == UNIFIED_MEMORY)
        start = (unsigned char *)(uintptr_t)end->device;
    if (start == NULL || end->y != 0 || end->z != 0)
        return NULL;
    start += end->x_bytes;
    enum memory_kind kind = memory_kind_of(start, bytes);
    bool wrong = kind == PAGEABLE || (end->type == DEVICE_MEMORY && kind != DEVICE);
    return wrong ? NULL : start;
}

EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *follows,
                                     size_t follows_length, const struct copy3d *copy,
                                     CUcontext context) {
    struct context *current;
    CUresult rc = enter(&current);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (copy == NULL || context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (copy->height != 1 || copy->depth != 1)
        return fake_not_supported();
    struct work work = {.kind = WORK_COPY};
    work.copy.to = address_of(&copy->to, copy->width_bytes);
    work.copy.from = address_of(&copy->from, copy->width_bytes);
    work.copy.bytes = copy->width_bytes;
    work.copy.ends_copy = true;
    if (work.copy.to == NULL || work.copy.from == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return graph_add(node, graph, follows, follows_length, &work);
}
