//! See `checks/traci_message.rs`.
#![no_main]

#[path = "../checks/traci_message.rs"]
mod traci_message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| traci_message::check(bytes));
