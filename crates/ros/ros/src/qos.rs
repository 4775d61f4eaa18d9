//! The qualities of service that ROS 2 names, and what DDS is told.

use rustdds::policy;
use rustdds::{Duration, QosPolicies, QosPolicyBuilder};

/// Are lost messages sent again?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// Messages are kept until the reader has them.
    #[default]
    Reliable,
    /// Messages may be lost.
    BestEffort,
}

/// Delivery of earlier messages to a reader that comes later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A later reader gets no earlier messages.
    #[default]
    Volatile,
    /// A later reader gets as many messages as the writer still has in its history.
    TransientLocal,
}

/// The qualities of one publisher or subscription. The default is that of ROS 2: reliable, the
/// last 10, none for late comers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    /// Are lost messages sent again?
    pub reliability: Reliability,
    /// Do late readers get earlier messages?
    pub durability: Durability,
    /// Number of messages that a subscription keeps until they are taken, and a publisher for late
    /// readers; at least 1.
    pub depth: u16,
    /// The largest message that a reader takes, in bytes of its serialised form.
    pub max_bytes: usize,
    /// Number of messages of a reliable publisher that may be on the way without being acknowledged
    /// by all readers. A reader that died stays one of them until its lease ends, 10 s in most
    /// implementations.
    pub window: u16,
    /// Longest time for which [`publish`](crate::Publisher::publish) waits for room in the window,
    /// in milliseconds; 0: it never waits.
    pub block_ms: u32,
}

impl Default for Qos {
    fn default() -> Qos {
        Qos {
            reliability: Reliability::Reliable,
            durability: Durability::Volatile,
            depth: 10,
            max_bytes: 16 << 20,
            window: 1024,
            block_ms: 0,
        }
    }
}

impl Qos {
    /// The quality of service of sensor data: best effort, the last 5.
    pub fn sensor_data() -> Qos {
        Qos { reliability: Reliability::BestEffort, depth: 5, ..Qos::default() }
    }

    /// The quality of service of a latched topic: reliable, the last message for every later
    /// reader.
    pub fn latched() -> Qos {
        Qos { durability: Durability::TransientLocal, depth: 1, ..Qos::default() }
    }

    /// The same with another depth.
    pub fn depth(self, depth: u16) -> Qos {
        Qos { depth: depth.max(1), ..self }
    }

    fn common(&self) -> QosPolicyBuilder {
        let max_blocking_time = Duration::from_millis(i64::from(self.block_ms));
        QosPolicyBuilder::new()
            .reliability(match self.reliability {
                Reliability::Reliable => policy::Reliability::Reliable { max_blocking_time },
                Reliability::BestEffort => policy::Reliability::BestEffort,
            })
            .durability(match self.durability {
                Durability::Volatile => policy::Durability::Volatile,
                Durability::TransientLocal => policy::Durability::TransientLocal,
            })
            .history(policy::History::KeepLast { depth: i32::from(self.depth.max(1)) })
    }

    pub(crate) fn writer(&self) -> QosPolicies {
        self.common().resource_limits(limit(self.window.max(self.depth))).build()
    }

    /// The depth is kept in [`Subscription`](crate::Subscription) itself: DDS cleans its own cache
    /// only now and then, so that up to 64 more small messages may lie in it.
    pub(crate) fn reader(&self) -> QosPolicies {
        self.common().resource_limits(limit(self.depth.max(1))).build()
    }
}

fn limit(samples: u16) -> policy::ResourceLimits {
    let max_samples = i32::from(samples);
    policy::ResourceLimits { max_samples, max_instances: 1, max_samples_per_instance: max_samples }
}
