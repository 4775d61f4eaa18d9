//! Inputs for the smoke tests on the stable toolchain: pseudo-random, and mutated from seeds.

/// Marsaglia's xorshift with 64 bits: the same inputs in every run.
pub struct Random(u64);

impl Random {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends, and is used by name")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize) % limit
    }

    /// Returns up to `limit` random bytes.
    pub fn bytes(&mut self, limit: usize) -> Vec<u8> {
        let length = self.below(limit + 1);
        (0..length).map(|_| (self.next() >> 32) as u8).collect()
    }

    /// A seed with a few bytes changed, removed, added, or copied within it.
    pub fn mutated(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, (self.next() >> 32) as u8),
                2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                3 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                _ => {
                    let end = at + self.below(bytes.len() - at + 1).min(32);
                    let part = bytes[at..end].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, part);
                }
            }
        }
        bytes
    }
}
