/* What the service needs of the CUDA driver, declared by hand and looked up at run time. */
#ifndef DRIVER_H
#define DRIVER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
enum { CUDA_SUCCESS = 0 };

struct driver {
    CUresult (*module_load_data)(CUmodule *, const void *);
    CUresult (*module_unload)(CUmodule);
    CUresult (*module_get_function)(CUfunction *, CUmodule, const char *);
    CUresult (*mem_alloc)(CUdeviceptr *, size_t);
    CUresult (*mem_free)(CUdeviceptr);
    CUresult (*memcpy_to_device)(CUdeviceptr, const void *, size_t);
    CUresult (*launch_kernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, unsigned, CUstream, void **, void **);
};

static inline bool driver_look_up(void *library, const char *name, void *function) {
    /* POSIX has a function's address fit into an object's. */
    return (*(void **)function = dlsym(library, name)) != NULL;
}

/* Finds the driver that the process has loaded already. */
static inline bool driver_find(struct driver *driver) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return library != NULL &&
           driver_look_up(library, "cuModuleLoadData", &driver->module_load_data) &&
           driver_look_up(library, "cuModuleUnload", &driver->module_unload) &&
           driver_look_up(library, "cuModuleGetFunction", &driver->module_get_function) &&
           driver_look_up(library, "cuMemAlloc_v2", &driver->mem_alloc) &&
           driver_look_up(library, "cuMemFree_v2", &driver->mem_free) &&
           driver_look_up(library, "cuMemcpyHtoD_v2", &driver->memcpy_to_device) &&
           driver_look_up(library, "cuLaunchKernel", &driver->launch_kernel);
}

#endif
