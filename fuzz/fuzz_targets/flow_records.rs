//! See `checks/flow_records.rs`.
#![no_main]

use checks::flow_records;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flow_records::check(bytes));
