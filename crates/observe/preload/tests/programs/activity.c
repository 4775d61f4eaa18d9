/*
 * activity SEED OPERATIONS: 8 threads make random calls of the driver on 8 streams that they share,
 * on their own and on the default ones, in rounds with pauses in between. Somebody else looks at
 * what is outstanding meanwhile, in the file that FAKE_CUDA_OUTSTANDING names, and at whether the
 * bandwidth lock is held. To that file the program adds, from byte 64 on:
 *
 *   begun    calls that have begun
 *   inside   calls, and captures, that have not ended
 *   asked    counts questions: is the lock free now? The program waits until answered is the same.
 *   answered
 */
#include "check.h"

#include "driver_api.h"
#include "kernels_ptx.h"

#include <fcntl.h>

enum { THREADS = 8, STREAMS = 8, EVENTS = 8, WORDS = 256, ROUND = 1000, GENTLE_ROUND = 24 };

CUresult cuCtxSynchronize(void);
CUresult cuEventCreate(CUevent *, unsigned);
CUresult cuEventDestroy_v2(CUevent);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuEventRecord_ptsz(CUevent, CUstream);
CUresult cuEventSynchronize(CUevent);
CUresult cuEventQuery(CUevent);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned);
CUresult cuStreamQuery(CUstream);
CUresult cuStreamSynchronize_ptsz(CUstream);
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphLaunch_ptsz(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphDestroy(CUgraph);
CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream, void **, void **);
CUresult cuLaunchKernelEx(const CUlaunchConfig *, CUfunction, void **, void **);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemcpyDtoH_v2_ptds(void *, CUdeviceptr, size_t);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemsetD32_v2(CUdeviceptr, unsigned, size_t);
CUresult cuMemsetD32Async_ptsz(CUdeviceptr, unsigned, size_t, CUstream);

static struct {
    atomic_ullong submitted, ended, queued, drained, unused[4];
    atomic_ullong begun, inside, asked, answered;
} *shared;

static CUcontext context;
static CUfunction saxpy;
static CUstream streams[STREAMS];
static CUevent events[EVENTS];
static CUdeviceptr x, y;
static CUgraphExec graph;
static unsigned *pinned;
static unsigned pageable[THREADS][WORDS];

/* Refusals that the calls of other threads explain: captures, above all. */
static atomic_long done, refused, failed;

static void count(CUresult result) {
    atomic_fetch_add(&done, 1);
    if (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
        result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        atomic_fetch_add(&refused, 1);
    else if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        atomic_fetch_add(&failed, 1);
}

static void enter(void) {
    atomic_fetch_add(&shared->inside, 1);
    atomic_fetch_add(&shared->begun, 1);
}

static CUresult leave(CUresult result) {
    atomic_fetch_sub(&shared->inside, 1);
    return result;
}

/* One call of the driver's. */
#define CALL(call) (enter(), leave(call))
#define MUST_CALL(call) MUST(CALL(call) == CUDA_SUCCESS)

/* SplitMix64. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static CUresult launch(CUstream stream, unsigned threads) {
    unsigned number = 1;
    float factor = 1;
    void *params[] = {&number, &factor, &x, &y};
    return CALL(cuLaunchKernel(saxpy, 1, 1, 1, threads, 1, 1, 0, stream, params, NULL));
}

static CUresult launch_own(void) {
    unsigned number = 1;
    float factor = 1;
    void *params[] = {&number, &factor, &x, &y};
    return CALL(cuLaunchKernel_ptsz(saxpy, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

static CUresult launch_configured(CUstream stream) {
    unsigned number = 1;
    float factor = 1;
    void *params[] = {&number, &factor, &x, &y};
    CUlaunchConfig configuration = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
    return CALL(cuLaunchKernelEx(&configuration, saxpy, params, NULL));
}

/* A stream that is destroyed while it has work. */
static CUresult pass(uint64_t random) {
    CUstream stream;
    MUST_CALL(cuStreamCreate(&stream, random % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    CUresult result = launch(stream, 1);
    if (random & 2)
        MUST_CALL(cuMemsetD32Async(x, 1, WORDS, stream));
    MUST_CALL(cuStreamDestroy_v2(stream));
    return result;
}

/* What is captured does not run; what was there before goes on. */
static CUresult capture(uint64_t random) {
    CUstream stream;
    CUgraph captured;
    CUgraphExec executable;
    MUST_CALL(cuStreamCreate(&stream, random % 4 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    if (random & 8)
        launch(stream, 1);
    atomic_fetch_add(&shared->inside, 1);
    MUST_CALL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (unsigned i = 0; i < 1 + random / 16 % 4; i++)
        MUST(launch(stream, 1) == CUDA_SUCCESS);
    MUST_CALL(cuMemsetD32Async(y, 0, WORDS, stream));
    CUresult result = CALL(cuStreamEndCapture(stream, &captured));
    atomic_fetch_sub(&shared->inside, 1);
    MUST(result == CUDA_SUCCESS);
    MUST_CALL(cuGraphInstantiateWithFlags(&executable, captured, 0));
    result = CALL(cuGraphLaunch(executable, stream));
    MUST_CALL(cuGraphExecDestroy(executable));
    MUST_CALL(cuGraphDestroy(captured));
    MUST_CALL(cuStreamDestroy_v2(stream));
    return result;
}

static void *launch_and_end(void *unused) {
    (void)unused;
    MUST_CALL(cuCtxSetCurrent(context));
    launch_own();
    launch(CU_STREAM_PER_THREAD, 1);
    return NULL;
}

/* An event of its own that is gone before its work has ended. */
static CUresult mark(CUstream stream, uint64_t random) {
    CUevent event;
    MUST_CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUresult result = launch(stream, 1);
    if (CALL(cuEventRecord(event, stream)) == CUDA_SUCCESS && random % 2)
        result = CALL(cuEventSynchronize(event));
    MUST_CALL(cuEventDestroy_v2(event));
    return result;
}

static CUresult operate(unsigned self, uint64_t *state) {
    uint64_t random = next_random(state);
    CUstream stream = streams[random >> 8 & (STREAMS - 1)];
    CUevent event = events[random >> 16 & (EVENTS - 1)];
    unsigned *host = random >> 24 & 1 ? pinned + self * WORDS : pageable[self];
    random >>= 32;
    switch (random % 1000) {
    case 0 ... 249:
        return launch(stream, 1);
    case 250 ... 279:
        return launch_configured(stream);
    case 280 ... 319:
        return launch_own();
    case 320 ... 339:
        return launch(CU_STREAM_PER_THREAD, 1);
    case 340 ... 359:
        return launch(NULL, 1);
    case 360 ... 429:
        return CALL(cuMemsetD32Async(y, 0, WORDS, stream));
    case 430 ... 439:
        return CALL(cuMemsetD32_v2(y, 0, WORDS));
    case 440 ... 449:
        return CALL(cuMemsetD32Async_ptsz(y, 0, WORDS, NULL));
    case 450 ... 509:
        return CALL(cuMemcpyHtoDAsync_v2(x, host, sizeof pageable[0], stream));
    case 510 ... 539:
        return CALL(cuMemcpyDtoHAsync_v2(host, x, sizeof pageable[0], stream));
    case 540 ... 559:
        return CALL(cuMemcpyDtoDAsync_v2(y, x, WORDS, stream));
    case 560 ... 569:
        return CALL(cuMemcpyHtoD_v2(x, host, sizeof pageable[0]));
    case 570 ... 574:
        return CALL(cuMemcpyDtoH_v2(host, x, sizeof pageable[0]));
    case 575 ... 579:
        return CALL(cuMemcpyDtoH_v2_ptds(host, x, sizeof pageable[0]));
    case 580 ... 629:
        return CALL(cuGraphLaunch(graph, stream));
    case 630 ... 639:
        return CALL(cuGraphLaunch_ptsz(graph, NULL));
    case 640 ... 719:
        return CALL(cuEventRecord(event, stream));
    case 720 ... 729:
        return CALL(cuEventRecord_ptsz(event, NULL));
    case 730 ... 749:
        return CALL(cuEventSynchronize(event));
    case 750 ... 799:
        return CALL(cuEventQuery(event));
    case 800 ... 839:
        return CALL(cuStreamWaitEvent(stream, event, 0));
    case 840 ... 864:
        return CALL(cuStreamSynchronize(stream));
    case 865 ... 869:
        return CALL(cuStreamSynchronize_ptsz(NULL));
    case 870 ... 919:
        return CALL(cuStreamQuery(stream));
    case 920 ... 921:
        return CALL(cuCtxSynchronize());
    case 922 ... 939:
        return mark(stream, random / 1000);
    case 940 ... 957:
        return pass(random / 1000);
    case 958 ... 969:
        return capture(random / 1000);
    case 970:
        run_thread(launch_and_end, NULL);
        return CUDA_SUCCESS;
    default: { /* Calls that fail: too many threads, and no memory of the device's. */
        CUresult result = random % 2 ? launch(stream, 4096)
                                     : CALL(cuMemsetD32Async(1 << 12, 0, WORDS, stream));
        MUST(result != CUDA_SUCCESS);
        return CUDA_SUCCESS;
    }
    }
}

static void nap(uint64_t most_us, uint64_t random) {
    struct timespec time = {.tv_nsec = (long)(random % (most_us * 1000))};
    nanosleep(&time, NULL);
}

/* Many calls as fast as they go, or some with pauses between them. */
static void play(unsigned self, uint64_t *state, bool is_gentle) {
    for (int i = 0; i < (is_gentle ? GENTLE_ROUND : ROUND); i++) {
        count(operate(self, state));
        if (is_gentle)
            nap(4000, next_random(state));
    }
}

static pthread_barrier_t barrier;
static long operations;
static uint64_t seed;
static bool is_gentle[THREADS];
static atomic_bool is_over;

static void ask_whether_it_is_free(void) {
    unsigned long long number = atomic_fetch_add(&shared->asked, 1) + 1;
    while (atomic_load(&shared->answered) != number)
        sched_yield();
}

/* What is captured does not run, so it takes nothing. */
static void ask_during_a_capture(void) {
    CUgraph captured;
    atomic_fetch_add(&shared->inside, 1);
    MUST_CALL(cuStreamBeginCapture_v2(streams[2], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(launch(streams[2], 1) == CUDA_SUCCESS);
    MUST_CALL(cuMemsetD32Async(y, 0, WORDS, streams[2]));
    ask_whether_it_is_free();
    MUST_CALL(cuStreamEndCapture(streams[2], &captured));
    MUST_CALL(cuGraphDestroy(captured));
    atomic_fetch_sub(&shared->inside, 1);
}

/* Between two rounds, by one thread: it waits for all work, or leaves it to itself. */
static void pause_all(uint64_t *state) {
    static unsigned pauses;
    uint64_t random = next_random(state);
    if (pauses++ % 4 == 0) {
        MUST_CALL(cuCtxSynchronize());
        ask_whether_it_is_free();
        ask_during_a_capture();
    }
    while (atomic_load(&shared->queued) != atomic_load(&shared->drained))
        nap(100, 50000);
    nap(1, 0);
    struct timespec pause = {.tv_nsec = random % 4 == 1 ? 25000000 : 5000000};
    nanosleep(&pause, NULL);
    atomic_store(&is_over, atomic_load(&done) >= operations);
    random = next_random(state);
    for (int i = 0; i < THREADS; i++)
        is_gentle[i] = random % 4 == 0;
}

static void *thread(void *argument) {
    unsigned self = (unsigned)(uintptr_t)argument;
    uint64_t state = seed * THREADS + self;
    MUST_CALL(cuCtxSetCurrent(context));
    while (!atomic_load(&is_over)) {
        /* In a gentle round few threads do anything. */
        if (!is_gentle[self] || self < 2)
            play(self, &state, is_gentle[self]);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            pause_all(&state);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void prepare(void) {
    CUdevice device;
    CUmodule module;
    CUgraph captured;
    const char *path = getenv("FAKE_CUDA_OUTSTANDING");
    int file = path != NULL ? open(path, O_RDWR) : -1;
    MUST(file >= 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(shared != MAP_FAILED && close(file) == 0);
    MUST(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    MUST_CALL(cuDevicePrimaryCtxRetain(&context, device));
    MUST_CALL(cuCtxSetCurrent(context));
    MUST_CALL(cuModuleLoadData(&module, KERNELS_PTX));
    MUST_CALL(cuModuleGetFunction(&saxpy, module, "saxpy"));
    MUST_CALL(cuMemAlloc_v2(&x, sizeof pageable[0]));
    MUST_CALL(cuMemAlloc_v2(&y, sizeof pageable[0]));
    MUST_CALL(cuMemAllocHost_v2((void **)&pinned, sizeof pageable));
    for (int i = 0; i < STREAMS; i++)
        MUST_CALL(cuStreamCreate(&streams[i], i % 4 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    for (int i = 0; i < EVENTS; i++)
        MUST_CALL(cuEventCreate(&events[i], CU_EVENT_DEFAULT));
    MUST_CALL(cuStreamBeginCapture_v2(streams[1], CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 3; i++)
        MUST(launch(streams[1], 1) == CUDA_SUCCESS);
    MUST_CALL(cuStreamEndCapture(streams[1], &captured));
    MUST_CALL(cuGraphInstantiateWithFlags(&graph, captured, 0));
}

int main(int arguments, char **argument) {
    MUST(arguments == 3);
    seed = strtoull(argument[1], NULL, 0);
    operations = atol(argument[2]);
    prepare();
    pthread_t threads[THREADS];
    MUST(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    MUST(atomic_load(&failed) == 0);
    printf("%ld operations, %ld refused during captures, %llu pieces of work\n", atomic_load(&done),
           atomic_load(&refused), atomic_load(&shared->submitted));
    return 0;
}
