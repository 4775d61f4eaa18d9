//! See `checks/control_packet.rs`.
#![no_main]

use checks::control_packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| control_packet::check(bytes));
