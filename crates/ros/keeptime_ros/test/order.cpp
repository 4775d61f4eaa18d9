/*
 * The executor's order, with two chains and a callback of none: which callback runs is chosen anew
 * each time, by the chain's priority and then by the later position. Prints what ran.
 */
#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "keeptime_ros/executor.hpp"
#include "std_msgs/msg/u_int64.hpp"

namespace {

using std_msgs::msg::UInt64;

class Chains : public rclcpp::Node {
public:
    Chains() : rclcpp::Node("chains") {
        /* The callbacks that come last are made first. */
        listen("other", [] {});
        listen("cold", [this] { first_cold_wakes_hot(); });
        listen("hot0", [this] { publish("hot1"); });
        listen("hot1", [] {});
        timer_ = create_wall_timer(std::chrono::microseconds(1), [this] {
            std::puts("timer");
            timer_->cancel();
        });
        cold.callback(subscriptions_[1], 0);
        cold.callback(timer_, 1);
        hot.callback(subscriptions_[2], 0);
        hot.callback(subscriptions_[3], 1);
    }

    void publish(const std::string &topic) {
        create_publisher<UInt64>(topic, 10)->publish(UInt64());
    }

    bool timer_is_ready() { return timer_->is_ready(); }

    keeptime_ros::Chain hot{*this, "hot"};
    keeptime_ros::Chain cold{*this, "cold"};

private:
    void listen(const std::string &topic, std::function<void()> then) {
        auto subscription = create_subscription<UInt64>(
            topic, 10, [topic, then](std::shared_ptr<const UInt64>) {
                std::puts(topic.c_str());
                then();
            });
        subscriptions_.push_back(subscription);
    }

    void first_cold_wakes_hot() {
        if (!woke_) {
            woke_ = true;
            publish("hot0");
        }
    }

    bool woke_ = false;
    std::vector<rclcpp::SubscriptionBase::SharedPtr> subscriptions_;
    rclcpp::TimerBase::SharedPtr timer_;
};

template <typename Exception> void refused(const std::function<void()> &what) {
    try {
        what();
        std::puts("not refused");
    } catch (const Exception &error) {
        std::printf("refused: %s\n", error.what());
    }
}

/* An end by spin() itself: nothing is ready when it begins, and cancel() came before. */
void spin_with(const std::vector<const keeptime_ros::Chain *> &chains) {
    keeptime_ros::Executor executor;
    for (const auto *chain : chains) {
        executor.add_chain(*chain);
    }
    executor.cancel();
    executor.spin();
}

} // namespace

int main(int argc, char **argv) {
    rclcpp::init(argc, argv);
    const auto node = std::make_shared<Chains>();
    {
        keeptime_ros::Executor executor;
        executor.add_node(node);
        executor.add_chain(node->cold);
        executor.add_chain(node->hot);
        for (const char *topic : {"other", "cold", "cold", "hot0", "hot0"}) {
            node->publish(topic);
        }
        while (!node->timer_is_ready()) {
        }
        std::printf("%zu ran\n", executor.spin_some());

        refused<std::runtime_error>([&] { keeptime_ros::Executor().add_node(node); });
    }
    /* Another executor may have the node once the first is gone. */
    keeptime_ros::Executor second;
    second.add_node(node);
    node->publish("hot1");
    std::printf("%zu ran\n", second.spin_some());

    keeptime_ros::Chain declared(*node, "declared");
    keeptime_ros::Chain nowhere(*node, "nowhere");
    refused<std::logic_error>([&] { spin_with({&node->hot, &declared}); });
    refused<std::invalid_argument>([&] { spin_with({&declared, &nowhere}); });
    refused<std::invalid_argument>([&] { keeptime_ros::Chain(*node, "negative"); });
    refused<std::invalid_argument>([&] { keeptime_ros::Chain(*node, "coreless"); });
    /* A core that no machine has: a warning, and the executor runs. */
    spin_with({&nowhere});
    std::puts("ran without its core");
    spin_with({&node->hot});
    int policy = 0;
    sched_param scheduling{};
    pthread_getschedparam(pthread_self(), &policy, &scheduling);
    std::printf("policy %d, priority %d\n", policy, scheduling.sched_priority);
    return 0;
}
