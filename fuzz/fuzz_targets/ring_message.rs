//! See `checks/ring_message.rs`.
#![no_main]

use checks::ring_message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ring_message::check(bytes));
