//! See `checks/opendrive.rs`.
#![no_main]

use checks::opendrive;

libfuzzer_sys::fuzz_target!(|text: &str| opendrive::check(text));
