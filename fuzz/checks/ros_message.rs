//! Messages of ROS 2 as they come from the network: any bytes may be there.

use ros::NodeEntry;
use ros::cdr::{Order, decode, encode};
use ros::message::diagnostic::DiagnosticArray;
use ros::message::keeptime::{
    DeregisterRequest, KeepAliveRequest, ListRequest, ListResponse, QueryRequest, RegisterRequest,
    RegisterResponse, Status, SubmitRequest, SubmitResponse,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Panics when bytes are not read as they should be.
pub fn check(bytes: &[u8]) {
    for order in [Order::Little, Order::Big] {
        one::<RegisterRequest>(bytes, order);
        one::<DeregisterRequest>(bytes, order);
        one::<KeepAliveRequest>(bytes, order);
        one::<ListRequest>(bytes, order);
        one::<QueryRequest>(bytes, order);
        one::<RegisterResponse>(bytes, order);
        one::<ListResponse>(bytes, order);
        one::<SubmitResponse>(bytes, order);
        one::<Status>(bytes, order);
        one::<DiagnosticArray>(bytes, order);
        if let Some(request) = one::<SubmitRequest>(bytes, order) {
            assert!(request.input.len() + 8 * request.arguments.len() <= bytes.len());
        }
        if let Some(nodes) = NodeEntry::read(bytes, order) {
            let ids: usize = nodes.iter().map(|node| node.readers.len() + node.writers.len()).sum();
            assert!(16 * (ids + 1) <= bytes.len(), "{ids} ids in {} bytes", bytes.len());
            assert!(nodes.iter().all(|node| node.name.to_string().starts_with('/')));
        }
    }
}

/// Checks that a message takes no more bytes than there are, and is the same after it was written.
fn one<T: Serialize + DeserializeOwned + Debug + PartialEq>(
    bytes: &[u8],
    order: Order,
) -> Option<T> {
    let (message, taken) = decode::<T>(bytes, order).ok()?;
    assert!(taken <= bytes.len());
    let written = encode(&message).expect("what was read can be written");
    // An empty string may come without its zero byte, in 4 bytes; it is written in up to 12.
    assert!(written.len() <= 3 * bytes.len() + 8, "{} bytes of {}", written.len(), bytes.len());
    let (again, _) = decode::<T>(&written, Order::Little).expect("what was written can be read");
    assert_eq!(again, message);
    Some(message)
}
