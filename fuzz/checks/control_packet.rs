//! Packets of the control plane: any bytes may come from a socket.

use accel::control::{Ask, Name, Packet, Refused};
use zerocopy::IntoBytes;

/// Panics when a packet is not parsed as it should be.
pub fn check(bytes: &[u8]) {
    if let Some(ask) = Ask::parse(bytes) {
        assert_eq!(encode(&ask), bytes, "{ask:?} is not what came in");
    }
    if let Some(Ask::Register(register)) = Ask::parse(bytes) {
        for name in [register.chain, register.service, register.accelerator] {
            check_name(&name);
        }
    }
    if let Some(refused) = Refused::parse(bytes) {
        check_refused(&refused);
    }
}

fn encode(ask: &Ask) -> &[u8] {
    const STATUS: u32 = accel::control::QueryStatus::KIND;
    const SERVER: u32 = accel::control::QueryServer::KIND;
    const BANDWIDTH: u32 = accel::control::QueryBandwidth::KIND;
    match ask {
        Ask::Hello(packet) => packet.as_bytes(),
        Ask::Register(packet) => packet.as_bytes(),
        Ask::Deregister(packet) => packet.as_bytes(),
        Ask::Reprioritise(packet) => packet.as_bytes(),
        Ask::QueryStatus => STATUS.as_bytes(),
        Ask::QueryServer => SERVER.as_bytes(),
        Ask::QueryAccelerator(packet) => packet.as_bytes(),
        Ask::QuerySession(packet) => packet.as_bytes(),
        Ask::QueryChain(packet) => packet.as_bytes(),
        Ask::QueryBandwidth => BANDWIDTH.as_bytes(),
        Ask::QueryMemory(packet) => packet.as_bytes(),
    }
}

/// A name that unpacks is one that can be packed, and packs to the same bytes.
fn check_name(name: &Name) {
    match name.get() {
        None => {}
        Some("") => assert_eq!(*name, Name::EMPTY),
        Some(text) => assert_eq!(Name::new("name", text).expect("a name that was got"), *name),
    }
}

/// The text of a refusal survives being packed again, as far as it is UTF-8.
fn check_refused(refused: &Refused) {
    let refusal = refused.unpack();
    let Some(code) = refusal.code else { return };
    let again = Refused::new(code, &refusal.text).unpack();
    assert_eq!(again.code, Some(code));
    assert!(refusal.text.starts_with(&again.text), "{refusal:?} became {again:?}");
}
