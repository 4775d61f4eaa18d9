//! A thread gets back exactly what it had before it was raised.
#![cfg(not(loom))]

mod support;

use bandwidth::Ceiling;
use support::regulator;

/// `struct sched_attr`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Attributes {
    bytes: u32,
    policy: i32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_deadline_period_ns: [u64; 3],
}

fn attributes() -> Attributes {
    let mut attributes = Attributes::default();
    let (at, bytes) = (&raw mut attributes, size_of::<Attributes>());
    // SAFETY: writes at most so many bytes.
    assert_eq!(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, at, bytes, 0) }, 0);
    attributes
}

/// Gives the calling thread these attributes; false if the kernel refuses.
fn set(attributes: &Attributes) -> bool {
    let attributes = Attributes { bytes: size_of::<Attributes>() as u32, ..*attributes };
    // SAFETY: reads one structure.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// The nice value, also while it does not count.
fn nice() -> i32 {
    rustix::process::getpriority_process(None).unwrap()
}

const RESET_ON_FORK: u64 = 1;
const CEILING: u32 = 50;

/// Runs on a thread of its own, with these attributes; skipped where the kernel forbids them.
fn with(attributes: Attributes, act: impl FnOnce() + Send) {
    let ceiling =
        Attributes { policy: libc::SCHED_FIFO, priority: CEILING, ..Attributes::default() };
    let ran = std::thread::scope(|scope| {
        let may_be_raised = scope.spawn(|| set(&ceiling)).join().unwrap();
        let thread = scope.spawn(move || {
            let may = may_be_raised && set(&attributes);
            if may {
                act();
            }
            may
        });
        thread.join().unwrap()
    });
    if !ran {
        println!("SKIP: the kernel does not allow {attributes:?} and a ceiling of {CEILING}");
    }
}

fn every_kind() -> Vec<Attributes> {
    let of =
        |policy, nice, priority| Attributes { policy, nice, priority, ..Attributes::default() };
    let kinds = [
        of(libc::SCHED_OTHER, 0, 0),
        of(libc::SCHED_OTHER, 7, 0),
        of(libc::SCHED_OTHER, -3, 0),
        of(libc::SCHED_BATCH, 5, 0),
        of(libc::SCHED_IDLE, 0, 0),
        of(libc::SCHED_FIFO, 0, 10),
        of(libc::SCHED_RR, 0, 20),
    ];
    let kept = kinds.iter().map(|kind| Attributes { flags: RESET_ON_FORK, ..*kind });
    kinds.iter().copied().chain(kept).collect()
}

#[test]
fn thread_is_raised_once_and_restored_exactly() {
    let ceiling = Ceiling::new(CEILING).unwrap();
    for kind in every_kind() {
        with(kind, || {
            let (before, nice_before) = (attributes(), nice());
            assert_eq!((before.policy, before.flags), (kind.policy, kind.flags));
            assert!(ceiling.raise());
            let raised = attributes();
            assert_eq!((raised.policy, raised.priority), (libc::SCHED_FIFO, CEILING));
            assert_eq!(raised.flags, kind.flags, "children inherit as before");
            assert!(ceiling.raise());
            ceiling.restore();
            assert_eq!(attributes(), raised, "one raise is left");
            ceiling.restore();
            assert_eq!((attributes(), nice()), (before, nice_before));
            ceiling.restore();
            assert_eq!((attributes(), nice()), (before, nice_before), "nothing to restore");
        });
    }
}

#[test]
fn nice_value_of_a_real_time_thread_survives() {
    let ceiling = Ceiling::new(CEILING).unwrap();
    let other = Attributes { policy: libc::SCHED_OTHER, nice: 9, ..Attributes::default() };
    with(other, || {
        let fifo = Attributes { policy: libc::SCHED_FIFO, priority: 3, ..Attributes::default() };
        assert!(set(&fifo));
        assert!(ceiling.raise());
        ceiling.restore();
        let after = attributes();
        assert_eq!((after.policy, after.priority, nice()), (libc::SCHED_FIFO, 3, 9));
    });
}

#[test]
fn more_urgent_threads_stay_as_they_are() {
    let ceiling = Ceiling::new(CEILING).unwrap();
    for (policy, priority) in [(libc::SCHED_FIFO, 50), (libc::SCHED_FIFO, 80), (libc::SCHED_RR, 51)]
    {
        with(Attributes { policy, priority, ..Attributes::default() }, || {
            let before = attributes();
            assert!(ceiling.raise());
            assert_eq!(attributes(), before);
            ceiling.restore();
            assert_eq!(attributes(), before);
        });
    }
    let deadline = Attributes {
        policy: libc::SCHED_DEADLINE,
        runtime_deadline_period_ns: [1_000_000, 100_000_000, 100_000_000],
        ..Attributes::default()
    };
    with(deadline, || {
        let before = attributes();
        assert!(ceiling.raise());
        assert_eq!(attributes().policy, libc::SCHED_DEADLINE);
        ceiling.restore();
        assert_eq!(attributes(), before);
    });
}

#[test]
fn what_somebody_else_has_set_meanwhile_stays() {
    let ceiling = Ceiling::new(CEILING).unwrap();
    with(Attributes::default(), || {
        assert!(ceiling.raise());
        let other = Attributes { policy: libc::SCHED_RR, priority: 33, ..Attributes::default() };
        assert!(set(&other));
        ceiling.restore();
        let after = attributes();
        assert_eq!((after.policy, after.priority), (libc::SCHED_RR, 33));
    });
}

#[test]
fn ceilings_are_priorities() {
    assert_eq!(Ceiling::new(0), None);
    assert_eq!(Ceiling::new(100), None);
    assert_eq!(Ceiling::new(99).unwrap().priority(), 99);
}

#[test]
fn guard_raises_to_the_regulators_ceiling_and_restores() {
    let (holders, socket) = regulator(|config| config.ceiling = Some(CEILING));
    let hold = bandwidth::Hold::attach(&socket).unwrap();
    assert_eq!(hold.ceiling(), Ceiling::new(CEILING));
    with(Attributes { nice: 4, ..Attributes::default() }, || {
        let before = attributes();
        {
            let _held = hold.hold();
            let _again = hold.hold();
            assert!(holders.is_held());
            assert_eq!((attributes().policy, attributes().priority), (libc::SCHED_FIFO, CEILING));
        }
        assert_eq!(attributes(), before);
        assert!(!holders.is_held());
    });
    let (_holders, socket) = regulator(|_| {});
    assert_eq!(bandwidth::Hold::attach(&socket).unwrap().ceiling(), None);
}
