/* The order of work: in a stream, between streams, with events, and when a queue is full. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* A host function that holds its stream until it is opened. */
struct gate {
    atomic_bool entered, open;
};

static void hold(void *argument) {
    struct gate *gate = argument;
    struct timespec pause = {0, 200000};
    atomic_store(&gate->entered, true);
    while (!atomic_load(&gate->open))
        nanosleep(&pause, NULL);
}

static CUresult close_gate(struct gate *gate, CUstream stream) {
    atomic_store(&gate->entered, false);
    atomic_store(&gate->open, false);
    return cuLaunchHostFunc(stream, hold, gate);
}

static void wait_until(atomic_bool *flag) {
    struct timespec pause = {0, 200000};
    while (!atomic_load(flag))
        nanosleep(&pause, NULL);
}

static void add_one(void *argument) {
    atomic_fetch_add((atomic_int *)argument, 1);
}

static void work_of_a_stream_runs_in_order(void) {
    enum { COUNT = 65536, ROUNDS = 50 };
    CUstream stream;
    CUdeviceptr a = device_floats(COUNT, 0.0f), b = device_floats(COUNT, 0.0f);
    float *host, *back;
    SUCCEEDS(cuMemAllocHost_v2((void **)&host, COUNT * sizeof *host));
    SUCCEEDS(cuMemAllocHost_v2((void **)&back, COUNT * sizeof *back));
    for (int i = 0; i < COUNT; i++)
        host[i] = 1.0f;
    SUCCEEDS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < ROUNDS; round++) {
        /* Copy engine, compute engine, copy engine: each needs what the one before has done. */
        SUCCEEDS(cuMemcpyHtoDAsync_v2(a, host, COUNT * sizeof *host, stream));
        SUCCEEDS(launch_saxpy(stream, COUNT, 1.0f, a, b));
        SUCCEEDS(cuMemsetD32Async(a, 0, COUNT, stream));
        SUCCEEDS(cuMemcpyDtoHAsync_v2(back, b, COUNT * sizeof *back, stream));
    }
    SUCCEEDS(cuStreamSynchronize(stream));
    for (int i = 0; i < COUNT; i++)
        EXPECT(back[i] == (float)ROUNDS);
    EXPECT(device_holds(a, COUNT, 0.0f));
    SUCCEEDS(cuStreamDestroy_v2(stream));
    SUCCEEDS(cuMemFreeHost(host));
    SUCCEEDS(cuMemFreeHost(back));
    SUCCEEDS(cuMemFree_v2(a));
    SUCCEEDS(cuMemFree_v2(b));
}

static void streams_do_not_wait_for_each_other(void) {
    static struct gate gate;
    CUstream held, other;
    SUCCEEDS(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(close_gate(&gate, held));
    SUCCEEDS(launch_spin(held, 1000));
    SUCCEEDS(launch_spin(other, 1000));
    SUCCEEDS(cuStreamSynchronize(other));
    RETURNS(CUDA_ERROR_NOT_READY, cuStreamQuery(held));
    atomic_store(&gate.open, true);
    SUCCEEDS(cuStreamSynchronize(held));
    SUCCEEDS(cuStreamQuery(held));
    SUCCEEDS(cuStreamDestroy_v2(held));
    SUCCEEDS(cuStreamDestroy_v2(other));
}

static void default_stream_and_blocking_streams_wait_for_each_other(void) {
    static struct gate gate;
    static atomic_int ran;
    CUstream blocking, other, independent;
    SUCCEEDS(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    SUCCEEDS(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    SUCCEEDS(cuStreamCreate(&independent, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(close_gate(&gate, blocking));
    SUCCEEDS(launch_spin(NULL, 1000));  /* waits for the gate */
    SUCCEEDS(launch_spin(other, 1000)); /* waits for the default stream, so for the gate */
    SUCCEEDS(launch_spin(independent, 1000));
    SUCCEEDS(cuStreamSynchronize(independent));
    wait_until(&gate.entered);
    RETURNS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    RETURNS(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
    SUCCEEDS(cuLaunchHostFunc(other, add_one, &ran));
    EXPECT(atomic_load(&ran) == 0);
    atomic_store(&gate.open, true);
    SUCCEEDS(cuStreamSynchronize(NULL));
    EXPECT(atomic_load(&ran) == 1);
    SUCCEEDS(cuStreamQuery(other));
    SUCCEEDS(cuStreamDestroy_v2(blocking));
    SUCCEEDS(cuStreamDestroy_v2(other));
    SUCCEEDS(cuStreamDestroy_v2(independent));
}

static void *hold_own_default_stream(void *argument) {
    MUST(cuCtxSetCurrent(context));
    MUST(cuLaunchHostFunc(CU_STREAM_PER_THREAD, hold, argument));
    MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void per_thread_default_streams_are_separate(void) {
    static struct gate gate;
    pthread_t thread;
    uint64_t duration_ns = 1000;
    void *params[] = {&duration_ns};
    EXPECT(pthread_create(&thread, NULL, hold_own_default_stream, &gate) == 0);
    wait_until(&gate.entered);
    SUCCEEDS(cuLaunchKernel_ptsz(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    SUCCEEDS(cuStreamSynchronize_ptsz(NULL));
    RETURNS(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    atomic_store(&gate.open, true);
    pthread_join(thread, NULL);
    SUCCEEDS(cuStreamSynchronize(CU_STREAM_LEGACY));
}

static void events_order_streams(void) {
    enum { COUNT = 10000, ROUNDS = 30 };
    CUstream first, second;
    CUevent written, read;
    CUdeviceptr a = device_floats(COUNT, 0.0f), b = device_floats(COUNT, 0.0f);
    CUdeviceptr one = device_floats(COUNT, 1.0f);
    SUCCEEDS(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
    SUCCEEDS(cuEventCreate(&read, CU_EVENT_DISABLE_TIMING));
    for (int round = 0; round < ROUNDS; round++) {
        SUCCEEDS(cuStreamWaitEvent(first, read, 0)); /* never recorded at first: no wait */
        SUCCEEDS(launch_saxpy(first, COUNT, 1.0f, one, a));
        SUCCEEDS(cuEventRecord(written, first));
        SUCCEEDS(cuStreamWaitEvent(second, written, 0));
        SUCCEEDS(launch_saxpy(second, COUNT, 1.0f, a, b)); /* b = 1 + 2 + .. + ROUNDS */
        SUCCEEDS(cuEventRecord(read, second));
    }
    SUCCEEDS(cuEventSynchronize(read));
    SUCCEEDS(cuEventQuery(written));
    EXPECT(device_holds(b, COUNT, ROUNDS * (ROUNDS + 1) / 2));
    SUCCEEDS(cuEventDestroy_v2(written));
    SUCCEEDS(cuEventDestroy_v2(read));
    SUCCEEDS(cuStreamDestroy_v2(first));
    SUCCEEDS(cuStreamDestroy_v2(second));
    SUCCEEDS(cuMemFree_v2(a));
    SUCCEEDS(cuMemFree_v2(b));
    SUCCEEDS(cuMemFree_v2(one));
}

/* The copy engine is idle: only the wait keeps it from copying before the kernels have run. */
static void a_copy_waits_for_another_streams_kernels(void) {
    enum { COUNT = 1000 };
    CUstream computing, copying;
    CUevent computed;
    CUdeviceptr one = device_floats(COUNT, 1.0f), sum = device_floats(COUNT, 0.0f);
    CUdeviceptr copy = device_floats(COUNT, 0.0f);
    SUCCEEDS(cuStreamCreate(&computing, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuStreamCreate(&copying, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuEventCreate(&computed, CU_EVENT_DISABLE_TIMING));
    SUCCEEDS(launch_spin(computing, 50000000));
    SUCCEEDS(launch_saxpy(computing, COUNT, 7.0f, one, sum));
    SUCCEEDS(cuEventRecord(computed, computing));
    SUCCEEDS(cuStreamWaitEvent(copying, computed, 0));
    SUCCEEDS(cuMemcpyAsync(copy, sum, COUNT * sizeof(float), copying));
    SUCCEEDS(cuStreamSynchronize(copying));
    EXPECT(device_holds(copy, COUNT, 7.0f));
    SUCCEEDS(cuEventDestroy_v2(computed));
    SUCCEEDS(cuStreamDestroy_v2(computing));
    SUCCEEDS(cuStreamDestroy_v2(copying));
    SUCCEEDS(cuMemFree_v2(one));
    SUCCEEDS(cuMemFree_v2(sum));
    SUCCEEDS(cuMemFree_v2(copy));
}

static void a_wait_is_for_the_recording_at_the_call(void) {
    static struct gate gate;
    CUstream held, waiting;
    CUevent event;
    SUCCEEDS(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuEventCreate(&event, 0));
    SUCCEEDS(cuEventRecord(event, held));
    SUCCEEDS(cuStreamWaitEvent(waiting, event, 0));
    SUCCEEDS(close_gate(&gate, held));
    SUCCEEDS(cuEventRecord(event, held));
    SUCCEEDS(launch_spin(waiting, 1000));
    SUCCEEDS(cuStreamSynchronize(waiting));
    RETURNS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    SUCCEEDS(cuEventDestroy_v2(event)); /* with a recording still to come */
    atomic_store(&gate.open, true);
    SUCCEEDS(cuStreamSynchronize(held));
    SUCCEEDS(cuStreamDestroy_v2(held));
    SUCCEEDS(cuStreamDestroy_v2(waiting));
}

static void events_measure_time(void) {
    static struct gate gate;
    CUstream stream;
    CUevent start, end;
    float milliseconds = 0;
    struct timespec while_closed = {0, 20000000};
    SUCCEEDS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuEventCreate(&start, 0));
    SUCCEEDS(cuEventCreate(&end, 0));
    RETURNS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, start, end));
    SUCCEEDS(cuEventRecord(start, stream));
    SUCCEEDS(close_gate(&gate, stream));
    SUCCEEDS(cuEventRecord(end, stream));
    wait_until(&gate.entered);
    nanosleep(&while_closed, NULL);
    RETURNS(CUDA_ERROR_NOT_READY, cuEventQuery(end));
    RETURNS(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&milliseconds, start, end));
    atomic_store(&gate.open, true);
    SUCCEEDS(cuEventSynchronize(end));
    SUCCEEDS(cuEventElapsedTime(&milliseconds, start, end));
    EXPECT(milliseconds >= 20.0f);
    SUCCEEDS(cuEventDestroy_v2(start));
    SUCCEEDS(cuEventDestroy_v2(end));
    SUCCEEDS(cuStreamDestroy_v2(stream));
}

static atomic_int order;
static int place_of_low, place_of_high;

static void note_low(void *unused) {
    (void)unused;
    place_of_low = atomic_fetch_add(&order, 1);
}

static void note_high(void *unused) {
    (void)unused;
    place_of_high = atomic_fetch_add(&order, 1);
}

static void higher_stream_priority_runs_first(void) {
    CUstream low, high, busy;
    SUCCEEDS(cuStreamCreateWithPriority(&low, CU_STREAM_NON_BLOCKING, 0));
    SUCCEEDS(cuStreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -5));
    SUCCEEDS(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(launch_spin(busy, 1000000000)); /* the compute engine is taken meanwhile */
    SUCCEEDS(launch_spin(low, 20000000));
    SUCCEEDS(cuLaunchHostFunc(low, note_low, NULL));
    SUCCEEDS(launch_spin(high, 20000000));
    SUCCEEDS(cuLaunchHostFunc(high, note_high, NULL));
    SUCCEEDS(cuCtxSynchronize());
    EXPECT(place_of_high < place_of_low);
    SUCCEEDS(cuStreamDestroy_v2(low));
    SUCCEEDS(cuStreamDestroy_v2(high));
    SUCCEEDS(cuStreamDestroy_v2(busy));
}

struct late_launch {
    CUstream stream;
    atomic_bool started, returned;
};

static void *launch_one_more(void *argument) {
    struct late_launch *launch = argument;
    MUST(cuCtxSetCurrent(context));
    atomic_store(&launch->started, true);
    MUST(launch_spin(launch->stream, 0));
    atomic_store(&launch->returned, true);
    return NULL;
}

static void a_launch_into_a_full_queue_waits_for_room(void) {
    static struct gate gate;
    static struct late_launch late;
    static atomic_int ran;
    CUstream other;
    pthread_t thread;
    struct timespec while_full = {0, 100000000};
    SUCCEEDS(cuStreamCreate(&late.stream, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(close_gate(&gate, late.stream));
    for (int i = 1; i < 1024; i++)
        SUCCEEDS(cuLaunchHostFunc(late.stream, add_one, &ran));
    EXPECT(pthread_create(&thread, NULL, launch_one_more, &late) == 0);
    wait_until(&late.started);
    nanosleep(&while_full, NULL);
    EXPECT(!atomic_load(&late.returned));
    SUCCEEDS(launch_spin(other, 0)); /* another stream has room */
    SUCCEEDS(cuStreamSynchronize(other));
    atomic_store(&gate.open, true);
    pthread_join(thread, NULL);
    SUCCEEDS(cuStreamSynchronize(late.stream));
    EXPECT(atomic_load(&ran) == 1023);
    SUCCEEDS(cuStreamDestroy_v2(late.stream));
    SUCCEEDS(cuStreamDestroy_v2(other));
}

static void a_destroyed_stream_still_ends_its_work(void) {
    static struct gate gate;
    static atomic_int ran;
    CUstream stream;
    SUCCEEDS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SUCCEEDS(close_gate(&gate, stream));
    for (int i = 0; i < 100; i++)
        SUCCEEDS(cuLaunchHostFunc(stream, add_one, &ran));
    SUCCEEDS(cuStreamDestroy_v2(stream));
    atomic_store(&gate.open, true);
    SUCCEEDS(cuCtxSynchronize());
    EXPECT(atomic_load(&ran) == 100);
    RETURNS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(NULL));
}

struct churn {
    pthread_t thread;
    bool right;
};

/* Streams come and go while others work: each thread sees its own sums only. */
static void *create_use_destroy(void *argument) {
    enum { COUNT = 512, TIMES = 200 };
    struct churn *churn = argument;
    MUST(cuCtxSetCurrent(context));
    CUdeviceptr one = device_floats(COUNT, 1.0f), sum = device_floats(COUNT, 0.0f);
    for (int i = 0; i < TIMES; i++) {
        CUstream stream;
        MUST(cuStreamCreate(&stream, i % 2 == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        MUST(launch_saxpy(stream, COUNT, 1.0f, one, sum));
        MUST(cuStreamSynchronize(stream));
        MUST(cuStreamDestroy_v2(stream));
    }
    churn->right = device_holds(sum, COUNT, (float)TIMES);
    MUST(cuMemFree_v2(one));
    MUST(cuMemFree_v2(sum));
    return NULL;
}

static void streams_may_come_and_go_in_many_threads(void) {
    struct churn churns[6];
    for (int i = 0; i < 6; i++)
        EXPECT(pthread_create(&churns[i].thread, NULL, create_use_destroy, &churns[i]) == 0);
    for (int i = 0; i < 6; i++)
        pthread_join(churns[i].thread, NULL);
    for (int i = 0; i < 6; i++)
        EXPECT(churns[i].right);
}

int main(void) {
    static const struct test tests[] = {
        TEST(work_of_a_stream_runs_in_order),
        TEST(streams_do_not_wait_for_each_other),
        TEST(default_stream_and_blocking_streams_wait_for_each_other),
        TEST(per_thread_default_streams_are_separate),
        TEST(events_order_streams),
        TEST(a_copy_waits_for_another_streams_kernels),
        TEST(a_wait_is_for_the_recording_at_the_call),
        TEST(events_measure_time),
        TEST(higher_stream_priority_runs_first),
        TEST(a_launch_into_a_full_queue_waits_for_room),
        TEST(a_destroyed_stream_still_ends_its_work),
        TEST(streams_may_come_and_go_in_many_threads),
    };
    open_device();
    return RUN_TESTS(tests);
}
