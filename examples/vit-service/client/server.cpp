/* A request by way of the server: the client library's, as any other program would send it. */
#include "way.h"

#include <keeptime.h>

namespace {

/* The output begins on a boundary that suits any copy. */
std::size_t rounded(std::size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

class Served : public Way {
public:
    Served(const char *socket, const std::string &service, uint32_t priority,
           const Request &request)
        : client_(socket), callback_(client_.callback(registration(service, priority, request))),
          request_({request.arguments[0], request.arguments[1], request.arguments[2],
                    request.arguments[3]}),
          output_(rounded(request.input_bytes)) {
        client_.set_wait(request.spins ? keeptime::Wait::spin : keeptime::Wait::suspend);
        request_.input(0, request.input_bytes).output(output_, request.output_bytes);
    }

    void *input() override { return callback_.data<char>(); }
    void *output() override { return callback_.data<char>() + output_; }

    Times run() override {
        int64_t begin = now_ns();
        keeptime::Outcome outcome = callback_.run(request_);
        int64_t end = now_ns();
        auto time = [](uint64_t ns) { return static_cast<int64_t>(ns); };
        return {begin,
                end,
                time(outcome.arrived_ns),
                time(outcome.started_ns),
                time(outcome.finished_ns),
                time(outcome.answered_ns)};
    }

private:
    static keeptime::Registration registration(const std::string &service, uint32_t priority,
                                               const Request &request) {
        std::size_t bytes = rounded(request.input_bytes) + request.output_bytes;
        return keeptime::Registration(service).chain("vit-client", priority).memory(bytes);
    }

    keeptime::Client client_;
    keeptime::Callback callback_;
    keeptime::Request request_;
    std::size_t output_;
};

} // namespace

std::unique_ptr<Way> through_server(const char *socket, const std::string &service,
                                    uint32_t priority, const Request &request) {
    return std::make_unique<Served>(socket, service, priority, request);
}
