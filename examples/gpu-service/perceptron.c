/*
 * A service of a GPU as a shared library: a perceptron of two layers.
 *
 * It is built against no CUDA at all: the driver that the server has loaded is looked up when a
 * service is opened. The configuration is the file of the weights (train.py describes it), a
 * request's first argument the number of inputs that it brings along.
 */
#include "driver.h"
#include "keeptime_service.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_BATCH = 64, MOST_WIDTH = 65536, THREADS = 128 };

/* The text of perceptron.ptx. */
static const char PTX[] =
#include "perceptron_ptx.h"
    ;

struct service {
    struct driver driver;
    CUmodule module;
    CUfunction layer;
    uint32_t inputs, hidden, outputs;
    CUdeviceptr weights; /* those of the hidden layer come first */
    CUdeviceptr hidden_numbers;
};

/* Writes down why a service cannot be opened. */
__attribute__((format(printf, 3, 4))) static bool fail(char *error, size_t bytes,
                                                       const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, bytes, format, arguments);
    va_end(arguments);
    return false;
}

/* Reads the weights of both layers; the caller frees them. */
static bool read_weights(struct service *service, const char *path, float **numbers,
                         size_t *count, char *error, size_t bytes) {
    uint32_t sizes[3] = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fail(error, bytes, "%s: it cannot be opened", path);
    bool known = fread(sizes, sizeof sizes, 1, file) == 1;
    for (int i = 0; i < 3; i++)
        known = known && sizes[i] >= 1 && sizes[i] <= MOST_WIDTH;
    service->inputs = sizes[0];
    service->hidden = sizes[1];
    service->outputs = sizes[2];
    *count = known ? (size_t)sizes[1] * (sizes[0] + 1) + (size_t)sizes[2] * (sizes[1] + 1) : 0;
    *numbers = known ? malloc(*count * sizeof **numbers) : NULL;
    bool whole = *numbers != NULL && fread(*numbers, sizeof **numbers, *count, file) == *count;
    fclose(file);
    if (whole)
        return true;
    free(*numbers);
    return fail(error, bytes, "%s: not the weights of a perceptron", path);
}

/* Loads the kernel, and the weights onto the GPU. */
static bool load(struct service *service, const float *numbers, size_t count, char *error,
                 size_t bytes) {
    const struct driver *driver = &service->driver;
    size_t hidden_bytes = (size_t)service->hidden * MOST_BATCH * sizeof *numbers;
    CUresult rc = driver->module_load_data(&service->module, PTX);
    if (rc == CUDA_SUCCESS)
        rc = driver->module_get_function(&service->layer, service->module, "perceptron_layer");
    if (rc == CUDA_SUCCESS)
        rc = driver->mem_alloc(&service->weights, count * sizeof *numbers);
    if (rc == CUDA_SUCCESS)
        rc = driver->mem_alloc(&service->hidden_numbers, hidden_bytes);
    if (rc == CUDA_SUCCESS)
        rc = driver->memcpy_to_device(service->weights, numbers, count * sizeof *numbers);
    return rc == CUDA_SUCCESS || fail(error, bytes, "the driver says %d", rc);
}

static void free_service(struct service *service) {
    if (service->weights != 0)
        service->driver.mem_free(service->weights);
    if (service->hidden_numbers != 0)
        service->driver.mem_free(service->hidden_numbers);
    if (service->module != NULL)
        service->driver.module_unload(service->module);
    free(service);
}

int keeptime_service_open(uint32_t version, const char *configuration, int32_t gpu, void **opened,
                          char *error, size_t error_bytes) {
    (void)gpu; /* its context is current */
    if (version != KEEPTIME_SERVICE_VERSION)
        return !fail(error, error_bytes, "version %u of the interface", version);
    struct service *service = calloc(1, sizeof *service);
    if (service == NULL)
        return !fail(error, error_bytes, "no memory");
    float *numbers = NULL;
    size_t count = 0;
    bool done = (driver_find(&service->driver) ||
                 fail(error, error_bytes, "no CUDA driver is loaded")) &&
                read_weights(service, configuration, &numbers, &count, error, error_bytes);
    if (done) {
        done = load(service, numbers, count, error, error_bytes);
        free(numbers);
    }
    if (!done) {
        free_service(service);
        return 1;
    }
    *opened = service;
    return 0;
}

static CUresult layer(const struct service *service, CUstream stream, CUdeviceptr in,
                      CUdeviceptr weights, CUdeviceptr out, uint32_t inputs, uint32_t outputs,
                      uint32_t batch, uint32_t rectified) {
    void *params[] = {&in, &weights, &out, &inputs, &outputs, &batch, &rectified};
    unsigned blocks = (outputs * batch + THREADS - 1) / THREADS;
    return service->driver.launch_kernel(service->layer, blocks, 1, 1, THREADS, 1, 1, 0, stream,
                                         params, NULL);
}

int keeptime_service_enqueue(void *opened, void *stream, uint64_t input, uint64_t output,
                             const uint64_t arguments[4]) {
    const struct service *service = opened;
    uint64_t batch = arguments[0];
    if (batch > MOST_BATCH)
        return 1;
    if (batch == 0)
        return 0;
    uint32_t inputs = service->inputs, hidden = service->hidden, outputs = service->outputs;
    CUdeviceptr second = service->weights + (uint64_t)hidden * (inputs + 1) * sizeof(float);
    CUresult rc = layer(service, stream, input, service->weights, service->hidden_numbers, inputs,
                        hidden, (uint32_t)batch, 1);
    if (rc == CUDA_SUCCESS)
        rc = layer(service, stream, service->hidden_numbers, second, output, hidden, outputs,
                   (uint32_t)batch, 0);
    return rc;
}

void keeptime_service_close(void *service) {
    free_service(service);
}
