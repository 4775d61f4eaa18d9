//! Choice of the callback that an executor runs next. Pure: no clock, no thread, no message.
//!
//! [`ExecutorPolicy::ChainAware`] (PiCAS; PAAM, sections II-B and II-C): before each choice the ready
//! callbacks are collected anew, and the one of the highest priority goes first. As every callback
//! of a more critical chain has a higher priority than any of a less critical one, and a later
//! callback of a chain a higher one than an earlier one, the most critical job that has begun is
//! brought to its end first.
//!
//! [`ExecutorPolicy::Ros2`] (the executors of rclcpp in ROS 2 Humble and Jazzy): what is ready is sampled
//! at *polling points* only, when everything that the last sample found has been worked off. Inside
//! a sample all timers go first, then subscriptions, services and clients, each class in the order
//! of registration, each callback at most once. What becomes ready after the sample waits for the
//! next one, whatever its priority.
//!
//! A callback whose group is busy is passed over. Under `Ros2` it stays in the sample; if nothing
//! else of the sample can run, a new one is taken, in which a busy group has no part.

use std::cmp::Reverse;

/// Rule by which an executor chooses among its callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutorPolicy {
    /// The ready callback of the highest priority.
    ChainAware,
    /// The default of ROS 2: polling points, classes, order of registration.
    Ros2,
}

/// The classes of callbacks, in the order in which ROS 2 looks at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Released by the clock.
    Timer,
    /// Released by a message.
    Subscription,
    /// Released by a request of another thread.
    Service,
    /// Released by the answer to an own request, of an accelerator for instance.
    Client,
}

/// The state of choosing.
pub(crate) struct Order {
    policy: ExecutorPolicy,
    /// Numbers of callbacks, the one that goes first at the front.
    order: Vec<usize>,
    /// Callbacks that the last sample found ready and that did not run yet, under `Ros2`.
    sample: Vec<bool>,
}

impl Order {
    /// The order of callbacks that are given by class and priority, in order of registration.
    pub(crate) fn new(policy: ExecutorPolicy, callbacks: &[(Kind, u32)]) -> Order {
        let mut order: Vec<usize> = (0..callbacks.len()).collect();
        // Both sorts are stable: what compares equal stays in the order of registration.
        match policy {
            ExecutorPolicy::ChainAware => {
                order.sort_by_key(|&callback| Reverse(callbacks[callback].1))
            }
            ExecutorPolicy::Ros2 => order.sort_by_key(|&callback| callbacks[callback].0),
        }
        Order { policy, order, sample: vec![false; callbacks.len()] }
    }

    /// The callback that runs next, of those whose group is free.
    pub(crate) fn choose(
        &mut self,
        free: impl Fn(usize) -> bool,
        ready: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if self.policy == ExecutorPolicy::ChainAware {
            return self.order.iter().copied().find(|&callback| free(callback) && ready(callback));
        }
        if let Some(callback) = self.sampled(&free) {
            return Some(callback);
        }
        for (callback, sampled) in self.sample.iter_mut().enumerate() {
            *sampled = free(callback) && ready(callback);
        }
        self.sampled(&free)
    }

    /// The next callback of the sample, which leaves it.
    fn sampled(&mut self, free: impl Fn(usize) -> bool) -> Option<usize> {
        let next = self.order.iter().copied().find(|&at| self.sample[at] && free(at))?;
        self.sample[next] = false;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Client, Service, Subscription, Timer};

    /// Runs what is ready until nothing is; `then` says what a callback makes ready.
    fn run(order: &mut Order, ready: &mut [u32], then: &[(usize, usize)]) -> Vec<usize> {
        let mut ran = Vec::new();
        while let Some(callback) = order.choose(|_| true, |callback| ready[callback] > 0) {
            ready[callback] -= 1;
            for (_, next) in then.iter().filter(|(from, _)| *from == callback) {
                ready[*next] += 1;
            }
            ran.push(callback);
        }
        ran
    }

    #[test]
    fn ros2_looks_at_classes_in_turn_and_registration_decides_inside() {
        let callbacks =
            [(Client, 9), (Service, 8), (Subscription, 1), (Subscription, 7), (Timer, 0)];
        let mut ros2 = Order::new(ExecutorPolicy::Ros2, &callbacks);
        assert_eq!(run(&mut ros2, &mut [1; 5], &[]), [4, 2, 3, 1, 0]);
        let mut chain_aware = Order::new(ExecutorPolicy::ChainAware, &callbacks);
        assert_eq!(run(&mut chain_aware, &mut [1; 5], &[]), [0, 1, 3, 2, 4]);
    }

    #[test]
    fn ros2_serves_each_callback_once_between_two_polling_points() {
        let mut ros2 = Order::new(ExecutorPolicy::Ros2, &[(Subscription, 2), (Subscription, 1)]);
        assert_eq!(run(&mut ros2, &mut [3, 2], &[]), [0, 1, 0, 1, 0]);
        let mut chain_aware =
            Order::new(ExecutorPolicy::ChainAware, &[(Subscription, 2), (Subscription, 1)]);
        assert_eq!(run(&mut chain_aware, &mut [3, 2], &[]), [0, 0, 0, 1, 1]);
    }

    #[test]
    fn what_gets_ready_after_a_polling_point_waits_for_the_next_one() {
        // 0 is a timer whose callback makes 1, the most urgent one, ready; 2 and 3 are ready.
        let callbacks = [(Timer, 3), (Subscription, 4), (Subscription, 2), (Subscription, 1)];
        let mut ros2 = Order::new(ExecutorPolicy::Ros2, &callbacks);
        assert_eq!(run(&mut ros2, &mut [1, 0, 1, 1], &[(0, 1)]), [0, 2, 3, 1]);
        let mut chain_aware = Order::new(ExecutorPolicy::ChainAware, &callbacks);
        assert_eq!(run(&mut chain_aware, &mut [1, 0, 1, 1], &[(0, 1)]), [0, 1, 2, 3]);
    }

    #[test]
    fn equal_priorities_keep_the_order_of_registration() {
        let mut chain_aware = Order::new(ExecutorPolicy::ChainAware, &[(Client, 5), (Timer, 5)]);
        assert_eq!(run(&mut chain_aware, &mut [1, 1], &[]), [0, 1]);
    }

    #[test]
    fn busy_group_is_passed_over_and_keeps_its_place_in_the_sample() {
        let callbacks = [(Timer, 1), (Timer, 2), (Timer, 3)];
        let mut ros2 = Order::new(ExecutorPolicy::Ros2, &callbacks);
        assert_eq!(ros2.choose(|_| true, |_| true), Some(0));
        assert_eq!(ros2.choose(|callback| callback != 1, |_| true), Some(2));
        // The sample still has 1, so nothing is sampled anew.
        assert_eq!(ros2.choose(|_| true, |_| true), Some(1));
        assert_eq!(ros2.choose(|_| true, |callback| callback == 2), Some(2));
        let mut chain_aware = Order::new(ExecutorPolicy::ChainAware, &callbacks);
        assert_eq!(chain_aware.choose(|callback| callback != 2, |_| true), Some(1));
        assert_eq!(chain_aware.choose(|_| false, |_| true), None);
    }
}
