//! See `checks/perf_record.rs`.
#![no_main]

use checks::perf_record;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| perf_record::check(bytes));
