//! See `checks/traci_message.rs`.
#![no_main]

use checks::traci_message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| traci_message::check(bytes));
