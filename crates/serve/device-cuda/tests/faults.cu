// Kernels for the tests of what goes wrong, with the parameters of a service.

typedef unsigned long long u64;

extern "C" __global__ void kt_test_illegal(const void *, void *, u64 *, u64, u64, u64, u64, unsigned) {
    *(volatile u64 *)0x10 = 1;
}

// Nobody else writes the word.
extern "C" __global__ void kt_test_endless(const void *, void *, u64 *work, u64, u64, u64, u64,
                                        unsigned) {
    volatile u64 *word = work;
    *word = 0;
    while (*word == 0)
        continue;
}

extern "C" __global__ void kt_test_scale(const float *x, float *y, u64 *, u64 n, u64 a, u64, u64,
                                      unsigned first) {
    u64 i = (u64)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = (float)a * x[i];
}
