//! See `checks/rtps_packet.rs`.
#![no_main]

use checks::rtps_packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rtps_packet::check(bytes));
