#include "keeptime_ros/executor.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>

namespace keeptime_ros {
namespace {

/* Longest sleep of the executor. It notices unannounced changes then: the end of rclcpp,
 * entities and timers made or reset by other threads, jumps of simulated time. */
constexpr std::chrono::nanoseconds LONGEST_SLEEP = std::chrono::milliseconds(100);

rclcpp::Logger logger() { return rclcpp::get_logger("keeptime_ros"); }

/* The static functions by which rclcpp's executors take and run; their class is never made. */
struct Run : rclcpp::Executor {
    using rclcpp::Executor::execute_client;
    using rclcpp::Executor::execute_service;
    using rclcpp::Executor::execute_subscription;
};

/* TimerBase::call() returns whether to run in Humble, and since Jazzy data for the callback. */
template <typename Timer> void run_timer(Timer &timer) {
    auto called = timer.call();
    if (!called) {
        return;
    }
    if constexpr (std::is_same_v<decltype(called), bool>) {
        timer.execute_callback();
    } else {
        timer.execute_callback(called);
    }
}

/* Newer data may have pushed out the data that was announced. There is nothing to take then:
 * Jazzy says so by null data, Humble's buffer of messages within a process by an exception. */
void run_waitable(rclcpp::Waitable &waitable, int part) {
    std::shared_ptr<void> data;
    try {
        data = waitable.take_data_by_entity_id(static_cast<std::size_t>(part));
    } catch (const std::runtime_error &error) {
        RCLCPP_WARN(logger(), "nothing to take from a waitable: %s", error.what());
    }
    if (data) {
        waitable.execute(data);
    }
}

/* Turns a weak pointer to an entity into a function that does something if it lives. */
template <typename Entity, typename Action>
auto if_alive(const std::shared_ptr<Entity> &entity, Action action) {
    return [weak = std::weak_ptr<Entity>(entity), action](auto... arguments) {
        if (const auto alive = weak.lock()) {
            action(alive, arguments...);
        }
    };
}

} // namespace

/* Shared with the listeners, which the middleware's threads call. */
struct Executor::Wake {
    std::mutex mutex;
    std::condition_variable condition;
    uint64_t announcements = 0;
    bool cancelled = false;

    void announce(Inbox &inbox, int part, std::size_t count) {
        const std::lock_guard<std::mutex> lock(mutex);
        inbox[part] += count;
        announcements += 1;
        condition.notify_one();
    }
};

Executor::Executor() : wake_(std::make_shared<Wake>()) {}

Executor::~Executor() {
    for (auto &entry : entries_) {
        entry.second.clear();
    }
    for (const auto &weak : nodes_) {
        if (const auto node = weak.lock()) {
            node->get_associated_with_executor_atomic().store(false);
        }
    }
}

void Executor::add_node(const std::shared_ptr<rclcpp::Node> &node) {
    const auto base = node->get_node_base_interface();
    if (base->get_associated_with_executor_atomic().exchange(true)) {
        throw std::runtime_error(std::string("node ") + base->get_fully_qualified_name() +
                                 " has an executor already");
    }
    nodes_.push_back(base);
}

void Executor::add_chain(const Chain &chain) {
    const auto &core = chain.settings_->core;
    for (const auto &member : chains_) {
        const auto &other = member.settings->core;
        if (core && other && *core != *other) {
            throw std::invalid_argument("chain " + chain.name() + " names core " +
                                        std::to_string(*core) + ", but chain " +
                                        member.settings->name + " of the same executor core " +
                                        std::to_string(*other));
        }
    }
    chains_.push_back(Member{chain.settings_, chain.ranks_});
}

uint32_t Executor::process_priority() const {
    uint32_t highest = 0;
    for (const auto &member : chains_) {
        highest = std::max(highest, member.settings->process_priority);
    }
    return highest;
}

void Executor::spin() {
    take_core_and_priority();
    const auto goes_on = [this] {
        const std::lock_guard<std::mutex> lock(wake_->mutex);
        return !wake_->cancelled && rclcpp::ok();
    };
    while (goes_on()) {
        if (!run_next()) {
            wait();
        }
    }
    const std::lock_guard<std::mutex> lock(wake_->mutex);
    wake_->cancelled = false;
}

std::size_t Executor::spin_some() {
    std::size_t count = 0;
    while (rclcpp::ok() && run_next()) {
        count += 1;
    }
    return count;
}

void Executor::cancel() {
    const std::lock_guard<std::mutex> lock(wake_->mutex);
    wake_->cancelled = true;
    wake_->condition.notify_one();
}

/* Takes up entities that are new, and forgets those that are gone. */
void Executor::collect() {
    for (const auto &weak : nodes_) {
        if (const auto node = weak.lock()) {
            node->for_each_callback_group([this](rclcpp::CallbackGroup::SharedPtr group) {
                if (group && group->automatically_add_to_executor_with_node()) {
                    add_group(group);
                }
            });
        }
    }
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        entry = entry->first.expired() ? entries_.erase(entry) : std::next(entry);
    }
}

void Executor::add_group(const rclcpp::CallbackGroup::SharedPtr &group) {
    /* Each function returns false, so that the group goes through all of its entities. */
    group->find_timer_ptrs_if([this](const rclcpp::TimerBase::SharedPtr &timer) {
        const auto [entry, is_new] = entries_.try_emplace(timer);
        if (is_new) {
            entry->second.timer = timer;
            entry->second.run = if_alive(timer, [](auto &alive, int) { run_timer(*alive); });
            entry->second.clear = [] {};
        }
        return false;
    });
    group->find_subscription_ptrs_if([this](const rclcpp::SubscriptionBase::SharedPtr &taker) {
        const auto [entry, is_new] = entries_.try_emplace(taker);
        if (is_new) {
            entry->second.run =
                if_alive(taker, [](auto &alive, int) { Run::execute_subscription(alive); });
            entry->second.clear =
                if_alive(taker, [](auto &alive) { alive->clear_on_new_message_callback(); });
            taker->set_on_new_message_callback(announce(entry->second.inbox));
        }
        return false;
    });
    group->find_service_ptrs_if([this](const rclcpp::ServiceBase::SharedPtr &service) {
        const auto [entry, is_new] = entries_.try_emplace(service);
        if (is_new) {
            entry->second.run =
                if_alive(service, [](auto &alive, int) { Run::execute_service(alive); });
            entry->second.clear =
                if_alive(service, [](auto &alive) { alive->clear_on_new_request_callback(); });
            service->set_on_new_request_callback(announce(entry->second.inbox));
        }
        return false;
    });
    group->find_client_ptrs_if([this](const rclcpp::ClientBase::SharedPtr &client) {
        const auto [entry, is_new] = entries_.try_emplace(client);
        if (is_new) {
            entry->second.run =
                if_alive(client, [](auto &alive, int) { Run::execute_client(alive); });
            entry->second.clear =
                if_alive(client, [](auto &alive) { alive->clear_on_new_response_callback(); });
            client->set_on_new_response_callback(announce(entry->second.inbox));
        }
        return false;
    });
    group->find_waitable_ptrs_if([this](const rclcpp::Waitable::SharedPtr &waitable) {
        const auto [entry, is_new] = entries_.try_emplace(waitable);
        if (!is_new) {
            return false;
        }
        entry->second.run =
            if_alive(waitable, [](auto &alive, int part) { run_waitable(*alive, part); });
        entry->second.clear = [] {};
        try {
            waitable->set_on_ready_callback(
                [wake = wake_, inbox = entry->second.inbox](std::size_t count, int part) {
                    wake->announce(*inbox, part, count);
                });
            entry->second.clear =
                if_alive(waitable, [](auto &alive) { alive->clear_on_ready_callback(); });
        } catch (const std::exception &error) {
            RCLCPP_WARN(logger(), "a waitable does not announce itself and is never run: %s",
                        error.what());
        }
        return false;
    });
}

std::function<void(std::size_t)> Executor::announce(const std::shared_ptr<Inbox> &inbox) const {
    return [wake = wake_, inbox](std::size_t count) { wake->announce(*inbox, 0, count); };
}

/* A callback of several chains has the highest of its ranks. */
void Executor::rank_all() {
    for (auto &entry : entries_) {
        entry.second.rank.reset();
    }
    for (const auto &member : chains_) {
        const std::lock_guard<std::mutex> lock(member.ranks->mutex);
        for (const auto &[entity, rank] : member.ranks->of) {
            const auto entry = entries_.find(entity);
            if (entry == entries_.end()) {
                continue;
            }
            auto &known = entry->second.rank;
            if (!known || std::tie(known->priority, known->position) <
                              std::tie(rank.priority, rank.position)) {
                known = rank;
            }
        }
    }
}

/* The ready callback that comes first, and which part of it; the announcement is taken. */
Executor::Entries::iterator Executor::most_critical(int &part) {
    const std::lock_guard<std::mutex> lock(wake_->mutex);
    seen_ = wake_->announcements;
    const auto is_ready = [](const Entry &entry) {
        const auto timer = entry.timer.lock();
        return timer ? timer->is_ready() : !entry.inbox->empty();
    };
    const auto order = [](const Entry &entry) {
        const auto rank = entry.rank.value_or(Rank{0, 0});
        /* The older last run comes first among equals. */
        return std::make_tuple(entry.rank.has_value(), rank.priority, rank.position,
                               UINT64_MAX - entry.last_run);
    };
    auto best = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (is_ready(entry->second) &&
            (best == entries_.end() || order(best->second) < order(entry->second))) {
            best = entry;
        }
    }
    if (best != entries_.end() && !best->second.inbox->empty()) {
        const auto first = best->second.inbox->begin();
        part = first->first;
        first->second -= 1;
        if (first->second == 0) {
            best->second.inbox->erase(first);
        }
    }
    return best;
}

bool Executor::run_next() {
    collect();
    rank_all();
    int part = 0;
    const auto next = most_critical(part);
    if (next == entries_.end()) {
        return false;
    }
    runs_ += 1;
    next->second.last_run = runs_;
    next->second.run(part);
    return true;
}

void Executor::wait() {
    auto longest = LONGEST_SLEEP;
    for (const auto &entry : entries_) {
        if (const auto timer = entry.second.timer.lock()) {
            longest = std::min(longest, timer->time_until_trigger());
        }
    }
    std::unique_lock<std::mutex> lock(wake_->mutex);
    wake_->condition.wait_for(lock, longest, [this] {
        return wake_->cancelled || wake_->announcements != seen_;
    });
}

void Executor::take_core_and_priority() {
    const auto priority = process_priority();
    std::optional<uint32_t> core;
    for (const auto &member : chains_) {
        const auto &settings = *member.settings;
        if (settings.period.count() > 0 && settings.process_priority != priority) {
            throw std::logic_error(
                "chain " + settings.name + " declares process priority " +
                std::to_string(settings.process_priority) + ", but its executor has " +
                std::to_string(priority) + ": set its parameter process_priority");
        }
        core = settings.core ? settings.core : core;
    }
    const char *consequence = "callbacks run all the same, but what the server promised to chains "
                              "with a period does not hold";
    if (core) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        if (*core < CPU_SETSIZE) {
            CPU_SET(*core, &cores);
        }
        const int error = pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
        if (error != 0) {
            RCLCPP_WARN(logger(), "the executor's thread cannot be kept on core %u: %s; %s", *core,
                        std::strerror(error), consequence);
        }
    }
    if (priority > 0) {
        sched_param parameters{};
        parameters.sched_priority = static_cast<int>(priority);
        const int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
        if (error != 0) {
            RCLCPP_WARN(logger(),
                        "the executor's thread cannot have SCHED_FIFO priority %u: %s (it needs "
                        "CAP_SYS_NICE, or `ulimit -r %u`); %s",
                        priority, std::strerror(error), priority, consequence);
        }
    }
}

} // namespace keeptime_ros
