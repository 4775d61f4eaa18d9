//! The two packets between a program that wants to hold the lock and the regulator.
//!
//! ```text
//!   hello    +-------+---------+-------+         welcome  +-------+---------+------+--------+
//!            | magic | version | image |                  | magic | version | code | offset |
//!            +-------+---------+-------+                  +-------+---------+------+--------+
//!   byte     0       4         8     16           byte    0       4         8      12     16
//! ```
//!
//! Little-endian, one packet each over a `SOCK_SEQPACKET` socket. A welcome with code 0 carries
//! three descriptors: the holder's page, the bell, the watch; `offset` says where in its page the
//! holder's cell is. Any other code is a [`Refusal`], without descriptors.
//!
//! After a refusal the regulator closes the connection; after a welcome it keeps it for as long as
//! the holder has its cell, and says nothing more. So a holder that keeps its end sees it hang up
//! when the regulator ends or has let go of it; one that closes its end loses nothing.
//!
//! `image` tells the program images of one process apart. A process that executes another program
//! keeps its number and its process descriptor, but has lost its pages with all that it held; when
//! the new image comes, what the old one held is given back.

use crate::page::{PAGE_BYTES, VERSION};
use fnv::FnvHasher;
use std::hash::Hasher;

/// Bytes of each packet.
pub const PACKET_BYTES: usize = 16;
const MAGIC: u32 = u32::from_le_bytes(*b"ktbw");

/// Packet that a program sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version it speaks.
    pub version: u32,
    /// The process image, as returned by [`image`].
    pub image: u64,
}

/// Answer of the regulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Welcome {
    /// The cell is at this offset of the page.
    Offset(u32),
    /// The regulator refuses.
    Refused(Refusal),
}

/// Reason for which a regulator refuses a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The regulator did not understand the packet.
    Malformed,
    /// The regulator has another version of the protocol.
    Version,
    /// This user may not hold the lock.
    NotAllowed,
    /// There are as many holders as there may be, of all users or of this one.
    Full,
    /// The user connects too often.
    Pace,
    /// The regulator has no memory or descriptors left.
    Resources,
    /// The process is in a process-id namespace that the regulator cannot see.
    Unseen,
    /// A reason that this version does not know.
    Other(u32),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refusal::Malformed => "malformed packet",
            Refusal::Version => "another version of the protocol: update the older program",
            Refusal::NotAllowed => "this user may not hold the lock",
            Refusal::Full => "the largest number of holders is reached",
            Refusal::Pace => "too many connections of this user per second",
            Refusal::Resources => "no memory or file descriptors are left",
            Refusal::Unseen => "the regulator cannot see this process-id namespace",
            Refusal::Other(code) => return write!(f, "reason {code}"),
        })
    }
}

impl Refusal {
    const KNOWN: [Refusal; 7] = [
        Refusal::Malformed,
        Refusal::Version,
        Refusal::NotAllowed,
        Refusal::Full,
        Refusal::Pace,
        Refusal::Resources,
        Refusal::Unseen,
    ];

    /// Its code; never 0.
    fn code(self) -> u32 {
        match self {
            Refusal::Other(code) => code,
            known => Self::KNOWN.iter().position(|&one| one == known).map_or(0, |at| at as u32 + 1),
        }
    }

    fn of(code: u32) -> Refusal {
        let known = (code as usize).checked_sub(1).and_then(|at| Self::KNOWN.get(at));
        known.copied().unwrap_or(Refusal::Other(code))
    }
}

/// The number of this program image: of 16 random bytes that the kernel gives each one. They also
/// guard its stack, so only a hash of half their size is shown. The same in all versions and in
/// all libraries of a process, which would otherwise take each other for another image.
pub fn image() -> u64 {
    // SAFETY: takes a number; every Linux knows this one.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const [u8; 16];
    if random.is_null() {
        return 0;
    }
    // SAFETY: the kernel's promise: 16 bytes that stay as long as the image.
    let random = unsafe { &*random };
    let mut hasher = FnvHasher::default();
    hasher.write(random);
    hasher.finish()
}

fn words(bytes: &[u8]) -> Option<[u32; 4]> {
    let bytes: &[u8; PACKET_BYTES] = bytes.try_into().ok()?;
    let mut words = [0; 4];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes(chunk.try_into().ok()?);
    }
    (words[0] == MAGIC).then_some(words)
}

fn bytes(words: [u32; 4]) -> [u8; PACKET_BYTES] {
    let mut bytes = [0; PACKET_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl Hello {
    /// Decodes a packet; None for anything else.
    pub fn parse(packet: &[u8]) -> Option<Hello> {
        let [_, version, low, high] = words(packet)?;
        Some(Hello { version, image: u64::from(high) << 32 | u64::from(low) })
    }

    /// Encodes a packet.
    pub fn packet(&self) -> [u8; PACKET_BYTES] {
        bytes([MAGIC, self.version, self.image as u32, (self.image >> 32) as u32])
    }
}

impl Welcome {
    /// Decodes a packet; None for anything else, also for a cell that does not lie in its page.
    pub fn parse(packet: &[u8]) -> Option<Welcome> {
        match words(packet)? {
            [_, VERSION, 0, offset] => {
                let fits = offset % 64 == 0 && offset as usize <= PAGE_BYTES - 64;
                fits.then_some(Welcome::Offset(offset))
            }
            // A refusal is understood whatever version it is of.
            [_, _, code, 0] if code != 0 => Some(Welcome::Refused(Refusal::of(code))),
            _ => None,
        }
    }

    /// Encodes a packet.
    pub fn packet(&self) -> [u8; PACKET_BYTES] {
        bytes(match *self {
            Welcome::Offset(offset) => [MAGIC, VERSION, 0, offset],
            Welcome::Refused(refusal) => [MAGIC, VERSION, refusal.code(), 0],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_survive_and_cut_ones_are_refused() {
        let hello = Hello { version: 7, image: 0x0123_4567_89ab_cdef };
        assert_eq!(Hello::parse(&hello.packet()), Some(hello));
        assert_eq!(Hello::parse(&hello.packet()[..15]), None);
        for welcome in [0, 64, 4032].map(Welcome::Offset) {
            assert_eq!(Welcome::parse(&welcome.packet()), Some(welcome));
        }
        for refusal in Refusal::KNOWN.into_iter().chain([Refusal::Other(99)]) {
            let welcome = Welcome::Refused(refusal);
            assert_eq!(Welcome::parse(&welcome.packet()), Some(welcome));
        }
    }

    #[test]
    fn cells_outside_their_page_are_refused() {
        for offset in [1, 63, 4033, 4096, u32::MAX] {
            assert_eq!(Welcome::parse(&Welcome::Offset(offset).packet()), None, "{offset}");
        }
    }
}
