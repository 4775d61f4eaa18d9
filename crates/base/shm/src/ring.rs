//! The ring that carries fixed-size messages from one client to the server.
//!
//! ```text
//!   byte 0        64        128       192                      128+64*64
//!        +---------+---------+---------+---------+-- ... --+
//!        | tail    | head    | slot 0  | slot 1  |         |   one cache line each
//!        +---------+---------+---------+---------+-- ... --+
//!          client    server    client writes, server reads
//!          writes    writes
//! ```
//!
//! One thread pushes, one pops. Both indices count messages since the beginning and wrap; a
//! slot is `index % CAPACITY`. The producer writes the slot and then releases the tail; the
//! consumer acquires the tail, copies the slot and then releases the head. Each side keeps its
//! own index in private memory, so that a peer that overwrites it is not believed, and reads the
//! other side's index once per look.
//!
//! Push and pop are wait-free. A side that dies half-way leaves an index that was not advanced:
//! the message was never sent, or is still there.

use crate::Error;
use crate::atomic::{AtomicU32, Ordering, Payload};

/// Messages a ring holds.
pub const CAPACITY: u32 = if cfg!(loom) { 2 } else { 64 };

/// One message: eight words whose meaning the sender and the receiver agree on.
pub type Message = [u64; 8];

#[cfg_attr(not(loom), repr(C, align(64)))]
struct Line(AtomicU32);

/// The shared part of the ring. Lives at a fixed place of a shared segment.
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct Ring {
    tail: Line,
    head: Line,
    slots: [Payload; CAPACITY as usize],
}

#[cfg(not(loom))]
const _: () = {
    assert!(std::mem::offset_of!(Ring, tail) == 0);
    assert!(std::mem::offset_of!(Ring, head) == 64);
    assert!(std::mem::offset_of!(Ring, slots) == 128);
    assert!(std::mem::size_of::<Ring>() == 128 + 64 * CAPACITY as usize);
};

#[cfg(loom)]
impl Ring {
    /// An empty ring in model memory; real rings are laid over zeroed segments.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Ring {
        Ring {
            tail: Line(AtomicU32::new(0)),
            head: Line(AtomicU32::new(0)),
            slots: core::array::from_fn(|_| Payload::new()),
        }
    }
}

/// The sending side's private state. One thread at a time.
#[derive(Debug, Default)]
pub struct Producer {
    tail: u32,
    head_seen: u32,
}

impl Producer {
    /// Sends a message; false when the ring is full.
    ///
    /// Wait-free. Only one producer may exist per ring.
    ///
    /// # Errors
    /// [`Error::RingCorrupt`] when the consumer's index is impossible.
    pub fn push(&mut self, ring: &Ring, message: &Message) -> Result<bool, Error> {
        if self.tail.wrapping_sub(self.head_seen) == CAPACITY {
            // Acquire: pairs with the consumer's release of the head, so that the slot it gave
            // back is no longer being read.
            self.head_seen = ring.head.0.load(Ordering::Acquire);
            let used = self.tail.wrapping_sub(self.head_seen);
            if used > CAPACITY {
                return Err(Error::RingCorrupt { jump: used, capacity: CAPACITY });
            }
            if used == CAPACITY {
                return Ok(false);
            }
        }
        ring.slots[(self.tail % CAPACITY) as usize].store(message);
        self.tail = self.tail.wrapping_add(1);
        // Release: pairs with the consumer's acquire of the tail; the slot is written before.
        let order = mutated(Ordering::Release, Mutant::TailPublishedRelaxed);
        ring.tail.0.store(self.tail, order);
        Ok(true)
    }
}

/// The receiving side's private state. One thread at a time.
#[derive(Debug, Default)]
pub struct Consumer {
    head: u32,
    tail_seen: u32,
}

impl Consumer {
    /// Takes the oldest message, if there is one.
    ///
    /// Wait-free. Only one consumer may exist per ring.
    ///
    /// # Errors
    /// [`Error::RingCorrupt`] when the producer's index is impossible.
    pub fn pop(&mut self, ring: &Ring) -> Result<Option<Message>, Error> {
        if self.head == self.tail_seen {
            // Acquire: pairs with the producer's release of the tail.
            let tail = ring.tail.0.load(Ordering::Acquire);
            let jump = tail.wrapping_sub(self.head);
            if jump > CAPACITY {
                return Err(Error::RingCorrupt { jump, capacity: CAPACITY });
            }
            if jump == 0 {
                return Ok(None);
            }
            self.tail_seen = tail;
        }
        let message = ring.slots[(self.head % CAPACITY) as usize].load();
        self.head = self.head.wrapping_add(1);
        // Release: pairs with the producer's acquire of the head; the slot was read before.
        let order = mutated(Ordering::Release, Mutant::HeadPublishedRelaxed);
        ring.head.0.store(self.head, order);
        Ok(Some(message))
    }
}

fn mutated(order: Ordering, mutant: Mutant) -> Ordering {
    if mutant.is_on() { Ordering::Relaxed } else { order }
}

use crate::mutant::Mutant;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ring() -> Box<Ring> {
        // SAFETY: a ring is atomics only, for which zero is a valid value: the empty ring.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    #[test]
    fn messages_arrive_in_order_and_whole() {
        let (ring, mut producer, mut consumer) = (ring(), Producer::default(), Consumer::default());
        for i in 0..1000u64 {
            assert!(producer.push(&ring, &[i; 8]).unwrap());
            assert_eq!(consumer.pop(&ring).unwrap(), Some([i; 8]));
        }
        assert_eq!(consumer.pop(&ring).unwrap(), None);
    }

    #[test]
    fn full_ring_refuses_and_keeps_what_it_has() {
        let (ring, mut producer, mut consumer) = (ring(), Producer::default(), Consumer::default());
        for i in 0..u64::from(CAPACITY) {
            assert!(producer.push(&ring, &[i; 8]).unwrap());
        }
        assert!(!producer.push(&ring, &[99; 8]).unwrap());
        assert_eq!(consumer.pop(&ring).unwrap(), Some([0; 8]));
        assert!(producer.push(&ring, &[64; 8]).unwrap());
        for i in 1..=u64::from(CAPACITY) {
            assert_eq!(consumer.pop(&ring).unwrap(), Some([i; 8]));
        }
    }

    #[test]
    fn indices_may_wrap() {
        let ring = ring();
        let start = u32::MAX - 5;
        ring.tail.0.store(start, Ordering::Relaxed);
        ring.head.0.store(start, Ordering::Relaxed);
        let mut producer = Producer { tail: start, head_seen: start };
        let mut consumer = Consumer { head: start, tail_seen: start };
        for i in 0..20 {
            assert!(producer.push(&ring, &[i; 8]).unwrap());
            assert_eq!(consumer.pop(&ring).unwrap(), Some([i; 8]));
        }
    }

    #[test]
    fn lying_indices_are_found_out() {
        let (ring, mut producer, mut consumer) = (ring(), Producer::default(), Consumer::default());
        ring.tail.0.store(CAPACITY + 1, Ordering::Relaxed);
        assert!(matches!(consumer.pop(&ring), Err(Error::RingCorrupt { jump: 65, .. })));
        ring.tail.0.store(u32::MAX, Ordering::Relaxed);
        assert!(consumer.pop(&ring).is_err());
        for _ in 0..CAPACITY {
            producer.push(&ring, &[0; 8]).unwrap();
        }
        ring.head.0.store(7000, Ordering::Relaxed);
        assert!(producer.push(&ring, &[0; 8]).is_err());
    }
}
