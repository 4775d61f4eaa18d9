/*
 * The kernels of the submission study (lab/submission/kernels), in C: what they compute, in one
 * piece for all blocks, not how a GPU does it.
 */
#include "gpu.h"

#include <sched.h>
#include <string.h>

enum { TILE = 16, TAPS = 3 };

struct buffers {
    float *activated, *weights, *product, *filter, *convolved, *bias;
};

struct layer_params {
    struct buffers at;
    uint32_t k;
};

static void multiply(const struct buffers *at, size_t side) {
    for (size_t row = 0; row < side; row++) {
        float *to = at->product + row * side;
        memset(to, 0, side * sizeof *to);
        for (size_t inner = 0; inner < side; inner++)
            for (size_t column = 0; column < side; column++)
                to[column] += at->activated[row * side + inner] * at->weights[inner * side + column];
    }
}

static void convolve(const struct buffers *at, size_t side) {
    for (size_t row = 0; row < side; row++) {
        for (size_t column = 0; column < side; column++) {
            float sum = 0;
            for (size_t tap = 0; tap < TAPS * TAPS; tap++) {
                /* One more than the neighbour's place: there is no place before zero. */
                size_t y = row + tap / TAPS, x = column + tap % TAPS;
                if (y >= 1 && y <= side && x >= 1 && x <= side)
                    sum += at->filter[tap] * at->product[(y - 1) * side + x - 1];
            }
            at->convolved[row * side + column] = sum;
        }
    }
}

static void activate(const struct buffers *at, size_t side) {
    for (size_t i = 0; i < side * side; i++) {
        float sum = at->convolved[i] + at->bias[i % side];
        at->activated[i] = sum > 0 ? sum : 0;
    }
}

/* ---- As kernels ---------------------------------------------------------------------------- */

/* A launch of other than k x k blocks computes nothing: a GPU would compute something else. */
static bool read_layer(const unsigned char *params, const unsigned grid[3],
                       struct layer_params *read) {
    memcpy(read, params, sizeof *read);
    return grid[0] == read->k && grid[1] == read->k && grid[2] == 1;
}

static void multiply_whole(const unsigned char *params, const unsigned grid[3]) {
    struct layer_params p;
    if (read_layer(params, grid, &p))
        multiply(&p.at, (size_t)p.k * TILE);
}

static void convolve_whole(const unsigned char *params, const unsigned grid[3]) {
    struct layer_params p;
    if (read_layer(params, grid, &p))
        convolve(&p.at, (size_t)p.k * TILE);
}

static void activate_whole(const unsigned char *params, const unsigned grid[3]) {
    struct layer_params p;
    if (read_layer(params, grid, &p))
        activate(&p.at, (size_t)p.k * TILE);
}

static struct touched floats(const float *from, size_t count_of) {
    return (struct touched){(CUdeviceptr)(uintptr_t)from, count_of * sizeof *from};
}

static unsigned multiply_touches(const unsigned char *params, uint64_t threads,
                                 struct touched *touched) {
    (void)threads;
    struct layer_params p;
    memcpy(&p, params, sizeof p);
    size_t side = (size_t)p.k * TILE;
    touched[0] = floats(p.at.activated, side * side);
    touched[1] = floats(p.at.weights, side * side);
    touched[2] = floats(p.at.product, side * side);
    return 3;
}

static unsigned convolve_touches(const unsigned char *params, uint64_t threads,
                                 struct touched *touched) {
    (void)threads;
    struct layer_params p;
    memcpy(&p, params, sizeof p);
    size_t side = (size_t)p.k * TILE;
    touched[0] = floats(p.at.product, side * side);
    touched[1] = floats(p.at.filter, TAPS * TAPS);
    touched[2] = floats(p.at.convolved, side * side);
    return 3;
}

static unsigned activate_touches(const unsigned char *params, uint64_t threads,
                                 struct touched *touched) {
    (void)threads;
    struct layer_params p;
    memcpy(&p, params, sizeof p);
    size_t side = (size_t)p.k * TILE;
    touched[0] = floats(p.at.convolved, side * side);
    touched[1] = floats(p.at.bias, side);
    touched[2] = floats(p.at.activated, side * side);
    return 3;
}

/* ---- The one that never ends --------------------------------------------------------------- */

struct request {
    const float *input, *weights, *filter, *bias;
    float *activated, *convolved;
    uint32_t k, layers; /* no layers: the kernel ends */
    uint64_t unused;
};

enum { ENTRIES = 64, SHARED_BYTES = 128 };

struct ring {
    atomic_ullong head;
    uint64_t unused[7];
    atomic_ullong done;
    uint64_t unused_too[7];
    struct request entries[ENTRIES];
};

struct persistent_params {
    struct buffers at;
    struct ring *ring;
    void *shared; /* what the blocks of a GPU meet at */
};

_Static_assert(sizeof(struct request) == 64 && sizeof(struct ring) == 128 + ENTRIES * 64,
               "as the kernel in CUDA has it");
_Static_assert(sizeof(struct persistent_params) <= KERNEL_PARAM_BYTES, "the parameters fit");

static void serve(const struct buffers *at, const struct request *request) {
    size_t side = (size_t)request->k * TILE, bytes = side * side * sizeof(float);
    memcpy(at->activated, request->input, bytes);
    memcpy(at->weights, request->weights, bytes);
    memcpy(at->filter, request->filter, TAPS * TAPS * sizeof(float));
    memcpy(at->bias, request->bias, side * sizeof(float));
    for (uint32_t layer = 0; layer < request->layers; layer++) {
        multiply(at, side);
        convolve(at, side);
        activate(at, side);
    }
    memcpy(request->activated, at->activated, bytes);
    memcpy(request->convolved, at->convolved, bytes);
}

/* It has the compute engine for itself until it ends. */
static void persistent_whole(const unsigned char *params, const unsigned grid[3]) {
    (void)grid;
    struct persistent_params p;
    memcpy(&p, params, sizeof p);
    for (unsigned long long done = 0;; done++) {
        atomic_store_explicit(&p.ring->done, done + 1, memory_order_release);
        while (atomic_load_explicit(&p.ring->head, memory_order_acquire) == done)
            sched_yield();
        struct request request = p.ring->entries[done % ENTRIES];
        if (request.layers == 0)
            return;
        serve(&p.at, &request);
    }
}

static unsigned persistent_touches(const unsigned char *params, uint64_t threads,
                                   struct touched *touched) {
    (void)threads;
    struct persistent_params p;
    memcpy(&p, params, sizeof p);
    touched[0] = (struct touched){(CUdeviceptr)(uintptr_t)p.ring, sizeof *p.ring};
    touched[1] = (struct touched){(CUdeviceptr)(uintptr_t)p.shared, SHARED_BYTES};
    return 2;
}

#define LAYER {{0, sizeof(struct buffers)}, {sizeof(struct buffers), 4}}
#define PERSISTENT {{0, sizeof(struct buffers)}, {sizeof(struct buffers), 8}, {56, 8}}

const struct kernel submission_kernels[] = {
    {"ks_multiply", 2, LAYER, NULL, multiply_touches, multiply_whole},
    {"ks_convolve", 2, LAYER, NULL, convolve_touches, convolve_whole},
    {"ks_activate", 2, LAYER, NULL, activate_touches, activate_whole},
    {"ks_persistent", 3, PERSISTENT, NULL, persistent_touches, persistent_whole},
    {NULL, 0, {{0, 0}}, NULL, NULL, NULL},
};
