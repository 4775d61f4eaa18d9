/*
 * The kernels of Keeptime's CUDA device (crates/serve/device-cuda/kernels/builtin.cu), in C: what they
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

/* A step of this GPU takes a nanosecond. */
static void busy_row(const unsigned char *params, uint64_t first, unsigned threads) {
    (void)first, (void)threads;
    struct params p = read_params(params);
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

static uint64_t sums_of(struct params p) {
    return p.a / 4 * (p.b / 4) * (2 * p.c + 1) * (2 * p.c + 1);
}

static uint64_t inside(int64_t at, uint64_t size) {
    return at < 0 ? 0 : least((uint64_t)at, size - 1);
}

static void sad_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    const unsigned char *in = p.in, *other = in + p.a * p.b;
    uint64_t across = p.a / 4, side = 2 * p.c + 1, begin = (uint64_t)p.first * threads + first;
    for (uint64_t i = begin; i < least(begin + threads, sums_of(p)); i++) {
        uint64_t square = i / (side * side), down = i / side % side, right = i % side;
        uint64_t top = square / across * 4, left = square % across * 4;
        uint32_t sum = 0;
        for (uint64_t y = top; y < top + 4; y++) {
            const unsigned char *row = other + inside((int64_t)(y + down - p.c), p.b) * p.a;
            for (uint64_t x = left; x < left + 4; x++) {
                int difference = in[y * p.a + x] - row[inside((int64_t)(x + right - p.c), p.a)];
                sum += (uint32_t)(difference < 0 ? -difference : difference);
            }
        }
        ((uint32_t *)p.out)[i] = sum;
    }
}

static unsigned sad_touches(const unsigned char *params, uint64_t threads,
                            struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 2 * p.a * p.b, 4 * sums_of(p), 0, touched);
}

/* Entries of a row of a sparse matrix, as far as there are any. */
static uint64_t entries_of(const uint32_t *first, uint64_t row, uint64_t entries, uint64_t longest,
                           uint64_t *begin) {
    *begin = least(first[row], entries);
    return least(least(first[row + 1], entries), *begin + longest);
}

static void spmv_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    const uint32_t *in = p.in, *names = in + p.a + 1;
    const float *values = (const float *)(names + p.c), *x = values + p.c;
    uint64_t begin = (uint64_t)p.first * threads + first;
    for (uint64_t row = begin; row < least(begin + threads, p.a); row++) {
        uint64_t i, end = entries_of(in, row, p.c, p.d, &i);
        float sum = 0;
        for (; i < end; i++)
            sum += names[i] < p.b ? values[i] * x[names[i]] : 0;
        ((float *)p.out)[row] = sum;
    }
}

static unsigned spmv_touches(const unsigned char *params, uint64_t threads,
                             struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 4 * (p.a + 1 + 2 * p.c + p.b), 4 * p.a, 0, touched);
}

static void bfs_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    const uint32_t *in = p.in, *neighbours = in + p.a + 1, *levels = neighbours + p.b;
    uint64_t begin = (uint64_t)p.first * threads + first;
    for (uint64_t vertex = begin; vertex < least(begin + threads, p.a); vertex++) {
        uint32_t own = levels[vertex];
        uint64_t i, end = entries_of(in, vertex, p.b, p.d, &i);
        for (; own == UINT32_MAX && i < end; i++) {
            if (neighbours[i] < p.a && levels[neighbours[i]] == p.c)
                own = (uint32_t)p.c + 1;
        }
        ((uint32_t *)p.out)[vertex] = own;
    }
}

static unsigned bfs_touches(const unsigned char *params, uint64_t threads,
                            struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 4 * (2 * p.a + 1 + p.b), 4 * p.a, 0, touched);
}

static const signed char leads[19][3] = {
    {0, 0, 0}, {1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1},
    {1, 1, 0}, {-1, -1, 0}, {1, -1, 0}, {-1, 1, 0}, {1, 0, 1}, {-1, 0, -1}, {1, 0, -1},
    {-1, 0, 1}, {0, 1, 1}, {0, -1, -1}, {0, 1, -1}, {0, -1, 1},
};

static void lbm_row(const unsigned char *params, uint64_t first, unsigned threads) {
    struct params p = read_params(params);
    uint64_t size[3] = {p.a, p.b, p.c}, cells = p.a * p.b * p.c;
    uint64_t begin = (uint64_t)p.first * threads + first;
    for (uint64_t cell = begin; cell < least(begin + threads, cells); cell++) {
        uint64_t place[3] = {cell % size[0], cell / size[0] % size[1], cell / size[0] / size[1]};
        float f[19], mass = 0, velocity[3] = {0, 0, 0}, speed = 0;
        for (unsigned d = 0; d < 19; d++) {
            uint64_t from[3];
            for (unsigned axis = 0; axis < 3; axis++)
                from[axis] = (place[axis] + size[axis] - (uint64_t)leads[d][axis]) % size[axis];
            f[d] = ((const float *)p.in)[d * cells + (from[2] * p.b + from[1]) * p.a + from[0]];
            mass += f[d];
            for (unsigned axis = 0; axis < 3; axis++)
                velocity[axis] += leads[d][axis] * f[d];
        }
        for (unsigned axis = 0; axis < 3; axis++) {
            velocity[axis] /= mass;
            speed += velocity[axis] * velocity[axis];
        }
        for (unsigned d = 0; d < 19; d++) {
            static const float weights[4] = {1.0f / 3, 1.0f / 18, 1.0f / 36, 0};
            unsigned length = 0;
            float along = 0;
            for (unsigned axis = 0; axis < 3; axis++) {
                length += leads[d][axis] != 0;
                along += leads[d][axis] * velocity[axis];
            }
            float even =
                weights[length] * mass * (1 + 3 * along + 4.5f * along * along - 1.5f * speed);
            ((float *)p.out)[d * cells + cell] = f[d] + (float)p.d / 1e6f * (even - f[d]);
        }
    }
}

static unsigned lbm_touches(const unsigned char *params, uint64_t threads,
                            struct touched *touched) {
    (void)threads;
    struct params p = read_params(params);
    return touches(&p, 76 * p.a * p.b * p.c, 76 * p.a * p.b * p.c, 0, touched);
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
    {"kt_sad", 8, LAYOUT, sad_row, sad_touches, NULL},
    {"kt_spmv", 8, LAYOUT, spmv_row, spmv_touches, NULL},
    {"kt_bfs", 8, LAYOUT, bfs_row, bfs_touches, NULL},
    {"kt_lbm", 8, LAYOUT, lbm_row, lbm_touches, NULL},
    {NULL, 0, {{0, 0}}, NULL, NULL, NULL},
};
