//! See `checks/tracefs_page.rs`.
#![no_main]

use checks::tracefs_page;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tracefs_page::check(bytes));
