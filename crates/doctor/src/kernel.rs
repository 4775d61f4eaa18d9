//! Kernel features that Keeptime is built on, each found by using it once.

use std::sync::atomic::AtomicU32;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, futex};

use crate::Finding;

struct Feature {
    name: &'static str,
    probe: fn() -> Result<(), Errno>,
}

const FEATURES: [Feature; 5] = [
    Feature { name: "futex", probe: wait_futex },
    Feature { name: "inheritance futex", probe: lock_inheritance_futex },
    Feature { name: "memfd sealing", probe: seal_memory },
    Feature { name: "pidfd", probe: open_pidfd },
    Feature { name: "eventfd", probe: signal_eventfd },
];

/// Tries every feature.
pub(crate) fn features() -> Finding {
    let refused = |feature: &Feature| {
        (feature.probe)().err().map(|error| format!("{}: {error}", feature.name))
    };
    let refused: Vec<String> = FEATURES.iter().filter_map(refused).collect();
    if refused.is_empty() {
        return Finding::ok("futexes, sealed memory, pidfd, eventfd");
    }
    Finding::missing(refused.join("; ")).mend(
        "use Linux 5.4 or later, and allow the calls in the container's seccomp profile: docker \
         run --security-opt seccomp=unconfined",
    )
}

/// Returns true if this process holds a capability now.
pub(crate) fn has_capability(capability: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

/// Returns true if this process runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits for a value that is not there, which a working futex refuses with EAGAIN.
fn wait_futex() -> Result<(), Errno> {
    match futex::wait(&AtomicU32::new(1), futex::Flags::empty(), 0, None) {
        Err(Errno::AGAIN) => Ok(()),
        answer => answer,
    }
}

fn lock_inheritance_futex() -> Result<(), Errno> {
    let word = AtomicU32::new(0);
    futex::lock_pi(&word, futex::Flags::PRIVATE, None)?;
    futex::unlock_pi(&word, futex::Flags::PRIVATE)
}

fn seal_memory() -> Result<(), Errno> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate};
    let memory = rustix::fs::memfd_create("doctor", MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, 4096)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&memory, seals)?;
    let kept = fcntl_get_seals(&memory)?.contains(seals) && ftruncate(&memory, 0).is_err();
    if kept { Ok(()) } else { Err(Errno::NOTSUP) }
}

fn open_pidfd() -> Result<(), Errno> {
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    pidfd_open(getpid(), PidfdFlags::empty()).map(drop)
}

fn signal_eventfd() -> Result<(), Errno> {
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK)?;
    rustix::io::write(&event, &1_u64.to_ne_bytes())?;
    let mut count = [0; 8];
    rustix::io::read(&event, &mut count)?;
    if u64::from_ne_bytes(count) == 1 { Ok(()) } else { Err(Errno::NOTSUP) }
}
