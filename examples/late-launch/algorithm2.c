/*
 * Algorithm 2 with the CUDA driver interface: threads that copy, threads that launch.
 *
 *     make && LD_LIBRARY_PATH=build build/algorithm2 --copy-threads 14 --seconds 2
 *
 * The same object file makes two programs. `algorithm2` is linked with -lcuda. `algorithm2_dlsym`
 * is linked with algorithm2_dlsym.c instead, which finds the driver at run time as libcudart does.
 */
#include "driver_api.h"
#include "experiment.h"
#include "kernels_ptx.h"

#include <stdio.h>
#include <stdlib.h>

struct device {
    CUcontext context;
    CUfunction saxpy;
};

/* One thread's memory. A copy thread copies host to device; a launch thread adds in to inout. */
struct own {
    CUstream stream;
    unsigned char *host;
    CUdeviceptr copied, in, inout;
};

static struct device device;

static void check(const char *call, CUresult rc) {
    const char *name = NULL;
    if (rc == CUDA_SUCCESS)
        return;
    cuGetErrorName(rc, &name);
    fprintf(stderr, "%s: %s (%d)\n", call, name != NULL ? name : "unknown error", (int)rc);
    exit(1);
}

#define CHECK(call) check(#call, call)

static void open_device(void) {
    CUdevice first;
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&first, 0));
    CHECK(cuDevicePrimaryCtxRetain(&device.context, first));
    CHECK(cuCtxSetCurrent(device.context));
    CHECK(cuModuleLoadData(&module, KERNELS_PTX));
    CHECK(cuModuleGetFunction(&device.saxpy, module, "saxpy"));
}

static void *allocate_host(const struct options *options) {
    void *host = NULL;
    if (options->pinned)
        CHECK(cuMemAllocHost_v2(&host, host_bytes(options)));
    else
        host = malloc(host_bytes(options));
    if (host == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", host_bytes(options));
        exit(1);
    }
    return host;
}

static void open_thread(struct thread_work *work) {
    struct own *own = calloc(1, sizeof *own);
    if (own == NULL) {
        fprintf(stderr, "no memory for a thread\n");
        exit(1);
    }
    work->state = own;
    CHECK(cuCtxSetCurrent(device.context));
    CHECK(cuStreamCreate(&own->stream, CU_STREAM_NON_BLOCKING));
    if (work->role == COPYING) {
        own->host = allocate_host(work->options);
        for (unsigned i = 0; i < work->options->buffers; i++)
            fill_pattern(own->host + i * work->options->bytes, work->options->bytes, work->index);
        CHECK(cuMemAlloc_v2(&own->copied, work->options->bytes));
    } else {
        enum { ONE = 0x3f800000 }; /* 1.0f */
        unsigned elements = elements_of(work->options);
        CHECK(cuMemAlloc_v2(&own->in, elements * sizeof(float)));
        CHECK(cuMemAlloc_v2(&own->inout, elements * sizeof(float)));
        CHECK(cuMemsetD32Async(own->in, ONE, elements, own->stream));
        CHECK(cuMemsetD32Async(own->inout, 0, elements, own->stream));
        CHECK(cuStreamSynchronize(own->stream));
    }
}

static void call_once(struct thread_work *work) {
    struct own *own = work->state;
    const struct options *options = work->options;
    if (work->role == COPYING) {
        CHECK(cuMemcpyHtoDAsync_v2(own->copied, own->host + host_offset(work), options->bytes,
                                   own->stream));
        return;
    }
    unsigned elements = elements_of(options);
    float factor = 1.0f;
    void *params[] = {&elements, &factor, &own->in, &own->inout};
    CHECK(cuLaunchKernel(device.saxpy, options->grid, 1, 1, options->block, 1, 1, 0, own->stream,
                         params, NULL));
}

static void synchronise(struct thread_work *work) {
    struct own *own = work->state;
    CHECK(cuStreamSynchronize(own->stream));
}

static bool results_right(struct thread_work *work) {
    struct own *own = work->state;
    bool copies = work->role == COPYING;
    size_t bytes = copies ? work->options->bytes : elements_of(work->options) * sizeof(float);
    void *back = malloc(bytes);
    if (back == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    CHECK(cuMemcpyDtoHAsync_v2(back, copies ? own->copied : own->inout, bytes, own->stream));
    CHECK(cuStreamSynchronize(own->stream));
    bool right = copies ? work->calls == 0 || pattern_intact(back, bytes, work->index)
                        : sums_right(back, elements_of(work->options), work->calls);
    free(back);
    return right;
}

static void close_thread(struct thread_work *work) {
    struct own *own = work->state;
    if (work->role == COPYING) {
        CHECK(cuMemFree_v2(own->copied));
        if (work->options->pinned)
            CHECK(cuMemFreeHost(own->host));
        else
            free(own->host);
    } else {
        CHECK(cuMemFree_v2(own->in));
        CHECK(cuMemFree_v2(own->inout));
    }
    CHECK(cuStreamDestroy_v2(own->stream));
    free(own);
}

int main(int argc, char **argv) {
    static const struct calls calls = {open_thread, call_once, synchronise, results_right,
                                       close_thread};
    struct options options = read_options(argc, argv);
    open_device();
    return run_experiment("algorithm2", &options, &calls);
}
