//! The control plane: fixed-size packets on the session's socket.
//!
//! The client asks, the server answers each packet with one packet. A packet begins with its
//! kind; its length must be exactly that of its kind. Both ends run on one machine, so numbers
//! are in the machine's byte order. Names are UTF-8, padded with zeros.
//!
//! | asks | answered by | descriptors |
//! |---|---|---|
//! | `Hello` | `Welcome` | to the client: session segment, doorbell |
//! | `Register` | `Registered` | to the server: the registration's memory, if it has any |
//! | `Deregister` | `Done` | |
//! | `Reprioritise` | `Registered` | |
//! | `QueryStatus` | `Counters` | |
//! | `QueryServer` | `ServerStatus` | |
//! | `QueryAccelerator` | `AcceleratorStatus` | |
//! | `QuerySession` | `SessionStatus` | |
//! | `QueryChain` | `ChainStatus` | |
//! | `QueryBandwidth` | `BandwidthStatus` | |
//! | `QueryMemory` | `MemoryStatus` | |
//!
//! Accelerators, sessions, chains and the memory of users are asked for as one entry of a list by its index; the answer says how long the list is,
//! and at which revision of the server's state it was. Who reads a list to its end without the
//! revision changing has read one state; [`crate::snapshot`] does.
//!
//! Any of them may be answered by `Refused`; the server also sends it before it closes a session.

mod name;
mod refusal;

pub use name::Name;
pub use refusal::{Code, Refusal};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First word of a [`Hello`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"keeptime");

/// Version of the control plane.
pub const VERSION: u32 = 2;

/// Longest packet in bytes; a receive buffer of this size plus one sees oversized packets.
pub const MAX_PACKET: usize = 512;

/// Longest name in bytes.
pub const NAME_BYTES: usize = 48;

/// Longest text of a refusal in bytes.
pub const REFUSAL_BYTES: usize = 400;

/// Longest remark about a session or a chain in bytes.
pub const NOTE_BYTES: usize = 240;

/// Longest path of a socket in bytes, with room to a multiple of 8.
pub const SOCKET_BYTES: usize = 112;

/// Accelerators whose buckets a [`ChainStatus`] can tell.
pub const SHOWN_ACCELERATORS: usize = 32;

/// Value of [`ChainStatus::buckets`] for an accelerator that the chain does not use.
pub const NO_BUCKET: u8 = u8::MAX;

/// Bits of [`Register::flags`].
pub mod flag {
    /// The chain's callbacks keep their cores busy while they wait for an accelerator.
    pub const SPINS: u32 = 1;
    /// The chain's own deadline does not count.
    pub const BEST_EFFORT: u32 = 2;
    /// `core` and `process_priority` are declared.
    pub const EXECUTOR: u32 = 4;
    /// All of them.
    pub const ALL: u32 = SPINS | BEST_EFFORT | EXECUTOR;
}

macro_rules! packets {
    ($($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
            #[repr(C)]
            pub struct $name {
                /// Kind of the packet: [`Packet::KIND`].
                pub kind: u32,
                $($(#[$field_doc])* pub $field: $type,)*
            }
            impl Packet for $name { const KIND: u32 = $kind; }
            const _: () = assert!(std::mem::size_of::<$name>() <= MAX_PACKET);
        )*
    };
}

/// A fixed-size packet that begins with its kind.
pub trait Packet: FromBytes + IntoBytes + KnownLayout + Immutable + Copy {
    /// The number in its first word.
    const KIND: u32;

    /// The packet in `bytes`, if it has this kind and exactly this length.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let packet = Self::read_from_bytes(bytes).ok()?;
        (kind(bytes) == Some(Self::KIND)).then_some(packet)
    }
}

/// The kind of a packet.
pub fn kind(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

packets! {
    /// Client: opens the session.
    Hello = 1 {
        /// [`VERSION`].
        version: u32,
        /// [`MAGIC`].
        magic: u64,
    }
    /// Client: registers a callback for one service, and declares what admission control needs to
    /// know. A period of 0 declares nothing: then `deadline_ns`, `jitter_ns`, `cpu_ns` and
    /// `cpu_min_ns` are 0 too, and the chain is not best effort.
    Register = 2 {
        /// Priority of the callback's chain; larger is more critical.
        chain_priority: u32,
        /// The client's own number for the callback.
        callback: u64,
        /// Size of the memory passed with this packet; 0 for none.
        memory_bytes: u64,
        /// Declared execution time on the device per request; 0 for undeclared.
        exec_ns: u64,
        /// Least execution time on the device per request; 0 for not known.
        exec_min_ns: u64,
        /// Least distance between two releases of the chain; 0 for undeclared.
        period_ns: u64,
        /// The chain's deadline; 0 for the period.
        deadline_ns: u64,
        /// Largest delay of the release of a job of the chain after its nominal release.
        jitter_ns: u64,
        /// Processor time of the callback at most.
        cpu_ns: u64,
        /// Processor time of the callback at least; 0 for not known.
        cpu_min_ns: u64,
        /// Position of the callback in the chain, from 0.
        position: u32,
        /// Requests of this registration in one job of the chain, at least 1.
        requests: u32,
        /// The core that the callback's executor is kept on.
        core: u32,
        /// The executor's `SCHED_FIFO` priority; 0 for normal scheduling.
        process_priority: u32,
        /// Bits of [`flag`].
        flags: u32,
        /// Zero.
        reserved: u32,
        /// The chain's name.
        chain: Name,
        /// The service's name.
        service: Name,
        /// The accelerator's id; all zero where the service or the server leaves no choice.
        accelerator: Name,
    }
    /// Client: ends a registration. Its queued requests are cancelled.
    Deregister = 3 {
        /// Number of the registration.
        registration: u32,
    }
    /// Client: gives a registration another chain priority.
    Reprioritise = 4 {
        /// Number of the registration.
        registration: u32,
        /// The new priority.
        chain_priority: u32,
    }
    /// Client: asks for the server's counters.
    QueryStatus = 5 {}
    /// Client: asks for the server's settings and what it decided.
    QueryServer = 6 {}
    /// Client: asks for one accelerator.
    QueryAccelerator = 7 {
        /// Index of the accelerator, from 0.
        index: u32,
    }
    /// Client: asks for one session.
    QuerySession = 8 {
        /// Index of the session, from 0.
        index: u32,
    }
    /// Client: asks for one chain.
    QueryChain = 9 {
        /// Index of the chain, from 0.
        index: u32,
    }
    /// Client: asks what the bandwidth lock was held for.
    QueryBandwidth = 10 {}
    /// Client: asks what the sessions of one user cost.
    QueryMemory = 11 {
        /// Index of the user, from 0.
        index: u32,
    }
    /// Server: the session is open.
    Welcome = 101 {
        /// Slots of ring and completions.
        slots: u32,
        /// The session's number.
        session: u64,
        /// Size of the session segment.
        segment_bytes: u64,
    }
    /// Server: the registration stands.
    Registered = 102 {
        /// Its number in requests.
        registration: u32,
        /// The bucket its requests go to now; changes when chains come and go.
        bucket: u32,
    }
    /// Server: done.
    Done = 103 {}
    /// Server: no.
    Refused = 104 {
        /// A [`Code`].
        code: u32,
        /// The found and the expected value, in words.
        text: [u8; REFUSAL_BYTES],
    }
    /// Server: its counters.
    Counters = 105 {
        /// Sessions open now.
        sessions: u32,
        /// Registrations in force now.
        registrations: u64,
        /// Requests waiting in buckets now.
        queued: u64,
        /// Requests on the devices now.
        running: u64,
        /// Bytes of session segments and registered memory mapped now.
        memory_bytes: u64,
        /// Requests done since the start.
        done: u64,
        /// Requests cancelled since the start.
        cancelled: u64,
        /// Requests answered with an error since the start.
        failed: u64,
        /// Requests that ran longer than declared.
        overruns: u64,
        /// Number of those that were demoted to the lowest bucket.
        demotions: u64,
        /// Sessions opened since the start.
        opened: u64,
        /// Connections and registrations refused since the start.
        refusals: u64,
        /// Sessions closed by the server because the client broke the protocol.
        evictions: u64,
        /// Times a client rang its doorbell for nothing too often and was not listened to.
        mutings: u64,
    }
    /// Server: its settings, and what it decided.
    ServerStatus = 106 {
        /// 1 if its threads run at their priority and on their cores, else 0.
        realtime: u32,
        /// Changes whenever a session or a registration comes, changes or goes.
        revision: u64,
        /// Preemption cost of a device, as configured.
        kappa_ns: u64,
        /// Overhead of a request on the client's side, as configured.
        epsilon_ns: u64,
        /// Overhead of a request that occupies its bucket, as configured.
        sigma_ns: u64,
        /// Cost of a change of executors, as configured.
        hop_ns: u64,
        /// Decisions about who may come in, and re-checks after a client left.
        decisions: u64,
        /// Registrations and changes of priority that were refused to keep a promise.
        refused: u64,
        /// Duration of the last decision.
        last_decision_ns: u64,
        /// Duration of the longest decision.
        longest_decision_ns: u64,
        /// The policy of arbitration.
        policy: Name,
        /// `enforce`, `report` or `off`.
        admission: Name,
        /// Analysis that decides; empty if none does.
        analysis: Name,
        /// Reason for which admission control is off although it is asked for; or empty.
        note: [u8; NOTE_BYTES],
    }
    /// Server: one accelerator.
    AcceleratorStatus = 107 {
        /// Number of accelerators.
        count: u32,
        /// See [`ServerStatus::revision`].
        revision: u64,
        /// Its buckets.
        buckets: u32,
        /// Requests in buckets now.
        queued: u32,
        /// Requests on the device now.
        running: u32,
        /// Registrations for it now.
        registrations: u32,
        /// Time that a request occupies its bucket without running, as measured.
        sigma: Measured,
        /// Time that the server spends on a request which only its client waits for, as measured.
        epsilon: Measured,
        /// Its id.
        id: Name,
        /// Name that the device gives itself.
        device: Name,
    }
    /// Server: one session.
    SessionStatus = 108 {
        /// Number of sessions.
        count: u32,
        /// See [`ServerStatus::revision`].
        revision: u64,
        /// Its number.
        session: u64,
        /// The client's process.
        pid: u32,
        /// The client's user.
        uid: u32,
        /// Its registrations.
        registrations: u32,
        /// 1 if an executor is declared, else 0.
        declared: u32,
        /// The declared core.
        core: u32,
        /// The declared process priority.
        process_priority: u32,
        /// Contradiction between the kernel and the client's declaration; or empty.
        note: [u8; NOTE_BYTES],
    }
    /// Server: one chain.
    ChainStatus = 109 {
        /// Number of chains.
        count: u32,
        /// See [`ServerStatus::revision`].
        revision: u64,
        /// Larger is more critical.
        priority: u32,
        /// A [`Standing`](crate::snapshot::Standing).
        standing: u32,
        /// An [`Origin`](crate::snapshot::Origin).
        origin: u32,
        /// Callbacks that are known.
        callbacks: u32,
        /// Callbacks that there must be: the last position that is known, plus one.
        positions: u32,
        /// Registrations now.
        registrations: u32,
        /// 0 when not declared.
        period_ns: u64,
        /// 0 when not declared.
        deadline_ns: u64,
        /// The bound of its response time; 0 when there is none. A guarantee only for a chain
        /// that stands guaranteed.
        bound_ns: u64,
        /// Requests that ended, since the chain came.
        requests: u64,
        /// The longest of them, from its arrival to the device's event; 0 when there is none.
        longest_ns: u64,
        /// Number of those that ran longer than declared.
        overruns: u64,
        /// Requests that came more often than declared.
        excess: u64,
        /// Its bucket on each accelerator, or [`NO_BUCKET`].
        buckets: [u8; SHOWN_ACCELERATORS],
        /// The chain's name.
        name: Name,
        /// Reason for which there is no guarantee; or empty.
        note: [u8; NOTE_BYTES],
    }
    /// Server: the bandwidth lock, which it holds while requests are on a device whose services
    /// ask for it.
    BandwidthStatus = 110 {
        /// Services that ask for it. With 0, the rest is 0.
        services: u32,
        /// Requests on the devices now that it is to be held for.
        running: u64,
        /// Requests that were given to a device while the server could hold the lock.
        locked: u64,
        /// Requests that were given to a device without.
        unlocked: u64,
        /// Requests that were on a device when the regulator went away.
        interrupted: u64,
        /// Number of times that the lock was taken.
        acquisitions: u64,
        /// Total time for which it was held, up to its last release.
        held_ns: u64,
        /// Socket at which the server looks for the regulator.
        socket: [u8; SOCKET_BYTES],
        /// Reason for which it cannot be held; empty while it can.
        note: [u8; NOTE_BYTES],
    }
    /// Server: what the sessions of one user cost.
    MemoryStatus = 111 {
        /// Number of users.
        count: u32,
        /// See [`ServerStatus::revision`].
        revision: u64,
        /// The user.
        uid: u32,
        /// Its sessions.
        sessions: u32,
        /// Memory that is charged to it.
        used_bytes: u64,
        /// Limit of this memory.
        limit_bytes: u64,
        /// Memory that is charged to all users.
        total_bytes: u64,
        /// Limit of the memory of all users.
        total_limit_bytes: u64,
    }
}

/// Statistics of measured times. The percentiles are upper edges of a histogram whose steps are at
/// most one sixteenth wide; the maximum is exact.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Measured {
    /// Number of times that were measured.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

/// A text padded with zeros, cut where there is no more room, at a character.
pub fn pack_text<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let mut length = text.len().min(N);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

/// A text from a packet: up to the first zero, with marks where it is not UTF-8, and where
/// a terminal would not show what stands there.
pub fn unpack_text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    ::name::clean(&String::from_utf8_lossy(&bytes[..length])).into_owned()
}

/// Packet of a client, parsed. Every field is still the client's allegation.
#[expect(clippy::large_enum_variant, reason = "parsed once a packet, and never kept")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// See [`Hello`].
    Hello(Hello),
    /// See [`Register`].
    Register(Register),
    /// See [`Deregister`].
    Deregister(Deregister),
    /// See [`Reprioritise`].
    Reprioritise(Reprioritise),
    /// See [`QueryStatus`].
    QueryStatus,
    /// See [`QueryServer`].
    QueryServer,
    /// See [`QueryAccelerator`].
    QueryAccelerator(QueryAccelerator),
    /// See [`QuerySession`].
    QuerySession(QuerySession),
    /// See [`QueryChain`].
    QueryChain(QueryChain),
    /// See [`QueryBandwidth`].
    QueryBandwidth,
    /// See [`QueryMemory`].
    QueryMemory(QueryMemory),
}

impl Ask {
    /// Parses a client's packet. Any bytes may come in.
    pub fn parse(bytes: &[u8]) -> Option<Ask> {
        match kind(bytes)? {
            Hello::KIND => Hello::parse(bytes).map(Ask::Hello),
            Register::KIND => Register::parse(bytes).map(Ask::Register),
            Deregister::KIND => Deregister::parse(bytes).map(Ask::Deregister),
            Reprioritise::KIND => Reprioritise::parse(bytes).map(Ask::Reprioritise),
            QueryStatus::KIND => QueryStatus::parse(bytes).map(|_| Ask::QueryStatus),
            QueryServer::KIND => QueryServer::parse(bytes).map(|_| Ask::QueryServer),
            QueryAccelerator::KIND => QueryAccelerator::parse(bytes).map(Ask::QueryAccelerator),
            QuerySession::KIND => QuerySession::parse(bytes).map(Ask::QuerySession),
            QueryChain::KIND => QueryChain::parse(bytes).map(Ask::QueryChain),
            QueryBandwidth::KIND => QueryBandwidth::parse(bytes).map(|_| Ask::QueryBandwidth),
            QueryMemory::KIND => QueryMemory::parse(bytes).map(Ask::QueryMemory),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn packets_survive_the_socket() {
        let register = Register {
            kind: Register::KIND,
            chain_priority: 7,
            callback: 1,
            memory_bytes: 4096,
            exec_ns: 10_000_000,
            period_ns: 100_000_000,
            position: 3,
            requests: 1,
            flags: flag::EXECUTOR,
            chain: Name::new("chain", "chain1").unwrap(),
            service: Name::new("service", "matmul").unwrap(),
            ..Register::new_zeroed()
        };
        assert_eq!(Ask::parse(register.as_bytes()), Some(Ask::Register(register)));
        assert_eq!(register.chain.get(), Some("chain1"));
        assert_eq!(register.accelerator.get(), Some(""));
    }

    #[test]
    fn packets_of_other_length_or_kind_are_refused() {
        let hello = Hello { kind: Hello::KIND, version: VERSION, magic: MAGIC };
        let bytes = hello.as_bytes();
        assert!(Ask::parse(bytes).is_some());
        assert!(Ask::parse(&bytes[..bytes.len() - 1]).is_none());
        assert!(Ask::parse(&[bytes, &[0]].concat()).is_none());
        assert!(Ask::parse(&[]).is_none());
        assert!(Ask::parse(&[1, 0, 0]).is_none());
        assert!(Ask::parse(Refused::new(Code::Limit, "no").as_bytes()).is_none());
    }
}
