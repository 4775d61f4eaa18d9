/*
 * A chain of two callbacks: a timer samples, a subscription has the samples added on the
 * accelerator, once with a ticket, doing something else meanwhile, and once waiting.
 *
 *     ros2 run keeptime_ros detector --ros-args -p keeptime.priority:=40 -p jobs:=100
 */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>

#include "keeptime_ros/executor.hpp"
#include "std_msgs/msg/u_int64.hpp"

namespace {

using std_msgs::msg::UInt64;

constexpr std::size_t n = 1000;
constexpr std::size_t bytes = n * sizeof(float);

class Detector : public rclcpp::Node {
public:
    Detector() : rclcpp::Node("detector"), jobs_(declare_parameter<int64_t>("jobs", 0)) {
        publisher_ = create_publisher<UInt64>("samples", 10);
        timer_ = create_wall_timer(std::chrono::milliseconds(10), [this] { sample(); });
        subscription_ = create_subscription<UInt64>(
            "samples", 10, [this](std::shared_ptr<const UInt64> message) { detect(*message); });
        chain_.callback(timer_, 0);
        chain_.callback(subscription_, 1);
    }

    const keeptime_ros::Chain &chain() const { return chain_; }
    uint64_t wrong() const { return wrong_; }

private:
    /* Two requests for each message. Processor time counts in a chain that is declared. */
    keeptime::Registration addition() const {
        auto registration = chain_.registration("vecadd", 1);
        registration.memory(3 * bytes).requests(2).exec(std::chrono::milliseconds(20));
        if (chain_.is_declared()) {
            registration.cpu(std::chrono::milliseconds(5));
        }
        return registration;
    }

    void sample() {
        UInt64 message;
        message.data = ++samples_;
        publisher_->publish(message);
    }

    void detect(const UInt64 &message) {
        const auto base = static_cast<float>(message.data % 1024);
        auto *numbers = add_.data<float>();
        for (std::size_t i = 0; i < n; i++) {
            numbers[i] = base;
            numbers[n + i] = static_cast<float>(i);
        }
        const auto request =
            keeptime::Request({n}).input(0, 2 * bytes).output(2 * bytes, bytes);
        auto ticket = add_.submit(request);
        float expected = 0.0F;
        for (std::size_t i = 0; i < n; i++) {
            expected += base + static_cast<float>(i);
        }
        ticket.wait();
        check("submit", expected);
        add_.run(request);
        check("run", expected);
        if (jobs_ > 0 && message.data == static_cast<uint64_t>(jobs_)) {
            RCLCPP_INFO(get_logger(), "%s: %ld jobs, %lu wrong sums", chain_.name().c_str(),
                        static_cast<long>(jobs_), static_cast<unsigned long>(wrong_));
            rclcpp::shutdown();
        }
    }

    /* The sum of all elements, and the output is cleared for the next request. The numbers are
     * integers below 2^24, so that float sums are exact. */
    void check(const char *way, float expected) {
        float *output = add_.data<float>() + 2 * n;
        float sum = 0.0F;
        for (std::size_t i = 0; i < n; i++) {
            sum += output[i];
            output[i] = 0.0F;
        }
        if (sum != expected) {
            wrong_ += 1;
            RCLCPP_WARN(get_logger(), "%s: the sum is %f, not %f", way, static_cast<double>(sum),
                        static_cast<double>(expected));
        }
    }

    keeptime_ros::Chain chain_{*this};
    keeptime::Callback add_ = chain_.service(addition());
    int64_t jobs_;
    uint64_t samples_ = 0;
    uint64_t wrong_ = 0;
    rclcpp::Publisher<UInt64>::SharedPtr publisher_;
    rclcpp::TimerBase::SharedPtr timer_;
    rclcpp::Subscription<UInt64>::SharedPtr subscription_;
};

} // namespace

int main(int argc, char **argv) {
    rclcpp::init(argc, argv);
    try {
        const auto node = std::make_shared<Detector>();
        keeptime_ros::Executor executor;
        executor.add_node(node);
        executor.add_chain(node->chain());
        executor.spin();
        return node->wrong() == 0 ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "detector: %s\n", error.what());
        return 2;
    }
}
