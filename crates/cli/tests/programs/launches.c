/*
 * launches HOW: says "ready" before it uses the driver, and reads a line. Then it launches three
 * kernels of 2 ms each and waits for each of them; with HOW "leave" a fourth one of 60 s, and it
 * ends without waiting.
 */
#include "driver_api.h"
#include "kernels_ptx.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%d: %s\n", __LINE__, #condition);                                     \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

int main(int count, char **words) {
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    CUstream stream;
    unsigned long long ns = 2000000;
    void *params[] = {&ns};
    MUST(count == 2);
    MUST(printf("ready\n") > 0 && fflush(stdout) == 0 && getchar() == '\n');
    MUST(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    MUST(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    MUST(cuModuleLoadData(&module, KERNELS_PTX) == CUDA_SUCCESS);
    MUST(cuModuleGetFunction(&spin, module, "spin") == CUDA_SUCCESS);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) == CUDA_SUCCESS);
        MUST(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    }
    if (strcmp(words[1], "leave") == 0) {
        ns = 60000000000;
        MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) == CUDA_SUCCESS);
        /* As if it were killed: without the end of the driver, which would wait. */
        _exit(7);
    }
    return 7;
}
