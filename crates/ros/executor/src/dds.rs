//! Messages that come over DDS, as an input.
//!
//! The thread that DDS receives on marks that something has come and rings; the executor's thread
//! fetches and decodes it before its next choice. Kept are the last messages, as many as the depth
//! of the subscription, here as in the queue of DDS.

use crate::Bell;
use crate::input::{Arrived, Input};
use realtime::clock::monotonic_ns;
use realtime::mutex::PiMutex;
use ros::{Message, Subscription};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A subscription of a ROS 2 node.
pub struct DdsInput<M> {
    subscription: Subscription<M>,
    depth: usize,
    /// Time at which the first message came that was not fetched yet; 0: there is none.
    came_ns: Arc<AtomicU64>,
    fetched: PiMutex<VecDeque<Arrived<M>>>,
    waiting: AtomicUsize,
    /// Dropped here, or not to be decoded.
    lost: AtomicU64,
}

impl<M: Message + Send> DdsInput<M> {
    /// The messages of a subscription, of which the last `depth` are kept, at least one.
    pub fn new(subscription: Subscription<M>, depth: usize) -> DdsInput<M> {
        let depth = depth.max(1);
        let fetched = PiMutex::new(VecDeque::with_capacity(depth));
        let (waiting, lost) = (AtomicUsize::new(0), AtomicU64::new(0));
        DdsInput { subscription, depth, came_ns: Arc::default(), fetched, waiting, lost }
    }

    fn fetch(&self, at_ns: u64) {
        let mut fetched = self.fetched.lock();
        loop {
            match self.subscription.take() {
                Ok(Some(sample)) => {
                    if fetched.len() == self.depth {
                        fetched.pop_front();
                        self.lost.fetch_add(1, Ordering::Relaxed);
                    }
                    fetched.push_back(Arrived { at_ns, message: sample.message });
                }
                Ok(None) => break,
                // A message that cannot be decoded counts as lost; the next one is looked at.
                Err(_) => _ = self.lost.fetch_add(1, Ordering::Relaxed),
            }
        }
        self.waiting.store(fetched.len(), Ordering::Release);
    }
}

impl<M: Message + Send> Input for DdsInput<M> {
    type Message = M;

    fn ready(&self) -> bool {
        // Acquire and release: what came before the mark is fetched after it was taken off.
        match self.came_ns.swap(0, Ordering::AcqRel) {
            0 => {}
            at_ns => self.fetch(at_ns),
        }
        self.waiting.load(Ordering::Acquire) > 0
    }

    fn take(&self) -> Option<Arrived<M>> {
        let mut fetched = self.fetched.lock();
        let message = fetched.pop_front();
        self.waiting.store(fetched.len(), Ordering::Release);
        message
    }

    fn dropped(&self) -> u64 {
        self.lost.load(Ordering::Relaxed) + self.subscription.overwritten()
    }

    fn connect(&self, bell: Arc<Bell>) {
        let came_ns = self.came_ns.clone();
        self.subscription.on_message(move || {
            let first = (Ordering::AcqRel, Ordering::Relaxed);
            // A mark that stands already is the older one, and stays.
            let _ = came_ns.compare_exchange(0, monotonic_ns(), first.0, first.1);
            bell.ring();
        });
    }
}
