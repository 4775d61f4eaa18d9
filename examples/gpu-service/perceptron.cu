// One layer of a perceptron for each of several inputs: one thread for each number of the output.
// A row of weights has its bias at its end.
extern "C" __global__ void perceptron_layer(const float *in, const float *weights, float *out,
                                            unsigned inputs, unsigned outputs, unsigned batch,
                                            unsigned rectified) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs * batch)
        return;
    const float *x = in + (size_t)(i / outputs) * inputs;
    const float *row = weights + (size_t)(i % outputs) * (inputs + 1);
    float sum = row[inputs];
    for (unsigned k = 0; k < inputs; k++)
        sum += row[k] * x[k];
    out[i] = rectified && sum < 0 ? 0 : sum;
}
