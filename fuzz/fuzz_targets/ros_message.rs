//! See `checks/ros_message.rs`.
#![no_main]

use checks::ros_message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ros_message::check(bytes));
