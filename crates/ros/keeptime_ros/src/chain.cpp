#include "keeptime_ros/chain.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace keeptime_ros {
namespace {

constexpr int64_t HIGHEST_CHAIN_PRIORITY = UINT32_MAX;
constexpr int64_t HIGHEST_CORE = 4095;

template <typename Value>
[[noreturn]] void refuse(const std::string &name, const Value &value, const char *expected) {
    std::ostringstream text;
    text << "parameter " << name << " is " << value << ": expected " << expected;
    throw std::invalid_argument(text.str());
}

int64_t integer(rclcpp::Node &node, const std::string &name, int64_t preset, int64_t least,
                int64_t most, const char *expected) {
    const auto value = node.declare_parameter<int64_t>(name, preset);
    if (value < least || value > most) {
        refuse(name, value, expected);
    }
    return value;
}

std::chrono::nanoseconds milliseconds(rclcpp::Node &node, const std::string &name) {
    const auto value = node.declare_parameter<double>(name, 0.0);
    /* A day is more than any chain's period; the comparison is false of what is not a number. */
    if (!(value >= 0.0 && value <= 86'400'000.0)) {
        refuse(name, value, "0 to 86400000 milliseconds");
    }
    return std::chrono::nanoseconds(std::llround(value * 1e6));
}

} // namespace

uint32_t process_priority(uint32_t chain_priority) {
    return std::min(chain_priority, uint32_t{98});
}

Chain::Chain(rclcpp::Node &node, const std::string &prefix) {
    auto settings = std::make_shared<Settings>();
    settings->socket = node.declare_parameter<std::string>(prefix + ".socket", "");
    settings->name = node.declare_parameter<std::string>(prefix + ".chain", "");
    if (settings->name.empty()) {
        settings->name = node.get_fully_qualified_name();
    }
    settings->priority = static_cast<uint32_t>(integer(
        node, prefix + ".priority", 0, 0, HIGHEST_CHAIN_PRIORITY, "0 to 4294967295"));
    settings->period = milliseconds(node, prefix + ".period_ms");
    settings->deadline = milliseconds(node, prefix + ".deadline_ms");
    const auto core = integer(node, prefix + ".core", -1, -1, HIGHEST_CORE, "a core, or -1");
    if (core >= 0) {
        settings->core = static_cast<uint32_t>(core);
    }
    const auto process =
        integer(node, prefix + ".process_priority", -1, -1, 99, "0 to 99, or -1");
    settings->process_priority = process >= 0 ? static_cast<uint32_t>(process)
                                              : keeptime_ros::process_priority(settings->priority);
    if (settings->period.count() > 0 && core < 0) {
        refuse(prefix + ".core", core, "the executor's core, because the chain has a period");
    }
    settings_ = settings;
}

void Chain::callback(const rclcpp::TimerBase::SharedPtr &timer, uint32_t position) {
    rank(timer, position);
}

void Chain::callback(const rclcpp::SubscriptionBase::SharedPtr &subscription, uint32_t position) {
    rank(subscription, position);
    /* Messages from the same process come by a waitable of their own. */
    if (const auto waitable = subscription->get_intra_process_waitable()) {
        rank(waitable, position);
    }
}

void Chain::callback(const rclcpp::ServiceBase::SharedPtr &service, uint32_t position) {
    rank(service, position);
}

void Chain::callback(const rclcpp::ClientBase::SharedPtr &client, uint32_t position) {
    rank(client, position);
}

void Chain::rank(const std::shared_ptr<const void> &entity, uint32_t position) {
    if (!entity) {
        throw std::invalid_argument("chain " + name() + ": a callback is null");
    }
    const std::lock_guard<std::mutex> lock(ranks_->mutex);
    ranks_->of[entity] = Rank{priority(), position};
}

keeptime::Registration Chain::registration(const std::string &service, uint32_t position) const {
    keeptime::Registration registration(service);
    registration.chain(name(), priority()).position(position);
    if (is_declared()) {
        registration.period(settings_->period, settings_->deadline);
    }
    if (settings_->core) {
        registration.executor(*settings_->core, process_priority());
    }
    return registration;
}

keeptime::Callback Chain::service(const keeptime::Registration &registration) {
    if (!client_) {
        client_.emplace(settings_->socket.empty() ? nullptr : settings_->socket.c_str());
    }
    return client_->callback(registration);
}

} // namespace keeptime_ros
