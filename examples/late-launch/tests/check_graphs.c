/* Capture, graphs and their launches. */
#include "check.h"

#include <stdatomic.h>

enum { COUNT = 20000, BYTES = COUNT * sizeof(float) };

static CUstream new_stream(void) {
    CUstream stream;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static bool has_types(CUgraph graph, const CUgraphNodeType *types, size_t count) {
    CUgraphNode nodes[16];
    CUgraphNodeType type;
    size_t found = 0;
    if (cuGraphGetNodes(graph, NULL, &found) != 0 || found != count || count > 16 ||
        cuGraphGetNodes(graph, nodes, &found) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (cuGraphNodeGetType(nodes[i], &type) != 0 || type != types[i])
            return false;
    return true;
}

static void a_captured_graph_replays_copies_fills_and_kernels(void) {
    CUstream stream = new_stream();
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    CUdeviceptr in = device_floats(COUNT, 9.0f), out = device_floats(COUNT, 9.0f);
    float *host, *back;
    SUCCEEDS(cuMemAllocHost_v2((void **)&host, BYTES));
    SUCCEEDS(cuMemAllocHost_v2((void **)&back, BYTES));
    SUCCEEDS(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SUCCEEDS(cuMemcpyHtoDAsync_v2(in, host, BYTES, stream));
    SUCCEEDS(cuMemsetD32Async(out, 0, COUNT, stream));
    SUCCEEDS(launch_saxpy(stream, COUNT, 2.0f, in, out));
    SUCCEEDS(launch_saxpy(stream, COUNT, 3.0f, in, out));
    SUCCEEDS(cuMemcpyDtoHAsync_v2(back, out, BYTES, stream));
    SUCCEEDS(cuStreamIsCapturing(stream, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    SUCCEEDS(cuStreamEndCapture(stream, &graph));
    SUCCEEDS(cuStreamIsCapturing(stream, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_NONE);
    static const CUgraphNodeType types[] = {
        CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_KERNEL,
        CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY};
    EXPECT(has_types(graph, types, 5));
    EXPECT(device_holds(out, COUNT, 9.0f)); /* nothing ran while it was captured */
    SUCCEEDS(cuGraphInstantiateWithFlags(&exec, graph, 0));
    SUCCEEDS(cuGraphDestroy(graph)); /* the executable graph does not need it */
    for (int round = 1; round <= 5; round++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)round;
        SUCCEEDS(cuGraphLaunch(exec, stream));
        SUCCEEDS(cuStreamSynchronize(stream));
        for (int i = 0; i < COUNT; i++)
            EXPECT(back[i] == 5.0f * (float)round);
    }
    SUCCEEDS(cuGraphExecDestroy(exec));
    SUCCEEDS(cuStreamDestroy_v2(stream));
    SUCCEEDS(cuMemFreeHost(host));
    SUCCEEDS(cuMemFreeHost(back));
    SUCCEEDS(cuMemFree_v2(in));
    SUCCEEDS(cuMemFree_v2(out));
}

static void a_built_graph_runs_in_its_order(void) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode first, second;
    CUstream stream = new_stream();
    CUdeviceptr a = device_floats(COUNT, 1.0f), b = device_floats(COUNT, 0.0f);
    CUdeviceptr c = device_floats(COUNT, 0.0f);
    unsigned count = COUNT;
    float factor = 2.0f;
    void *to_b[] = {&count, &factor, &a, &b}, *to_c[] = {&count, &factor, &b, &c};
    CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = saxpy,
                                         .gridDimX = (COUNT + 255) / 256,
                                         .gridDimY = 1,
                                         .gridDimZ = 1,
                                         .blockDimX = 256,
                                         .blockDimY = 1,
                                         .blockDimZ = 1,
                                         .kernelParams = to_b};
    SUCCEEDS(cuGraphCreate(&graph, 0));
    SUCCEEDS(cuGraphAddKernelNode_v2(&first, graph, NULL, 0, &params));
    params.kernelParams = to_c;
    SUCCEEDS(cuGraphAddKernelNode_v2(&second, graph, &first, 1, &params));
    SUCCEEDS(cuGraphInstantiateWithFlags(&exec, graph, 0));
    SUCCEEDS(cuGraphLaunch(exec, stream));
    SUCCEEDS(cuStreamSynchronize(stream));
    EXPECT(device_holds(b, COUNT, 2.0f));
    EXPECT(device_holds(c, COUNT, 4.0f));
    SUCCEEDS(cuGraphExecDestroy(exec));
    SUCCEEDS(cuGraphDestroy(graph));
    SUCCEEDS(cuStreamDestroy_v2(stream));
    SUCCEEDS(cuMemFree_v2(a));
    SUCCEEDS(cuMemFree_v2(b));
    SUCCEEDS(cuMemFree_v2(c));
}

/* Every launch doubles the value: launches that overlapped would lose a doubling. */
static void launches_of_one_graph_do_not_overlap(void) {
    enum { LAUNCHES = 16 };
    CUstream streams[2] = {new_stream(), new_stream()};
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr value = device_floats(COUNT, 1.0f), read = device_floats(COUNT, 0.0f);
    SUCCEEDS(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    SUCCEEDS(cuMemcpyAsync(read, value, BYTES, streams[0])); /* copy engine, then compute */
    SUCCEEDS(launch_spin(streams[0], 200000));
    SUCCEEDS(launch_saxpy(streams[0], COUNT, 1.0f, read, value));
    SUCCEEDS(cuStreamEndCapture(streams[0], &graph));
    SUCCEEDS(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < LAUNCHES; i++)
        SUCCEEDS(cuGraphLaunch(exec, streams[i % 2]));
    SUCCEEDS(cuGraphExecDestroy(exec)); /* with launches to come */
    SUCCEEDS(cuCtxSynchronize());
    EXPECT(device_holds(value, COUNT, 65536.0f));
    SUCCEEDS(cuGraphDestroy(graph));
    SUCCEEDS(cuMemFree_v2(value));
    SUCCEEDS(cuMemFree_v2(read));
    SUCCEEDS(cuStreamDestroy_v2(streams[0]));
    SUCCEEDS(cuStreamDestroy_v2(streams[1]));
}

static void a_capture_follows_events_into_other_streams(void) {
    CUstream origin = new_stream(), fork = new_stream();
    CUevent forked, joined;
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    CUdeviceptr one = device_floats(COUNT, 1.0f), sum = device_floats(COUNT, 0.0f);
    SUCCEEDS(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    SUCCEEDS(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    SUCCEEDS(cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SUCCEEDS(launch_saxpy(origin, COUNT, 1.0f, one, sum));
    SUCCEEDS(cuEventRecord(forked, origin));
    SUCCEEDS(cuStreamWaitEvent(fork, forked, 0));
    SUCCEEDS(launch_saxpy(fork, COUNT, 10.0f, one, sum));
    SUCCEEDS(cuStreamIsCapturing(fork, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(fork, &graph));
    SUCCEEDS(cuEventRecord(joined, fork));
    SUCCEEDS(cuStreamWaitEvent(origin, joined, 0));
    SUCCEEDS(launch_saxpy(origin, COUNT, 100.0f, one, sum));
    RETURNS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(joined));
    SUCCEEDS(cuStreamEndCapture(origin, &graph));
    SUCCEEDS(cuStreamIsCapturing(fork, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_NONE);
    SUCCEEDS(cuGraphInstantiateWithFlags(&exec, graph, 0));
    SUCCEEDS(cuGraphLaunch(exec, fork));
    SUCCEEDS(cuStreamSynchronize(fork));
    EXPECT(device_holds(sum, COUNT, 111.0f));
    SUCCEEDS(cuGraphExecDestroy(exec));
    SUCCEEDS(cuGraphDestroy(graph));
    SUCCEEDS(cuEventDestroy_v2(forked));
    SUCCEEDS(cuEventDestroy_v2(joined));
    SUCCEEDS(cuStreamDestroy_v2(origin));
    SUCCEEDS(cuStreamDestroy_v2(fork));
    SUCCEEDS(cuMemFree_v2(one));
    SUCCEEDS(cuMemFree_v2(sum));
}

static void synchronising_ends_a_capture(void) {
    CUstream stream = new_stream();
    CUgraph graph;
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    RETURNS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
    SUCCEEDS(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    RETURNS(CUDA_ERROR_ILLEGAL_STATE,
            cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch_spin(stream, 0));
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    EXPECT(graph == NULL);
    SUCCEEDS(cuStreamSynchronize(stream));
    SUCCEEDS(cuStreamDestroy_v2(stream));
}

static void a_capture_must_be_joined_and_stay_inside(void) {
    CUstream stream = new_stream(), fork = new_stream();
    CUevent event;
    CUgraph graph;
    SUCCEEDS(cuEventCreate(&event, 0));
    SUCCEEDS(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SUCCEEDS(cuEventRecord(event, stream));
    SUCCEEDS(cuStreamWaitEvent(fork, event, 0));
    SUCCEEDS(launch_spin(fork, 0));
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream, &graph));
    SUCCEEDS(launch_spin(fork, 0)); /* no longer captured */
    SUCCEEDS(cuStreamSynchronize(fork));
    SUCCEEDS(cuEventRecord(event, fork));
    SUCCEEDS(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream, event, 0));
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    SUCCEEDS(cuEventDestroy_v2(event));
    SUCCEEDS(cuStreamDestroy_v2(stream));
    SUCCEEDS(cuStreamDestroy_v2(fork));
}

static void default_stream_is_refused_while_a_blocking_stream_captures(void) {
    CUstream stream;
    CUgraph graph;
    SUCCEEDS(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    SUCCEEDS(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, launch_spin(NULL, 0));
    SUCCEEDS(cuStreamEndCapture(stream, &graph));
    SUCCEEDS(launch_spin(NULL, 0));
    SUCCEEDS(cuGraphDestroy(graph));
    SUCCEEDS(cuStreamDestroy_v2(stream));
}

static void add_one(void *argument) {
    atomic_fetch_add((atomic_int *)argument, 1);
}

static void graphs_run_host_functions_and_may_be_empty(void) {
    static atomic_int ran;
    CUstream stream = new_stream();
    CUgraph graph, empty;
    CUgraphExec exec, empty_exec;
    SUCCEEDS(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SUCCEEDS(cuLaunchHostFunc(stream, add_one, &ran));
    SUCCEEDS(launch_spin(stream, 1000));
    SUCCEEDS(cuLaunchHostFunc(stream, add_one, &ran));
    SUCCEEDS(cuStreamEndCapture(stream, &graph));
    SUCCEEDS(cuGraphInstantiateWithFlags(&exec, graph, 0));
    SUCCEEDS(cuGraphCreate(&empty, 0));
    SUCCEEDS(cuGraphInstantiateWithFlags(&empty_exec, empty, 0));
    SUCCEEDS(cuGraphLaunch(exec, stream));
    SUCCEEDS(cuGraphLaunch(empty_exec, stream));
    SUCCEEDS(cuGraphLaunch(exec, stream));
    SUCCEEDS(cuStreamSynchronize(stream));
    EXPECT(atomic_load(&ran) == 4);
    SUCCEEDS(cuGraphExecDestroy(exec));
    SUCCEEDS(cuGraphExecDestroy(empty_exec));
    SUCCEEDS(cuGraphDestroy(graph));
    SUCCEEDS(cuGraphDestroy(empty));
    SUCCEEDS(cuStreamDestroy_v2(stream));
}

int main(void) {
    static const struct test tests[] = {
        TEST(a_captured_graph_replays_copies_fills_and_kernels),
        TEST(a_built_graph_runs_in_its_order),
        TEST(launches_of_one_graph_do_not_overlap),
        TEST(a_capture_follows_events_into_other_streams),
        TEST(synchronising_ends_a_capture),
        TEST(a_capture_must_be_joined_and_stay_inside),
        TEST(default_stream_is_refused_while_a_blocking_stream_captures),
        TEST(graphs_run_host_functions_and_may_be_empty),
    };
    open_device();
    return RUN_TESTS(tests);
}
