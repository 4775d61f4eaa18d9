//! See `checks/opendrive.rs`.
#![no_main]

#[path = "../checks/opendrive.rs"]
mod opendrive;

libfuzzer_sys::fuzz_target!(|text: &str| opendrive::check(text));
