//! Traces of a hold that a program could see: no allocation, no `errno`, no descriptor. One test,
//! since all of these belong to the whole process.
#![cfg(not(loom))]

mod support;

use bandwidth::{Hold, Holders};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::regulator;
use testing::{PATIENCE, until};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn descriptors() -> Vec<String> {
    let folder = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut names: Vec<String> =
        folder.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn hold_allocates_nothing_keeps_no_descriptor_and_leaves_errno() {
    let (holders, socket) = regulator(|config| config.ceiling = Some(50));
    let before = (descriptors(), ALLOCATIONS.get());
    // SAFETY: this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *errno = 12345 };
    let hold = Hold::attach(&socket).unwrap();
    let missing = Hold::attach(std::path::Path::new("/nobody/is/here"));
    assert!(missing.is_err());
    drop(Hold::attach(&socket).unwrap());
    assert_eq!(ALLOCATIONS.get(), before.1, "attaching allocates");
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| holders.wait_until_held(Some(PATIENCE)));
        let spawned = ALLOCATIONS.get();
        for _ in 0..1000 {
            hold.acquire();
            hold.acquire();
            hold.release();
            hold.release();
        }
        let held = hold.hold();
        drop(hold.hold());
        assert_eq!(ALLOCATIONS.get(), spawned, "taking and releasing allocates");
        assert!(sleeper.join().unwrap());
        drop(held);
    });
    // SAFETY: as above.
    assert_eq!(unsafe { *errno }, 12345);
    // The regulator, which is in this process too, keeps a descriptor of the process and its end of
    // the connection, for the one that is left.
    let of_regulator = |more: &[String]| {
        let kinds = ["pidfd", "socket:"];
        more.len() == 2 && kinds.iter().all(|kind| more.iter().any(|name| name.contains(kind)))
    };
    until_there_are(&holders, &before.0, of_regulator);
    drop(hold);
    until_there_are(&holders, &before.0, <[String]>::is_empty);
}

/// Waits until what there is besides is as it should be. The regulator closes what belonged to
/// closed holds when somebody looks at its holders.
fn until_there_are(holders: &Holders, before: &[String], is_so: impl Fn(&[String]) -> bool) {
    until("descriptors to be closed", || {
        holders.status();
        let mut more = descriptors();
        more.retain(|name| !before.contains(name));
        let target = |name: &String| std::fs::read_link(format!("/proc/self/fd/{name}")).ok();
        let targets = more.iter().filter_map(target);
        let targets: Vec<String> = targets.map(|to| to.to_string_lossy().into_owned()).collect();
        is_so(&targets)
    });
}
