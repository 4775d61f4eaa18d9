/* A service of a GPU that is a shared library, such as an inference engine.
 *
 * The process that has the GPU for the accelerator server loads the library, opens one service for
 * each of its threads that launch, and has it put the work of each request into a stream. The
 * library is trusted: it sees the memory of all clients of that GPU. It exports the three functions below, and uses the primary context of the GPU,
 * which is current whenever it is called (the CUDA runtime and what is built on it use that one,
 * too).
 */
#ifndef KEEPTIME_SERVICE_H
#define KEEPTIME_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. */
#define KEEPTIME_SERVICE_VERSION 1u

/* Makes a service. `configuration` is what the system file says. A service is used by one thread
 * at a time. Returns 0 and fills in `service`; anything else is a failure, whose reason is written
 * to `error`, at most `error_bytes` with the zero byte at its end. */
int keeptime_service_open(uint32_t version, const char *configuration, int32_t gpu, void **service,
                          char *error, size_t error_bytes);

/* Puts the work of one request into a stream (a CUstream or cudaStream_t) and returns without
 * waiting for it. `input` and `output` are memory of the GPU, as long as the system file says.
 * Other streams must not be used, unless their work is joined to this one by events.
 *
 * The stream may be being captured: then nothing runs now, and what was put into it runs again and
 * again, on the same memory with the same arguments, without another call. Nothing that capture
 * forbids may be done (allocating or freeing memory, waiting); a service that cannot do without
 * returns a failure then, and is not captured any more. Returns 0, or anything else for a failure,
 * after which nothing more of this request may run. */
int keeptime_service_enqueue(void *service, void *stream, uint64_t input, uint64_t output,
                             const uint64_t arguments[4]);

/* Unmakes a service whose work has ended. */
void keeptime_service_close(void *service);

#ifdef __cplusplus
}
#endif
#endif
