// One kernel that launches all others, of a single thread: its launches go into the same stream of
// the GPU, in which each waits for the one before it.

#include "network.cu"

// failure: where the first error that a launch meets is left.
extern "C" __global__ void ks_parent(Buffers at, unsigned k, unsigned layers, int *failure) {
    dim3 grid(k, k), block(TILE, TILE);
    for (unsigned layer = 0; layer < layers; layer++) {
        ks_multiply<<<grid, block>>>(at, k);
        ks_convolve<<<grid, block>>>(at, k);
        ks_activate<<<grid, block>>>(at, k);
    }
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess)
        *failure = (int)error;
}
