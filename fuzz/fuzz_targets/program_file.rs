//! See `checks/program_file.rs`.
#![no_main]

use checks::program_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| program_file::check(bytes));
