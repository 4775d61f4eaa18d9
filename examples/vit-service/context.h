/* Whether libtorch can still use the GPU.
 *
 * The server resets the context of a GPU that broke down, and opens its services anew. libtorch
 * keeps memory, streams and handles for as long as the process lives, and knows nothing of a
 * reset: what it would do in the next context is not defined. */
#ifndef CONTEXT_H
#define CONTEXT_H

#include <c10/cuda/CUDAException.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <stdexcept>

/* The driver's number of a piece of memory, which no other piece ever gets; 0 if there is none. */
inline unsigned long long number_of(void *memory) {
    using Query = CUresult (*)(void *, CUpointer_attribute, CUdeviceptr);
    void *query = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    C10_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &query, 12000,
                                                    cudaEnableDefault, &found));
    unsigned long long number = 0;
    auto address = reinterpret_cast<CUdeviceptr>(memory);
    if (found != cudaDriverEntryPointSuccess ||
        reinterpret_cast<Query>(query)(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) !=
            CUDA_SUCCESS)
        return 0;
    return number;
}

/* Throws if the process had another context of this GPU before. A piece of memory that is never
 * freed tells: it goes with its context. */
inline void expect_first_context() {
    static void *witness = nullptr;
    static unsigned long long number = 0;
    if (witness == nullptr) {
        C10_CUDA_CHECK(cudaMalloc(&witness, 1));
        number = number_of(witness);
    }
    if (number == 0 || number_of(witness) != number)
        throw std::runtime_error("the GPU's context was reset, which libtorch does not survive: "
                                 "start the server anew");
}

#endif
