//! Work of the callbacks of a node, by its kind.
//!
//! As in the Autoware reference system: a callback takes its message, and if the node computes now,
//! it works, uses its accelerators, and publishes one message that says where it came from. What a
//! node keeps between callbacks is behind a lock that is never held while it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use accel::Wait;
use executor::Context;
use realtime::clock::{monotonic_ns, thread_cpu_ns};
use realtime::mutex::PiMutex;
use realtime::work;
use system::NodeKind;

use super::message::{Hop, Message, merged};
use super::primes::primes;
use super::record::{Record, Tally};
use super::wire::Output;
use crate::chains::access::Ask;
use crate::chains::job::Spent;

/// Processor work, ready to be done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    None,
    /// Fixed number of steps of calibrated arithmetic.
    Iterations(u64),
    /// Prime numbers up to this limit.
    Primes(u64),
}

/// State that all callbacks of a node share.
pub(super) struct Node {
    /// Its number in the file.
    pub number: u32,
    pub kind: NodeKind,
    pub work: Work,
    /// The longest processor time that the work took, nanoseconds.
    pub longest_ns: Arc<AtomicU64>,
    /// Size of a message.
    pub message_bytes: usize,
    pub memory: PiMutex<Memory>,
    pub record: Arc<Record>,
    pub tally: Arc<Tally>,
}

/// State that a node keeps.
pub(super) struct Memory {
    inputs: Vec<Kept>,
    /// Number of messages that were published, on each topic.
    published: Vec<u64>,
}

/// State of an input: its newest message, and the number of the last one that was used.
#[derive(Default)]
struct Kept {
    message: Option<Message>,
    next: u64,
}

/// The part of one callback.
pub(super) struct Callback {
    pub node: Arc<Node>,
    /// The number of the input, none for a timer.
    pub input: Option<usize>,
    pub asks: Vec<Ask>,
    pub output: Option<Arc<Output>>,
}

impl Memory {
    /// Memory without a message for so many inputs.
    pub(super) fn new(inputs: usize) -> Memory {
        let inputs = (0..inputs).map(|_| Kept::default()).collect::<Vec<_>>();
        Memory { published: vec![0; inputs.len().max(1)], inputs }
    }

    /// Keeps the newest message of an input.
    fn keep(&mut self, input: usize, message: Message) {
        self.inputs[input].message = Some(message);
    }

    /// Takes what was kept, all of it or that of one input, with how many messages were missed.
    fn take(&mut self, only: Option<usize>) -> (Vec<Message>, u32) {
        let mut missed = 0;
        let mut messages = Vec::new();
        let kept = self.inputs.iter_mut().enumerate();
        for (_, kept) in kept.filter(|(input, _)| only.is_none_or(|only| only == *input)) {
            let Some(message) = kept.message.take() else { continue };
            missed += message.number.saturating_sub(kept.next);
            kept.next = message.number + 1;
            messages.push(message);
        }
        (messages, u32::try_from(missed).unwrap_or(u32::MAX))
    }

    fn complete(&self) -> bool {
        self.inputs.iter().all(|kept| kept.message.is_some())
    }
}

impl Node {
    /// Works, and notes for how long the processor did.
    fn work(&self) {
        let begin_ns = thread_cpu_ns();
        match self.work {
            Work::None => return,
            Work::Iterations(iterations) => _ = work::run(iterations),
            Work::Primes(limit) => _ = primes(limit),
        }
        self.longest_ns.fetch_max(thread_cpu_ns().saturating_sub(begin_ns), Ordering::Relaxed);
    }
}

impl Callback {
    /// Serves a release of the node's timer.
    pub(super) fn tick(&mut self, context: &mut Context) {
        self.node.record.began(self.node.number, monotonic_ns());
        let (messages, missed) = match self.node.kind {
            NodeKind::Cyclic => self.node.memory.lock().take(None),
            _ => (Vec::new(), 0),
        };
        self.compute(context, &messages, missed);
    }

    /// Serves a message of an input.
    pub(super) fn receive(&mut self, context: &mut Context, message: Message) {
        let Some(input) = self.input else { return };
        let mut memory = self.node.memory.lock();
        memory.keep(input, message);
        let taken = match self.node.kind {
            NodeKind::Cyclic => return,
            NodeKind::Fusion if !memory.complete() => return,
            NodeKind::Fusion => memory.take(None),
            _ => memory.take(Some(input)),
        };
        drop(memory);
        self.compute(context, &taken.0, taken.1);
    }

    /// Works, uses accelerators, publishes.
    fn compute(&mut self, context: &mut Context, messages: &[Message], missed: u32) {
        let (release_ns, end_ns) = (context.ready_ns(), context.until_ns());
        self.node.work();
        for ask in &self.asks {
            let client = context.accelerators().ok();
            if let Err(failure) = ask.run(client, Wait::Suspend, end_ns, &mut Spent::default()) {
                return self.node.tally.failed(failure);
            }
        }
        let mut hops = merged(messages.iter());
        let node = self.node.number;
        hops.retain(|hop| hop.node != node);
        hops.push(Hop { release_ns, node, dropped: missed });
        let topic = match self.node.kind {
            NodeKind::Intersection => self.input.unwrap_or(0),
            _ => 0,
        };
        let number = {
            let published = &mut self.node.memory.lock().published[topic];
            *published += 1;
            *published - 1
        };
        let message = Message::new(number, hops, self.node.message_bytes);
        if let Some(output) = &self.output
            && let Err(error) = output.publish(&message)
        {
            self.node.tally.unsent(&error);
        }
        self.node.record.arrived(node, &message, monotonic_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64) -> Message {
        Message::new(number, Vec::new(), 0)
    }

    #[test]
    fn fusion_is_complete_with_a_message_of_every_input_and_counts_what_it_missed() {
        let mut memory = Memory::new(2);
        memory.keep(0, message(0));
        assert!(!memory.complete());
        // Number 1 was replaced before the other input had anything.
        memory.keep(0, message(2));
        memory.keep(1, message(0));
        assert!(memory.complete());
        let (messages, missed) = memory.take(None);
        assert_eq!((messages.len(), missed), (2, 2));
        assert!(!memory.complete());
        memory.keep(0, message(3));
        memory.keep(1, message(1));
        assert_eq!(memory.take(None).1, 0);
    }

    #[test]
    fn one_input_is_taken_alone() {
        let mut memory = Memory::new(3);
        memory.keep(1, message(4));
        memory.keep(2, message(0));
        let (messages, missed) = memory.take(Some(1));
        assert_eq!((messages, missed), (vec![message(4)], 4));
        let (messages, missed) = memory.take(None);
        assert_eq!((messages, missed), (vec![message(0)], 0));
    }
}
