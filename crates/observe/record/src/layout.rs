//! Layout of one record: the event, its time and its object.
//!
//! ```text
//!   byte 0        8          16         24       28     30     32
//!        +--------+----------+----------+--------+------+------+
//!        | time   | subject  | detail   | number | kind | lap  |   little endian
//!        +--------+----------+----------+--------+------+------+
//!   time     ticks of the time-stamp counter
//!   kind     what happened, below; never 0 in a whole record
//!   lap      belongs to the log (`shm::log`), 0 in a file
//! ```
//!
//! | kind | subject | detail | number |
//! |---|---|---|---|
//! | `Thread` | first 8 bytes of the name | last 8 bytes | scheduling policy * 65536 + priority |
//! | `Enter` | stream or other handle | bytes ([`host_copy`]), function, or graph | function of the driver |
//! | `Exit` | a handle that came out | 1 if the work was captured into a graph | result |
//! | `Graph` | executable graph | copies * 2^32 + memsets | kernels |
//! | lock `Waiting` | lock | caller's address (condition: its mutex) | owner's thread id, 0 unknown |
//! | lock `Acquired` | lock | caller's address (condition: its mutex) | attributes; condition: result |
//! | lock `Failed` | lock | caller's address | `errno` value of the result |
//! | lock `Released` | lock | caller's address | 0 |
//! | lock `Created` | lock | caller's address | attributes |
//! | lock `Destroyed` | lock | caller's address | 0 |
//! | lock `Signalled` | condition or semaphore | caller's address | 1, or all: `u32::MAX` |
//! | lock `HandedOver` | lock | caller's address | thread id of the new owner |
//! | `Switch` | thread off * 2^32 + thread on | their priorities, state of the first: [`SwitchDetail`] | processor |
//! | `Wakeup` | waker * 2^32 + wakee | wakee's priority | processor of the waker |
//! | `OffCpu` | thread | 1 if it was preempted | processor |
//! | `OnCpu` | thread | 0 | processor |
//! | `FutexEnter` | address | operation * 2^32 + value | thread |
//! | `FutexExit` | 0 | result | thread |
//! | `Boost` | thread | old * 2^32 + new priority | processor |
//! | `GpuKernel`, `GpuCopy`, `GpuMemset` | end, in ticks | stream * 2^32 + correlation | name, or bytes |
//! | `Hop` | launch id | see [`Hop`] | step |
//! | [`Flow`] | run of a module | see [`Flow`] | see [`Flow`] |
//!
//! A lock's attributes are the `__kind` word of a mutex, the flags word of a read-write lock.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the record and of the trace file. A reader refuses others.
pub const VERSION: u32 = 1;

/// Version of a trace file with [`Flow`] records, which a reader of [`VERSION`] has to refuse instead
/// of showing nothing. In version 2, `Serialised` and `Deserialised` were nothing, in version 3
/// `Returned`; all else is the same.
pub const FLOW_VERSION: u32 = 4;

/// Kind of lock that an event is about, and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// A mutex.
    Mutex = 1,
    /// A read-write lock, for reading.
    Read = 2,
    /// A read-write lock, for writing.
    Write = 3,
    /// A read-write lock whose use is not known: unlocking, creating.
    ReadWrite = 4,
    /// A spinlock.
    Spin = 5,
    /// A semaphore.
    Semaphore = 6,
    /// A barrier.
    Barrier = 7,
    /// A once control.
    Once = 8,
    /// A condition variable.
    Condition = 9,
}

impl Class {
    const ALL: [Class; 9] = [
        Class::Mutex,
        Class::Read,
        Class::Write,
        Class::ReadWrite,
        Class::Spin,
        Class::Semaphore,
        Class::Barrier,
        Class::Once,
        Class::Condition,
    ];
}

/// Event of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Action {
    /// The lock was not free; the thread begins to wait.
    Waiting = 1,
    /// The thread has it.
    Acquired = 2,
    /// The thread gave up: busy, timed out, or an error.
    Failed = 3,
    /// The thread is about to let it go.
    Released = 4,
    /// The lock was initialised.
    Created = 5,
    /// The lock was destroyed.
    Destroyed = 6,
    /// Waiters were told to go on.
    Signalled = 7,
    /// The guard gave it to a waiter; it never was free.
    HandedOver = 8,
}

impl Action {
    const ALL: [Action; 8] = [
        Action::Waiting,
        Action::Acquired,
        Action::Failed,
        Action::Released,
        Action::Created,
        Action::Destroyed,
        Action::Signalled,
        Action::HandedOver,
    ];
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // The table above says it.
pub enum Kind {
    Thread,
    Enter,
    Exit,
    Graph,
    Lock(Class, Action),
    Switch,
    Wakeup,
    OffCpu,
    OnCpu,
    FutexEnter,
    FutexExit,
    Boost,
    GpuKernel,
    GpuCopy,
    GpuMemset,
    Hop,
    Flow(Flow),
}

/// Event in a dataflow graph. A module, a source and a group are their numbers in the graph.
///
/// | kind | subject | detail | number | then |
/// |---|---|---|---|---|
/// | `Injected` | 0 | message | source | `More`: frame, captured, 0 |
/// | `Arrived` | run | message | module + 65536 if it was kept | |
/// | `Start` | run | core | module + 1, or 0 for work ahead | `More`: here, downstream, 0; `More`: deadline, 0, 0 |
/// | `Read` | run | message | 0 | |
/// | `Resumed`, `Paused` | run | 0 | 0 | |
/// | `Published` | run | message | part * 65536 + of | `More`: frame, 0, 0 |
/// | `Actuated` | run | message | 0 | |
/// | `Serialised`, `Deserialised` | run | message | bytes | `More`: time with a core, 0, 0 |
/// | `End` | run | time with a core | outcome | |
/// | `AheadAsked`, `AheadDropped` | run | version | 0 | |
/// | `AheadTaken` | run | 0 | 1 if it was there | |
/// | `Steal` | run | group | module + 65536 * denial | |
/// | `Overrun` | run | delay | group | |
/// | `Piece` | piece, a run of its own | core and class as of `Start` | | `More`: run, 0, 0 |
/// | `Divided` | run | pieces | | |
/// | `Returned` | piece | core and class as of `Start` | | |
/// | `More` | see above | see above | see above | |
///
/// A core is group * 65536 + its place there, + 2^32 * class + 2^40 * path; the numbers of classes,
/// paths, outcomes and denials are those of `dataflow::trace::record`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // The table above says it.
#[repr(u8)]
pub enum Flow {
    Injected = 0x40,
    Arrived = 0x41,
    Start = 0x42,
    Read = 0x43,
    Resumed = 0x44,
    Paused = 0x45,
    Published = 0x46,
    Actuated = 0x47,
    End = 0x48,
    AheadAsked = 0x49,
    AheadDropped = 0x4a,
    AheadTaken = 0x4b,
    Steal = 0x4c,
    Overrun = 0x4d,
    More = 0x4e,
    Piece = 0x4f,
    Divided = 0x50,
    Serialised = 0x51,
    Deserialised = 0x52,
    Returned = 0x53,
}

impl Flow {
    const ALL: [Flow; 20] = [
        Flow::Injected,
        Flow::Arrived,
        Flow::Start,
        Flow::Read,
        Flow::Resumed,
        Flow::Paused,
        Flow::Published,
        Flow::Actuated,
        Flow::End,
        Flow::AheadAsked,
        Flow::AheadDropped,
        Flow::AheadTaken,
        Flow::Steal,
        Flow::Overrun,
        Flow::More,
        Flow::Piece,
        Flow::Divided,
        Flow::Serialised,
        Flow::Deserialised,
        Flow::Returned,
    ];
}

const PLAIN: [(Kind, u16); 15] = [
    (Kind::Thread, 0x01),
    (Kind::Enter, 0x02),
    (Kind::Exit, 0x03),
    (Kind::Graph, 0x04),
    (Kind::Switch, 0x10),
    (Kind::Wakeup, 0x11),
    (Kind::OffCpu, 0x12),
    (Kind::OnCpu, 0x13),
    (Kind::FutexEnter, 0x14),
    (Kind::FutexExit, 0x15),
    (Kind::Boost, 0x16),
    (Kind::GpuKernel, 0x20),
    (Kind::GpuCopy, 0x21),
    (Kind::GpuMemset, 0x22),
    (Kind::Hop, 0x30),
];

impl Kind {
    /// The number that stands for it in a record.
    #[inline(always)]
    pub const fn code(self) -> u16 {
        match self {
            Kind::Thread => 0x01,
            Kind::Enter => 0x02,
            Kind::Exit => 0x03,
            Kind::Graph => 0x04,
            Kind::Lock(class, action) => (class as u16) << 8 | action as u16,
            Kind::Switch => 0x10,
            Kind::Wakeup => 0x11,
            Kind::OffCpu => 0x12,
            Kind::OnCpu => 0x13,
            Kind::FutexEnter => 0x14,
            Kind::FutexExit => 0x15,
            Kind::Boost => 0x16,
            Kind::GpuKernel => 0x20,
            Kind::GpuCopy => 0x21,
            Kind::GpuMemset => 0x22,
            Kind::Hop => 0x30,
            Kind::Flow(flow) => flow as u16,
        }
    }

    /// Returns the kind that a number stands for; `None` for numbers that stand for nothing.
    #[inline]
    pub fn from_code(code: u16) -> Option<Kind> {
        let (high, low) = (usize::from(code >> 8), usize::from(code & 0xff));
        if high == 0 {
            let plain = PLAIN.iter().find(|(_, number)| *number == code).map(|(kind, _)| *kind);
            let flow = Flow::ALL.into_iter().find(|flow| *flow as u16 == code);
            return plain.or(flow.map(Kind::Flow));
        }
        let class = Class::ALL.get(high - 1)?;
        let action = Action::ALL.get(low.checked_sub(1)?)?;
        Some(Kind::Lock(*class, *action))
    }
}

/// A record as it lies in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Raw {
    /// Ticks of the time-stamp counter.
    pub time: u64,
    /// See the table of kinds.
    pub subject: u64,
    /// See the table of kinds.
    pub detail: u64,
    /// See the table of kinds.
    pub number: u32,
    /// [`Kind::code`].
    pub kind: u16,
    /// Always 0 in a file.
    pub lap: u16,
}

const _: () = {
    assert!(std::mem::size_of::<Raw>() == 32);
    assert!(std::mem::offset_of!(Raw, number) == 24);
    assert!(std::mem::offset_of!(Raw, kind) == 28);
};

/// A record whose kind is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Ticks of the time-stamp counter.
    pub time: u64,
    /// See the table of kinds.
    pub subject: u64,
    /// See the table of kinds.
    pub detail: u64,
    /// See the table of kinds.
    pub number: u32,
    /// Kind of event.
    pub kind: Kind,
}

impl Record {
    /// The record that a file holds, if its kind means something.
    #[inline]
    pub fn from_raw(raw: &Raw) -> Option<Record> {
        let Raw { time, subject, detail, number, kind, .. } = *raw;
        Some(Record { time, subject, detail, number, kind: Kind::from_code(kind)? })
    }

    /// Returns the record in the form of a file.
    #[inline]
    pub fn to_raw(&self) -> Raw {
        let Record { time, subject, detail, number, kind } = *self;
        Raw { time, subject, detail, number, kind: kind.code(), lap: 0 }
    }

    /// Returns the record in the form of the log.
    #[inline(always)]
    pub fn entry(&self) -> shm::log::Entry {
        shm::log::Entry {
            words: [self.time, self.subject, self.detail],
            number: self.number,
            kind: self.kind.code(),
        }
    }
}

impl From<shm::log::Entry> for Raw {
    fn from(entry: shm::log::Entry) -> Raw {
        let [time, subject, detail] = entry.words;
        Raw { time, subject, detail, number: entry.number, kind: entry.kind, lap: 0 }
    }
}

/// The detail of a `Switch`: priorities as the kernel counts them (0 to 99 real-time, smaller is
/// more urgent; 120 is nice 0), and why the first thread left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchDetail {
    /// Priority of the thread that left the processor.
    pub from_priority: u16,
    /// Priority of the thread that came.
    pub to_priority: u16,
    /// The kernel's state of the thread that left; 0 means that it could have run on.
    pub from_state: u32,
}

impl SwitchDetail {
    /// Packs it into a record's detail.
    pub fn pack(self) -> u64 {
        u64::from(self.from_state)
            | u64::from(self.from_priority) << 32
            | u64::from(self.to_priority) << 48
    }

    /// Unpacks it from a record's detail.
    pub fn unpack(detail: u64) -> SwitchDetail {
        SwitchDetail {
            from_state: detail as u32,
            from_priority: (detail >> 32) as u16,
            to_priority: (detail >> 48) as u16,
        }
    }

    /// Returns true if the thread that left was preempted: it did not block.
    pub fn preempted(self) -> bool {
        self.from_state == 0
    }
}

/// The detail of a copy between host and device: bytes in bits 0 to 47; bit 48: the host's memory
/// is known to be pinned, bit 49: it is not known to be.
pub fn host_copy(bytes: u64, pinned: bool) -> u64 {
    bytes & BYTES_MASK | if pinned { PINNED } else { PAGEABLE }
}

/// The bytes in a copy's detail.
pub const BYTES_MASK: u64 = (1 << 48) - 1;
/// Set in a copy's detail when the host's memory is known to be pinned.
pub const PINNED: u64 = 1 << 48;
/// Set in a copy's detail when the program did not pin the host's memory through the driver.
pub const PAGEABLE: u64 = 1 << 49;

/// The steps of a request through the accelerator server, as the number of a `Hop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hop {
    /// The client sent it. Detail: segment's execution time declared, or 0.
    Sent = 1,
    /// The server took it from the ring.
    Arrived = 2,
    /// The device was given it.
    Started = 3,
    /// The device was done.
    Finished = 4,
    /// The client was answered.
    Answered = 5,
    /// The client has seen the answer. Detail: status.
    Seen = 6,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own_and_comes_back_from_it() {
        let locks = Class::ALL
            .into_iter()
            .flat_map(|class| Action::ALL.into_iter().map(move |action| Kind::Lock(class, action)));
        let kinds: Vec<Kind> = PLAIN.iter().map(|(kind, _)| *kind).chain(locks).collect();
        let mut codes: Vec<u16> = kinds.iter().map(|kind| kind.code()).collect();
        for kind in kinds {
            assert_eq!(Kind::from_code(kind.code()), Some(kind));
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), 15 + 9 * 8);
    }

    #[test]
    fn foreign_codes_mean_nothing() {
        for code in [0, 5, 0xff, 0x0100, 0x0109, 0x0a01, 0xffff] {
            assert_eq!(Kind::from_code(code), None, "{code:#x}");
        }
    }

    #[test]
    fn switch_detail_comes_back() {
        let detail = SwitchDetail { from_priority: 120, to_priority: 49, from_state: 0x2001 };
        assert_eq!(SwitchDetail::unpack(detail.pack()), detail);
        assert!(!detail.preempted());
    }
}
