/*
 * sandboxed: begins work that lasts, asks for a filter of system calls that the kernel refuses, then
 * for one that it takes. Says each time what it has done, and reads a line.
 */
#include "check.h"

#include "driver_api.h"
#include "kernels_ptx.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static void say(const char *what) {
    printf("%s\n", what);
    fflush(stdout);
    MUST(getchar() == '\n');
}

int main(void) {
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    CUstream stream;
    unsigned long long ns = 3000000000;
    void *params[] = {&ns};
    MUST(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    MUST(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    MUST(cuModuleLoadData(&module, KERNELS_PTX) == CUDA_SUCCESS);
    MUST(cuModuleGetFunction(&spin, module, "spin") == CUDA_SUCCESS);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) == CUDA_SUCCESS);
    say("working");
    struct sock_fprog none = {.len = 0};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none) == -1);
    say("refused");
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog all = {.len = 1, .filter = &allow};
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0);
    say("restricted");
    return 0;
}
