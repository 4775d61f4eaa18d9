/*
 * An executor that runs the ready callback of the most critical chain, and chooses anew after
 * each callback (PiCAS: criticality as priority). Callbacks of no chain come last. Callbacks of
 * equal rank take turns.
 *
 * One thread, kept on one core under SCHED_FIFO. Its priority is that of its most critical chain,
 * so that the kernel's choice among executors and the executor's choice among callbacks follow the
 * same criticality.
 *
 *     keeptime_ros::Executor executor;
 *     executor.add_node(node);
 *     executor.add_chain(node->chain());
 *     executor.spin();
 *
 * It is not an rclcpp::Executor: the inner functions of that class differ between Humble and
 * Jazzy. Messages, requests and answers announce themselves by the listeners that the events
 * executor uses (set_on_new_message_callback and its kind); timers are asked when they are due.
 */
#ifndef KEEPTIME_ROS__EXECUTOR_HPP_
#define KEEPTIME_ROS__EXECUTOR_HPP_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "keeptime_ros/chain.hpp"

namespace keeptime_ros {

class Executor {
public:
    Executor();
    ~Executor();
    Executor(const Executor &) = delete;
    Executor &operator=(const Executor &) = delete;

    /* Takes over the callback groups of a node that are added to executors by themselves. Throws
     * std::runtime_error if another executor has the node. */
    void add_node(const std::shared_ptr<rclcpp::Node> &node);

    /* Respects the ranks of a chain's callbacks. Throws std::invalid_argument if the chain names
     * another core than a chain before it. */
    void add_chain(const Chain &chain);

    /* The SCHED_FIFO priority of the most critical chain, 0 for normal scheduling. */
    uint32_t process_priority() const;

    /* Gives the calling thread its core and its priority, which it keeps, and runs callbacks until
     * rclcpp shuts down or cancel() is called. Where the machine refuses core or priority, a
     * warning says so, and callbacks run all the same.
     *
     * Throws std::logic_error if a chain with a period declared another process priority to the
     * server than this thread has, and what callbacks throw. */
    void spin();

    /* Runs the callbacks that are ready, and those that become ready meanwhile, until none is.
     * Leaves core and priority alone. Returns how many ran. */
    std::size_t spin_some();

    /* Ends spin() after the callback that is running; without one, the next spin() at once. From
     * any thread. */
    void cancel();

private:
    struct Wake;

    /* Announcements that were not run yet: their number for each part of the entity. */
    using Inbox = std::map<int, std::size_t>;

    struct Entry {
        /* Runs the callback for one announcement of a part. */
        std::function<void(int part)> run;
        /* Ends the announcements. */
        std::function<void()> clear;
        /* Set for timers, which announce nothing. */
        std::weak_ptr<rclcpp::TimerBase> timer;
        std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
        std::optional<Rank> rank;
        /* The number of the run that was its last. */
        uint64_t last_run = 0;
    };
    using Entries = std::map<std::weak_ptr<const void>, Entry,
                             std::owner_less<std::weak_ptr<const void>>>;

    struct Member {
        std::shared_ptr<const Chain::Settings> settings;
        std::shared_ptr<Chain::Ranks> ranks;
    };

    void collect();
    void add_group(const rclcpp::CallbackGroup::SharedPtr &group);
    std::function<void(std::size_t)> announce(const std::shared_ptr<Inbox> &inbox) const;
    void rank_all();
    Entries::iterator most_critical(int &part);
    bool run_next();
    void wait();
    void take_core_and_priority();

    std::shared_ptr<Wake> wake_;
    std::vector<rclcpp::node_interfaces::NodeBaseInterface::WeakPtr> nodes_;
    std::vector<Member> chains_;
    Entries entries_;
    uint64_t runs_ = 0;
    /* Announcements up to here were looked at. */
    uint64_t seen_ = 0;
};

} // namespace keeptime_ros

#endif // KEEPTIME_ROS__EXECUTOR_HPP_
