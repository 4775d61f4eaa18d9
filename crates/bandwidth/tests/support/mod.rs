//! What the tests share.

use bandwidth::Holders;
use bandwidth::holders::Config;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Holders at a socket of their own.
pub fn regulator(change: impl FnOnce(&mut Config)) -> (Holders, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("keeptime-bandwidth-{}-{number}.sock", std::process::id());
    let socket = std::env::temp_dir().join(name);
    let mut config = Config { socket: socket.clone(), ..Config::default() };
    change(&mut config);
    (Holders::start(config).unwrap(), socket)
}
