// The kernels that every device offers. Each knows its place by `first + blockIdx.x`, so that a
// launch can be made of several slices. Sizes were checked before; values decide only values.

typedef unsigned long long u64;

extern "C" __global__ void kt_empty(const void *, void *, u64 *, u64, u64, u64, u64, unsigned) {}

// a: clock cycles; each thread of as many as the GPU has room for.
extern "C" __global__ void kt_busy(const void *, void *, u64 *work, u64 a, u64, u64, u64, unsigned) {
    long long begin = clock64();
    while (clock64() - begin < (long long)a)
        continue;
    if (threadIdx.x == 0 && blockIdx.x == 0)
        work[0] = (u64)(clock64() - begin);
}

extern "C" __global__ void kt_vecadd(const float *in, float *out, u64 *, u64 n, u64, u64, u64,
                                  unsigned first) {
    u64 i = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] + in[n + i];
}

// One tile of 16 x 16 elements for each block.
extern "C" __global__ void kt_matmul(const float *in, float *out, u64 *, u64 n, u64, u64, u64,
                                  unsigned first) {
    enum { TILE = 16 };
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    u64 across = (n + TILE - 1) / TILE, block = first + blockIdx.x;
    unsigned x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    u64 row = block / across * TILE + y, column = block % across * TILE + x;
    float sum = 0;
    for (u64 inner = 0; inner < n; inner += TILE) {
        a[y][x] = row < n && inner + x < n ? in[row * n + inner + x] : 0;
        b[y][x] = column < n && inner + y < n ? in[n * n + (inner + y) * n + column] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    if (row < n && column < n)
        out[row * n + column] = sum;
}

// 8192 elements for each block, added in an order that does not change from run to run.
extern "C" __global__ void kt_reduce(const float *in, double *, u64 *work, u64 n, u64, u64, u64,
                                  unsigned first) {
    __shared__ double sums[256];
    u64 block = first + blockIdx.x, end = (block + 1) * 8192 < n ? (block + 1) * 8192 : n;
    double sum = 0;
    for (u64 i = block * 8192 + threadIdx.x; i < end; i += 256)
        sum += in[i];
    sums[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        work[block] = (u64)__double_as_longlong(sums[0]);
}

extern "C" __global__ void kt_reduce_parts(const float *, double *out, u64 *work, u64 n, u64, u64, u64,
                                        unsigned) {
    double sum = 0;
    for (u64 i = 0; i < (n + 8191) / 8192; i++)
        sum += __longlong_as_double((long long)work[i]);
    out[0] = sum;
}

// Counts in the output, which is zero before.
extern "C" __global__ void kt_histogram(const unsigned *in, unsigned *out, u64 *, u64 n, u64 bins, u64,
                                     u64, unsigned first) {
    u64 i = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&out[in[i] < bins - 1 ? in[i] : bins - 1], 1u);
}

extern "C" __global__ void kt_stencil(const float *in, float *out, u64 *, u64 w, u64 h, u64, u64,
                                   unsigned first) {
    u64 i = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= w * h)
        return;
    u64 row = i / w, column = i % w;
    bool edge = row == 0 || column == 0 || row == h - 1 || column == w - 1;
    out[i] = edge ? in[i] : (in[i] + in[i - w] + in[i + w] + in[i - 1] + in[i + 1]) / 5.0f;
}

// Zeros beyond the edge; the filter lies behind the grid.
extern "C" __global__ void kt_convolution(const float *in, float *out, u64 *, u64 w, u64 h, u64, u64,
                                       unsigned first) {
    u64 i = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= w * h)
        return;
    const float *filter = in + w * h;
    u64 row = i / w, column = i % w;
    float sum = 0;
    for (u64 tap = 0; tap < 9; tap++) {
        // One more than the neighbour's place: there is no place before zero.
        u64 y = row + tap / 3, x = column + tap % 3;
        if (y >= 1 && y <= h && x >= 1 && x <= w)
            sum += filter[tap] * in[(y - 1) * w + x - 1];
    }
    out[i] = sum;
}

// The bias of the columns lies behind the grid.
extern "C" __global__ void kt_activation(const float *in, float *out, u64 *, u64 w, u64 h, u64, u64,
                                      unsigned first) {
    u64 i = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < w * h)
        out[i] = fmaxf(in[i] + in[w * h + i % w], 0.0f);
}
