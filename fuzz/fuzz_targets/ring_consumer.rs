//! See `checks/ring_consumer.rs`.
#![no_main]

#[path = "../checks/ring_consumer.rs"]
mod ring_consumer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ring_consumer::check(bytes));
