/*
 * cuda WAY: a little work on the GPU through functions that were found in one of several ways:
 *   link             linked with the driver (compiled with -DLINKED)
 *   dlsym            by dlsym, from the driver
 *   ask              by cuGetProcAddress
 *   ask-per-thread   by cuGetProcAddress, for the threads' own default streams
 * It prints what came of it and how often it called what.
 */
#include "check.h"

#include "driver_api.h"
#include "kernels_ptx.h"

#include <dlfcn.h>

enum { COUNT = 1000, LAUNCHES = 20, IN_GRAPH = 3, GRAPH_LAUNCHES = 4, VERSION = 12000 };
#define BYTES (COUNT * sizeof(float))

/* Not in driver_api.h. */
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphDestroy(CUgraph);

/* The functions: base name, symbol, and whether there is one for the threads' own streams. */
#define FUNCTIONS(X)                                                                               \
    X(cuInit, cuInit, 0)                                                                           \
    X(cuDeviceGet, cuDeviceGet, 0)                                                                 \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 0)                                       \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 0)                                                         \
    X(cuModuleLoadData, cuModuleLoadData, 0)                                                       \
    X(cuModuleGetFunction, cuModuleGetFunction, 0)                                                 \
    X(cuMemAlloc, cuMemAlloc_v2, 0)                                                                \
    X(cuMemFree, cuMemFree_v2, 0)                                                                  \
    X(cuStreamCreate, cuStreamCreate, 0)                                                           \
    X(cuStreamDestroy, cuStreamDestroy_v2, 0)                                                      \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 0)                                 \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 0)                                                   \
    X(cuGraphDestroy, cuGraphDestroy, 0)                                                           \
    X(cuLaunchKernel, cuLaunchKernel, 1)                                                           \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 1)                                                  \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 1)                                                  \
    X(cuMemsetD32Async, cuMemsetD32Async, 1)                                                       \
    X(cuStreamSynchronize, cuStreamSynchronize, 1)                                                 \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 1)                                            \
    X(cuStreamEndCapture, cuStreamEndCapture, 1)                                                   \
    X(cuGraphLaunch, cuGraphLaunch, 1)

#define MEMBER(base, symbol, per_thread) __typeof__(symbol) *base;
static struct {
    FUNCTIONS(MEMBER)
} cuda;

#ifndef LINKED
static void *driver;
static bool per_thread;

static void *by_dlsym(const char *symbol) {
    void *found = dlsym(driver, symbol);
    MUST(found != NULL);
    return found;
}

static void *by_asking(const char *base, int version) {
    static __typeof__(cuGetProcAddress_v2) *ask;
    if (ask == NULL)
        ask = (__typeof__(ask))by_dlsym("cuGetProcAddress_v2");
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    cuuint64_t flags = per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                  : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    MUST(ask(base, &found, version, flags, &status) == CUDA_SUCCESS && found != NULL);
    return found;
}
#endif

static void find(const char *way) {
#ifdef LINKED
    MUST(strcmp(way, "link") == 0);
#define TAKE_LINKED(base, symbol, has) cuda.base = symbol;
    FUNCTIONS(TAKE_LINKED)
#else
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    MUST(driver != NULL);
    if (strcmp(way, "dlsym") == 0) {
#define TAKE_DLSYM(base, symbol, has) cuda.base = (__typeof__(symbol) *)by_dlsym(#symbol);
        FUNCTIONS(TAKE_DLSYM)
    } else {
        per_thread = strcmp(way, "ask-per-thread") == 0;
        MUST(per_thread || strcmp(way, "ask") == 0);
#define TAKE_ASKED(base, symbol, has)                                                              \
    cuda.base = (__typeof__(symbol) *)by_asking(#base, VERSION);
        FUNCTIONS(TAKE_ASKED)
    }
#endif
}

static CUfunction saxpy;
static CUdeviceptr x, y;

static void launch(CUstream stream) {
    unsigned count = COUNT;
    float factor = 1;
    void *params[] = {&count, &factor, &x, &y};
    MUST(cuda.cuLaunchKernel(saxpy, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL) == CUDA_SUCCESS);
}

static float back[COUNT];

static void print_result(CUstream stream) {
    MUST(cuda.cuMemcpyDtoHAsync(back, y, BYTES, stream) == CUDA_SUCCESS);
    MUST(cuda.cuStreamSynchronize(stream) == CUDA_SUCCESS);
    bool same = true;
    for (int i = 1; i < COUNT; i++)
        same = same && back[i] == back[0];
    printf("%g, %s\n", (double)back[0], same ? "everywhere" : "not everywhere");
}

static void graph(CUstream stream) {
    CUgraph graph;
    CUgraphExec executable;
    MUST(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    MUST(cuda.cuMemsetD32Async(y, 0, COUNT, stream) == CUDA_SUCCESS);
    for (int i = 0; i < IN_GRAPH; i++)
        launch(stream);
    MUST(cuda.cuMemcpyDtoHAsync(back, y, BYTES, stream) == CUDA_SUCCESS);
    MUST(cuda.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    MUST(cuda.cuGraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS);
    for (int i = 0; i < GRAPH_LAUNCHES; i++)
        MUST(cuda.cuGraphLaunch(executable, stream) == CUDA_SUCCESS);
    print_result(stream);
    MUST(cuda.cuGraphExecDestroy(executable) == CUDA_SUCCESS);
    MUST(cuda.cuGraphDestroy(graph) == CUDA_SUCCESS);
}

int main(int count, char **arguments) {
    MUST(count == 2);
    find(arguments[1]);
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUstream stream;
    static float ones[COUNT];
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    MUST(cuda.cuInit(0) == CUDA_SUCCESS && cuda.cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    MUST(cuda.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    MUST(cuda.cuCtxSetCurrent(context) == CUDA_SUCCESS);
    MUST(cuda.cuModuleLoadData(&module, KERNELS_PTX) == CUDA_SUCCESS);
    MUST(cuda.cuModuleGetFunction(&saxpy, module, "saxpy") == CUDA_SUCCESS);
    MUST(cuda.cuMemAlloc(&x, BYTES) == CUDA_SUCCESS && cuda.cuMemAlloc(&y, BYTES) == CUDA_SUCCESS);
    MUST(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    /* The default stream is the thread's own, or the legacy one. */
    MUST(cuda.cuMemcpyHtoDAsync(x, ones, BYTES, NULL) == CUDA_SUCCESS);
    MUST(cuda.cuMemsetD32Async(y, 0, COUNT, NULL) == CUDA_SUCCESS);
    for (int i = 0; i < LAUNCHES; i++)
        launch(NULL);
    MUST(cuda.cuStreamSynchronize(NULL) == CUDA_SUCCESS);
    print_result(stream);
    graph(stream);
    MUST(cuda.cuMemFree(x) == CUDA_SUCCESS && cuda.cuMemFree(y) == CUDA_SUCCESS);
    MUST(cuda.cuStreamDestroy(stream) == CUDA_SUCCESS);
    return 0;
}
