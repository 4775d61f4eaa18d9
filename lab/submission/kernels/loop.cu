// The last kernel of a loop's body: counts, and says whether the loop goes on. The count is zero
// again after the last round.

// Of the device runtime, as cuda_device_runtime_api.h declares it.
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);

extern "C" __global__ void ks_count(unsigned *count, unsigned layers, unsigned long long handle) {
    unsigned done = *count + 1;
    *count = done < layers ? done : 0;
    cudaGraphSetConditional(handle, done < layers);
}
