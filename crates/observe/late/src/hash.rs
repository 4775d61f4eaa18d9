//! A fast hash for tables whose keys are addresses and ids.
//!
//! Multiply and rotate, as compilers hash their own tables. It resists no attacker: an attacker who
//! forges a trace can make its reading slow, which they could do with a larger trace as well.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table with [`Mix`].
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// The state of a hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix(u64);

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Mix {
    /// The hash with a word added to it.
    #[inline(always)]
    pub(crate) fn with(self, word: u64) -> Mix {
        Mix((self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR))
    }
}

impl Hasher for Mix {
    #[inline]
    fn finish(&self) -> u64 {
        // The good bits are the upper ones, a table looks at lower ones too.
        self.0 ^ self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            *self = self.with(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, word: u8) {
        *self = self.with(u64::from(word));
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        *self = self.with(u64::from(word));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        *self = self.with(word);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        *self = self.with(word as u64);
    }
}
