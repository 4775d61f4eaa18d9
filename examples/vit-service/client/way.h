/* The two ways to have one request computed, between which only the server differs. */
#ifndef WAY_H
#define WAY_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>

/* What a request is. */
struct Request {
    std::array<uint64_t, 4> arguments{};
    std::size_t input_bytes = 0;
    std::size_t output_bytes = 0;
    /* The one that waits keeps its core busy. */
    bool spins = true;
};

/* CLOCK_MONOTONIC in ns, the server's clock. */
inline int64_t now_ns() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* When the steps of a request came, in ns; 0 where a way has no such step. */
struct Times {
    int64_t begin, end;
    /* Taken by the server, begun and ended by the device, published by the server. */
    int64_t arrived, started, finished, answered;
};

/* Owns the memory of one request, which the GPU reaches without a copy by the driver. */
class Way {
public:
    virtual ~Way() = default;
    virtual void *input() = 0;
    virtual void *output() = 0;
    /* Computes the output from the input, and returns when it is there. Throws
     * std::runtime_error. */
    virtual Times run() = 0;
};

/* Through the server at `socket`, null for the default one. */
std::unique_ptr<Way> through_server(const char *socket, const std::string &service,
                                    uint32_t priority, const Request &request);

/* In this process, by the service's own library. */
std::unique_ptr<Way> directly(const std::string &library, const std::string &configuration,
                              int gpu, const Request &request);

#endif
