/*
 * Starting the driver, and contexts.
 *
 * A kernel that goes wrong breaks the process, as with a real driver: every call that needs a
 * context returns the error, also those that wait, in all contexts; a reset changes nothing, and
 * there is no new context. A reset waits for what runs, a kernel that never ends included. If the
 * file that FAKE_CUDA_GONE names exists there is no GPU.
 *
 * A thread has a stack of contexts of its own; what is on top is current. Contexts are never given
 * back to malloc, because other threads may still have them on their stacks: their calls get
 * CUDA_ERROR_CONTEXT_IS_DESTROYED.
 */
#include "gpu.h"
#include "memory.h"
#include "module.h"
#include "staging.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAX_STACK = 16, DRIVER_VERSION = 13000 };

static atomic_bool initialised;
static atomic_bool forked;
static atomic_uint process_error; /* of the first kernel that went wrong */
static struct context *contexts; /* under contexts_rwlock */
static uint64_t context_ids;     /* likewise */

/* The primary context, under primary_mutex. */
static struct context *primary;
static unsigned primary_users;
static unsigned primary_flags;

static __thread struct context *stack[MAX_STACK];
static __thread unsigned depth;

static void in_forked_child(void) {
    atomic_store(&forked, true);
}

bool driver_ready(void) {
    return atomic_load(&initialised) && !atomic_load(&forked);
}

static struct context *current(void) {
    return depth == 0 ? NULL : stack[depth - 1];
}

CUresult enter_context(struct context *context, struct context **found) {
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    lock_shared(&contexts_rwlock);
    bool alive = atomic_load(&context->alive);
    unlock_rw(&contexts_rwlock);
    if (!alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    lock(&context->locks.mutexes[ERROR_STATE]);
    CUresult error = error_of(context);
    unlock(&context->locks.mutexes[ERROR_STATE]);
    *found = context;
    return error != CUDA_SUCCESS ? error : (CUresult)atomic_load(&process_error);
}

CUresult enter(struct context **context) {
    return enter_context(current(), context);
}

CUresult fail_context(struct context *context, CUresult error) {
    unsigned none = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&context->error, &none, (unsigned)error);
    none = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&process_error, &none, (unsigned)error);
    return error_of(context);
}

CUresult error_of(const struct context *context) {
    return (CUresult)atomic_load(&context->error);
}

void count_stale_handle(void) {
    count_one(&count.stale);
}

struct drained {
    const struct context *context;
    uint64_t ticket;
};

static bool has_drained(const void *what) {
    const struct drained *drained = what;
    return gpu_passed(drained->context, drained->ticket, false);
}

void context_drain(struct context *context) {
    struct drained drained = {context, gpu_latest_ticket()};
    waitpoint_wait(&context->ended, drained.ticket, has_drained, &drained);
}

static CUresult create_context(struct context **created, unsigned flags) {
    CUresult broken = (CUresult)atomic_load(&process_error);
    if (broken != CUDA_SUCCESS)
        return broken;
    struct context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool made = locks_init(&context->locks);
    waitpoint_init(&context->ended, &context->locks.mutexes[COMPLETION]);
    context->flags = flags;
    context->staging = made ? staging_new() : NULL;
    context->legacy = made ? gpu_add_stream(context, CU_STREAM_DEFAULT, LEAST_PRIORITY) : NULL;
    if (context->staging == NULL || context->legacy == NULL) {
        gpu_retire_streams_of(context);
        staging_free(context->staging);
        free(context);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    lock_exclusive(&contexts_rwlock);
    context->id = ++context_ids;
    context->next = contexts;
    contexts = context;
    atomic_store(&context->alive, true);
    unlock_rw(&contexts_rwlock);
    *created = context;
    return CUDA_SUCCESS;
}

static CUresult destroy_context(struct context *context) {
    lock_exclusive(&contexts_rwlock);
    bool was_alive = atomic_exchange(&context->alive, false);
    unlock_rw(&contexts_rwlock);
    if (!was_alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    atomic_store(&context->ending, true);
    context_drain(context);
    gpu_retire_streams_of(context);
    memory_release_all(context);
    modules_release_all(context);
    staging_free(context->staging);
    context->staging = NULL;
    return CUDA_SUCCESS;
}

/* ---- Start --------------------------------------------------------------------------------- */

EXPORT CUresult cuInit(unsigned flags) {
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    const char *gone = getenv("FAKE_CUDA_GONE");
    if (gone != NULL && access(gone, F_OK) == 0)
        return CUDA_ERROR_NO_DEVICE;
    CUresult rc = CUDA_SUCCESS;
    lock(&start_mutex);
    if (!atomic_load(&initialised)) {
        if (pthread_atfork(NULL, NULL, in_forked_child) == 0 && gpu_start())
            atomic_store(&initialised, true);
        else
            rc = CUDA_ERROR_OPERATING_SYSTEM;
    }
    unlock(&start_mutex);
    return rc;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

/* ---- The primary context ------------------------------------------------------------------- */

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult rc = CUDA_SUCCESS;
    lock(&primary_mutex);
    if (primary == NULL)
        rc = create_context(&primary, primary_flags);
    if (rc == CUDA_SUCCESS) {
        primary_users++;
        *context = (CUcontext)primary;
    }
    unlock(&primary_mutex);
    return rc;
}

static CUresult release_primary(CUdevice device) {
    struct context *ended = NULL;
    CUresult rc = CUDA_SUCCESS;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    lock(&primary_mutex);
    if (primary_users == 0) {
        rc = CUDA_ERROR_INVALID_CONTEXT;
    } else if (--primary_users == 0) {
        ended = primary;
        primary = NULL;
    }
    unlock(&primary_mutex);
    return ended != NULL ? destroy_context(ended) : rc;
}

/* Those who have retained it still have to release it, as with a real driver. */
static CUresult reset_primary(CUdevice device) {
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    lock(&primary_mutex);
    struct context *ended = primary;
    primary = NULL;
    unlock(&primary_mutex);
    return ended == NULL ? CUDA_SUCCESS : destroy_context(ended);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return release_primary(device);
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return release_primary(device);
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    return reset_primary(device);
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    return reset_primary(device);
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    lock(&primary_mutex);
    if (flags != NULL)
        *flags = primary_flags;
    if (active != NULL)
        *active = primary != NULL;
    unlock(&primary_mutex);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    lock(&primary_mutex);
    primary_flags = flags;
    unlock(&primary_mutex);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

/* ---- Contexts of the application ----------------------------------------------------------- */

static CUresult push(struct context *context) {
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == MAX_STACK)
        return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context) {
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context != NULL)
        *context = (CUcontext)stack[depth];
    return CUDA_SUCCESS;
}

static CUresult create_current(CUcontext *context, unsigned flags, CUdevice device) {
    struct context *created;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult rc = create_context(&created, flags);
    if (rc == CUDA_SUCCESS)
        rc = push(created);
    if (rc == CUDA_SUCCESS)
        *context = (CUcontext)created;
    return rc;
}

static CUresult destroy(CUcontext handle) {
    struct context *context;
    CUresult rc = enter_context((struct context *)handle, &context);
    if (rc == CUDA_ERROR_NOT_INITIALIZED || rc == CUDA_ERROR_INVALID_CONTEXT ||
        rc == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return rc;
    if (current() == context)
        depth--;
    return destroy_context(context);
}

EXPORT CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device) {
    return create_current(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    return create_current(context, flags, device);
}

/* The parameters of the third and fourth form ask for partitions, which the fake does not have. */
EXPORT CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count_of_affinity,
                               unsigned flags, CUdevice device) {
    if (affinity != NULL || count_of_affinity != 0)
        return fake_not_supported();
    return create_current(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *context, void *params, unsigned flags,
                               CUdevice device) {
    if (params != NULL)
        return fake_not_supported();
    return create_current(context, flags, device);
}

EXPORT CUresult cuCtxDestroy(CUcontext context) {
    return destroy(context);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
    return destroy(context);
}

EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
    return push((struct context *)context);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
    return push((struct context *)context);
}

EXPORT CUresult cuCtxPopCurrent(CUcontext *context) {
    return pop(context);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    return pop(context);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context == NULL) {
        if (depth > 0)
            depth--;
        return CUDA_SUCCESS;
    }
    if (depth == 0)
        return push((struct context *)context);
    stack[depth - 1] = (struct context *)context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *context = (CUcontext)current();
    return CUDA_SUCCESS;
}

static CUresult synchronize(struct context *wanted) {
    struct context *context;
    CUresult rc = enter_context(wanted, &context);
    if (rc != CUDA_SUCCESS)
        return rc;
    context_drain(context);
    return error_of(context);
}

EXPORT CUresult cuCtxSynchronize(void) {
    return synchronize(current());
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext context) {
    return synchronize(context != NULL ? (struct context *)context : current());
}

static CUresult device_of(CUdevice *device, struct context *wanted) {
    struct context *context;
    CUresult rc = enter_context(wanted, &context);
    if (rc == CUDA_SUCCESS && device == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *device = 0;
    return rc;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
    return device_of(device, current());
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
    return device_of(device, context != NULL ? (struct context *)context : current());
}

EXPORT CUresult cuCtxGetId(CUcontext wanted, unsigned long long *id) {
    struct context *context;
    CUresult rc = enter_context(wanted != NULL ? (struct context *)wanted : current(), &context);
    if (rc == CUDA_SUCCESS && id == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *id = context->id;
    return rc;
}

EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
    struct context *context;
    CUresult rc = enter(&context);
    if (rc == CUDA_SUCCESS && flags == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *flags = context->flags;
    return rc;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    struct context *context;
    CUresult rc = enter(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (least != NULL)
        *least = LEAST_PRIORITY;
    if (greatest != NULL)
        *greatest = GREATEST_PRIORITY;
    return CUDA_SUCCESS;
}
