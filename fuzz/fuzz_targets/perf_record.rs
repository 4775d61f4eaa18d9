//! See `checks/perf_record.rs`.
#![no_main]

#[path = "../checks/perf_record.rs"]
mod perf_record;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| perf_record::check(bytes));
