//! The consumer of a ring whose producer does what it likes with the shared part.
//!
//! The input is a script of the hostile producer; a model of the consumer, which is a page of
//! plain arithmetic, says what each pop has to return.

use shm::ring::CAPACITY;
use shm::{Consumer, Error, Mapping, Message, PeerSlice, Ring};
use std::mem::size_of;

const TAIL: usize = 0;
const HEAD: usize = 64;
const SLOTS: usize = 128;

/// Panics when the consumer does anything else than the model.
pub fn check(bytes: &[u8]) {
    let mapping = Mapping::anonymous(size_of::<Ring>()).expect("memory for a ring");
    let hostile = PeerSlice::whole(mapping.clone());
    // SAFETY: the mapping has the size of a ring, which is made of atomics and valid for any bits.
    let ring = unsafe { mapping.structure::<Ring>() };
    let (mut consumer, mut model) = (Consumer::default(), Model::default());
    let mut script = Script(bytes);
    while let Some(step) = script.byte() {
        match step % 8 {
            0 => hostile.write(TAIL, &script.word()).expect("inside"),
            // A plausible tail: some messages after the consumer's head.
            1 => {
                let tail = model.head.wrapping_add(u32::from(script.byte().unwrap_or(0)));
                hostile.write(TAIL, &tail.to_ne_bytes()).expect("inside");
            }
            2 => hostile.write(HEAD, &script.word()).expect("inside"),
            3 => {
                let slot = usize::from(script.byte().unwrap_or(0)) % CAPACITY as usize;
                let at = SLOTS + 64 * slot + usize::from(step / 8);
                hostile.write(at, &script.word()).expect("inside");
            }
            4 => drain(&mut consumer, ring, &mut model, &hostile),
            _ => {
                pop(&mut consumer, ring, &mut model, &hostile);
            }
        }
    }
    drain(&mut consumer, ring, &mut model, &hostile);
}

/// Pops until nothing comes: at most as many messages as the ring holds, twice if the consumer
/// had looked at an earlier tail.
fn drain(consumer: &mut Consumer, ring: &Ring, model: &mut Model, hostile: &PeerSlice) {
    let mut popped = 0;
    while pop(consumer, ring, model, hostile) {
        popped += 1;
        assert!(popped <= 2 * CAPACITY, "the consumer does not end");
    }
}

/// Pops once, and compares with the model. True when a message came.
fn pop(consumer: &mut Consumer, ring: &Ring, model: &mut Model, hostile: &PeerSlice) -> bool {
    let expected = model.pop(hostile);
    let got = match consumer.pop(ring) {
        Ok(message) => Ok(message),
        Err(Error::RingCorrupt { jump, .. }) => Err(jump),
        Err(other) => panic!("unexpected error {other}"),
    };
    assert_eq!(got, expected);
    matches!(got, Ok(Some(_)))
}

/// Model of the consumer: its place, the tail that it believes, and the messages taken since.
#[derive(Default)]
struct Model {
    head: u32,
    tail_seen: u32,
    /// Messages taken since the tail was read.
    taken: u32,
}

impl Model {
    fn pop(&mut self, hostile: &PeerSlice) -> Result<Option<Message>, u32> {
        if self.head == self.tail_seen {
            let tail = u32::from_ne_bytes(read(hostile, TAIL));
            let jump = tail.wrapping_sub(self.head);
            if jump > CAPACITY {
                return Err(jump);
            }
            if jump == 0 {
                return Ok(None);
            }
            (self.tail_seen, self.taken) = (tail, 0);
        }
        let slot = SLOTS + 64 * (self.head % CAPACITY) as usize;
        let message =
            std::array::from_fn(|word| u64::from_ne_bytes(read(hostile, slot + 8 * word)));
        self.head = self.head.wrapping_add(1);
        self.taken += 1;
        assert!(self.taken <= CAPACITY, "more messages than the ring holds from one look");
        Ok(Some(message))
    }
}

fn read<const N: usize>(from: &PeerSlice, offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    from.read(offset, &mut bytes).expect("inside");
    bytes
}

/// The input, taken from the front.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> [u8; 4] {
        std::array::from_fn(|_| self.byte().unwrap_or(0))
    }
}
