//! Nodes on the graph: `ros_discovery_info`.
//!
//! DDS knows participants, readers and writers; nodes are what each participant says about itself
//! on one topic, reliable and kept for late comers (package `rmw_dds_common`):
//!
//! ```text
//! ParticipantEntitiesInfo   gid, node_entities_info_seq[]
//! NodeEntitiesInfo          node_namespace, node_name, reader_gid_seq[], writer_gid_seq[]
//! Gid                       16 bytes; 24 in Humble and before, of which 16 count
//! ```

use crate::cdr::{self, Order};
use crate::context::Entities;
use crate::wire::{Adapter, Limit, Payload};
use crate::{Durability, Error, NodeName, Qos};
use rustdds::no_key::{DataWriter, SimpleDataReader};
use rustdds::{DomainParticipant, GUID, Publisher, Subscriber, Topic, TopicKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const TOPIC: &str = "ros_discovery_info";
const TYPE: &str = "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_";

/// The largest announcement that is read: some thousand endpoints.
const MAX_BYTES: usize = 64 << 10;

/// The most participants whose announcements are kept.
const MAX_PARTICIPANTS: usize = 256;

/// A node of another participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// Its namespace and name.
    pub name: NodeName,
    /// The participant, unique in the domain.
    pub participant: [u8; 16],
    /// The node's DDS readers.
    pub readers: Vec<[u8; 16]>,
    /// The node's DDS writers.
    pub writers: Vec<[u8; 16]>,
}

impl NodeEntry {
    /// The nodes of one message of `ros_discovery_info`, in either form; None if it is neither.
    /// Nodes whose names ROS 2 does not allow are left out.
    pub fn read(bytes: &[u8], order: Order) -> Option<Vec<NodeEntry>> {
        Announcement::read(bytes, order).map(|announcement| announcement.entries().collect())
    }
}

/// Nodes of one participant, as it announces them.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "G: Deserialize<'de>"))]
pub(crate) struct Announcement<G = [u8; 16]> {
    participant: G,
    nodes: Vec<Announced<G>>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "G: Deserialize<'de>"))]
struct Announced<G> {
    namespace: String,
    name: String,
    readers: Vec<G>,
    writers: Vec<G>,
}

impl Announcement {
    pub(crate) fn new(participant: GUID, nodes: &BTreeMap<NodeName, Entities>) -> Announcement {
        let bytes = |guids: &BTreeSet<GUID>| guids.iter().map(GUID::to_bytes).collect();
        let nodes = nodes.iter().map(|(name, entities)| Announced {
            namespace: name.namespace().to_owned(),
            name: name.name().to_owned(),
            readers: bytes(&entities.readers),
            writers: bytes(&entities.writers),
        });
        Announcement { participant: participant.to_bytes(), nodes: nodes.collect() }
    }

    /// The announcement with ids of 24 bytes.
    pub(crate) fn padded(&self) -> Announcement<[u8; 24]> {
        self.map(|id| {
            let mut padded = [0; 24];
            padded[..16].copy_from_slice(id);
            padded
        })
    }

    /// Reads either form: the one that takes all of the bytes.
    pub(crate) fn read(bytes: &[u8], order: Order) -> Option<Announcement> {
        let whole = |taken: usize| taken.next_multiple_of(4) >= bytes.len();
        if let Ok((announcement, taken)) = cdr::decode::<Announcement>(bytes, order)
            && whole(taken)
        {
            return Some(announcement);
        }
        let (long, taken) = cdr::decode::<Announcement<[u8; 24]>>(bytes, order).ok()?;
        let short = |id: &[u8; 24]| std::array::from_fn(|i| id[i]);
        whole(taken).then(|| long.map(short))
    }
}

impl Announcement {
    fn entries(&self) -> impl Iterator<Item = NodeEntry> {
        self.nodes.iter().filter_map(|node| {
            Some(NodeEntry {
                name: NodeName::new(&node.namespace, &node.name).ok()?,
                participant: self.participant,
                readers: node.readers.clone(),
                writers: node.writers.clone(),
            })
        })
    }
}

impl<G> Announcement<G> {
    fn map<H>(&self, id: impl Fn(&G) -> H) -> Announcement<H> {
        let nodes = self.nodes.iter().map(|node| Announced {
            namespace: node.namespace.clone(),
            name: node.name.clone(),
            readers: node.readers.iter().map(&id).collect(),
            writers: node.writers.iter().map(&id).collect(),
        });
        Announcement { participant: id(&self.participant), nodes: nodes.collect() }
    }
}

/// Announcements of other participants.
pub(crate) struct Graph {
    reader: SimpleDataReader<Payload, Adapter>,
    announced: BTreeMap<[u8; 16], Announcement>,
}

impl Graph {
    pub(crate) fn new(
        participant: &DomainParticipant,
        subscriber: &Subscriber,
    ) -> Result<Graph, Error> {
        let qos = qos().reader();
        let topic = topic(participant, &qos)?;
        let reader = subscriber
            .create_simple_datareader_no_key(&topic, Some(qos))
            .map_err(|error| Error::create(format!("a reader of {TOPIC}"), error))?;
        Ok(Graph { reader, announced: BTreeMap::new() })
    }

    pub(crate) fn nodes(&mut self, participant: &DomainParticipant) -> Vec<NodeEntry> {
        self.update();
        let mut alive = BTreeSet::new();
        for writer in participant.discovered_writers() {
            if writer.publication_topic_data.topic_name == TOPIC {
                alive.insert(prefix(&writer.writer_proxy.remote_writer_guid.to_bytes()));
            }
        }
        self.announced.retain(|id, _| alive.contains(&prefix(id)));
        self.announced.values().flat_map(Announcement::entries).collect()
    }

    fn update(&mut self) {
        self.reader.drain_read_notifications();
        while let Ok(Some(change)) = self.reader.try_take_one_with(Limit(MAX_BYTES)) {
            let writer = change.writer_guid;
            let Payload { bytes: Ok(bytes), order } = change.sample else { continue };
            let Some(announcement) = Announcement::read(&bytes, order) else { continue };
            // No participant speaks for another one.
            let id = announcement.participant;
            let known = self.announced.contains_key(&id);
            if prefix(&id) == prefix(&writer.to_bytes())
                && (known || self.announced.len() < MAX_PARTICIPANTS)
            {
                self.announced.insert(id, announcement);
            }
        }
    }
}

/// The writer of this participant's own announcements.
pub(crate) fn writer(
    participant: &DomainParticipant,
    publisher: &Publisher,
) -> Result<DataWriter<Payload, Adapter>, Error> {
    let qos = qos().depth(1).writer();
    let topic = topic(participant, &qos)?;
    publisher
        .create_datawriter_no_key(&topic, Some(qos))
        .map_err(|error| Error::create(format!("a writer of {TOPIC}"), error))
}

/// The services whose request topic others read.
pub(crate) fn services(participant: &DomainParticipant) -> BTreeSet<(String, String)> {
    let readers = participant.discovered_readers();
    let names = readers.iter().filter_map(|reader| {
        let data = &reader.subscription_topic_data;
        let name = data.topic_name().strip_prefix("rq")?.strip_suffix("Request")?;
        let kind = data.type_name().strip_suffix("_Request_")?;
        Some((name.to_owned(), kind.replace("::dds_::", "::").replace("::", "/")))
    });
    names.collect()
}

fn qos() -> Qos {
    Qos { durability: Durability::TransientLocal, depth: 256, ..Qos::default() }
}

fn topic(participant: &DomainParticipant, qos: &rustdds::QosPolicies) -> Result<Topic, Error> {
    participant
        .create_topic(TOPIC.to_owned(), TYPE.to_owned(), qos, TopicKind::NoKey)
        .map_err(|error| Error::create(TOPIC, error))
}

/// The participant's part of an entity's id.
fn prefix(id: &[u8; 16]) -> [u8; 12] {
    std::array::from_fn(|i| id[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement() -> Announcement {
        let node = Announced {
            namespace: "/".into(),
            name: "talker".into(),
            readers: vec![[1; 16]],
            writers: vec![[2; 16], [3; 16]],
        };
        Announcement { participant: [9; 16], nodes: vec![node] }
    }

    #[test]
    fn both_forms_are_read() {
        let short = cdr::encode(&announcement()).unwrap();
        let long = cdr::encode(&announcement().padded()).unwrap();
        assert_eq!(long.len() - short.len(), 4 * 8);
        assert_eq!(Announcement::read(&short, Order::Little), Some(announcement()));
        assert_eq!(Announcement::read(&long, Order::Little), Some(announcement()));
    }

    #[test]
    fn truncated_and_foreign_bytes_are_refused() {
        let bytes = cdr::encode(&announcement()).unwrap();
        for length in 0..bytes.len() {
            assert_eq!(Announcement::read(&bytes[..length], Order::Little), None, "{length}");
        }
        assert_eq!(Announcement::read(&[0xff; 64], Order::Little), None);
    }
}
