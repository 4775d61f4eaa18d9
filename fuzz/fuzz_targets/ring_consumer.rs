//! See `checks/ring_consumer.rs`.
#![no_main]

use checks::ring_consumer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ring_consumer::check(bytes));
