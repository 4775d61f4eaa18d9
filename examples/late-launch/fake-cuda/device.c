/* The one device: its name, its attributes, and the names of the errors. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

static CUresult for_device(CUdevice device, const void *result) {
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (result == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetCount(int *devices) {
    CUresult rc = for_device(0, devices);
    if (rc == CUDA_SUCCESS)
        *devices = 1;
    return rc;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CUresult rc = for_device(ordinal, device);
    if (rc == CUDA_SUCCESS)
        *device = 0;
    return rc;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    CUresult rc = for_device(device, name);
    if (rc == CUDA_SUCCESS && length <= 0)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        snprintf(name, (size_t)length, "Fake GPU (threads of this process)");
    return rc;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice device) {
    CUresult rc = for_device(device, uuid);
    if (rc == CUDA_SUCCESS)
        memcpy(uuid->bytes, "keeptime-fake-0", sizeof uuid->bytes);
    return rc;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    return device_uuid(uuid, device);
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    return device_uuid(uuid, device);
}

/* Numbers of CUdevice_attribute. One multiprocessor: the compute engine runs block after block. */
static const struct {
    int number, value;
} attributes[] = {
    {1, 1024},       /* threads per block */
    {2, 1024},       /* block x */
    {3, 1024},       /* block y */
    {4, 64},         /* block z */
    {5, 2147483647}, /* grid x */
    {6, 65535},      /* grid y */
    {7, 65535},      /* grid z */
    {10, 32},        /* warp size */
    {15, 1},         /* copies overlap kernels */
    {16, 1},         /* multiprocessors */
    {31, 1},         /* kernels of several streams */
    {39, 1024},      /* threads per multiprocessor */
    {40, 1},         /* copy engines */
    {41, 1},         /* unified addressing */
    {75, 9},         /* compute capability */
    {76, 0},
    {78, 1},  /* stream priorities */
    {83, 1},  /* managed memory */
    {95, 1},  /* cooperative launch */
    {99, 1},  /* host memory can be registered */
    {115, 1}, /* stream-ordered allocation */
};

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    CUresult rc = for_device(device, value);
    if (rc != CUDA_SUCCESS)
        return rc;
    *value = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].number == attribute)
            *value = attributes[i].value;
    return attribute > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "not initialized"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "no such device"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "no context is current"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the image is not PTX text"},
    {CUDA_ERROR_UNSUPPORTED_LIMIT, "CUDA_ERROR_UNSUPPORTED_LIMIT", "no such limit"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "PTX without an entry"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "the system refused a call"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "not allowed in this state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "no such name"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "a kernel's pointer is not device memory"},
    {CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
     "the primary context is active"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "the memory overlaps memory that is already known"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "the memory is not registered"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "the fake driver does not do this"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "not allowed while the stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "an earlier error has ended the capture"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "the wait would merge two captures"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "the capture was not begun in this stream"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "captured work was not joined to the stream"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "captured work cannot wait for work outside the capture"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "the default stream would depend on a capturing stream"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "the event was captured"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "the capture was begun by another thread"},
};

static CUresult describe(CUresult error, const char **answer, bool name) {
    if (answer == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].error == error) {
            *answer = name ? errors[i].name : errors[i].text;
            return CUDA_SUCCESS;
        }
    }
    *answer = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
    return describe(error, name, true);
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    return describe(error, text, false);
}
