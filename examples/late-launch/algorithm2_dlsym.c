/*
 * The driver's functions for a program that is not linked with the driver, found at run time in the
 * way libcudart finds them: dlopen the driver, take cuGetProcAddress_v2 from it with dlsym, and ask
 * that for everything else by base name and version. A recorder that only defines the symbols of
 * the driver sees nothing of such a program.
 */
#include "driver_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { CUDA_VERSION = 12000 };

typedef CUresult (*get_proc_address)(const char *symbol, void **address, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult *status);

static get_proc_address find;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (driver != NULL)
        find = (get_proc_address)dlsym(driver, "cuGetProcAddress_v2");
    if (find == NULL) {
        fprintf(stderr, "algorithm2_dlsym: %s\n", dlerror());
        exit(1);
    }
}

static void *driver_function(const char *base) {
    void *address = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    pthread_once(&once, open_driver);
    CUresult rc = find(base, &address, CUDA_VERSION, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
    if (rc != CUDA_SUCCESS || address == NULL) {
        fprintf(stderr, "algorithm2_dlsym: cuGetProcAddress(\"%s\", %d): error %d, status %d\n",
                base, CUDA_VERSION, (int)rc, (int)status);
        exit(1);
    }
    return address;
}

/* Each function finds its counterpart at its first call. Two threads may both look: same answer. */
#define FORWARD(symbol, base, params, args)                                                        \
    CUresult symbol params {                                                                       \
        static void *cached;                                                                       \
        void *found = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);                                  \
        if (found == NULL) {                                                                       \
            found = driver_function(base);                                                         \
            __atomic_store_n(&cached, found, __ATOMIC_RELEASE);                                    \
        }                                                                                          \
        return ((CUresult(*) params)found)args;                                                    \
    }

FORWARD(cuInit, "cuInit", (unsigned flags), (flags))
FORWARD(cuGetErrorName, "cuGetErrorName", (CUresult error, const char **name), (error, name))
FORWARD(cuDeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal), (device, ordinal))
FORWARD(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",
        (CUcontext * context, CUdevice device), (context, device))
FORWARD(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context), (context))
FORWARD(cuModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void *image),
        (module, image))
FORWARD(cuModuleGetFunction, "cuModuleGetFunction",
        (CUfunction * function, CUmodule module, const char *name), (function, module, name))
FORWARD(cuLaunchKernel, "cuLaunchKernel",
        (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
         unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params,
         void **extra),
        (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
         extra))
FORWARD(cuMemAlloc_v2, "cuMemAlloc", (CUdeviceptr * address, size_t bytes), (address, bytes))
FORWARD(cuMemFree_v2, "cuMemFree", (CUdeviceptr address), (address))
FORWARD(cuMemAllocHost_v2, "cuMemAllocHost", (void **address, size_t bytes), (address, bytes))
FORWARD(cuMemFreeHost, "cuMemFreeHost", (void *address), (address))
FORWARD(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync",
        (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
        (to, from, bytes, stream))
FORWARD(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync",
        (void *to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream))
FORWARD(cuMemsetD32Async, "cuMemsetD32Async",
        (CUdeviceptr to, unsigned value, size_t count, CUstream stream),
        (to, value, count, stream))
FORWARD(cuStreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags), (stream, flags))
FORWARD(cuStreamDestroy_v2, "cuStreamDestroy", (CUstream stream), (stream))
FORWARD(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream), (stream))
