// The three kernels of a layer, as functions of a block of 16 x 16 threads that computes one tile
// of a square matrix of k x k tiles. All ways of submission run the same code.
//
// No pointer is declared `__restrict__`, and none may become so: the persistent kernel reads what
// other blocks have written since it began, which loads through the read-only path would miss.

enum { TILE = 16 };

// What lies on the GPU. As in src/cuda/memory.rs.
struct Buffers {
    float *activated; // the input, then what each layer gives
    float *weights;
    float *product;
    float *filter;
    float *convolved;
    float *bias;
};

// product = activated x weights
__device__ inline void multiply(const Buffers &at, unsigned k, unsigned tile_x, unsigned tile_y) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    unsigned side = k * TILE, x = threadIdx.x, y = threadIdx.y;
    unsigned row = tile_y * TILE + y, column = tile_x * TILE + x;
    float sum = 0;
    for (unsigned inner = 0; inner < side; inner += TILE) {
        a[y][x] = at.activated[row * side + inner + x];
        b[y][x] = at.weights[(inner + y) * side + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    at.product[row * side + column] = sum;
}

// convolved = product * filter, with zeros beyond the edge
__device__ inline void convolve(const Buffers &at, unsigned k, unsigned tile_x, unsigned tile_y) {
    int side = k * TILE;
    int row = tile_y * TILE + threadIdx.y, column = tile_x * TILE + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            int y = row + i - 1, x = column + j - 1;
            if (y >= 0 && y < side && x >= 0 && x < side)
                sum += at.filter[i * 3 + j] * at.product[y * side + x];
        }
    }
    at.convolved[row * side + column] = sum;
}

// activated = max(convolved + bias of the column, 0)
__device__ inline void activate(const Buffers &at, unsigned k, unsigned tile_x, unsigned tile_y) {
    unsigned side = k * TILE, column = tile_x * TILE + threadIdx.x;
    unsigned i = (tile_y * TILE + threadIdx.y) * side + column;
    at.activated[i] = fmaxf(at.convolved[i] + at.bias[column], 0.0f);
}
