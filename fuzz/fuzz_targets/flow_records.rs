//! See `checks/flow_records.rs`.
#![no_main]

#[path = "../checks/flow_records.rs"]
mod flow_records;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flow_records::check(bytes));
