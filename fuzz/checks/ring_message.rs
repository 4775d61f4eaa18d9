//! Messages of the ring: a client writes whatever it likes into a slot.

use accel::request::{Order, Status};
use shm::Message;

/// Panics when a message of the first 64 bytes is not taken apart as it should be.
pub fn check(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk::<64>() else { return };
    let mut words: Message = [0; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    if let Some(status) = Status::from_word(words[0] as u32) {
        assert_eq!(status as u32, words[0] as u32 & 0xffff);
    }
    let Ok(order) = Order::decode(&words) else { return };
    let again = order.encode();
    match order {
        Order::Launch { .. } => assert_eq!(again, words, "a launch uses every bit"),
        // A cancellation leaves the registration's half of word 1 and words 4 to 7 unused.
        Order::Cancel { .. } => {
            let used = [words[0], words[1] & 0xffff_ffff, words[2], words[3], 0, 0, 0, 0];
            assert_eq!(again, used);
        }
    }
    assert_eq!(Order::decode(&again), Ok(order));
}
