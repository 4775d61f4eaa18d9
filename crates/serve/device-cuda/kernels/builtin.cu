// The kernels that every device offers. Each knows its place by `first + blockIdx.x`, so that a
// launch can be made of several slices. Sizes were checked before; values decide only values.

typedef unsigned long long u64;

extern "C" __global__ void kt_empty(const void *, void *, u64 *, u64, u64, u64, u64, unsigned) {}

// a: steps of arithmetic, each of which needs the result of the one before; each thread of as many as
// the GPU has room for. A clock would count the time in which another context has the GPU.
extern "C" __global__ void kt_busy(const void *, void *, u64 *work, u64 a, u64, u64, u64, unsigned) {
    unsigned x = threadIdx.x + 1;
    for (u64 step = 0; step < a; step++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    // Never 0, which the compiler does not know.
    if (x == 0)
        work[0] = a;
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

// 4 x 4 squares of a frame at all displacements; one sum for each thread.
extern "C" __global__ void kt_sad(const unsigned char *in, unsigned *out, u64 *, u64 w, u64 h, u64 radius,
                               u64, unsigned first) {
    u64 i = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    u64 across = w / 4, side = 2 * radius + 1;
    if (i >= across * (h / 4) * side * side)
        return;
    u64 square = i / (side * side), down = i / side % side, right = i % side;
    u64 top = square / across * 4, left = square % across * 4;
    const unsigned char *other = in + w * h;
    unsigned sum = 0;
    for (unsigned y = 0; y < 4; y++) {
        // The edge goes on beyond the frame.
        long long row = (long long)(top + y + down) - (long long)radius;
        row = min(max(row, 0ll), (long long)h - 1);
        for (unsigned x = 0; x < 4; x++) {
            long long column = (long long)(left + x + right) - (long long)radius;
            column = min(max(column, 0ll), (long long)w - 1);
            int difference = (int)in[(top + y) * w + left + x] - (int)other[row * w + column];
            sum += abs(difference);
        }
    }
    out[i] = sum;
}

// Of a row of a sparse matrix, which entries there are: its numbers are held to what was checked.
__device__ u64 entries_of(const unsigned *in, u64 row, u64 entries, u64 longest, u64 *begin) {
    u64 from = min((u64)in[row], entries), to = min((u64)in[row + 1], entries);
    *begin = from;
    return min(to, from + longest);
}

extern "C" __global__ void kt_spmv(const unsigned *in, float *out, u64 *, u64 rows, u64 columns,
                                u64 entries, u64 longest, unsigned first) {
    u64 row = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const unsigned *names = in + rows + 1;
    const float *values = (const float *)(names + entries), *x = values + entries;
    u64 i, end = entries_of(in, row, entries, longest, &i);
    float sum = 0;
    for (; i < end; i++) {
        unsigned name = names[i];
        if (name < columns)
            sum += values[i] * x[name];
    }
    out[row] = sum;
}

// The output may be the levels of the input. Volatile: what another thread writes there meanwhile
// must be read once, and is then what it was or a level that does not count.
extern "C" __global__ void kt_bfs(const unsigned *in, volatile unsigned *out, u64 *, u64 vertices,
                               u64 edges, u64 level, u64 most, unsigned first) {
    u64 vertex = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    if (vertex >= vertices)
        return;
    const unsigned *neighbours = in + vertices + 1;
    const volatile unsigned *levels = neighbours + edges;
    unsigned own = levels[vertex];
    if (own == 0xffffffffu) {
        u64 i, end = entries_of(in, vertex, edges, most, &i);
        for (; i < end && own == 0xffffffffu; i++) {
            unsigned neighbour = neighbours[i];
            if (neighbour < vertices && levels[neighbour] == (unsigned)level)
                own = (unsigned)level + 1;
        }
    }
    out[vertex] = own;
}

// D3Q19: where the directions lead along x, y and z.
__constant__ signed char leads[19][3] = {
    {0, 0, 0}, {1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1},
    {1, 1, 0}, {-1, -1, 0}, {1, -1, 0}, {-1, 1, 0}, {1, 0, 1}, {-1, 0, -1}, {1, 0, -1},
    {-1, 0, 1}, {0, 1, 1}, {0, -1, -1}, {0, 1, -1}, {0, -1, 1},
};

// Where a density comes from, along one axis of a periodic grid.
__device__ u64 against(u64 at, u64 size, int lead) {
    if (lead > 0)
        return at == 0 ? size - 1 : at - 1;
    return lead == 0 ? at : at + 1 == size ? 0 : at + 1;
}

// A cell for each thread; the densities of a direction lie together.
extern "C" __global__ void kt_lbm(const float *in, float *out, u64 *, u64 nx, u64 ny, u64 nz,
                               u64 millionths, unsigned first) {
    u64 cell = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x, cells = nx * ny * nz;
    if (cell >= cells)
        return;
    u64 x = cell % nx, y = cell / nx % ny, z = cell / nx / ny;
    float f[19], mass = 0, u = 0, v = 0, w = 0;
#pragma unroll
    for (int d = 0; d < 19; d++) {
        u64 row = against(z, nz, leads[d][2]) * ny + against(y, ny, leads[d][1]);
        f[d] = in[d * cells + row * nx + against(x, nx, leads[d][0])];
        mass += f[d];
        u += leads[d][0] * f[d];
        v += leads[d][1] * f[d];
        w += leads[d][2] * f[d];
    }
    u /= mass;
    v /= mass;
    w /= mass;
    float speed = u * u + v * v + w * w, rate = (float)millionths / 1e6f;
#pragma unroll
    for (int d = 0; d < 19; d++) {
        int length = abs(leads[d][0]) + abs(leads[d][1]) + abs(leads[d][2]);
        float weight = length == 0 ? 1.0f / 3 : length == 1 ? 1.0f / 18 : 1.0f / 36;
        float along = leads[d][0] * u + leads[d][1] * v + leads[d][2] * w;
        float even = weight * mass * (1 + 3 * along + 4.5f * along * along - 1.5f * speed);
        out[d * cells + cell] = f[d] + rate * (even - f[d]);
    }
}
