//! See `checks/system_file.rs`.
#![no_main]

use checks::system_file;

libfuzzer_sys::fuzz_target!(|text: &str| system_file::check(text));
