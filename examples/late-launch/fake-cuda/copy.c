/*
 * Copies and fills.
 *
 * Pinned and device memory is copied by the copy engine: the call only queues the work. Pageable
 * memory is staged by the calling thread (staging.c).
 */
#include "memory.h"
#include "staging.h"

#include <string.h>

enum direction { TO_DEVICE, TO_HOST, ON_DEVICE, BY_ADDRESS };

struct transfer {
    enum direction direction;
    void *to;
    const void *from;
    size_t bytes;
    bool synchronous;
    enum memory_kind to_kind, from_kind;
};

/* Finds out what is pinned. An address that must be the device's and is not, is an error. */
static CUresult classify(struct transfer *transfer) {
    lock_shared(&map_rwlock);
    transfer->to_kind = memory_find(transfer->to, transfer->bytes);
    transfer->from_kind = memory_find(transfer->from, transfer->bytes);
    unlock_rw(&map_rwlock);
    bool to_device = transfer->direction == TO_DEVICE || transfer->direction == ON_DEVICE;
    bool from_device = transfer->direction == TO_HOST || transfer->direction == ON_DEVICE;
    if ((to_device && transfer->to_kind == PAGEABLE) ||
        (from_device && transfer->from_kind == PAGEABLE))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static void queue_copy(struct stream *stream, const struct work *work, bool synchronous) {
    submit(stream, work);
    if (synchronous)
        stream_drain(stream);
}

/* What the stream holds may write the source or read the target, so it must end first. */
static void copy_pageable(struct stream *stream, const struct transfer *transfer) {
    if (transfer->from_kind != PAGEABLE) {
        stream_drain(stream);
        staged_to_host(stream, transfer->to, transfer->from, transfer->bytes);
    } else if (transfer->to_kind != PAGEABLE) {
        if (transfer->synchronous)
            stream_drain(stream);
        staged_to_device(stream, transfer->to, transfer->from, transfer->bytes);
        if (transfer->synchronous)
            stream_drain(stream);
    } else {
        stream_drain(stream);
        memmove(transfer->to, transfer->from, transfer->bytes);
        count_one(&count.copies_executed);
    }
}

static CUresult copy(struct transfer transfer, CUstream handle, enum null_stream null) {
    struct context *context;
    struct stream *stream;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, handle, null, &stream, &capturing);
    if (rc == CUDA_SUCCESS)
        rc = classify(&transfer);
    if (rc != CUDA_SUCCESS || transfer.bytes == 0)
        return rc;
    struct work work = {.kind = WORK_COPY};
    work.copy.to = transfer.to;
    work.copy.from = transfer.from;
    work.copy.bytes = transfer.bytes;
    work.copy.ends_copy = true;
    if (capturing)
        return transfer.synchronous ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                    : capture_work(stream, &work);
    bool on_device = transfer.to_kind == DEVICE && transfer.from_kind == DEVICE;
    if (transfer.to_kind == PAGEABLE || transfer.from_kind == PAGEABLE)
        copy_pageable(stream, &transfer);
    else
        queue_copy(stream, &work, transfer.synchronous && !on_device);
    track(context);
    count_one(&count.copies);
    return CUDA_SUCCESS;
}

static void *pointer(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

/* ---- Copies that wait ---------------------------------------------------------------------- */

#define COPY_TO_DEVICE(name, null)                                                                 \
    EXPORT CUresult name(CUdeviceptr to, const void *from, size_t bytes) {                         \
        return copy((struct transfer){TO_DEVICE, pointer(to), from, bytes, true, 0, 0}, NULL,      \
                    null);                                                                         \
    }
#define COPY_TO_HOST(name, null)                                                                   \
    EXPORT CUresult name(void *to, CUdeviceptr from, size_t bytes) {                               \
        return copy((struct transfer){TO_HOST, to, pointer(from), bytes, true, 0, 0}, NULL, null); \
    }
#define COPY_BY_NUMBER(name, direction, null)                                                      \
    EXPORT CUresult name(CUdeviceptr to, CUdeviceptr from, size_t bytes) {                         \
        return copy((struct transfer){direction, pointer(to), pointer(from), bytes, true, 0, 0},   \
                    NULL, null);                                                                   \
    }

COPY_TO_DEVICE(cuMemcpyHtoD_v2, LEGACY)
COPY_TO_DEVICE(cuMemcpyHtoD_v2_ptds, PER_THREAD)
COPY_TO_HOST(cuMemcpyDtoH_v2, LEGACY)
COPY_TO_HOST(cuMemcpyDtoH_v2_ptds, PER_THREAD)
COPY_BY_NUMBER(cuMemcpyDtoD_v2, ON_DEVICE, LEGACY)
COPY_BY_NUMBER(cuMemcpyDtoD_v2_ptds, ON_DEVICE, PER_THREAD)
COPY_BY_NUMBER(cuMemcpy, BY_ADDRESS, LEGACY)
COPY_BY_NUMBER(cuMemcpy_ptds, BY_ADDRESS, PER_THREAD)

/* ---- Copies in a stream -------------------------------------------------------------------- */

#define COPY_TO_DEVICE_ASYNC(name, null)                                                           \
    EXPORT CUresult name(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {        \
        return copy((struct transfer){TO_DEVICE, pointer(to), from, bytes, false, 0, 0}, stream,   \
                    null);                                                                         \
    }
#define COPY_TO_HOST_ASYNC(name, null)                                                             \
    EXPORT CUresult name(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {              \
        return copy((struct transfer){TO_HOST, to, pointer(from), bytes, false, 0, 0}, stream,     \
                    null);                                                                         \
    }
#define COPY_BY_NUMBER_ASYNC(name, direction, null)                                                \
    EXPORT CUresult name(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {        \
        return copy((struct transfer){direction, pointer(to), pointer(from), bytes, false, 0, 0},  \
                    stream, null);                                                                 \
    }

COPY_TO_DEVICE_ASYNC(cuMemcpyHtoDAsync_v2, LEGACY)
COPY_TO_DEVICE_ASYNC(cuMemcpyHtoDAsync_v2_ptsz, PER_THREAD)
COPY_TO_HOST_ASYNC(cuMemcpyDtoHAsync_v2, LEGACY)
COPY_TO_HOST_ASYNC(cuMemcpyDtoHAsync_v2_ptsz, PER_THREAD)
COPY_BY_NUMBER_ASYNC(cuMemcpyDtoDAsync_v2, ON_DEVICE, LEGACY)
COPY_BY_NUMBER_ASYNC(cuMemcpyDtoDAsync_v2_ptsz, ON_DEVICE, PER_THREAD)
COPY_BY_NUMBER_ASYNC(cuMemcpyAsync, BY_ADDRESS, LEGACY)
COPY_BY_NUMBER_ASYNC(cuMemcpyAsync_ptsz, BY_ADDRESS, PER_THREAD)

/* ---- Fills --------------------------------------------------------------------------------- */

static CUresult fill(CUdeviceptr to, uint32_t value, size_t elements, unsigned width_bytes,
                     CUstream handle, enum null_stream null) {
    struct context *context;
    struct stream *stream;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, handle, null, &stream, &capturing);
    if (rc != CUDA_SUCCESS || elements == 0)
        return rc;
    if (to % width_bytes != 0 || elements > SIZE_MAX / width_bytes ||
        memory_kind_of(pointer(to), elements * width_bytes) == PAGEABLE)
        return CUDA_ERROR_INVALID_VALUE;
    struct work work = {.kind = WORK_FILL};
    work.fill.to = pointer(to);
    work.fill.count = elements;
    work.fill.width_bytes = width_bytes;
    work.fill.value = value;
    if (capturing)
        return capture_work(stream, &work);
    submit(stream, &work);
    track(context);
    count_one(&count.memsets);
    return CUDA_SUCCESS;
}

#define FILL(name, type, width)                                                                    \
    EXPORT CUresult name##_v2(CUdeviceptr to, type value, size_t elements) {                       \
        return fill(to, value, elements, width, NULL, LEGACY);                                     \
    }                                                                                              \
    EXPORT CUresult name##_v2_ptds(CUdeviceptr to, type value, size_t elements) {                  \
        return fill(to, value, elements, width, NULL, PER_THREAD);                                 \
    }                                                                                              \
    EXPORT CUresult name##Async(CUdeviceptr to, type value, size_t elements, CUstream stream) {    \
        return fill(to, value, elements, width, stream, LEGACY);                                   \
    }                                                                                              \
    EXPORT CUresult name##Async_ptsz(CUdeviceptr to, type value, size_t elements,                  \
                                     CUstream stream) {                                            \
        return fill(to, value, elements, width, stream, PER_THREAD);                               \
    }

FILL(cuMemsetD8, unsigned char, 1)
FILL(cuMemsetD16, unsigned short, 2)
FILL(cuMemsetD32, unsigned, 4)
