/*
 * Launching kernels, and host functions.
 *
 * A kernel launch takes four read locks, one write lock and five mutexes (locks.c lists them in
 * order). One of the mutexes is the channel, which a pageable copy holds from end to end.
 */
#include "launch.h"
#include "memory.h"
#include "module.h"

#include <string.h>

enum { MAX_BLOCK_THREADS = 1024 };

static bool valid_dimensions(const unsigned grid[3], const unsigned block[3]) {
    static const unsigned most_blocks[3] = {2147483647, 65535, 65535};
    static const unsigned most_threads[3] = {1024, 1024, 64};
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || grid[i] > most_blocks[i] || block[i] == 0 ||
            block[i] > most_threads[i])
            return false;
    return (uint64_t)block[0] * block[1] * block[2] <= MAX_BLOCK_THREADS;
}

/* Parameters come as an array of pointers, or as one buffer that is laid out already. */
static CUresult lay_out(const struct kernel *kernel, void **params, void **extra,
                        unsigned char *bank) {
    const void *buffer = NULL;
    size_t buffer_bytes = 0;
    for (; extra != NULL && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            buffer_bytes = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < kernel->params; i++) {
        unsigned offset = kernel->param[i].offset, bytes = kernel->param[i].bytes;
        if (params != NULL && params[i] != NULL)
            memcpy(bank + offset, params[i], bytes);
        else if (buffer != NULL && offset + bytes <= buffer_bytes)
            memcpy(bank + offset, (const unsigned char *)buffer + offset, bytes);
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* A real GPU would find out while it runs the kernel; here the launch already fails. */
static bool touches_known_memory(const struct work *work) {
    struct touched touched[MAX_TOUCHED];
    uint64_t threads = (uint64_t)work->kernel.grid[0] * work->kernel.block[0];
    bool known = true;
    unsigned touches = work->kernel.kernel->touches(work->kernel.params, threads, touched);
    lock_shared(&map_rwlock);
    for (unsigned i = 0; i < touches; i++)
        if (touched[i].bytes > 0 && memory_find((void *)(uintptr_t)touched[i].address,
                                                touched[i].bytes) == PAGEABLE)
            known = false;
    unlock_rw(&map_rwlock);
    return known;
}

CUresult prepare_kernel(struct context *context, const struct launch *launch, struct work *work) {
    struct function *function = function_of(launch->function);
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!valid_dimensions(launch->grid, launch->block))
        return CUDA_ERROR_INVALID_VALUE;
    memset(work, 0, sizeof *work);
    work->kind = WORK_KERNEL;
    memcpy(work->kernel.grid, launch->grid, sizeof work->kernel.grid);
    memcpy(work->kernel.block, launch->block, sizeof work->kernel.block);
    pthread_rwlock_t *function_rwlock =
        pooled_rwlock(&context->locks, FUNCTION_RWLOCKS, function->id);
    lock(&context->locks.mutexes[PARAMETER_BANK]);
    lock_shared(function_rwlock);
    work->kernel.kernel = function->kernel;
    unlock_rw(function_rwlock);
    CUresult rc = lay_out(work->kernel.kernel, launch->params, launch->extra, work->kernel.params);
    bool known = rc != CUDA_SUCCESS || touches_known_memory(work);
    unlock(&context->locks.mutexes[PARAMETER_BANK]);
    return known ? rc : fail_context(context, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static CUresult launch_kernel(const struct launch *launch, CUstream handle,
                              enum null_stream null) {
    struct context *context;
    struct stream *stream;
    struct work work;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, handle, null, &stream, &capturing);
    if (rc == CUDA_SUCCESS)
        rc = prepare_kernel(context, launch, &work);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (capturing)
        return capture_work(stream, &work);
    submit(stream, &work);
    lock_exclusive(&context->locks.rwlocks[USAGE]);
    context->kernel_launches++;
    unlock_rw(&context->locks.rwlocks[USAGE]);
    track(context);
    count_one(&count.launches);
    return CUDA_SUCCESS;
}

/* ---- Entry points -------------------------------------------------------------------------- */

/* As many blocks as there is room for threads; see attribute 39 in device.c. */
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                            int threads, size_t shared_bytes) {
    enum { THREADS = 1024 };
    (void)shared_bytes;
    if (function_of(function) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (blocks == NULL || threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = THREADS / threads;
    return CUDA_SUCCESS;
}

#define LAUNCH_KERNEL(name, null)                                                                  \
    EXPORT CUresult name(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,   \
                         unsigned block_x, unsigned block_y, unsigned block_z,                     \
                         unsigned shared_bytes, CUstream stream, void **params, void **extra) {    \
        struct launch launch = {function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},   \
                                params, extra};                                                    \
        (void)shared_bytes;                                                                        \
        return launch_kernel(&launch, stream, null);                                               \
    }

LAUNCH_KERNEL(cuLaunchKernel, LEGACY)
LAUNCH_KERNEL(cuLaunchKernel_ptsz, PER_THREAD)

/* A kernel of this fake never waits for another block: they run one after the other, or it runs
 * them as a whole. */
#define LAUNCH_COOPERATIVE(name, null)                                                             \
    EXPORT CUresult name(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,   \
                         unsigned block_x, unsigned block_y, unsigned block_z,                     \
                         unsigned shared_bytes, CUstream stream, void **params) {                  \
        struct launch launch = {function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},   \
                                params, NULL};                                                     \
        (void)shared_bytes;                                                                        \
        return launch_kernel(&launch, stream, null);                                               \
    }

LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, LEGACY)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, PER_THREAD)

static CUresult launch_configured(const CUlaunchConfig *config, CUfunction function,
                                  void **params, void **extra, enum null_stream null) {
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct launch launch = {function,
                            {config->gridDimX, config->gridDimY, config->gridDimZ},
                            {config->blockDimX, config->blockDimY, config->blockDimZ},
                            params,
                            extra};
    return launch_kernel(&launch, config->hStream, null);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                                 void **extra) {
    return launch_configured(config, function, params, extra, LEGACY);
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function,
                                      void **params, void **extra) {
    return launch_configured(config, function, params, extra, PER_THREAD);
}

static CUresult launch_host(CUstream handle, CUhostFn function, void *argument,
                            enum null_stream null) {
    struct context *context;
    struct stream *stream;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, handle, null, &stream, &capturing);
    if (rc == CUDA_SUCCESS && function == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS)
        return rc;
    struct work work = {.kind = WORK_HOST};
    work.host.function = function;
    work.host.argument = argument;
    if (capturing)
        return capture_work(stream, &work);
    submit(stream, &work);
    track(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument) {
    return launch_host(stream, function, argument, LEGACY);
}

EXPORT CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *argument) {
    return launch_host(stream, function, argument, PER_THREAD);
}

/* How the function's thread waits for its turn is the driver's own affair. */
EXPORT CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *argument,
                                    unsigned sync_mode) {
    (void)sync_mode;
    return launch_host(stream, function, argument, LEGACY);
}

EXPORT CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void *argument,
                                         unsigned sync_mode) {
    (void)sync_mode;
    return launch_host(stream, function, argument, PER_THREAD);
}
