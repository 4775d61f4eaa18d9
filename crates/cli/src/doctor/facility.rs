//! Kernel facilities that Keeptime is built on, each found by using it once.

use std::sync::atomic::AtomicU32;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, futex};

use super::{Check, State};

struct Facility {
    name: &'static str,
    works: &'static str,
    without: &'static str,
    probe: fn() -> Result<(), Errno>,
}

const FACILITIES: [Facility; 5] = [
    Facility {
        name: "futex",
        works: "Processes can wake each other through shared memory.",
        without: "Processes cannot wake each other through shared memory.",
        probe: wait_futex,
    },
    Facility {
        name: "inheritance futex",
        works: "A lock's holder can run at the priority of the threads that wait for it.",
        without: "A thread of middle priority can keep an urgent one waiting without bound.",
        probe: lock_inheritance_futex,
    },
    Facility {
        name: "memfd sealing",
        works: "Processes can share memory that none of them can shrink.",
        without: "A client could crash the server by shrinking memory that they share.",
        probe: seal_memory,
    },
    Facility {
        name: "pidfd",
        works: "The server can learn at once that a client died.",
        without: "The server learns late, or never, that a client died.",
        probe: open_pidfd,
    },
    Facility {
        name: "eventfd",
        works: "Completions can be awaited with poll beside sockets.",
        without: "Completions cannot be awaited beside sockets.",
        probe: signal_eventfd,
    },
];

/// Tries every facility.
pub(super) fn checks() -> Vec<Check> {
    FACILITIES.iter().map(check).collect()
}

/// Returns true if this process holds a capability now.
pub(super) fn has_capability(capability: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

fn check(facility: &Facility) -> Check {
    let answer = (facility.probe)();
    let (state, found, means) = match answer {
        Ok(()) => (State::Ok, "works".into(), facility.works),
        Err(error) => (State::Missing, format!("refused: {error}"), facility.without),
    };
    Check {
        name: facility.name,
        state,
        found,
        means: means.into(),
        grant: answer.is_err().then(|| match answer {
            Err(Errno::PERM | Errno::ACCESS) => {
                "allow the call in the seccomp profile of the container".into()
            }
            _ => "use Linux 5.4 or later, and allow the call in the seccomp profile".into(),
        }),
    }
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
