//! Transport of messages between nodes: DDS, or queues of one process.
//!
//! A process takes part in DDS twice, with what its nodes publish and with what they subscribe: the
//! library gives no message to the participant that sent it, and half of the messages stay in their
//! process. So each message goes the same way.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::Context;
use executor::{DdsInput, Input, Topic};
use realtime::thread;
use ros::Qos;
use serde::{Deserialize, Serialize};
use system::Graph;

use super::message::Message;

/// Transport that carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Transport {
    /// DDS on the loopback interface; each executor is a process
    Dds,
    /// Queues; all executors are threads of one process
    Shared,
}

/// Setup of a participant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Transport that carries messages.
    pub transport: Transport,
    /// The domain of DDS.
    pub domain: u16,
    /// The namespace of the run's nodes, so that runs do not hear each other.
    pub namespace: String,
    /// The cores of the threads of DDS.
    pub cores: Vec<usize>,
    /// Their `SCHED_FIFO` priority; 0 is normal scheduling.
    pub priority: u8,
}

/// A process's part of the graph.
pub(super) enum Wire {
    /// The nodes of this process.
    Dds(Box<Participants>),
    /// The topics, by name.
    Shared(BTreeMap<String, Arc<Topic<Message>>>),
}

/// The nodes of a process, by name, in the participant that publishes and in the one that subscribes.
pub(super) struct Participants {
    publishing: BTreeMap<String, ros::Node>,
    subscribing: BTreeMap<String, ros::Node>,
    /// Contexts, which take part as long as they are there.
    _contexts: [ros::Context; 2],
}

/// Sends the messages of a topic.
pub(super) enum Output {
    Dds(Box<ros::Publisher<Message>>),
    Shared(Arc<Topic<Message>>),
}

/// Receives the messages of a topic.
pub(super) type Incoming = Arc<dyn Input<Message = Message>>;

impl Wire {
    /// Takes part with these nodes.
    pub(super) fn open(setup: &Setup, graph: &Graph, nodes: &[usize]) -> anyhow::Result<Wire> {
        if setup.transport == Transport::Shared {
            let topics = graph.nodes.iter().flat_map(|node| node.topics());
            return Ok(Wire::Shared(topics.map(|t| (t.to_owned(), Arc::default())).collect()));
        }
        let contexts = [participant(setup)?, participant(setup)?];
        let nodes: Vec<&str> =
            nodes.iter().map(|&number| graph.nodes[number].id.as_str()).collect();
        let join = |context: &ros::Context, suffix: &str| {
            let node = |id: &&str| {
                let node = context.node(&setup.namespace, &format!("{id}{suffix}"));
                Ok((id.to_string(), node.with_context(|| format!("node {id}"))?))
            };
            nodes.iter().map(node).collect::<anyhow::Result<BTreeMap<String, ros::Node>>>()
        };
        Ok(Wire::Dds(Box::new(Participants {
            publishing: join(&contexts[0], "")?,
            subscribing: join(&contexts[1], "_inputs")?,
            _contexts: contexts,
        })))
    }

    /// The sending end of a topic, for the node that publishes it.
    pub(super) fn output(&self, node: &str, topic: &str) -> anyhow::Result<Output> {
        match self {
            // A writer keeps what a reader may miss until it has it; readers keep by their depth.
            Wire::Dds(dds) => {
                let publisher = of(&dds.publishing, node)?.publisher(topic, Qos::default())?;
                Ok(Output::Dds(Box::new(publisher)))
            }
            Wire::Shared(topics) => Ok(Output::Shared(of(topics, topic)?.clone())),
        }
    }

    /// The receiving end of a topic, for a node that subscribes to it.
    pub(super) fn input(&self, node: &str, topic: &str, depth: u32) -> anyhow::Result<Incoming> {
        match self {
            Wire::Dds(dds) => {
                let qos = Qos::default().depth(u16::try_from(depth).unwrap_or(u16::MAX));
                let subscription = of(&dds.subscribing, node)?.subscription(topic, qos)?;
                Ok(Arc::new(DdsInput::new(subscription, depth as usize)))
            }
            Wire::Shared(topics) => Ok(of(topics, topic)?.subscribe(depth as usize)),
        }
    }
}

fn of<'m, T>(map: &'m BTreeMap<String, T>, name: &str) -> anyhow::Result<&'m T> {
    map.get(name).with_context(|| format!("{name} is not known in this process"))
}

/// Joins the domain by a thread that the threads of DDS inherit cores and priority from.
fn participant(setup: &Setup) -> anyhow::Result<ros::Context> {
    let interfaces = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let options = ros::Options { domain: setup.domain, interfaces, ..ros::Options::default() };
    let (cores, priority) = (setup.cores.clone(), setup.priority);
    let join = move || -> anyhow::Result<ros::Context> {
        thread::pin(&cores)?;
        if priority > 0 {
            // Without the privilege the executor has none either, and the result says so.
            let _ = thread::set_policy(thread::Scheduling::Fifo(priority));
        }
        Ok(ros::Context::new(&options)?)
    };
    let thread = std::thread::Builder::new().name("kt-dds".into()).spawn(join)?;
    thread.join().map_err(|_| anyhow::anyhow!("cannot join the DDS domain"))?
}

impl Output {
    /// Sends a message.
    ///
    /// # Errors
    /// Readers are too far behind.
    pub(super) fn publish(&self, message: &Message) -> Result<(), ros::Error> {
        match self {
            Output::Dds(publisher) => publisher.publish(message),
            Output::Shared(topic) => {
                topic.publish(message);
                Ok(())
            }
        }
    }

    /// Returns true if all of so many subscriptions have been found.
    pub(super) fn reaches(&self, subscriptions: usize) -> bool {
        match self {
            Output::Dds(publisher) => publisher.subscribers() >= subscriptions,
            Output::Shared(_) => true,
        }
    }
}
