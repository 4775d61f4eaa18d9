/* What the direct way needs of the CUDA driver, declared by hand and looked up at run time. */
#ifndef DRIVER_H
#define DRIVER_H

#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphExec = struct CUgraphExec_st *;

enum : CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_NOT_READY = 600 };
enum : unsigned { CU_STREAM_NON_BLOCKING = 1 };
enum : unsigned { CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2 };
enum : unsigned { CU_GRAPH_USE_NODE_PRIORITY = 8 };
enum : int { CU_CAPTURE_THREAD_LOCAL = 1 };

/* A function of a library. Throws if there is none of that name. */
template <typename Function>
void look_up(void *library, const char *name, Function *&function) {
    function = reinterpret_cast<Function *>(dlsym(library, name));
    if (function == nullptr)
        throw std::runtime_error(dlerror());
}

/* A shared library for the rest of the process. Throws if it cannot be loaded. */
inline void *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (library == nullptr)
        throw std::runtime_error(dlerror());
    return library;
}

struct Driver {
    CUresult (*init)(unsigned);
    CUresult (*device_get)(CUdevice *, int);
    CUresult (*primary_ctx_retain)(CUcontext *, CUdevice);
    CUresult (*ctx_set_current)(CUcontext);
    CUresult (*stream_create)(CUstream *, unsigned, int);
    CUresult (*mem_alloc)(CUdeviceptr *, std::size_t);
    CUresult (*mem_alloc_host)(void **, std::size_t);
    CUresult (*copy_to_device)(CUdeviceptr, const void *, std::size_t, CUstream);
    CUresult (*copy_to_host)(void *, CUdeviceptr, std::size_t, CUstream);
    CUresult (*begin_capture)(CUstream, int);
    CUresult (*end_capture)(CUstream, CUgraph *);
    CUresult (*graph_instantiate)(CUgraphExec *, CUgraph, unsigned long long);
    CUresult (*graph_upload)(CUgraphExec, CUstream);
    CUresult (*graph_launch)(CUgraphExec, CUstream);
    CUresult (*graph_exec_destroy)(CUgraphExec);
    CUresult (*event_create)(CUevent *, unsigned);
    CUresult (*event_record)(CUevent, CUstream);
    CUresult (*event_query)(CUevent);
    CUresult (*event_synchronize)(CUevent);

    Driver() {
        void *library = load("libcuda.so.1");
        look_up(library, "cuInit", init);
        look_up(library, "cuDeviceGet", device_get);
        look_up(library, "cuDevicePrimaryCtxRetain", primary_ctx_retain);
        look_up(library, "cuCtxSetCurrent", ctx_set_current);
        look_up(library, "cuStreamCreateWithPriority", stream_create);
        look_up(library, "cuMemAlloc_v2", mem_alloc);
        look_up(library, "cuMemAllocHost_v2", mem_alloc_host);
        look_up(library, "cuMemcpyHtoDAsync_v2", copy_to_device);
        look_up(library, "cuMemcpyDtoHAsync_v2", copy_to_host);
        look_up(library, "cuStreamBeginCapture_v2", begin_capture);
        look_up(library, "cuStreamEndCapture", end_capture);
        look_up(library, "cuGraphInstantiateWithFlags", graph_instantiate);
        look_up(library, "cuGraphUpload", graph_upload);
        look_up(library, "cuGraphLaunch", graph_launch);
        look_up(library, "cuGraphExecDestroy", graph_exec_destroy);
        look_up(library, "cuEventCreate", event_create);
        look_up(library, "cuEventRecord", event_record);
        look_up(library, "cuEventQuery", event_query);
        look_up(library, "cuEventSynchronize", event_synchronize);
    }
};

/* Throws if the driver refused. */
inline void expect(CUresult result, const char *what) {
    if (result != CUDA_SUCCESS)
        throw std::runtime_error(std::string(what) + ": the driver says " +
                                 std::to_string(result));
}

#endif
