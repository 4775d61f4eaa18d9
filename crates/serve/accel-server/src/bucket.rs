//! A bucket: the requests that wait for one priority level of the device.
//!
//! Inside a bucket the request of the higher chain priority goes first, then the one that
//! arrived first (document: PAAM, section IV-C). Under the policies that ignore priorities all
//! requests have the same, so that arrival alone decides.

use device::Launch;
use shm::completion::Opening;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::meter::Tally;
use crate::session::Session;

/// A request that has been checked and waits for the device, or is on it.
pub(crate) struct Request {
    pub session: Arc<Session>,
    pub opening: Opening,
    pub slot: u16,
    pub launch_id: u64,
    /// The registration's number in its session.
    pub registration: u32,
    pub chain_priority: u32,
    pub arrived_ns: u64,
    pub tally: Arc<Tally>,
    /// True if its service asks for the bandwidth lock.
    pub locks: bool,
    pub launch: Launch,
}

struct Entry {
    /// Higher priority first, then the earlier arrival.
    key: (u32, Reverse<u64>),
    request: Request,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// The waiting requests of one bucket.
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
}

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue { heap: BinaryHeap::new() }
    }

    /// Adds a request; `priority` and `arrival` decide when it is its turn.
    pub(crate) fn push(&mut self, priority: u32, arrival: u64, request: Request) {
        self.heap.push(Entry { key: (priority, Reverse(arrival)), request });
    }

    pub(crate) fn pop(&mut self) -> Option<Request> {
        self.heap.pop().map(|entry| entry.request)
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Takes out all requests for which `unwanted` says so, and gives them to `removed`. Does not
    /// allocate.
    pub(crate) fn remove(
        &mut self,
        mut unwanted: impl FnMut(&Request) -> bool,
        mut removed: impl FnMut(Request),
    ) {
        if !self.heap.iter().any(|entry| unwanted(&entry.request)) {
            return;
        }
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        let mut at = 0;
        while at < entries.len() {
            if unwanted(&entries[at].request) {
                removed(entries.swap_remove(at).request);
            } else {
                at += 1;
            }
        }
        self.heap = entries.into();
    }

    /// Makes room for this number of requests in all.
    pub(crate) fn make_room(&mut self, requests: usize) {
        self.heap.reserve(requests.saturating_sub(self.heap.len()));
    }

    /// Takes out everything, with the arrival numbers.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u64, Request)> {
        self.heap.drain().map(|entry| (entry.key.1.0, entry.request))
    }
}
