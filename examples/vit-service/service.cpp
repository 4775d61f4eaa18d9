/*
 * A service of a GPU as a shared library: a network of TorchScript, run by libtorch.
 *
 * The configuration is the module that export.py writes; what goes in and out of the network is in
 * its file. A request brings one input and takes one output; its arguments mean nothing.
 *
 * Memory. What the network allocates while a request is captured is used by the graph for as long
 * as that is replayed, so nobody else may ever get it. All runs of a service take their memory
 * from a pool of its own. In a pool a block belongs to the stream for which it was allocated:
 * requests of one stream, replayed or not, come one after the other and may share their memory,
 * those of two streams never do. The first request of a stream fills the pool, which is never
 * captured, so that a capture finds in it what it needs. If it does not, the allocator asks the
 * driver in a way that a capture allows.
 */
#include "keeptime_service.h"

#include <ATen/Context.h>
#include <ATen/cuda/MemPool.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/* A tensor as the module's file describes it, such as "float16 1 3 224 224". */
struct Form {
    at::ScalarType type;
    std::vector<int64_t> shape;

    static Form parse(const std::string &text) {
        static const std::map<std::string, at::ScalarType> types = {
            {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}, {"float32", at::kFloat}};
        std::istringstream words(text);
        std::string name;
        words >> name;
        auto type = types.find(name);
        std::vector<int64_t> shape;
        for (int64_t size; words >> size;)
            shape.push_back(size);
        if (type == types.end() || shape.empty() || !words.eof())
            throw std::runtime_error("a tensor \"" + text + "\"; float16 1 3 224 224, say");
        return {type->second, shape};
    }

    at::TensorOptions on(c10::DeviceIndex gpu) const {
        return at::TensorOptions().dtype(type).device(at::kCUDA, gpu);
    }
};

/* A stream for as long as it is needed. */
struct OwnStream {
    cudaStream_t handle = nullptr;

    OwnStream() { C10_CUDA_CHECK(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
    OwnStream(const OwnStream &) = delete;
    OwnStream &operator=(const OwnStream &) = delete;
    ~OwnStream() { C10_CUDA_IGNORE_ERROR(cudaStreamDestroy(handle)); }
};

/* While it lives, memory for a stream comes from a pool. */
class FromPool {
public:
    FromPool(at::cuda::MemPool &pool, cudaStream_t stream)
        : device_(pool.device()), id_(pool.id()) {
        auto is_ours = [stream](cudaStream_t other) { return other == stream; };
        allocator::beginAllocateToPool(device_, id_, is_ours);
    }
    FromPool(const FromPool &) = delete;
    FromPool &operator=(const FromPool &) = delete;
    ~FromPool() {
        allocator::endAllocateToPool(device_, id_);
        /* It was counted once more as used when this began. */
        allocator::releasePool(device_, id_);
    }

private:
    c10::DeviceIndex device_;
    c10::MempoolId_t id_;
};

class Network {
public:
    /* The GPU is the current one. */
    Network(const std::string &file, c10::DeviceIndex gpu) : gpu_(gpu) {
        torch::jit::ExtraFilesMap described = {{"input", ""}, {"output", ""}};
        module_ = torch::jit::load(file, c10::Device(c10::kCUDA, gpu), described);
        module_.eval();
        input_ = Form::parse(described["input"]);
        output_ = Form::parse(described["output"]);
    }

    /* Loads the network's kernels, which cannot be done during a capture. */
    void warm_up() {
        at::Tensor input = at::empty(input_.shape, input_.on(gpu_)).zero_();
        at::Tensor output = at::empty(output_.shape, output_.on(gpu_));
        C10_CUDA_CHECK(cudaDeviceSynchronize());
        OwnStream stream;
        enqueue(stream.handle, input.mutable_data_ptr(), output.mutable_data_ptr());
        C10_CUDA_CHECK(cudaStreamSynchronize(stream.handle));
    }

    void enqueue(cudaStream_t handle, void *input, void *output) {
        c10::InferenceMode inference;
        c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromExternal(handle, gpu_));
        FromPool memory(pool_, handle);
        /* Else the module would be compiled anew after some runs. For this thread only. */
        torch::jit::setGraphExecutorOptimize(false);
        at::Tensor result = module_.forward({tensor(input, input_)}).toTensor().contiguous();
        if (result.sizes() != at::IntArrayRef(output_.shape) ||
            result.scalar_type() != output_.type)
            throw std::runtime_error("the network's output is not what its file says");
        C10_CUDA_CHECK(cudaMemcpyAsync(output, result.const_data_ptr(), result.nbytes(),
                                       cudaMemcpyDeviceToDevice, handle));
    }

private:
    /* Memory of the server as a tensor. Named the device, the driver is not asked for it. */
    at::Tensor tensor(void *memory, const Form &form) const {
        at::TensorOptions options = form.on(gpu_);
        return at::for_blob(memory, form.shape)
            .options(options)
            .target_device(options.device())
            .make_tensor();
    }

    c10::DeviceIndex gpu_;
    /* Goes after the network. */
    at::cuda::MemPool pool_;
    torch::jit::Module module_;
    Form input_, output_;
};

/* Does what may fail. False with the reason in `why` if it did. */
template <typename Action> bool attempt(std::string &why, Action action) noexcept {
    try {
        try {
            action();
            return true;
        } catch (const c10::Error &error) {
            why = error.what_without_backtrace();
            why = why.substr(0, why.find('\n'));
        } catch (const std::exception &error) {
            why = error.what();
        } catch (...) {
            why = "an exception of an unknown kind";
        }
    } catch (...) {
        /* There is no memory for the reason. */
    }
    /* The CUDA runtime would report it again at the next call of this thread. */
    (void)cudaGetLastError();
    return false;
}

} // namespace

int keeptime_service_open(uint32_t version, const char *configuration, int32_t gpu, void **opened,
                          char *error, size_t error_bytes) {
    /* The loader of modules, and the first use of libtorch's GPU, are one thread's at a time. */
    static std::mutex opening;
    std::string why;
    bool done = attempt(why, [&] {
        if (version != KEEPTIME_SERVICE_VERSION)
            throw std::runtime_error("version " + std::to_string(version) + " of the interface");
        std::lock_guard<std::mutex> turn(opening);
        auto device = static_cast<c10::DeviceIndex>(gpu);
        c10::cuda::CUDAGuard guard(device);
        at::globalContext().lazyInitDevice(at::kCUDA);
        auto network = std::make_unique<Network>(configuration, device);
        network->warm_up();
        *opened = network.release();
    });
    if (!done)
        std::snprintf(error, error_bytes, "%s: %s", configuration, why.c_str());
    return done ? 0 : 1;
}

int keeptime_service_enqueue(void *opened, void *stream, uint64_t input, uint64_t output,
                             const uint64_t[4]) {
    std::string why;
    bool done = attempt(why, [&] {
        static_cast<Network *>(opened)->enqueue(static_cast<cudaStream_t>(stream),
                                                reinterpret_cast<void *>(input),
                                                reinterpret_cast<void *>(output));
    });
    if (!done)
        std::fprintf(stderr, "vit-service: a request is refused: %s\n", why.c_str());
    return done ? 0 : 1;
}

void keeptime_service_close(void *opened) {
    std::string why;
    attempt(why, [&] { delete static_cast<Network *>(opened); });
}
