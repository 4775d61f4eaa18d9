//! Faults that the handler of SIGBUS leaves alone.
#![cfg(not(loom))]

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use shm::{Doorbell, Segment};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;

const CHOICE: &str = "SHM_TEST_FAULT";

#[test]
#[ignore = "run as a process of its own by fault_elsewhere_ends_the_process_as_before"]
fn process_that_faults_elsewhere() {
    if std::env::var(CHOICE).is_err() {
        return;
    }
    let bell = Arc::new(Doorbell::new().unwrap());
    let _guarded = Segment::create("guarded", 4096).unwrap().map_guarded(&bell).unwrap();
    // A file of no bytes has no pages.
    let empty = rustix::fs::memfd_create("empty", MemfdFlags::CLOEXEC).unwrap();
    let null = std::ptr::null_mut();
    // SAFETY: a fresh mapping overlaps nothing; the read is to fail.
    unsafe {
        let page =
            rustix::mm::mmap(null, 4096, ProtFlags::READ, MapFlags::SHARED, &empty, 0).unwrap();
        let byte = page.cast::<u8>().read_volatile();
        println!("{byte}");
    }
}

#[test]
fn fault_elsewhere_ends_the_process_as_before() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "process_that_faults_elsewhere"])
        .env(CHOICE, "yes")
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
}
