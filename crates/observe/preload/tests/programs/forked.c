/*
 * forked: uses the driver, forks a child while work is outstanding, and waits for its work while
 * the child lives. The child does as its parent; a driver does not work there. Prints what came of
 * it, and a line in between, after which the parent has no work.
 */
#include "check.h"

#include "driver_api.h"
#include "kernels_ptx.h"

static CUfunction spin;
static CUstream stream;

static CUresult launch(unsigned long long ns) {
    void *params[] = {&ns};
    return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

int main(void) {
    CUcontext context;
    CUmodule module;
    MUST(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    MUST(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    MUST(cuModuleLoadData(&module, KERNELS_PTX) == CUDA_SUCCESS);
    MUST(cuModuleGetFunction(&spin, module, "spin") == CUDA_SUCCESS);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    MUST(launch(1000000) == CUDA_SUCCESS);
    struct steps go = new_steps(), tried = new_steps();
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        bool works = launch(1000) == CUDA_SUCCESS || cuInit(0) == CUDA_SUCCESS;
        step(&tried);
        await_step(&go);
        _exit(works ? 1 : 0);
    }
    await_step(&tried);
    MUST(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    printf("waited\n");
    fflush(stdout);
    MUST(getchar() == '\n');
    step(&go);
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
    printf("child %d\n", WEXITSTATUS(status));
    return 0;
}
