/*
 * The kernels of Keeptime's CUDA device (crates/device-cuda/kernels/builtin.cu), in C: what they
 * compute, in the order of the blocks, not how a GPU does it.
 */
#include "gpu.h"

#include <string.h>

/* The parameters of all of them. */
struct params {
    const void *in;
    void *out;
    uint64_t *work;
    uint64_t a, b, c, d;
    uint32_t first; /* number of the first block of this slice */
};

static struct params read_params(const unsigned char *params) {
    struct params p;
    memset(&p, 0, sizeof p);
    memcpy(&p, params, 60);
    return p;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static unsigned touches(const struct params *p, size_t in, size_t out, size_t work,
                        struct touched *touched) {
    touched[0] = (struct touched){(CUdeviceptr)(uintptr_t)p->in, in};
    touched[1] = (struct touched){(CUdeviceptr)(uintptr_t)p->out, out};
    touched[2] = (struct touched){(CUdeviceptr)(uintptr_t)p->work, work};
    return 3;
}

static void empty_row(const unsigned char *params, uint64_t first, unsigned threads) {
    (void)params, (void)first, (void)threads;
}

static unsigned empty_touches(const unsigned char *params, uint64_t threads,
                              struct touched *touched) {
    (void)params, (void)threads, (void)touched;
    return 0;
}

/* A cycle of this GPU takes a nanosecond. All blocks of a slice at the same time, so to say. */
static void busy_row(const unsigned char *params, uint64_t first, unsigned threads) {
    (void)threads;
    struct params p = read_params(params);
    if (first > 0)
        return;
    uint64_t begin_ns = now_ns();
    while (now_ns() - begin_ns < p.a)
        continue;
    p.work[0] = now_ns() - begin_ns;
}

static unsigned busy_touches(const unsigned char *params, uint64_t threads,
                             struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 0, 0, 8, touched);
}

static void vecadd_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    const float *in = p.in;
    uint64_t begin = (uint64_t)p.first * threads + first;
    for (uint64_t i = begin; i < least(begin + threads, p.a); i++)
        ((float *)p.out)[i] = in[i] + in[p.a + i];
}

static unsigned vecadd_touches(const unsigned char *params, uint64_t threads,
                               struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 8 * p.a, 4 * p.a, 0, touched);
}

static void matmul_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    const float *in = p.in;
    uint64_t n = p.a, across = (n + 15) / 16, block = p.first + first / threads;
    uint64_t top = block / across * 16, left = block % across * 16;
    for (uint64_t y = top; y < least(top + 16, n); y++) {
        for (uint64_t x = left; x < least(left + 16, n); x++) {
            float sum = 0;
            for (uint64_t k = 0; k < n; k++)
                sum += in[y * n + k] * in[n * n + k * n + x];
            ((float *)p.out)[y * n + x] = sum;
        }
    }
}

static unsigned matmul_touches(const unsigned char *params, uint64_t threads,
                               struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 8 * p.a * p.a, 4 * p.a * p.a, 0, touched);
}

static void reduce_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    uint64_t block = p.first + first / threads;
    double sum = 0;
    for (uint64_t i = block * 8192; i < least((block + 1) * 8192, p.a); i++)
        sum += ((const float *)p.in)[i];
    memcpy(&p.work[block], &sum, sizeof sum);
}

static unsigned reduce_touches(const unsigned char *params, uint64_t threads,
                               struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 4 * p.a, 0, 8 * ((p.a + 8191) / 8192), touched);
}

static void reduce_parts_row(const unsigned char *params, uint64_t first, unsigned threads) {
    (void)first, (void)threads;
    struct params p = read_params(params);
    double sum = 0;
    for (uint64_t i = 0; i < (p.a + 8191) / 8192; i++) {
        double part;
        memcpy(&part, &p.work[i], sizeof part);
        sum += part;
    }
    memcpy(p.out, &sum, sizeof sum);
}

static unsigned reduce_parts_touches(const unsigned char *params, uint64_t threads,
                                     struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 0, 8, 8 * ((p.a + 8191) / 8192), touched);
}

static void histogram_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    uint64_t begin = (uint64_t)p.first * threads + first;
    for (uint64_t i = begin; i < least(begin + threads, p.a); i++)
        ((uint32_t *)p.out)[least(((const uint32_t *)p.in)[i], p.b - 1)]++;
}

static unsigned histogram_touches(const unsigned char *params, uint64_t threads,
                                  struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 4 * p.a, 4 * p.b, 0, touched);
}

static void stencil_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    const float *in = p.in;
    uint64_t w = p.a, h = p.b, begin = (uint64_t)p.first * threads + first;
    for (uint64_t i = begin; i < least(begin + threads, w * h); i++) {
        uint64_t row = i / w, column = i % w;
        bool edge = row == 0 || column == 0 || row == h - 1 || column == w - 1;
        ((float *)p.out)[i] =
            edge ? in[i] : (in[i] + in[i - w] + in[i + w] + in[i - 1] + in[i + 1]) / 5.0f;
    }
}

static unsigned stencil_touches(const unsigned char *params, uint64_t threads,
                                struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 4 * p.a * p.b, 4 * p.a * p.b, 0, touched);
}

static void convolution_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    const float *in = p.in, *filter = in + p.a * p.b;
    uint64_t w = p.a, h = p.b, begin = (uint64_t)p.first * threads + first;
    for (uint64_t i = begin; i < least(begin + threads, w * h); i++) {
        uint64_t row = i / w, column = i % w;
        float sum = 0;
        for (unsigned tap = 0; tap < 9; tap++) {
            /* One more than the neighbour's place: there is no place before zero. */
            uint64_t y = row + tap / 3, x = column + tap % 3;
            if (y >= 1 && y <= h && x >= 1 && x <= w)
                sum += filter[tap] * in[(y - 1) * w + x - 1];
        }
        ((float *)p.out)[i] = sum;
    }
}

static unsigned convolution_touches(const unsigned char *params, uint64_t threads,
                                    struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 4 * (p.a * p.b + 9), 4 * p.a * p.b, 0, touched);
}

static void activation_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    const float *in = p.in, *bias = in + p.a * p.b;
    uint64_t begin = (uint64_t)p.first * threads + first;
    for (uint64_t i = begin; i < least(begin + threads, p.a * p.b); i++) {
        float sum = in[i] + bias[i % p.a];
        ((float *)p.out)[i] = sum > 0 ? sum : 0;
    }
}

static unsigned activation_touches(const unsigned char *params, uint64_t threads,
                                   struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 4 * (p.a * p.b + p.a), 4 * p.a * p.b, 0, touched);
}

#define LAYOUT {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 4}}

const struct kernel device_kernels[] = {
    {"kt_empty", 8, LAYOUT, empty_row, empty_touches, NULL},
    {"kt_busy", 8, LAYOUT, busy_row, busy_touches, NULL},
    {"kt_vecadd", 8, LAYOUT, vecadd_row, vecadd_touches, NULL},
    {"kt_matmul", 8, LAYOUT, matmul_row, matmul_touches, NULL},
    {"kt_reduce", 8, LAYOUT, reduce_row, reduce_touches, NULL},
    {"kt_reduce_parts", 8, LAYOUT, reduce_parts_row, reduce_parts_touches, NULL},
    {"kt_histogram", 8, LAYOUT, histogram_row, histogram_touches, NULL},
    {"kt_stencil", 8, LAYOUT, stencil_row, stencil_touches, NULL},
    {"kt_convolution", 8, LAYOUT, convolution_row, convolution_touches, NULL},
    {"kt_activation", 8, LAYOUT, activation_row, activation_touches, NULL},
    {NULL, 0, {{0, 0}}, NULL, NULL, NULL},
};
