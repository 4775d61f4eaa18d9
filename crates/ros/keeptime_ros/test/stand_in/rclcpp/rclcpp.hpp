/*
 * Stands in for rclcpp where there is no ROS 2: what keeptime_ros and its tests use of the public
 * API, with its names and signatures, and enough behind them to run callbacks within one process.
 * Where Humble and Jazzy differ, KEEPTIME_STAND_IN_JAZZY chooses.
 *
 * Topics are shared by all nodes of the process. A subscription's queue announces messages as a
 * middleware does, and drops the oldest beyond its depth. Services, clients and waitables are
 * there for the compiler; nothing makes one.
 */
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#define RCLCPP_WARN(logger, ...)                                                                   \
    do {                                                                                           \
        std::fprintf(stderr, "[WARN] [%s]: ", (logger).get_name());                                \
        std::fprintf(stderr, __VA_ARGS__);                                                         \
        std::fputc('\n', stderr);                                                                  \
    } while (false)

#define RCLCPP_INFO(logger, ...)                                                                   \
    do {                                                                                           \
        std::printf("[INFO] [%s]: ", (logger).get_name());                                         \
        std::printf(__VA_ARGS__);                                                                  \
        std::putchar('\n');                                                                        \
    } while (false)

namespace rclcpp {

class Context;

inline std::atomic_bool &stand_in_running() {
    static std::atomic_bool running{false};
    return running;
}

/* Of all nodes, as `--ros-args -p NAME:=VALUE` gives them. */
inline std::map<std::string, std::string> &stand_in_parameters() {
    static std::map<std::string, std::string> parameters;
    return parameters;
}

inline void init(int count, char const *const *arguments) {
    for (int i = 1; i < count; i++) {
        const std::string argument = arguments[i];
        const auto middle = argument.find(":=");
        if (middle != std::string::npos) {
            stand_in_parameters()[argument.substr(0, middle)] = argument.substr(middle + 2);
        }
    }
    stand_in_running() = true;
}
inline bool ok(std::shared_ptr<Context> = nullptr) { return stand_in_running(); }
inline bool shutdown() { return stand_in_running().exchange(false); }

class Logger {
public:
    explicit Logger(std::string name) : name_(std::move(name)) {}
    const char *get_name() const { return name_.c_str(); }

private:
    std::string name_;
};

inline Logger get_logger(const std::string &name) { return Logger(name); }

class QoS {
public:
    QoS(std::size_t depth) : depth_(depth) {}
    std::size_t depth() const { return depth_; }

private:
    std::size_t depth_;
};

class Waitable {
public:
    using SharedPtr = std::shared_ptr<Waitable>;
    virtual ~Waitable() = default;
    virtual std::shared_ptr<void> take_data_by_entity_id(std::size_t id) = 0;
#ifdef KEEPTIME_STAND_IN_JAZZY
    virtual void execute(const std::shared_ptr<void> &data) = 0;
#else
    virtual void execute(std::shared_ptr<void> &data) = 0;
#endif
    virtual void set_on_ready_callback(std::function<void(std::size_t, int)>) {
        throw std::runtime_error("Custom waitables should override set_on_ready_callback");
    }
    virtual void clear_on_ready_callback() {}
};

class TimerBase {
public:
    using SharedPtr = std::shared_ptr<TimerBase>;
    using WeakPtr = std::weak_ptr<TimerBase>;

    explicit TimerBase(std::chrono::nanoseconds period) : period_(period) { reset(); }
    virtual ~TimerBase() = default;

    void cancel() { cancelled_ = true; }
    void reset() {
        cancelled_ = false;
        next_ = std::chrono::steady_clock::now() + period_;
    }
    bool is_ready() { return !cancelled_ && time_until_trigger().count() <= 0; }
    std::chrono::nanoseconds time_until_trigger() {
        return cancelled_ ? std::chrono::nanoseconds::max()
                          : next_ - std::chrono::steady_clock::now();
    }
#ifdef KEEPTIME_STAND_IN_JAZZY
    virtual std::shared_ptr<void> call() = 0;
    virtual void execute_callback(const std::shared_ptr<void> &data) = 0;
#else
    virtual bool call() = 0;
    virtual void execute_callback() = 0;
#endif

protected:
    bool advance() {
        next_ += period_;
        return !cancelled_;
    }

private:
    std::chrono::nanoseconds period_;
    std::chrono::steady_clock::time_point next_;
    bool cancelled_ = false;
};

template <typename Callback> class WallTimer : public TimerBase {
public:
    using SharedPtr = std::shared_ptr<WallTimer>;

    WallTimer(std::chrono::nanoseconds period, Callback callback)
        : TimerBase(period), callback_(std::move(callback)) {}
#ifdef KEEPTIME_STAND_IN_JAZZY
    std::shared_ptr<void> call() override {
        return advance() ? std::make_shared<int>(0) : nullptr;
    }
    void execute_callback(const std::shared_ptr<void> &) override { callback_(); }
#else
    bool call() override { return advance(); }
    void execute_callback() override { callback_(); }
#endif

private:
    Callback callback_;
};

class SubscriptionBase {
public:
    using SharedPtr = std::shared_ptr<SubscriptionBase>;
    virtual ~SubscriptionBase() = default;

    /* Messages from before are announced at once. */
    void set_on_new_message_callback(std::function<void(std::size_t)> callback) {
        announce_ = std::move(callback);
        if (waiting() > 0) {
            announce_(waiting());
        }
    }
    void clear_on_new_message_callback() { announce_ = nullptr; }
    Waitable::SharedPtr get_intra_process_waitable() const { return nullptr; }

protected:
    friend class Executor;
    virtual std::size_t waiting() const = 0;
    /* Takes the oldest message, if there is one, and runs the callback. */
    virtual void take_and_run() = 0;
    std::function<void(std::size_t)> announce_;
};

template <typename Message> class Subscription : public SubscriptionBase {
public:
    using SharedPtr = std::shared_ptr<Subscription>;
    using Callback = std::function<void(std::shared_ptr<const Message>)>;

    Subscription(std::size_t depth, Callback callback)
        : depth_(depth), callback_(std::move(callback)) {}

    void push(const Message &message) {
        if (queue_.size() == depth_) {
            queue_.pop_front();
        }
        queue_.push_back(std::make_shared<const Message>(message));
        if (announce_) {
            announce_(1);
        }
    }

private:
    std::size_t waiting() const override { return queue_.size(); }
    void take_and_run() override {
        if (!queue_.empty()) {
            const auto message = queue_.front();
            queue_.pop_front();
            callback_(message);
        }
    }

    std::size_t depth_;
    Callback callback_;
    std::deque<std::shared_ptr<const Message>> queue_;
};

/* All subscriptions of a topic in the process. */
template <typename Message>
std::vector<std::weak_ptr<Subscription<Message>>> &stand_in_topic(const std::string &name) {
    static std::map<std::string, std::vector<std::weak_ptr<Subscription<Message>>>> topics;
    return topics[name];
}

template <typename Message> class Publisher {
public:
    using SharedPtr = std::shared_ptr<Publisher>;
    explicit Publisher(std::string topic) : topic_(std::move(topic)) {}

    void publish(const Message &message) {
        for (const auto &weak : stand_in_topic<Message>(topic_)) {
            if (const auto subscription = weak.lock()) {
                subscription->push(message);
            }
        }
    }

private:
    std::string topic_;
};

class ServiceBase {
public:
    using SharedPtr = std::shared_ptr<ServiceBase>;
    void set_on_new_request_callback(std::function<void(std::size_t)>) {}
    void clear_on_new_request_callback() {}
};

class ClientBase {
public:
    using SharedPtr = std::shared_ptr<ClientBase>;
    void set_on_new_response_callback(std::function<void(std::size_t)>) {}
    void clear_on_new_response_callback() {}
};

class CallbackGroup {
public:
    using SharedPtr = std::shared_ptr<CallbackGroup>;

    bool automatically_add_to_executor_with_node() const { return true; }
    template <typename Function> TimerBase::SharedPtr find_timer_ptrs_if(Function f) const {
        return find(timers_, f);
    }
    template <typename Function>
    SubscriptionBase::SharedPtr find_subscription_ptrs_if(Function f) const {
        return find(subscriptions_, f);
    }
    template <typename Function> ServiceBase::SharedPtr find_service_ptrs_if(Function f) const {
        return find(std::vector<std::weak_ptr<ServiceBase>>(), f);
    }
    template <typename Function> ClientBase::SharedPtr find_client_ptrs_if(Function f) const {
        return find(std::vector<std::weak_ptr<ClientBase>>(), f);
    }
    template <typename Function> Waitable::SharedPtr find_waitable_ptrs_if(Function f) const {
        return find(std::vector<std::weak_ptr<Waitable>>(), f);
    }

private:
    friend class Node;

    template <typename Entity, typename Function>
    static std::shared_ptr<Entity> find(const std::vector<std::weak_ptr<Entity>> &all,
                                        Function f) {
        for (const auto &weak : all) {
            const auto entity = weak.lock();
            if (entity && f(entity)) {
                return entity;
            }
        }
        return nullptr;
    }

    std::vector<std::weak_ptr<TimerBase>> timers_;
    std::vector<std::weak_ptr<SubscriptionBase>> subscriptions_;
};

namespace node_interfaces {

class NodeBaseInterface {
public:
    using SharedPtr = std::shared_ptr<NodeBaseInterface>;
    using WeakPtr = std::weak_ptr<NodeBaseInterface>;
    using CallbackGroupFunction = std::function<void(CallbackGroup::SharedPtr)>;

    explicit NodeBaseInterface(const std::string &name) : name_("/" + name) {}
    const char *get_fully_qualified_name() const { return name_.c_str(); }
    std::atomic_bool &get_associated_with_executor_atomic() { return has_executor_; }
    void for_each_callback_group(const CallbackGroupFunction &f) { f(group_); }
    CallbackGroup::SharedPtr get_default_callback_group() { return group_; }

private:
    std::string name_;
    std::atomic_bool has_executor_{false};
    CallbackGroup::SharedPtr group_ = std::make_shared<CallbackGroup>();
};

} // namespace node_interfaces

class Node {
public:
    using SharedPtr = std::shared_ptr<Node>;

    explicit Node(const std::string &name)
        : name_(name), base_(std::make_shared<node_interfaces::NodeBaseInterface>(name)) {}
    virtual ~Node() = default;

    const char *get_fully_qualified_name() const { return base_->get_fully_qualified_name(); }
    Logger get_logger() const { return Logger(name_); }
    node_interfaces::NodeBaseInterface::SharedPtr get_node_base_interface() { return base_; }

    template <typename Value>
    Value declare_parameter(const std::string &name, const Value &preset) {
        const auto given = stand_in_parameters().find(name);
        if (given == stand_in_parameters().end()) {
            return preset;
        }
        if constexpr (std::is_same_v<Value, std::string>) {
            return given->second;
        } else {
            std::istringstream text(given->second);
            Value value;
            if (!(text >> value) || !text.eof()) {
                throw std::runtime_error("parameter " + name + " has the wrong type");
            }
            return value;
        }
    }

    template <typename Message>
    typename Publisher<Message>::SharedPtr create_publisher(const std::string &topic,
                                                            const QoS &) {
        return std::make_shared<Publisher<Message>>(topic);
    }

    template <typename Message>
    typename Subscription<Message>::SharedPtr
    create_subscription(const std::string &topic, const QoS &qos,
                        typename Subscription<Message>::Callback callback) {
        auto subscription =
            std::make_shared<Subscription<Message>>(qos.depth(), std::move(callback));
        stand_in_topic<Message>(topic).push_back(subscription);
        base_->get_default_callback_group()->subscriptions_.push_back(subscription);
        return subscription;
    }

    template <typename Callback>
    typename WallTimer<Callback>::SharedPtr create_wall_timer(std::chrono::nanoseconds period,
                                                              Callback callback) {
        auto timer = std::make_shared<WallTimer<Callback>>(period, std::move(callback));
        base_->get_default_callback_group()->timers_.push_back(timer);
        return timer;
    }

private:
    std::string name_;
    node_interfaces::NodeBaseInterface::SharedPtr base_;
};

class Executor {
public:
    virtual ~Executor() = default;
    virtual void spin() = 0;

protected:
    static void execute_subscription(SubscriptionBase::SharedPtr subscription) {
        subscription->take_and_run();
    }
    static void execute_service(ServiceBase::SharedPtr) {}
    static void execute_client(ClientBase::SharedPtr) {}
};

} // namespace rclcpp
