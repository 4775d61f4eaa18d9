/*
 * What the checks share: named tests, expectations that say where they failed, a device that is
 * ready, and the driver functions that only the checks call.
 */
#ifndef CHECK_H
#define CHECK_H

#include "driver_api.h"
#include "kernels_ptx.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tests --------------------------------------------------------------------------------- */

struct test {
    const char *name;
    void (*run)(void);
};

static bool test_failed;

/* Ends the test if the condition does not hold. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);               \
            test_failed = true;                                                                    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#define RETURNS(rc, call) EXPECT((call) == (rc))
#define SUCCEEDS(call) RETURNS(CUDA_SUCCESS, call)

static inline int run_tests(const struct test *tests, size_t count) {
    int failures = 0;
    for (size_t i = 0; i < count; i++) {
        test_failed = false;
        tests[i].run();
        printf("%s %s\n", test_failed ? "FAILED" : "ok    ", tests[i].name);
        fflush(stdout);
        failures += test_failed;
    }
    printf("%zu passed, %d failed\n", count - (size_t)failures, failures);
    return failures == 0 ? 0 : 1;
}

#define RUN_TESTS(tests) run_tests(tests, sizeof(tests) / sizeof *(tests))
#define TEST(name) {#name, name}

/* ---- More of the driver interface ---------------------------------------------------------- */

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int cudaVersion,
                                  cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus);
CUresult cuGetExportTable(const void **table, const CUuuid *id);
CUresult cuDeviceGetCount(int *count);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext *context);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count);
CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *address);
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUresult cuMemcpy3D_v2(const void *description);
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, void *jit, void **jit_values,
                           unsigned jit_count, void *options, void **values, unsigned count);
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel);
CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                             unsigned blockX, unsigned blockY, unsigned blockZ,
                             unsigned sharedBytes, CUstream stream, void **params, void **extra);
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gridX, unsigned gridY,
                                   unsigned gridZ, unsigned blockX, unsigned blockY,
                                   unsigned blockZ, unsigned sharedBytes, CUstream stream,
                                   void **params);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument);
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamSynchronize_ptsz(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status);
CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *follows,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);

/* ---- A device that is ready ---------------------------------------------------------------- */

static CUcontext context;
static CUmodule module;
static CUfunction saxpy, vecadd, spin;

static inline void must(const char *call, CUresult rc) {
    if (rc != CUDA_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", call, (int)rc);
        exit(2);
    }
}

#define MUST(call) must(#call, call)

static inline void open_device(void) {
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, KERNELS_PTX));
    MUST(cuModuleGetFunction(&saxpy, module, "saxpy"));
    MUST(cuModuleGetFunction(&vecadd, module, "vecadd"));
    MUST(cuModuleGetFunction(&spin, module, "spin"));
}

static inline CUdeviceptr device_floats(unsigned count, float value) {
    CUdeviceptr address;
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    MUST(cuMemAlloc_v2(&address, count * sizeof(float)));
    MUST(cuMemsetD32_v2(address, bits, count));
    MUST(cuStreamSynchronize(CU_STREAM_LEGACY));
    return address;
}

/* inout[i] += factor * in[i] */
static inline CUresult launch_saxpy(CUstream stream, unsigned count, float factor, CUdeviceptr in,
                                    CUdeviceptr inout) {
    void *params[] = {&count, &factor, &in, &inout};
    return cuLaunchKernel(saxpy, (count + 255) / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL);
}

static inline CUresult launch_spin(CUstream stream, uint64_t duration_ns) {
    void *params[] = {&duration_ns};
    return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static inline bool device_holds(CUdeviceptr address, unsigned count, float expected) {
    float *values = malloc(count * sizeof *values);
    bool all = values != NULL && cuMemcpyDtoH_v2(values, address, count * sizeof *values) == 0;
    for (unsigned i = 0; all && i < count; i++) {
        all = values[i] == expected;
        if (!all)
            fprintf(stderr, "element %u is %g, expected %g\n", i, values[i], expected);
    }
    free(values);
    return all;
}

#endif
