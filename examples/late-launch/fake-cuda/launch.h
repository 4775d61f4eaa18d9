/* A launch as the application describes it, before it is work. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "gpu.h"

struct launch {
    CUfunction function;
    unsigned grid[3], block[3];
    void **params, **extra;
};

/* Checks the launch and lays out its parameters; the same for streams and for graphs. */
CUresult prepare_kernel(struct context *context, const struct launch *launch, struct work *work);

#endif
