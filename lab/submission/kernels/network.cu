// The kernels of a layer, each of k x k blocks.

#include "network.cuh"

extern "C" __global__ void __launch_bounds__(TILE * TILE) ks_multiply(Buffers at, unsigned k) {
    multiply(at, k, blockIdx.x, blockIdx.y);
}

extern "C" __global__ void __launch_bounds__(TILE * TILE) ks_convolve(Buffers at, unsigned k) {
    convolve(at, k, blockIdx.x, blockIdx.y);
}

extern "C" __global__ void __launch_bounds__(TILE * TILE) ks_activate(Buffers at, unsigned k) {
    activate(at, k, blockIdx.x, blockIdx.y);
}
