/*
 * A node's part of a processing chain: what its parameters say of the chain, where its callbacks
 * stand in it, and the accelerator services that they call.
 *
 *     class Detector : public rclcpp::Node {
 *         keeptime_ros::Chain chain_{*this};
 *         keeptime::Callback add_ =
 *             chain_.service(chain_.registration("vecadd", 1).memory(12 * n));
 *         ...
 *         chain_.callback(subscription_, 1);
 *
 * Parameters of the node, under a prefix ("keeptime" unless told otherwise):
 *
 *     socket            the server's socket; empty: as keeptime_connect() finds it
 *     chain             the chain's name; empty: the node's fully qualified name
 *     priority          of the chain, from 0; larger is more critical
 *     period_ms         least distance of two releases; 0: the chain is not declared
 *     deadline_ms       from the nominal release to the end of the chain; 0: the period
 *     core              the executor's core; -1: none. Needed with a period
 *     process_priority  SCHED_FIFO priority of the executor's thread, 0 to 99, 0 being normal
 *                       scheduling; -1: follows from the chain's priority
 *
 * Threads: a chain has one client, used by one thread at a time: the one that builds the node, and
 * then the executor's.
 */
#ifndef KEEPTIME_ROS__CHAIN_HPP_
#define KEEPTIME_ROS__CHAIN_HPP_

#include <keeptime.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "rclcpp/rclcpp.hpp"

namespace keeptime_ros {

/* The SCHED_FIFO priority of a process whose most critical chain has this priority: the same
 * number, and at most 98, because the kernel's own threads have 99. */
uint32_t process_priority(uint32_t chain_priority);

/* Order in which an executor runs ready callbacks: the more critical chain first, and within a
 * chain the later callback, so that a chain that has begun comes to its end. */
struct Rank {
    uint32_t priority;
    uint32_t position;
};

class Chain {
public:
    /* Declares the parameters and reads them. Throws std::invalid_argument, which names the
     * parameter, its value and what was expected. */
    explicit Chain(rclcpp::Node &node, const std::string &prefix = "keeptime");

    /* Puts a callback at its position in the chain, from 0. Executors see it from their next
     * choice on. */
    void callback(const rclcpp::TimerBase::SharedPtr &timer, uint32_t position);
    void callback(const rclcpp::SubscriptionBase::SharedPtr &subscription, uint32_t position);
    void callback(const rclcpp::ServiceBase::SharedPtr &service, uint32_t position);
    void callback(const rclcpp::ClientBase::SharedPtr &client, uint32_t position);

    /* Registration of a callback at this position for a service: the parameters are filled in;
     * memory and, with a period, execution and processor times are the caller's. */
    keeptime::Registration registration(const std::string &service, uint32_t position) const;

    /* Registers; the first one connects. The result runs requests inside callbacks: run() waits,
     * submit() returns a ticket. Throws keeptime::Error. */
    keeptime::Callback service(const keeptime::Registration &registration);

    const std::string &name() const { return settings_->name; }
    uint32_t priority() const { return settings_->priority; }
    uint32_t process_priority() const { return settings_->process_priority; }
    /* True if it has a period, so that the server promises its deadline. */
    bool is_declared() const { return settings_->period.count() > 0; }

private:
    friend class Executor;

    struct Settings {
        std::string socket;
        std::string name;
        uint32_t priority;
        std::chrono::nanoseconds period;
        std::chrono::nanoseconds deadline;
        std::optional<uint32_t> core;
        uint32_t process_priority;
    };

    /* By owner, so that an entity is never taken for one that had its address before. */
    struct Ranks {
        std::mutex mutex;
        std::map<std::weak_ptr<const void>, Rank, std::owner_less<std::weak_ptr<const void>>> of;
    };

    void rank(const std::shared_ptr<const void> &entity, uint32_t position);

    /* Shared with executors, which may outlive the node. */
    std::shared_ptr<const Settings> settings_;
    std::shared_ptr<Ranks> ranks_ = std::make_shared<Ranks>();
    std::optional<keeptime::Client> client_;
};

} // namespace keeptime_ros

#endif // KEEPTIME_ROS__CHAIN_HPP_
