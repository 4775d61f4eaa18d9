/*
 * Algorithm 2 with the CUDA runtime interface: threads that copy, threads that launch. The options
 * and the report are those of algorithm2.c.
 *
 *     nvcc -O2 -o algorithm2_runtime algorithm2.cu experiment.c options.c latency.c
 *     ./algorithm2_runtime --copy-threads 14 --seconds 2
 *
 * nvcc links the runtime statically: such a program names no symbol of the driver, and a recorder
 * must catch it where the runtime asks the driver for its functions. With `-cudart shared` the
 * runtime is a library, which does the same.
 */
#include "experiment.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace {

/* One thread's memory. A copy thread copies host to device; a launch thread adds in to inout. */
struct Own {
    cudaStream_t stream = nullptr;
    unsigned char *host = nullptr;
    unsigned char *copied = nullptr;
    float *in = nullptr;
    float *inout = nullptr;
};

void check(const char *call, cudaError_t error) {
    if (error == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s: %s\n", call, cudaGetErrorName(error), cudaGetErrorString(error));
    std::exit(1);
}

#define CHECK(call) check(#call, call)

__global__ void saxpy(unsigned count, float factor, const float *in, float *inout) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        inout[i] = factor * in[i] + inout[i];
}

__global__ void fill(unsigned count, float value, float *out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = value;
}

void *allocate(size_t bytes) {
    void *memory = std::malloc(bytes);
    if (memory == nullptr) {
        std::fprintf(stderr, "no memory for %zu bytes\n", bytes);
        std::exit(1);
    }
    return memory;
}

void open_copying(const struct thread_work *work, Own *own) {
    size_t bytes = work->options->bytes;
    if (work->options->pinned)
        CHECK(cudaMallocHost(reinterpret_cast<void **>(&own->host), host_bytes(work->options)));
    else
        own->host = static_cast<unsigned char *>(allocate(host_bytes(work->options)));
    for (unsigned i = 0; i < work->options->buffers; i++)
        fill_pattern(own->host + i * bytes, bytes, work->index);
    CHECK(cudaMalloc(reinterpret_cast<void **>(&own->copied), bytes));
}

void open_launching(const struct thread_work *work, Own *own) {
    unsigned elements = elements_of(work->options);
    size_t bytes = elements * sizeof(float);
    CHECK(cudaMalloc(reinterpret_cast<void **>(&own->in), bytes));
    CHECK(cudaMalloc(reinterpret_cast<void **>(&own->inout), bytes));
    fill<<<(elements + 255) / 256, 256, 0, own->stream>>>(elements, 1.0f, own->in);
    CHECK(cudaGetLastError());
    /* The first launch loads the kernel, which waits for the whole context: under 14 copying
       threads it took three seconds on an H200. That is not what is measured here. */
    const struct options *options = work->options;
    saxpy<<<options->grid, options->block, 0, own->stream>>>(elements, 1.0f, own->in, own->inout);
    CHECK(cudaGetLastError());
    CHECK(cudaMemsetAsync(own->inout, 0, bytes, own->stream));
    CHECK(cudaStreamSynchronize(own->stream));
}

void open_thread(struct thread_work *work) {
    Own *own = new Own;
    work->state = own;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&own->stream, cudaStreamNonBlocking));
    if (work->role == COPYING)
        open_copying(work, own);
    else
        open_launching(work, own);
}

void call_once(struct thread_work *work) {
    Own *own = static_cast<Own *>(work->state);
    const struct options *options = work->options;
    if (work->role == COPYING) {
        CHECK(cudaMemcpyAsync(own->copied, own->host + host_offset(work), options->bytes,
                              cudaMemcpyHostToDevice, own->stream));
        return;
    }
    saxpy<<<options->grid, options->block, 0, own->stream>>>(elements_of(options), 1.0f, own->in,
                                                             own->inout);
    CHECK(cudaGetLastError());
}

void synchronise(struct thread_work *work) {
    CHECK(cudaStreamSynchronize(static_cast<Own *>(work->state)->stream));
}

bool results_right(struct thread_work *work) {
    Own *own = static_cast<Own *>(work->state);
    bool copies = work->role == COPYING;
    size_t bytes = copies ? work->options->bytes : elements_of(work->options) * sizeof(float);
    const void *result = copies ? static_cast<const void *>(own->copied) : own->inout;
    void *back = allocate(bytes);
    CHECK(cudaMemcpyAsync(back, result, bytes, cudaMemcpyDeviceToHost, own->stream));
    CHECK(cudaStreamSynchronize(own->stream));
    bool right;
    if (copies)
        right = work->calls == 0 ||
                pattern_intact(static_cast<unsigned char *>(back), bytes, work->index);
    else
        right = sums_right(static_cast<float *>(back), elements_of(work->options), work->calls);
    std::free(back);
    return right;
}

void close_thread(struct thread_work *work) {
    Own *own = static_cast<Own *>(work->state);
    CHECK(cudaFree(own->copied));
    CHECK(cudaFree(own->in));
    CHECK(cudaFree(own->inout));
    if (work->role == COPYING && work->options->pinned)
        CHECK(cudaFreeHost(own->host));
    else
        std::free(own->host);
    CHECK(cudaStreamDestroy(own->stream));
    delete own;
}

} // namespace

int main(int argc, char **argv) {
    static const struct calls calls = {open_thread, call_once, synchronise, results_right,
                                       close_thread};
    struct options options = read_options(argc, argv);
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr)); /* makes the context before the threads start */
    return run_experiment("algorithm2_runtime", &options, &calls);
}
