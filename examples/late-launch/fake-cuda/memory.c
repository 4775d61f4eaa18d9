/*
 * Device memory, pinned memory, and the map of both.
 *
 * Device memory is memory of the process: the engines are threads. The map is a sorted array of
 * address ranges under one read-write lock. Copies ask it whether a host address is pinned,
 * launches and copies whether a device address is one.
 */
#include "memory.h"
#include "gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096 };

/* Of the GPU: 4 GiB, or what FAKE_CUDA_MEMORY says. */
static size_t device_bytes(void) {
    const char *text = getenv("FAKE_CUDA_MEMORY");
    size_t bytes = text != NULL ? strtoull(text, NULL, 10) : 0;
    return bytes != 0 ? bytes : (size_t)4 << 30;
}

struct range {
    uintptr_t start;
    size_t bytes; /* as asked for; the pages behind it may be more */
    enum memory_kind kind;
    struct context *context;
};

/* All under map_rwlock. */
static struct range *map;
static size_t map_length, map_capacity;
static size_t device_bytes_used;

void *memory_pages(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static size_t whole_pages(size_t bytes) {
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

void memory_unmap(void *base, size_t bytes) {
    munmap(base, whole_pages(bytes));
}

/* The first range that starts behind the address. */
static size_t position_after(uintptr_t address) {
    size_t low = 0, high = map_length;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (map[middle].start > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static struct range *range_of(uintptr_t address) {
    size_t position = position_after(address);
    if (position == 0)
        return NULL;
    struct range *range = &map[position - 1];
    return address - range->start < range->bytes ? range : NULL;
}

enum memory_kind memory_find(const void *address, size_t bytes) {
    const struct range *range = range_of((uintptr_t)address);
    if (range == NULL || bytes > range->bytes - ((uintptr_t)address - range->start))
        return PAGEABLE;
    return range->kind;
}

enum memory_kind memory_kind_of(const void *address, size_t bytes) {
    lock_shared(&map_rwlock);
    enum memory_kind kind = memory_find(address, bytes);
    unlock_rw(&map_rwlock);
    return kind;
}

static bool make_room(void) {
    if (map_length < map_capacity)
        return true;
    size_t capacity = map_capacity == 0 ? 64 : 2 * map_capacity;
    struct range *larger = realloc(map, capacity * sizeof *larger);
    if (larger == NULL)
        return false;
    map = larger;
    map_capacity = capacity;
    return true;
}

static CUresult enter_range(struct range range) {
    if (range.kind == DEVICE && range.bytes > device_bytes() - device_bytes_used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t position = position_after(range.start);
    bool overlaps = range_of(range.start) != NULL ||
                    (position < map_length && map[position].start - range.start < range.bytes);
    if (overlaps)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (!make_room())
        return CUDA_ERROR_OUT_OF_MEMORY;
    memmove(&map[position + 1], &map[position], (map_length - position) * sizeof *map);
    map[position] = range;
    map_length++;
    if (range.kind == DEVICE)
        device_bytes_used += range.bytes;
    return CUDA_SUCCESS;
}

static void leave_range(struct range *range) {
    if (range->kind == DEVICE)
        device_bytes_used -= range->bytes;
    size_t position = (size_t)(range - map);
    memmove(range, range + 1, (map_length - position - 1) * sizeof *map);
    map_length--;
}

static CUresult allocate(struct context *context, void **address, size_t bytes,
                         enum memory_kind kind) {
    if (address == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (kind == DEVICE && bytes > device_bytes())
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *pages = memory_pages(whole_pages(bytes));
    if (pages == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    lock_exclusive(&map_rwlock);
    CUresult rc = enter_range((struct range){(uintptr_t)pages, bytes, kind, context});
    unlock_rw(&map_rwlock);
    if (rc != CUDA_SUCCESS) {
        memory_unmap(pages, bytes);
        return rc;
    }
    if (kind == DEVICE)
        count_one(&count.allocated);
    *address = pages;
    return CUDA_SUCCESS;
}

/* Finds the range that starts at the address, and the context whose work may still use it. */
static CUresult find_start(const void *address, enum memory_kind kind, struct range *found) {
    lock_shared(&map_rwlock);
    struct range *range = range_of((uintptr_t)address);
    bool right = range != NULL && range->start == (uintptr_t)address && range->kind == kind;
    if (right)
        *found = *range;
    unlock_rw(&map_rwlock);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Takes the range out of the map. Exactly one of several callers at once gets it. */
static CUresult take_start(const void *address, enum memory_kind kind, struct range *taken) {
    lock_exclusive(&map_rwlock);
    struct range *range = range_of((uintptr_t)address);
    bool right = range != NULL && range->start == (uintptr_t)address && range->kind == kind;
    if (right) {
        *taken = *range;
        leave_range(range);
        if (kind == DEVICE)
            count_one(&count.freed);
    }
    unlock_rw(&map_rwlock);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Freeing waits for the context's work, as it does on a real driver. */
static CUresult release(const void *address, enum memory_kind kind, bool unmap) {
    struct range range;
    CUresult rc = find_start(address, kind, &range);
    if (rc != CUDA_SUCCESS)
        return rc;
    context_drain(range.context);
    rc = take_start(address, kind, &range);
    if (rc == CUDA_SUCCESS && unmap)
        memory_unmap((void *)range.start, range.bytes);
    return rc;
}

/* For a context that ends. Its work has ended before. */
void memory_release_all(const struct context *context) {
    lock_exclusive(&map_rwlock);
    for (size_t i = map_length; i-- > 0;) {
        struct range range = map[i];
        if (range.context != context)
            continue;
        leave_range(&map[i]);
        if (range.kind != REGISTERED)
            memory_unmap((void *)range.start, range.bytes);
    }
    unlock_rw(&map_rwlock);
}

/* ---- Entry points -------------------------------------------------------------------------- */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    struct context *context;
    CUresult rc = enter(&context);
    void *pages;
    if (rc == CUDA_SUCCESS && address == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = allocate(context, &pages, bytes, DEVICE);
    if (rc == CUDA_SUCCESS)
        *address = (CUdeviceptr)(uintptr_t)pages;
    return rc;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
    (void)flags;
    return cuMemAlloc_v2(address, bytes);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
    struct context *context;
    CUresult rc = enter(&context);
    if (rc != CUDA_SUCCESS || address == 0)
        return rc;
    return release((void *)(uintptr_t)address, DEVICE, true);
}

EXPORT CUresult cuMemAllocHost_v2(void **address, size_t bytes) {
    struct context *context;
    CUresult rc = enter(&context);
    return rc == CUDA_SUCCESS ? allocate(context, address, bytes, PINNED) : rc;
}

EXPORT CUresult cuMemAllocHost(void **address, unsigned bytes) {
    return cuMemAllocHost_v2(address, bytes);
}

EXPORT CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    return cuMemAllocHost_v2(address, bytes);
}

EXPORT CUresult cuMemFreeHost(void *address) {
    struct context *context;
    CUresult rc = enter(&context);
    return rc == CUDA_SUCCESS ? release(address, PINNED, true) : rc;
}

EXPORT CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
    struct context *context;
    CUresult rc = enter(&context);
    (void)flags;
    if (rc != CUDA_SUCCESS)
        return rc;
    if (address == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    lock_exclusive(&map_rwlock);
    rc = enter_range((struct range){(uintptr_t)address, bytes, REGISTERED, context});
    unlock_rw(&map_rwlock);
    return rc;
}

EXPORT CUresult cuMemHostRegister(void *address, size_t bytes, unsigned flags) {
    return cuMemHostRegister_v2(address, bytes, flags);
}

EXPORT CUresult cuMemHostUnregister(void *address) {
    struct context *context;
    CUresult rc = enter(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = release(address, REGISTERED, false);
    return rc == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : rc;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
    (void)flags;
    enum memory_kind kind = memory_kind_of(host, 1);
    if (device == NULL || (kind != PINNED && kind != REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdeviceptr)(uintptr_t)host;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    struct context *context;
    CUresult rc = enter(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    lock_shared(&map_rwlock);
    size_t used = device_bytes_used;
    unlock_rw(&map_rwlock);
    if (free_bytes != NULL)
        *free_bytes = device_bytes() - used;
    if (total_bytes != NULL)
        *total_bytes = device_bytes();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    lock_shared(&map_rwlock);
    const struct range *range = range_of((uintptr_t)address);
    if (range != NULL && base != NULL)
        *base = range->start;
    if (range != NULL && bytes != NULL)
        *bytes = range->bytes;
    unlock_rw(&map_rwlock);
    return range != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    if (bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = device_bytes();
    return CUDA_SUCCESS;
}

/* ---- Stream-ordered allocation ------------------------------------------------------------- */

static CUresult allocate_ordered(CUdeviceptr *address, size_t bytes, CUstream handle,
                                 enum null_stream null) {
    struct context *context;
    struct stream *stream;
    bool capturing;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, handle, null, &stream, &capturing);
    if (rc == CUDA_SUCCESS && capturing)
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (rc == CUDA_SUCCESS && address == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS)
        return rc;
    void *pages;
    lock(&context->locks.mutexes[POOL]);
    rc = allocate(context, &pages, bytes, DEVICE);
    unlock(&context->locks.mutexes[POOL]);
    if (rc == CUDA_SUCCESS)
        *address = (CUdeviceptr)(uintptr_t)pages;
    return rc;
}

/* The address is void for later calls at once; the memory goes when the stream gets there. */
static CUresult free_ordered(CUdeviceptr address, CUstream handle, enum null_stream null) {
    struct context *context;
    struct stream *stream;
    bool capturing;
    struct range range;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS)
        rc = use_stream(context, handle, null, &stream, &capturing);
    if (rc == CUDA_SUCCESS && capturing)
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (rc != CUDA_SUCCESS)
        return rc;
    lock(&context->locks.mutexes[POOL]);
    rc = take_start((void *)(uintptr_t)address, DEVICE, &range);
    unlock(&context->locks.mutexes[POOL]);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct work work = {.kind = WORK_RELEASE};
    work.release.base = (void *)range.start;
    work.release.bytes = range.bytes;
    submit(stream, &work);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    return allocate_ordered(address, bytes, stream, LEGACY);
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, CUstream stream) {
    return allocate_ordered(address, bytes, stream, PER_THREAD);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    return free_ordered(address, stream, LEGACY);
}

EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
    return free_ordered(address, stream, PER_THREAD);
}
