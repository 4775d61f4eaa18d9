// A kernel that never ends: it takes requests out of a ring in the host's memory, in the order in
// which they were put there, and says which it has done. All blocks run at the same time; a barrier
// among them stands where other methods have the end of a kernel.

#include "network.cuh"

typedef unsigned long long u64;

enum { ENTRIES = 64 };

// All in the host's memory, as the GPU addresses it. As in src/cuda/persistent.rs.
struct Request {
    const float *input, *weights, *filter, *bias;
    float *activated, *convolved;
    unsigned k, layers; // no layers: the kernel ends
    u64 unused;
};

struct Ring {
    u64 head; // how many requests the host has put there; the host's alone
    u64 unused[7];
    u64 done; // how many the kernel has done, plus one as soon as it runs; the kernel's alone
    u64 unused_too[7];
    Request entries[ENTRIES];
};

// In the GPU's memory, zero at the start.
struct Shared {
    unsigned arrived, generation;
    u64 unused[7];
    Request request; // the one that all blocks work at
};

__device__ inline u64 acquire_from_host(const u64 *from) {
    u64 value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}

__device__ inline void release_to_host(u64 *to, u64 value) {
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

__device__ inline unsigned acquire(const unsigned *from) {
    unsigned value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

__device__ inline unsigned add(unsigned *to, unsigned value) {
    unsigned before;
    asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(to), "r"(value)
                 : "memory");
    return before;
}

// Returns when all threads of all blocks have called it; what they wrote before is seen after.
__device__ inline void meet(Shared *shared) {
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        unsigned generation = acquire(&shared->generation);
        if (add(&shared->arrived, 1) == gridDim.x - 1) {
            shared->arrived = 0;
            add(&shared->generation, 1);
        } else {
            while (acquire(&shared->generation) == generation)
                continue;
        }
    }
    __syncthreads();
}

// Copies so many floats by all threads. Four at a time: all memory begins at a cache line, and what
// is no multiple of four is at the end.
__device__ inline void copy(float *to, const float *from, unsigned count) {
    unsigned thread = (blockIdx.x * TILE + threadIdx.y) * TILE + threadIdx.x;
    unsigned threads = gridDim.x * TILE * TILE;
    // Past all caches: the host may have written since these were read before.
    for (unsigned i = thread; i < count / 4; i += threads)
        ((float4 *)to)[i] = __ldcv((const float4 *)from + i);
    for (unsigned i = count / 4 * 4 + thread; i < count; i += threads)
        to[i] = __ldcv(from + i);
}

__device__ inline void layer(const Buffers &at, unsigned k, Shared *shared) {
    for (unsigned tile = blockIdx.x; tile < k * k; tile += gridDim.x)
        multiply(at, k, tile % k, tile / k);
    meet(shared);
    for (unsigned tile = blockIdx.x; tile < k * k; tile += gridDim.x)
        convolve(at, k, tile % k, tile / k);
    meet(shared);
    for (unsigned tile = blockIdx.x; tile < k * k; tile += gridDim.x)
        activate(at, k, tile % k, tile / k);
    meet(shared);
}

extern "C" __global__ void __launch_bounds__(TILE * TILE)
    ks_persistent(Buffers at, Ring *ring, Shared *shared) {
    bool first = blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0;
    for (u64 done = 0;; done++) {
        // The outputs of the last request, by whichever thread, come before this.
        if (first) {
            release_to_host(&ring->done, done + 1);
            while (acquire_from_host(&ring->head) == done)
                continue;
            const Request *entry = &ring->entries[done % ENTRIES];
            for (unsigned i = 0; i < sizeof(Request) / 8; i++)
                ((u64 *)&shared->request)[i] = __ldcv((const u64 *)entry + i);
        }
        meet(shared);
        Request request = shared->request;
        if (request.layers == 0)
            return;
        unsigned side = request.k * TILE;
        copy(at.activated, request.input, side * side);
        copy(at.weights, request.weights, side * side);
        copy(at.filter, request.filter, 9);
        copy(at.bias, request.bias, side);
        meet(shared);
        for (unsigned i = 0; i < request.layers; i++)
            layer(at, request.k, shared);
        copy(request.activated, at.activated, side * side);
        copy(request.convolved, at.convolved, side * side);
        __threadfence_system();
        meet(shared);
    }
}
