//! Packets of the bandwidth lock's socket, and the cell in a holder's page: any bytes may be there.

use bandwidth::handshake::{Hello, Welcome};
use bandwidth::page::{Cell, PAGE_BYTES, Said, VERSION};

/// Panics when bytes are not read as they should be.
pub fn check(bytes: &[u8]) {
    if let Some(hello) = Hello::parse(bytes) {
        assert_eq!(hello.packet(), bytes, "{hello:?} is not what came in");
    }
    if let Some(welcome) = Welcome::parse(bytes) {
        assert_eq!(Welcome::parse(&welcome.packet()), Some(welcome));
        if let Welcome::Offset(offset) = welcome {
            assert!(offset as usize + size_of::<Cell>() <= PAGE_BYTES, "{welcome:?}");
        }
    }
    check_cell(bytes);
}

/// The first bytes as a holder's cell.
fn check_cell(bytes: &[u8]) {
    #[repr(align(64))]
    struct Memory([u8; 64]);
    let mut memory = Memory([0; 64]);
    let length = bytes.len().min(64);
    memory.0[..length].copy_from_slice(&bytes[..length]);
    let word = |at: usize| u32::from_ne_bytes(memory.0[at..at + 4].try_into().expect("4 bytes"));
    let (version, holds) = (word(0), word(4));
    // SAFETY: a cell is 64 bytes of atomics, for which every value is valid; nobody else has them.
    let cell = unsafe { &*(&raw mut memory).cast::<Cell>() };
    match cell.said() {
        Said::Holds(said) => {
            assert_eq!((version, said), (VERSION, holds));
            assert!(holds < 1 << 24, "{holds} holds");
        }
        Said::Free => assert_eq!((version, holds), (0, 0)),
        Said::Closed => assert_eq!(version, u32::MAX),
        Said::Nonsense => assert!(version != VERSION || holds >= 1 << 24),
    }
    // Whatever is there, a release takes at most one away, and nothing from nothing.
    assert_eq!(cell.release(), holds > 0);
}
