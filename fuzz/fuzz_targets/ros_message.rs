//! See `checks/ros_message.rs`.
#![no_main]

#[path = "../checks/ros_message.rs"]
mod ros_message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ros_message::check(bytes));
