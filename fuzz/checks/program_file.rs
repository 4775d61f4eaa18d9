//! Files of programs that did not load the library: anything that can be started, and what was put
//! in its place since.

use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

/// Panics when the reader does, or when it says more than it could have read.
pub fn check(bytes: &[u8]) {
    let memory = memfd_create("program", MemfdFlags::CLOEXEC).expect("a file in memory");
    let mut file = File::from(memory);
    file.write_all(bytes).expect("room in memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let reason = trace::session::unloaded::reason(OsStr::new(&path), None, 0);
    let is_script = bytes.starts_with(b"#!");
    assert!(is_script || reason.starts_with(&path), "{reason}");
    // A byte that is no text becomes three.
    assert!(reason.len() <= 200 + 3 * bytes.len().min(4096), "{reason}");
}
