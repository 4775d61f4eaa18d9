/* The fake driver: names and versions, memory, copies, kernels, contexts, errors. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 100000 };

/* ---- cuGetProcAddress ---------------------------------------------------------------------- */

static void *exported(const char *symbol) {
    static void *driver;
    if (driver == NULL)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver != NULL ? dlsym(driver, symbol) : NULL;
}

/* True if the base name, the version and the flags lead to the symbol. */
static bool leads_to(const char *base, int version, cuuint64_t flags, const char *symbol) {
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    return cuGetProcAddress_v2(base, &found, version, flags, &status) == CUDA_SUCCESS &&
           status == CU_GET_PROC_ADDRESS_SUCCESS && found != NULL && found == exported(symbol);
}

static void version_picks_the_newest_form_that_is_not_newer(void) {
    EXPECT(leads_to("cuMemAlloc", 2000, 0, "cuMemAlloc"));
    EXPECT(leads_to("cuMemAlloc", 3010, 0, "cuMemAlloc"));
    EXPECT(leads_to("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"));
    EXPECT(leads_to("cuMemAlloc", 13000, 0, "cuMemAlloc_v2"));
    EXPECT(leads_to("cuCtxCreate", 11030, 0, "cuCtxCreate_v2"));
    EXPECT(leads_to("cuCtxCreate", 12040, 0, "cuCtxCreate_v3"));
    EXPECT(leads_to("cuCtxCreate", 12050, 0, "cuCtxCreate_v4"));
    EXPECT(leads_to("cuGetProcAddress", 11030, 0, "cuGetProcAddress"));
    EXPECT(leads_to("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"));
}

static void per_thread_flag_picks_the_per_thread_form(void) {
    const cuuint64_t per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const cuuint64_t legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    EXPECT(leads_to("cuLaunchKernel", 12000, per_thread, "cuLaunchKernel_ptsz"));
    EXPECT(leads_to("cuLaunchKernel", 12000, legacy, "cuLaunchKernel"));
    EXPECT(leads_to("cuLaunchKernel", 6000, per_thread, "cuLaunchKernel"));
    EXPECT(leads_to("cuMemcpy", 12000, per_thread, "cuMemcpy_ptds"));
    EXPECT(leads_to("cuMemcpyHtoDAsync", 12000, per_thread, "cuMemcpyHtoDAsync_v2_ptsz"));
    EXPECT(leads_to("cuMemAlloc", 12000, per_thread, "cuMemAlloc_v2"));
    EXPECT(exported("cuLaunchKernel") != exported("cuLaunchKernel_ptsz"));
    EXPECT(exported("cuMemcpy") != exported("cuMemcpy_ptds"));
    void *found;
    SUCCEEDS(cuGetProcAddress_v2_ptsz("cuLaunchKernel", &found, 12000, 0, NULL));
    EXPECT(found == exported("cuLaunchKernel_ptsz"));
}

static void unknown_names_and_old_versions_are_not_found(void) {
    void *found = &found;
    CUdriverProcAddressQueryResult status;
    RETURNS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("cuNoSuchThing", &found, 12000, 0, &status));
    EXPECT(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && found == NULL);
    RETURNS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("cuMemAlloc_v2", &found, 12000, 0, &status));
    EXPECT(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && found == NULL);
    RETURNS(CUDA_ERROR_NOT_FOUND,
            cuGetProcAddress_v2("cuLaunchKernelEx", &found, 11050, 0, &status));
    EXPECT(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT && found == NULL);
    RETURNS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNoSuchThing", &found, 12000, 0));
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress(NULL, &found, 12000, 0));
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuInit", &found, 12000, 4));
}

static void what_is_not_implemented_says_so(void) {
    const void *table = &table;
    CUuuid id = {{0}};
    RETURNS(CUDA_ERROR_NOT_SUPPORTED, cuMemcpy3D_v2(NULL));
    RETURNS(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, &id));
    EXPECT(table == NULL);
}

static void driver_device_and_errors_have_names(void) {
    int version = 0, devices = 0, streams = 0;
    const char *name = NULL;
    char device[64] = "";
    SUCCEEDS(cuDriverGetVersion(&version));
    EXPECT(version == 13000);
    SUCCEEDS(cuDeviceGetCount(&devices));
    EXPECT(devices == 1);
    SUCCEEDS(cuDeviceGetName(device, sizeof device, 0));
    EXPECT(strstr(device, "Fake") != NULL);
    SUCCEEDS(cuDeviceGetAttribute(&streams, 78, 0));
    EXPECT(streams == 1);
    RETURNS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&streams, 78, 1));
    SUCCEEDS(cuGetErrorName(CUDA_ERROR_NOT_READY, &name));
    EXPECT(strcmp(name, "CUDA_ERROR_NOT_READY") == 0);
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &name));
}

/* ---- Kernels ------------------------------------------------------------------------------- */

static void saxpy_and_vecadd_compute(void) {
    unsigned count = COUNT;
    CUdeviceptr a = device_floats(COUNT, 2.0f), b = device_floats(COUNT, 5.0f);
    CUdeviceptr c = device_floats(COUNT, -1.0f);
    SUCCEEDS(launch_saxpy(NULL, COUNT, 3.0f, a, b));
    EXPECT(device_holds(b, COUNT, 11.0f));
    void *params[] = {&count, &a, &b, &c};
    SUCCEEDS(cuLaunchKernel(vecadd, (COUNT + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    EXPECT(device_holds(c, COUNT, 13.0f));
    SUCCEEDS(cuMemFree_v2(a));
    SUCCEEDS(cuMemFree_v2(b));
    SUCCEEDS(cuMemFree_v2(c));
}

static void a_grid_smaller_than_the_data_leaves_the_rest_alone(void) {
    unsigned count = 1000;
    float factor = 1.0f;
    CUdeviceptr in = device_floats(1000, 1.0f), out = device_floats(1000, 0.0f);
    void *params[] = {&count, &factor, &in, &out};
    SUCCEEDS(cuLaunchKernel(saxpy, 3, 1, 1, 100, 1, 1, 0, NULL, params, NULL));
    EXPECT(device_holds(out, 300, 1.0f));
    EXPECT(device_holds(out + 300 * sizeof(float), 700, 0.0f));
    SUCCEEDS(cuMemFree_v2(in));
    SUCCEEDS(cuMemFree_v2(out));
}

static void every_way_to_launch_does_the_same(void) {
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    unsigned count = 512;
    float factor = 1.0f;
    CUdeviceptr in = device_floats(count, 1.0f), out = device_floats(count, 0.0f);
    void *params[] = {&count, &factor, &in, &out};
    CUlaunchConfig config = {.gridDimX = 2, .gridDimY = 1, .gridDimZ = 1,
                             .blockDimX = 256, .blockDimY = 1, .blockDimZ = 1};
    struct {
        unsigned count;
        float factor;
        CUdeviceptr in, out;
    } buffer = {count, factor, in, out};
    size_t bytes = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    SUCCEEDS(cuLaunchKernelEx(&config, saxpy, params, NULL));
    SUCCEEDS(cuLaunchCooperativeKernel(saxpy, 2, 1, 1, 256, 1, 1, 0, NULL, params));
    SUCCEEDS(cuLaunchKernel(saxpy, 2, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    SUCCEEDS(cuLaunchKernel_ptsz(saxpy, 2, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    SUCCEEDS(cuLibraryLoadData(&library, KERNELS_PTX, NULL, NULL, 0, NULL, NULL, 0));
    SUCCEEDS(cuLibraryGetKernel(&kernel, library, "saxpy"));
    SUCCEEDS(cuLaunchKernel((CUfunction)kernel, 2, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    SUCCEEDS(cuKernelGetFunction(&function, kernel));
    SUCCEEDS(cuLaunchKernel(function, 2, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    EXPECT(device_holds(out, count, 6.0f));
    SUCCEEDS(cuLibraryUnload(library));
    SUCCEEDS(cuMemFree_v2(in));
    SUCCEEDS(cuMemFree_v2(out));
}

static void wrong_modules_and_launches_are_refused(void) {
    CUmodule other;
    CUfunction function;
    RETURNS(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&other, "\177ELF"));
    RETURNS(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&other, ".version 7.0 // .entry saxpy("));
    RETURNS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "no_such_kernel"));
    SUCCEEDS(cuModuleLoadData(&other, "/* two */ .version 7.0\n.entry noop() {}\n"));
    SUCCEEDS(cuModuleGetFunction(&function, other, "noop"));
    SUCCEEDS(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    RETURNS(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    RETURNS(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(function, 1, 1, 1, 1024, 2, 1, 0, NULL, NULL, NULL));
    RETURNS(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(saxpy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SUCCEEDS(cuModuleUnload(other));
}

/* ---- Copies and fills ---------------------------------------------------------------------- */

enum memory { ORDINARY, PINNED_MEMORY, REGISTERED_MEMORY };

static unsigned char *host_bytes(enum memory memory, size_t bytes) {
    void *host = NULL;
    if (memory == PINNED_MEMORY)
        MUST(cuMemAllocHost_v2(&host, bytes));
    else
        host = malloc(bytes);
    if (memory == REGISTERED_MEMORY)
        MUST(cuMemHostRegister_v2(host, bytes, 0));
    return host;
}

static void free_host(enum memory memory, void *host) {
    if (memory == REGISTERED_MEMORY)
        MUST(cuMemHostUnregister(host));
    if (memory == PINNED_MEMORY)
        MUST(cuMemFreeHost(host));
    else
        free(host);
}

/* There and back through a second device buffer, with a size that is no multiple of a chunk. */
static bool round_trip(enum memory memory, size_t bytes, bool wait_each) {
    unsigned char *out = host_bytes(memory, bytes), *back = host_bytes(memory, bytes);
    CUdeviceptr first, second;
    CUstream stream;
    MUST(cuMemAlloc_v2(&first, bytes));
    MUST(cuMemAlloc_v2(&second, bytes));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(i * 7 + i / 255);
    memset(back, 0, bytes);
    if (wait_each) {
        MUST(cuMemcpyHtoD_v2(first, out, bytes));
        MUST(cuMemcpyDtoD_v2(second, first, bytes));
        MUST(cuMemcpyDtoH_v2(back, second, bytes));
    } else {
        MUST(cuMemcpyHtoDAsync_v2(first, out, bytes, stream));
        MUST(cuMemcpyAsync(second, first, bytes, stream));
        MUST(cuMemcpyDtoHAsync_v2(back, second, bytes, stream));
        MUST(cuStreamSynchronize(stream));
    }
    bool intact = memcmp(out, back, bytes) == 0;
    MUST(cuMemFree_v2(first));
    MUST(cuMemFree_v2(second));
    MUST(cuStreamDestroy_v2(stream));
    free_host(memory, out);
    free_host(memory, back);
    return intact;
}

static void copies_are_intact_from_every_kind_of_memory(void) {
    for (int memory = ORDINARY; memory <= REGISTERED_MEMORY; memory++) {
        for (int wait_each = 0; wait_each <= 1; wait_each++) {
            EXPECT(round_trip((enum memory)memory, 1, wait_each));
            EXPECT(round_trip((enum memory)memory, 300001, wait_each));
            EXPECT(round_trip((enum memory)memory, 20 * 1024 * 1024 + 13, wait_each));
        }
    }
}

static void pageable_source_may_change_once_the_call_returns(void) {
    enum { BYTES = 4 * 1024 * 1024 };
    CUstream stream;
    CUdeviceptr device;
    unsigned char *host = malloc(BYTES), *back = malloc(BYTES);
    memset(host, 0x11, BYTES);
    SUCCEEDS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuMemAlloc_v2(&device, BYTES));
    SUCCEEDS(launch_spin(stream, 20000000));
    SUCCEEDS(cuMemcpyHtoDAsync_v2(device, host, BYTES, stream));
    memset(host, 0x22, BYTES);
    SUCCEEDS(cuMemcpyDtoHAsync_v2(back, device, BYTES, stream));
    SUCCEEDS(cuStreamSynchronize(stream));
    for (int i = 0; i < BYTES; i++)
        EXPECT(back[i] == 0x11);
    SUCCEEDS(cuMemFree_v2(device));
    SUCCEEDS(cuStreamDestroy_v2(stream));
    free(host);
    free(back);
}

struct copier {
    pthread_t thread;
    unsigned number;
    bool intact;
};

static void *copy_own_pattern(void *argument) {
    enum { BYTES = 1000003, TIMES = 20 };
    struct copier *copier = argument;
    unsigned char *host = malloc(BYTES), *back = malloc(BYTES);
    CUdeviceptr device;
    CUstream stream;
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&device, BYTES));
    copier->intact = true;
    for (unsigned i = 0; i < TIMES; i++) {
        memset(host, (int)(copier->number * TIMES + i), BYTES);
        MUST(cuMemcpyHtoDAsync_v2(device, host, BYTES, stream));
        MUST(cuMemcpyDtoHAsync_v2(back, device, BYTES, stream));
        MUST(cuStreamSynchronize(stream));
        copier->intact = copier->intact && memcmp(host, back, BYTES) == 0;
    }
    MUST(cuMemFree_v2(device));
    MUST(cuStreamDestroy_v2(stream));
    free(host);
    free(back);
    return NULL;
}

static void threads_that_copy_at_once_get_their_own_bytes(void) {
    struct copier copiers[6];
    for (unsigned i = 0; i < 6; i++) {
        copiers[i].number = i;
        EXPECT(pthread_create(&copiers[i].thread, NULL, copy_own_pattern, &copiers[i]) == 0);
    }
    for (unsigned i = 0; i < 6; i++)
        pthread_join(copiers[i].thread, NULL);
    for (unsigned i = 0; i < 6; i++)
        EXPECT(copiers[i].intact);
}

static void fills_write_their_width(void) {
    unsigned char bytes[24];
    CUdeviceptr device;
    SUCCEEDS(cuMemAlloc_v2(&device, sizeof bytes));
    SUCCEEDS(cuMemsetD8_v2(device, 0xab, sizeof bytes));
    SUCCEEDS(cuMemsetD16_v2(device + 8, 0x1234, 4));
    SUCCEEDS(cuMemsetD32_v2(device + 16, 0xdeadbeef, 1));
    SUCCEEDS(cuMemcpyDtoH_v2(bytes, device, sizeof bytes));
    static const unsigned char expected[24] = {
        0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0x34, 0x12, 0x34, 0x12,
        0x34, 0x12, 0x34, 0x12, 0xef, 0xbe, 0xad, 0xde, 0xab, 0xab, 0xab, 0xab,
    };
    EXPECT(memcmp(bytes, expected, sizeof bytes) == 0);
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(device + 1, 0, 1));
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(device, 0, 25));
    SUCCEEDS(cuMemFree_v2(device));
}

static void wrong_addresses_are_refused(void) {
    unsigned char host[32] = {0};
    CUdeviceptr device;
    SUCCEEDS(cuMemAlloc_v2(&device, 16));
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(device, host, 17));
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)host, host, 1));
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(device + 8));
    SUCCEEDS(cuMemFree_v2(device));
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(device));
    RETURNS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&device, (size_t)1 << 40));
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&device, 0));
    RETURNS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(host));
}

static void stream_ordered_memory_lives_until_the_stream_frees_it(void) {
    CUstream stream;
    CUdeviceptr in, out;
    float back[100];
    SUCCEEDS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuMemAllocAsync(&in, sizeof back, stream));
    SUCCEEDS(cuMemAllocAsync(&out, sizeof back, stream));
    SUCCEEDS(cuMemsetD32Async(in, 0x40000000, 100, stream));
    SUCCEEDS(cuMemsetD32Async(out, 0, 100, stream));
    SUCCEEDS(launch_spin(stream, 5000000));
    SUCCEEDS(launch_saxpy(stream, 100, 2.0f, in, out));
    SUCCEEDS(cuMemFreeAsync(in, stream));
    SUCCEEDS(cuMemcpyDtoHAsync_v2(back, out, sizeof back, stream));
    SUCCEEDS(cuMemFreeAsync(out, stream));
    SUCCEEDS(cuStreamSynchronize(stream));
    for (int i = 0; i < 100; i++)
        EXPECT(back[i] == 4.0f);
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(out, stream));
    SUCCEEDS(cuStreamDestroy_v2(stream));
}

/* ---- Contexts ------------------------------------------------------------------------------ */

static void a_thread_has_its_own_stack_of_contexts(void) {
    CUcontext other, top;
    SUCCEEDS(cuCtxCreate_v2(&other, 0, 0));
    SUCCEEDS(cuCtxGetCurrent(&top));
    EXPECT(top == other);
    SUCCEEDS(cuCtxPushCurrent_v2(context));
    SUCCEEDS(cuCtxPopCurrent_v2(&top));
    EXPECT(top == context);
    SUCCEEDS(cuCtxDestroy_v2(other));
    SUCCEEDS(cuCtxGetCurrent(&top));
    EXPECT(top == context);
    RETURNS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxDestroy_v2(other));
}

/* The last one: nothing works after it. */
static void a_wild_pointer_of_a_kernel_breaks_the_process(void) {
    CUcontext other;
    CUmodule own;
    CUfunction function;
    unsigned count = 100;
    float factor = 1.0f;
    CUdeviceptr nothing = 4096;
    void *params[] = {&count, &factor, &nothing, &nothing};
    SUCCEEDS(cuCtxCreate_v2(&other, 0, 0));
    SUCCEEDS(cuModuleLoadData(&own, KERNELS_PTX));
    SUCCEEDS(cuModuleGetFunction(&function, own, "saxpy"));
    RETURNS(CUDA_ERROR_ILLEGAL_ADDRESS,
            cuLaunchKernel(function, 1, 1, 1, 100, 1, 1, 0, NULL, params, NULL));
    RETURNS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    SUCCEEDS(cuCtxDestroy_v2(other));
    RETURNS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    RETURNS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxCreate_v2(&other, 0, 0));
    SUCCEEDS(cuDevicePrimaryCtxReset_v2(0));
    RETURNS(CUDA_ERROR_ILLEGAL_ADDRESS, cuDevicePrimaryCtxRetain(&other, 0));
}

static void a_forked_child_has_no_device(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED &&
                      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(status == 0);
    SUCCEEDS(cuCtxSynchronize());
}

int main(void) {
    static const struct test tests[] = {
        TEST(version_picks_the_newest_form_that_is_not_newer),
        TEST(per_thread_flag_picks_the_per_thread_form),
        TEST(unknown_names_and_old_versions_are_not_found),
        TEST(what_is_not_implemented_says_so),
        TEST(driver_device_and_errors_have_names),
        TEST(saxpy_and_vecadd_compute),
        TEST(a_grid_smaller_than_the_data_leaves_the_rest_alone),
        TEST(every_way_to_launch_does_the_same),
        TEST(wrong_modules_and_launches_are_refused),
        TEST(copies_are_intact_from_every_kind_of_memory),
        TEST(pageable_source_may_change_once_the_call_returns),
        TEST(threads_that_copy_at_once_get_their_own_bytes),
        TEST(fills_write_their_width),
        TEST(wrong_addresses_are_refused),
        TEST(stream_ordered_memory_lives_until_the_stream_frees_it),
        TEST(a_thread_has_its_own_stack_of_contexts),
        TEST(a_forked_child_has_no_device),
        TEST(a_wild_pointer_of_a_kernel_breaks_the_process),
    };
    if (cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED) {
        fprintf(stderr, "expected CUDA_ERROR_NOT_INITIALIZED before cuInit\n");
        return 1;
    }
    open_device();
    return RUN_TESTS(tests);
}
