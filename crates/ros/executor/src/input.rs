//! Sources of messages: the interface, and queues inside one process.
//!
//! A callback is released by an [`Input`]; what stands behind it, an executor does not know.
//! [`Topic`] and [`Queue`] are the implementation without any middleware: a publisher puts a copy
//! into the queue of each subscription. A queue keeps the last messages, as many as its depth, and
//! counts the older ones that it had to drop.

use crate::Bell;
use realtime::clock::monotonic_ns;
use realtime::mutex::PiMutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A message, and since when it waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived<M> {
    /// Time at which it came, by the monotonic clock.
    pub at_ns: u64,
    /// The message.
    pub message: M,
}

/// A source of messages for one callback. Nothing in it may wait.
pub trait Input: Send + Sync + 'static {
    /// Type of the messages.
    type Message: Send + 'static;

    /// Returns true if a message is there, which [`take`](Input::take) would give to its first
    /// caller. Called before every choice.
    fn ready(&self) -> bool;

    /// The oldest message.
    fn take(&self) -> Option<Arrived<Self::Message>>;

    /// Number of messages that were dropped because others came before they were taken.
    fn dropped(&self) -> u64;

    /// Rings this bell from now on when a message has come.
    fn connect(&self, bell: Arc<Bell>);
}

impl<I: Input + ?Sized> Input for Arc<I> {
    type Message = I::Message;

    fn ready(&self) -> bool {
        (**self).ready()
    }

    fn take(&self) -> Option<Arrived<I::Message>> {
        (**self).take()
    }

    fn dropped(&self) -> u64 {
        (**self).dropped()
    }

    fn connect(&self, bell: Arc<Bell>) {
        (**self).connect(bell);
    }
}

/// Messages for which a queue has memory from the start; a deeper one takes more when it needs it.
const ROOM: usize = 4096;

/// The last messages for one subscription.
pub struct Queue<M> {
    depth: usize,
    state: PiMutex<State<M>>,
    /// The number of messages, so that looking costs no lock.
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

struct State<M> {
    messages: VecDeque<Arrived<M>>,
    bell: Option<Arc<Bell>>,
}

impl<M: Send + 'static> Queue<M> {
    /// An empty queue that keeps the last `depth` messages, at least one; `usize::MAX`: all.
    pub fn new(depth: usize) -> Arc<Queue<M>> {
        let depth = depth.max(1);
        let state = State { messages: VecDeque::with_capacity(depth.min(ROOM)), bell: None };
        let (waiting, dropped) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Queue { depth, state: PiMutex::new(state), waiting, dropped })
    }

    /// Puts a message in, instead of the oldest one where the queue is full. Any thread; waits
    /// for nothing but the other threads' moments in the same queue. Allocates only for more than
    /// 4096 messages.
    pub fn push(&self, message: M) {
        let at_ns = monotonic_ns();
        let mut state = self.state.lock();
        // The dropped message is freed without the lock.
        let oldest = (state.messages.len() == self.depth).then(|| state.messages.pop_front());
        state.messages.push_back(Arrived { at_ns, message });
        // Release: who sees the count finds the message, behind the lock in any case.
        self.waiting.store(state.messages.len(), Ordering::Release);
        if let Some(bell) = &state.bell {
            bell.ring();
        }
        drop(state);
        if oldest.is_some() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<M: Send + 'static> Input for Queue<M> {
    type Message = M;

    fn ready(&self) -> bool {
        // Acquire: pairs with the stores below the lock.
        self.waiting.load(Ordering::Acquire) > 0
    }

    fn take(&self) -> Option<Arrived<M>> {
        let mut state = self.state.lock();
        let message = state.messages.pop_front();
        self.waiting.store(state.messages.len(), Ordering::Release);
        message
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn connect(&self, bell: Arc<Bell>) {
        self.state.lock().bell = Some(bell);
    }
}

/// A name for messages inside one process: what is published goes to every subscription.
pub struct Topic<M> {
    queues: PiMutex<Vec<Arc<Queue<M>>>>,
}

impl<M: Clone + Send + 'static> Topic<M> {
    /// A topic without subscriptions.
    pub fn new() -> Topic<M> {
        Topic { queues: PiMutex::new(Vec::new()) }
    }

    /// A new subscription, which keeps the last `depth` messages.
    pub fn subscribe(&self, depth: usize) -> Arc<Queue<M>> {
        let queue = Queue::new(depth);
        self.queues.lock().push(queue.clone());
        queue
    }

    /// Gives every subscription a copy of a message.
    pub fn publish(&self, message: &M) {
        for queue in self.queues.lock().iter() {
            queue.push(message.clone());
        }
    }
}

impl<M: Clone + Send + 'static> Default for Topic<M> {
    fn default() -> Self {
        Topic::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_drops_the_oldest_and_counts() {
        let topic = Topic::new();
        let (shallow, deep) = (topic.subscribe(1), topic.subscribe(3));
        (0..5).for_each(|number| topic.publish(&number));
        let drain = |queue: &Arc<Queue<i32>>| -> Vec<i32> {
            std::iter::from_fn(|| queue.take()).map(|arrived| arrived.message).collect()
        };
        assert!(shallow.ready() && deep.ready());
        assert_eq!((drain(&shallow), shallow.dropped()), (vec![4], 4));
        assert_eq!((drain(&deep), deep.dropped()), (vec![2, 3, 4], 2));
        assert!(!shallow.ready() && !deep.ready());
    }

    #[test]
    fn queue_without_a_limit_keeps_all_messages_in_order() {
        let queue = Queue::new(usize::MAX);
        (0..10_000).for_each(|number| queue.push(number));
        let messages = std::iter::from_fn(|| queue.take()).map(|arrived| arrived.message);
        assert!(messages.eq(0..10_000));
        assert_eq!(queue.dropped(), 0);
    }

    #[test]
    fn message_rings_the_bell_that_is_connected() {
        let (queue, bell) = (Queue::new(1), Arc::new(Bell::default()));
        queue.push(1);
        queue.connect(bell.clone());
        assert_eq!(bell.rings(), 0);
        queue.push(2);
        assert_eq!(bell.rings(), 1);
    }
}
