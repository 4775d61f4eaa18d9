//! Callbacks that are fed over DDS, on this machine's own interface.

use executor::{DdsInput, Executor, ExecutorPolicy, Settings, Thread};
use realtime::clock::monotonic_ns;
use ros::{Context, Message, Options, Qos};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Number {
    value: u64,
}

impl Message for Number {
    const TYPE: &'static str = "keeptime_test/msg/Number";
}

/// Sent again until it arrives.
const FIRST: u64 = 100;
/// More than are sent before that is seen.
const DEPTH: u16 = 10_000;

fn context() -> Context {
    let interfaces = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    Context::new(&Options { domain: 97, interfaces, ..Options::default() }).unwrap()
}

#[test]
fn messages_of_another_participant_release_a_callback() {
    let (sending, receiving) = (context(), context());
    let namespace = format!("/executor_test_{}", std::process::id());
    let from = sending.node(&namespace, "camera").unwrap();
    let to = receiving.node(&namespace, "detector").unwrap();
    let publisher = from.publisher::<Number>("image", Qos::default().depth(DEPTH)).unwrap();
    let subscription = to.subscription::<Number>("image", Qos::default().depth(DEPTH)).unwrap();

    let mut executor = Executor::new(ExecutorPolicy::ChainAware, vec![Thread::default()]).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let input = DdsInput::new(subscription, DEPTH.into());
    executor.subscription(Settings::new("detect", 1), input, move |context, number: Number| {
        log.lock().unwrap().push(number.value);
        if number.value == 4 {
            context.stop();
        }
    });
    let end_ns = monotonic_ns() + 60_000_000_000;
    let running = std::thread::spawn(move || executor.run(end_ns).unwrap());
    testing::until("the reader is found", || publisher.subscribers() > 0);
    // A message that is sent before the reader knows the writer, too, is not kept.
    testing::until("the writer is found", || {
        publisher.publish(&Number { value: FIRST }).unwrap();
        !seen.lock().unwrap().is_empty()
    });
    for value in 0..5 {
        publisher.publish(&Number { value }).unwrap();
    }
    let report = running.join().unwrap();
    let seen = seen.lock().unwrap();
    let after = seen.iter().position(|value| *value != FIRST).unwrap();
    assert_eq!(seen[after..], [0, 1, 2, 3, 4]);
    assert_eq!((report.callbacks[0].count, report.callbacks[0].dropped), (seen.len() as u64, 0));
}
