//! See `checks/trace_file.rs`.
#![no_main]

use checks::trace_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trace_file::check(bytes));
