//! Packets of RTPS as they come from the network, at a participant with a reliable reader and a
//! reliable writer that the sender is matched with.

use rustdds::receiving::Receiving;

/// Bytes that a reader and a writer may keep of a hostile participant: two incomplete samples of
/// 1 MiB and four unread ones, their allowances, and notes.
const MAX_HELD_BYTES: usize = 16 << 20;

/// Packets one after the other: each begins with its length, two bytes.
pub fn check(mut script: &[u8]) {
    let mut receiving = Receiving::new().expect("a socket of the loopback interface");
    while let Some((length, rest)) = script.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (packet, rest) = rest.split_at(length);
        one(&mut receiving, packet);
        script = rest;
    }
}

/// Panics when a packet is not handled as it should be.
pub fn one(receiving: &mut Receiving, packet: &[u8]) {
    receiving.packet(packet);
    let held = receiving.held_bytes();
    assert!(held <= MAX_HELD_BYTES, "{held} bytes are held after {packet:x?}");
}
