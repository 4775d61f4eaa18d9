//! A message and a service of ROS 2 that tests send, and domains for them.
#![allow(dead_code, reason = "every test file uses its own part")]

use ros::{Context, Message, Options, Service};

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Text {
    pub data: String,
}

impl Message for Text {
    const TYPE: &'static str = "std_msgs/msg/String";
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Pair {
    pub a: i64,
    pub b: i64,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Sum {
    pub sum: i64,
}

pub(crate) struct Add;

impl Service for Add {
    const TYPE: &'static str = "example_interfaces/srv/AddTwoInts";
    type Request = Pair;
    type Response = Sum;
}

/// A domain that other runs of these tests are unlikely to use, with ports below those that the
/// kernel gives out by itself. Each test of a file has an offset of its own.
pub(crate) fn domain(offset: u32) -> u16 {
    1 + ((std::process::id() + offset * 17) % 100) as u16
}

pub(crate) fn on_loopback(domain: u16) -> Options {
    Options { domain, interfaces: vec!["127.0.0.1".parse().unwrap()], ..Options::default() }
}

/// A participant on loopback.
pub(crate) fn context(domain: u16) -> Context {
    Context::new(&on_loopback(domain)).unwrap()
}
