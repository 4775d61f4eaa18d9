/*
 * The kernels that the fake GPU can run, in C.
 *
 * The compute engine calls a kernel once for each row of threads of each block. A kernel also says
 * what memory a launch touches, so that a wrong pointer is an error of the launch and not a crash
 * of the engine.
 */
#include "gpu.h"

#include <string.h>

/* Parameters lie at the offsets that PTX gives them: each at a multiple of its size. */
struct saxpy_params {
    uint32_t count;
    float factor;
    const float *in;
    float *inout;
};

static void saxpy_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct saxpy_params p;
    memcpy(&p, params, sizeof p);
    uint64_t end = first + threads < p.count ? first + threads : p.count;
    for (uint64_t i = first; i < end; i++)
        p.inout[i] = p.factor * p.in[i] + p.inout[i];
}

static unsigned saxpy_touches(const unsigned char *params, uint64_t threads,
                              struct touched *touched) {
    struct saxpy_params p;
    memcpy(&p, params, sizeof p);
    size_t bytes = (threads < p.count ? threads : p.count) * sizeof(float);
    touched[0] = (struct touched){(CUdeviceptr)(uintptr_t)p.in, bytes};
    touched[1] = (struct touched){(CUdeviceptr)(uintptr_t)p.inout, bytes};
    return 2;
}

struct vecadd_params {
    uint32_t count;
    const float *left, *right;
    float *sum;
};

static void vecadd_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct vecadd_params p;
    memcpy(&p, params, sizeof p);
    uint64_t end = first + threads < p.count ? first + threads : p.count;
    for (uint64_t i = first; i < end; i++)
        p.sum[i] = p.left[i] + p.right[i];
}

static unsigned vecadd_touches(const unsigned char *params, uint64_t threads,
                               struct touched *touched) {
    struct vecadd_params p;
    memcpy(&p, params, sizeof p);
    size_t bytes = (threads < p.count ? threads : p.count) * sizeof(float);
    touched[0] = (struct touched){(CUdeviceptr)(uintptr_t)p.left, bytes};
    touched[1] = (struct touched){(CUdeviceptr)(uintptr_t)p.right, bytes};
    touched[2] = (struct touched){(CUdeviceptr)(uintptr_t)p.sum, bytes};
    return 3;
}

static void spin_row(const unsigned char *params, uint64_t first, unsigned threads) {
    (void)first;
    (void)threads;
    uint64_t duration_ns;
    memcpy(&duration_ns, params, sizeof duration_ns);
    uint64_t start_ns = now_ns();
    while (now_ns() - start_ns < duration_ns) {
    }
}

static unsigned touches_nothing(const unsigned char *params, uint64_t threads,
                                struct touched *touched) {
    (void)params;
    (void)threads;
    (void)touched;
    return 0;
}

static void noop_row(const unsigned char *params, uint64_t first, unsigned threads) {
    (void)params;
    (void)first;
    (void)threads;
}

static const struct kernel kernels[] = {
    {"saxpy", 4, {{0, 4}, {4, 4}, {8, 8}, {16, 8}}, saxpy_row, saxpy_touches, NULL},
    {"vecadd", 4, {{0, 4}, {8, 8}, {16, 8}, {24, 8}}, vecadd_row, vecadd_touches, NULL},
    {"spin", 1, {{0, 8}}, spin_row, touches_nothing, NULL},
    {"noop", 0, {{0, 0}}, noop_row, touches_nothing, NULL},
    {NULL, 0, {{0, 0}}, NULL, NULL, NULL},
};

_Static_assert(sizeof(struct saxpy_params) == 24 && sizeof(struct vecadd_params) == 32,
               "the C structures lie as PTX lays parameters out");
_Static_assert(sizeof(struct vecadd_params) <= KERNEL_PARAM_BYTES, "the parameters fit");

static const struct kernel *named(const struct kernel *kernel, const char *name) {
    while (kernel->name != NULL && strcmp(kernel->name, name) != 0)
        kernel++;
    return kernel->name != NULL ? kernel : NULL;
}

const struct kernel *kernel_named(const char *name) {
    const struct kernel *found = named(kernels, name);
    if (found == NULL)
        found = named(device_kernels, name);
    if (found == NULL)
        found = named(submission_kernels, name);
    return found != NULL ? found : named(user_kernels, name);
}

const char *kernel_names(void) {
    return "saxpy, vecadd, spin, noop, those of Keeptime's CUDA device, of its tests and of its "
           "study of submissions, and that of examples/gpu-service";
}
