// One kernel that launches a graph. The graph that this kernel belongs to ends with the one that it
// launches.

// failure: where an error of the launch is left.
extern "C" __global__ void ks_launcher(cudaGraphExec_t graph, int *failure) {
    cudaError_t error = cudaGraphLaunch(graph, cudaStreamGraphFireAndForget);
    if (error != cudaSuccess)
        *failure = (int)error;
}
