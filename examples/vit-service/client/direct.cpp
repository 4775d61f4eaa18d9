/*
 * A request in this process, as the server does it (crates/serve/device-cuda/src/worker.rs, replay.rs):
 * the first time copy, service and copy are put into a stream; the second time they are captured;
 * from then on they are one launch of a graph. An event tells the end.
 *
 * Memory, stream and event stay until the process ends, which is when the measurement does.
 */
#include "driver.h"
#include "keeptime_service.h"
#include "way.h"

namespace {

class Direct : public Way {
public:
    Direct(const std::string &library, const std::string &configuration, int gpu,
           const Request &request)
        : request_(request) {
        expect(driver_.init(0), "cuInit");
        CUdevice device = 0;
        CUcontext context = nullptr;
        expect(driver_.device_get(&device, gpu), "cuDeviceGet");
        expect(driver_.primary_ctx_retain(&context, device), "cuDevicePrimaryCtxRetain");
        expect(driver_.ctx_set_current(context), "cuCtxSetCurrent");
        open(library, configuration, gpu);
        /* An accelerator with one bucket has the least priority, too. */
        expect(driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING, 0), "a stream");
        unsigned flags = request.spins ? CU_EVENT_DISABLE_TIMING : CU_EVENT_BLOCKING_SYNC;
        expect(driver_.event_create(&event_, flags), "an event");
        expect(driver_.mem_alloc(&device_input_, request.input_bytes), "memory for the input");
        expect(driver_.mem_alloc(&device_output_, request.output_bytes), "memory for the output");
        expect(driver_.mem_alloc_host(&input_, request.input_bytes), "pinned memory");
        expect(driver_.mem_alloc_host(&output_, request.output_bytes), "pinned memory");
    }

    Direct(const Direct &) = delete;
    Direct &operator=(const Direct &) = delete;

    /* The library removes what it keeps in files. Each request was waited for. */
    ~Direct() override {
        if (graph_ != nullptr)
            driver_.graph_exec_destroy(graph_);
        close_(service_);
    }

    void *input() override { return input_; }
    void *output() override { return output_; }

    Times run() override {
        int64_t begin = now_ns();
        if (!ran_)
            submit();
        else
            launch();
        ran_ = true;
        wait();
        return {begin, now_ns(), 0, 0, 0, 0};
    }

private:
    void open(const std::string &path, const std::string &configuration, int gpu) {
        void *library = load(path.c_str());
        decltype(keeptime_service_open) *open = nullptr;
        look_up(library, "keeptime_service_open", open);
        look_up(library, "keeptime_service_enqueue", enqueue_);
        look_up(library, "keeptime_service_close", close_);
        char why[1024] = "";
        if (open(KEEPTIME_SERVICE_VERSION, configuration.c_str(), gpu, &service_, why,
                 sizeof why) != 0)
            throw std::runtime_error(path + ": it does not open: " + why);
    }

    void submit() {
        expect(driver_.copy_to_device(device_input_, input_, request_.input_bytes, stream_),
               "the copy of the input");
        if (enqueue_(service_, stream_, device_input_, device_output_,
                     request_.arguments.data()) != 0)
            throw std::runtime_error("the service refused the request");
        expect(driver_.copy_to_host(output_, device_output_, request_.output_bytes, stream_),
               "the copy of the output");
    }

    void launch() {
        if (graph_ == nullptr) {
            CUgraph captured = nullptr;
            expect(driver_.begin_capture(stream_, CU_CAPTURE_THREAD_LOCAL), "a capture");
            submit();
            expect(driver_.end_capture(stream_, &captured), "the end of the capture");
            expect(driver_.graph_instantiate(&graph_, captured, CU_GRAPH_USE_NODE_PRIORITY),
                   "a graph");
            expect(driver_.graph_upload(graph_, stream_), "the upload of the graph");
        }
        expect(driver_.graph_launch(graph_, stream_), "the launch of the graph");
    }

    void wait() {
        expect(driver_.event_record(event_, stream_), "the event");
        CUresult result = CUDA_ERROR_NOT_READY;
        if (!request_.spins)
            result = driver_.event_synchronize(event_);
        while (result == CUDA_ERROR_NOT_READY)
            result = driver_.event_query(event_);
        expect(result, "the end of the request");
    }

    Driver driver_;
    Request request_;
    void *service_ = nullptr;
    decltype(keeptime_service_enqueue) *enqueue_ = nullptr;
    decltype(keeptime_service_close) *close_ = nullptr;
    CUstream stream_ = nullptr;
    CUevent event_ = nullptr;
    CUdeviceptr device_input_ = 0, device_output_ = 0;
    void *input_ = nullptr, *output_ = nullptr;
    bool ran_ = false;
    CUgraphExec graph_ = nullptr;
};

} // namespace

std::unique_ptr<Way> directly(const std::string &library, const std::string &configuration,
                              int gpu, const Request &request) {
    return std::make_unique<Direct>(library, configuration, gpu, request);
}
