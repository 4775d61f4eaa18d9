/*
 * Kernels that users of Keeptime's CUDA device bring along: those of its tests
 * (crates/serve/device-cuda/tests/faults.cu), of which two go wrong, and that of examples/gpu-service.
 */
#include "gpu.h"

#include <string.h>

/* ---- Of the tests: the parameters are those of any service --------------------------------- */

static unsigned touches_nothing(const unsigned char *params, uint64_t threads,
                                struct touched *touched) {
    (void)params, (void)threads, (void)touched;
    return 0;
}

/* It writes where there is no memory. */
static void illegal(const unsigned char *params, const unsigned grid[3]) {
    (void)params, (void)grid;
    gpu_break_context(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void endless(const unsigned char *params, const unsigned grid[3]) {
    (void)params, (void)grid;
    gpu_wait_for_end();
}

struct service_params {
    const float *in;
    float *out;
    uint64_t *work;
    uint64_t count, factor, c, d;
    uint32_t first; /* number of the first block of this slice */
};

static struct service_params service_params(const unsigned char *params) {
    struct service_params p;
    memset(&p, 0, sizeof p);
    memcpy(&p, params, 60);
    return p;
}

static void scale_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct service_params p = service_params(params);
    uint64_t begin = (uint64_t)p.first * threads + first;
    for (uint64_t i = begin; i < begin + threads && i < p.count; i++)
        p.out[i] = (float)p.factor * p.in[i];
}

static unsigned scale_touches(const unsigned char *params, uint64_t threads,
                              struct touched *touched) {
    (void)threads;
    struct service_params p = service_params(params);
    touched[0] = (struct touched){(CUdeviceptr)(uintptr_t)p.in, 4 * p.count};
    touched[1] = (struct touched){(CUdeviceptr)(uintptr_t)p.out, 4 * p.count};
    return 2;
}

/* ---- A layer of a network: each row of weights has its bias at its end ---------------------- */

struct layer_params {
    const float *in, *weights;
    float *out;
    uint32_t inputs, outputs, batch, rectified;
};

static struct layer_params layer_params(const unsigned char *params) {
    struct layer_params p;
    memcpy(&p, params, sizeof p);
    return p;
}

static void layer_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct layer_params p = layer_params(params);
    uint64_t all = (uint64_t)p.outputs * p.batch;
    for (uint64_t i = first; i < first + threads && i < all; i++) {
        const float *in = p.in + i / p.outputs * p.inputs;
        const float *weights = p.weights + i % p.outputs * (p.inputs + 1);
        float sum = weights[p.inputs];
        for (uint32_t k = 0; k < p.inputs; k++)
            sum += weights[k] * in[k];
        p.out[i] = p.rectified != 0 && sum < 0 ? 0 : sum;
    }
}

static unsigned layer_touches(const unsigned char *params, uint64_t threads,
                              struct touched *touched) {
    (void)threads;
    struct layer_params p = layer_params(params);
    size_t weights = 4 * (size_t)p.outputs * (p.inputs + 1);
    touched[0] = (struct touched){(CUdeviceptr)(uintptr_t)p.in, 4 * (size_t)p.inputs * p.batch};
    touched[1] = (struct touched){(CUdeviceptr)(uintptr_t)p.weights, weights};
    touched[2] = (struct touched){(CUdeviceptr)(uintptr_t)p.out, 4 * (size_t)p.outputs * p.batch};
    return 3;
}

_Static_assert(sizeof(struct layer_params) == 40, "it lies as PTX lays parameters out");

#define SERVICE {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 4}}
#define LAYER {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {28, 4}, {32, 4}, {36, 4}}

const struct kernel user_kernels[] = {
    {"kt_test_illegal", 8, SERVICE, NULL, touches_nothing, illegal},
    {"kt_test_endless", 8, SERVICE, NULL, touches_nothing, endless},
    {"kt_test_scale", 8, SERVICE, scale_row, scale_touches, NULL},
    {"perceptron_layer", 7, LAYER, layer_row, layer_touches, NULL},
    {NULL, 0, {{0, 0}}, NULL, NULL, NULL},
};
