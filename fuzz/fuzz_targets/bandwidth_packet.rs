//! See `checks/bandwidth_packet.rs`.
#![no_main]

use checks::bandwidth_packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bandwidth_packet::check(bytes));
