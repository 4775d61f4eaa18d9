//! See `checks/system_file.rs`.
#![no_main]

#[path = "../checks/system_file.rs"]
mod system_file;

libfuzzer_sys::fuzz_target!(|text: &str| system_file::check(text));
