//! Packets of RTPS (2.5) as a hostile participant makes them: well-formed submessages with numbers
//! of any size, and mutations of their bytes.

use crate::random::Random;

/// Ids of both sides: a remote writer writes to `reader`, and a remote reader reads from `writer`.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    /// Prefix of the remote participant's GUID.
    pub remote: [u8; 12],
    /// Id of the reader.
    pub reader: [u8; 4],
    /// Id of the remote writer that the reader is matched with.
    pub remote_writer: [u8; 4],
    /// Id of the writer.
    pub writer: [u8; 4],
    /// Id of the remote reader that is matched with the writer.
    pub remote_reader: [u8; 4],
}

/// The header of a packet.
pub fn header(prefix: [u8; 12]) -> Vec<u8> {
    [b"RTPS\x02\x05\x01\x0f".as_slice(), &prefix].concat()
}

/// A submessage in little endian; bit 0 of the flags says so.
pub fn submessage(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u16).to_le_bytes();
    [[kind, flags | 1, length[0], length[1]].as_slice(), body].concat()
}

/// Encodes a number as RTPS does: the high word first.
pub fn number(number: i64) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&((number >> 32) as i32).to_le_bytes());
    bytes[4..].copy_from_slice(&(number as u32).to_le_bytes());
    bytes
}

/// The writer has the samples from the first to the last number, and wants to hear what is missing.
pub fn heartbeat(ids: &Ids, first: i64, last: i64, count: i32) -> Vec<u8> {
    let numbers = [number(first), number(last)].concat();
    let body = [&ids.reader[..], &ids.remote_writer, &numbers, &count.to_le_bytes()].concat();
    submessage(0x07, 0, &body)
}

/// The numbers from the first up to a base, and those of a bitmap from there, are of no sample.
pub fn gap(ids: &Ids, first: i64, base: i64, bitmap: &[u32]) -> Vec<u8> {
    let numbers = [number(first), number(base)].concat();
    let body = [&ids.reader[..], &ids.remote_writer, &numbers, &bits(bitmap)].concat();
    submessage(0x08, 0, &body)
}

/// All before a base has come, and what stands in a bitmap is missing.
pub fn acknack(ids: &Ids, base: i64, bitmap: &[u32], count: i32) -> Vec<u8> {
    let numbers = [&number(base)[..], &bits(bitmap), &count.to_le_bytes()].concat();
    submessage(0x06, 0, &[&ids.remote_reader[..], &ids.writer, &numbers].concat())
}

/// Fragments of a sample, from a base on, are missing.
pub fn nack_frag(ids: &Ids, sample: i64, base: u32, bitmap: &[u32], count: i32) -> Vec<u8> {
    let fragments = [&base.to_le_bytes()[..], &bits(bitmap), &count.to_le_bytes()].concat();
    let body = [&ids.remote_reader[..], &ids.writer, &number(sample), &fragments].concat();
    submessage(0x12, 0, &body)
}

/// Some fragments of a sample.
pub struct Fragments {
    /// Number of the sample.
    pub sample: i64,
    /// Number of the first fragment, from 1.
    pub first: u32,
    /// Number of fragments.
    pub count: u16,
    /// Bytes of each fragment but the last.
    pub fragment_bytes: u16,
    /// Bytes of the whole sample.
    pub sample_bytes: u32,
}

/// Fragments with their payload.
pub fn data_frag(ids: &Ids, of: &Fragments, payload: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 28, 0];
    body.extend([ids.reader, ids.remote_writer].concat());
    body.extend(number(of.sample));
    body.extend(of.first.to_le_bytes());
    body.extend([of.count.to_le_bytes(), of.fragment_bytes.to_le_bytes()].concat());
    body.extend(of.sample_bytes.to_le_bytes());
    body.extend(payload);
    submessage(0x16, 0, &body)
}

/// A sample, in CDR.
pub fn data(ids: &Ids, sample: i64, payload: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 16, 0];
    body.extend([ids.reader, ids.remote_writer].concat());
    body.extend(number(sample));
    body.extend([0, 1, 0, 0]);
    body.extend(payload);
    submessage(0x15, 4, &body)
}

/// The writer has fragments up to this one.
pub fn heartbeat_frag(ids: &Ids, sample: i64, last: u32, count: i32) -> Vec<u8> {
    let numbers = [&number(sample)[..], &last.to_le_bytes(), &count.to_le_bytes()].concat();
    submessage(0x13, 0, &[&ids.reader[..], &ids.remote_writer, &numbers].concat())
}

fn bits(bitmap: &[u32]) -> Vec<u8> {
    let words = bitmap.iter().flat_map(|word| word.to_le_bytes());
    (32 * bitmap.len() as u32).to_le_bytes().into_iter().chain(words).collect()
}

/// A packet of one to four submessages, one of three mutated. None would make the receiver answer to
/// an address that stands in the packet (INFO_REPLY).
pub fn packet(random: &mut Random, ids: &Ids) -> Vec<u8> {
    let mut packet = header(ids.remote);
    for _ in 0..=random.below(4) {
        packet.extend(any_submessage(random, ids));
    }
    if random.below(3) == 0 {
        let mutated = random.mutated(&packet[20..]);
        packet.truncate(20);
        packet.extend(mutated);
    }
    if names_an_address(&packet) { header(ids.remote) } else { packet }
}

/// Is there an INFO_REPLY in it, or may one be found in it?
fn names_an_address(packet: &[u8]) -> bool {
    let mut at = 20;
    while let Some([kind, flags, low, high]) = packet.get(at..at + 4) {
        if [0x0f, 0x0d].contains(kind) {
            return true;
        }
        let length = [*low, *high];
        let length =
            if flags & 1 == 1 { u16::from_le_bytes(length) } else { u16::from_be_bytes(length) };
        if length == 0 {
            return false;
        }
        at += 4 + usize::from(length);
    }
    false
}

fn any_submessage(random: &mut Random, ids: &Ids) -> Vec<u8> {
    let count = random.next() as i32 & 0xffff;
    let bitmap: Vec<u32> = (0..random.below(9)).map(|_| random.next() as u32).collect();
    let (one, other) = (any_number(random), any_number(random));
    match random.below(7) {
        0 => heartbeat(ids, one, other, count),
        1 => gap(ids, one, other, &bitmap),
        2 => acknack(ids, one, &bitmap, count),
        3 => nack_frag(ids, one, other as u32, &bitmap, count),
        4 => heartbeat_frag(ids, one, other as u32, count),
        5 => data(ids, one, &random.bytes(300)),
        _ => {
            let of = Fragments {
                sample: one,
                first: if random.below(2) == 0 {
                    1 + random.below(64) as u32
                } else {
                    other as u32
                },
                count: 1 + random.below(3) as u16,
                fragment_bytes: [1, 256, 1024, 60_000, u16::MAX][random.below(5)],
                sample_bytes: [1, 4096, 1 << 20, 1 << 26, u32::MAX][random.below(5)],
            };
            data_frag(ids, &of, &random.bytes(2048))
        }
    }
}

/// Small numbers, numbers far ahead, and the ends of what a number can be.
fn any_number(random: &mut Random) -> i64 {
    let near = random.below(512) as i64;
    match random.below(8) {
        0..=3 => near,
        4 => 1 << random.below(63),
        5 => (1 << 40) + near,
        6 => i64::MAX - near,
        _ => -near,
    }
}
