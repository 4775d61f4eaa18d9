//! Messages between nodes: the nodes that each came through, and bytes to carry.
//!
//! Each message knows the nodes that it came through, the timers it was released by, and how many
//! messages each node missed on the way. So the node at the end of a path can tell its latency by
//! itself, on the one clock that all processes of a machine share.

use serde::{Deserialize, Serialize};

/// Bytes of a message besides its hops and its padding: number, and two lengths.
const FIXED: usize = 8 + 4 + 4;
/// Bytes of a hop.
const HOP: usize = 16;
/// Bytes between the number of hops and the first one, which begins at a multiple of eight.
const GAP: usize = 4;

/// Message between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    /// Its number on its topic, from 0.
    pub number: u64,
    /// The nodes that it came through.
    pub hops: Vec<Hop>,
    /// Bytes that give the message its full size.
    #[serde(with = "ros::cdr::bytes")]
    pub padding: Vec<u8>,
}

/// A node that a message came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hop {
    /// Release of its callback: the nominal release of a timer, or the arrival of a message.
    pub release_ns: u64,
    /// The node's number in the file.
    pub node: u32,
    /// Messages of its inputs that were sent and that it did not get, since the one before.
    pub dropped: u32,
}

impl ros::Message for Message {
    const TYPE: &'static str = "keeptime_msgs/msg/GraphMessage";
}

impl Message {
    /// A message of `bytes` bytes in all, if its hops need no more.
    pub(super) fn new(number: u64, hops: Vec<Hop>, bytes: usize) -> Message {
        let gap = if hops.is_empty() { 0 } else { GAP };
        let padding = vec![0; bytes.saturating_sub(FIXED + gap + HOP * hops.len())];
        Message { number, hops, padding }
    }

    /// The hop through a node.
    pub(super) fn hop(&self, node: u32) -> Option<&Hop> {
        self.hops.iter().find(|hop| hop.node == node)
    }
}

/// The hops of several messages. Of a node that several of them came through the oldest counts,
/// with all that was missed there.
pub(super) fn merged<'m>(messages: impl Iterator<Item = &'m Message>) -> Vec<Hop> {
    let mut merged: Vec<Hop> = Vec::new();
    for hop in messages.flat_map(|message| &message.hops) {
        match merged.iter_mut().find(|known| known.node == hop.node) {
            Some(known) => {
                known.release_ns = known.release_ns.min(hop.release_ns);
                known.dropped = known.dropped.max(hop.dropped);
            }
            None => merged.push(*hop),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(node: u32, release_ns: u64, dropped: u32) -> Hop {
        Hop { release_ns, node, dropped }
    }

    #[test]
    fn message_is_as_long_on_the_wire_as_the_file_says() {
        for hops in [0, 3, 24] {
            let hops = (0..hops).map(|node| hop(node, 0, 0)).collect();
            let message = Message::new(7, hops, 4096);
            assert_eq!(ros::cdr::encode(&message).unwrap().len(), 4096);
        }
        let long = Message::new(0, vec![hop(0, 0, 0); 8], 10);
        assert!(long.padding.is_empty());
    }

    #[test]
    fn merged_hops_keep_the_oldest_release_of_a_node() {
        let first = Message::new(0, vec![hop(1, 50, 2), hop(2, 60, 0)], 0);
        let second = Message::new(0, vec![hop(1, 40, 1), hop(3, 70, 5)], 0);
        let all = merged([&first, &second].into_iter());
        assert_eq!(all, [hop(1, 40, 2), hop(2, 60, 0), hop(3, 70, 5)]);
        assert_eq!(first.hop(2).map(|hop| hop.release_ns), Some(60));
        assert_eq!(first.hop(3), None);
    }
}
