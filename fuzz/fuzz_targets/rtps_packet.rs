//! See `checks/rtps_packet.rs`.
#![no_main]

#[path = "../checks/rtps_packet.rs"]
mod rtps_packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rtps_packet::check(bytes));
