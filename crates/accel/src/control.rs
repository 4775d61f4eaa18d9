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
//!
//! Any of them may be answered by `Refused`; the server also sends it before it closes a session.

use crate::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First word of a [`Hello`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"keeptime");

/// Version of the control plane.
pub const VERSION: u32 = 1;

/// Longest packet in bytes; a receive buffer of this size plus one sees oversized packets.
pub const MAX_PACKET: usize = 256;

/// Longest name in bytes.
pub const NAME_BYTES: usize = 48;

macro_rules! packets {
    ($($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
            #[repr(C)]
            pub struct $name {
                /// Which packet this is: [`Packet::KIND`].
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
    /// Client: registers a callback for one service.
    Register = 2 {
        /// Priority of the callback's chain; larger is more critical.
        chain_priority: u32,
        /// The client's own number for the callback.
        callback: u64,
        /// Size of the memory passed with this packet; 0 for none.
        memory_bytes: u64,
        /// Declared execution time on the device per request; 0 for undeclared.
        exec_ns: u64,
        /// The chain's name.
        chain: Name,
        /// The service's name.
        service: Name,
        /// The accelerator's id; all zero where the service or the server leaves no choice.
        accelerator: Name,
    }
    /// Client: ends a registration. Its queued requests are cancelled.
    Deregister = 3 {
        /// Which one.
        registration: u32,
    }
    /// Client: gives a registration another chain priority.
    Reprioritise = 4 {
        /// Which one.
        registration: u32,
        /// The new priority.
        chain_priority: u32,
    }
    /// Client: asks for the server's counters.
    QueryStatus = 5 {}
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
        /// What was found and what was expected, in words.
        text: [u8; 200],
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
        /// Of these, demoted to the lowest bucket.
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
}

/// A name in a packet: UTF-8, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Name([u8; NAME_BYTES]);

impl Name {
    /// No name.
    pub const EMPTY: Name = Name([0; NAME_BYTES]);

    /// Packs a name.
    ///
    /// # Errors
    /// [`Error::BadName`] when it is empty, too long or has control characters.
    pub fn new(what: &'static str, name: &str) -> Result<Name, Error> {
        let mut bytes = [0; NAME_BYTES];
        if !is_good(name) {
            return Err(Error::BadName { what, name: name.into(), limit: NAME_BYTES });
        }
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Name(bytes))
    }

    /// Unpacks the name; None when a peer sent something that [`Name::new`] refuses. The empty
    /// name is unpacked as the empty string.
    pub fn get(&self) -> Option<&str> {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        let padded = self.0[length..].iter().all(|&byte| byte == 0);
        let name = std::str::from_utf8(&self.0[..length]).ok()?;
        (padded && (name.is_empty() || is_good(name))).then_some(name)
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

fn is_good(name: &str) -> bool {
    (1..=NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// A packet that cannot be understood.
    Malformed = 1,
    /// Another version of the protocol.
    Version = 2,
    /// This user may not connect.
    NotAllowed = 3,
    /// This priority is outside the range of this user, or not the chain's.
    Priority = 4,
    /// A limit is reached: sessions, registrations, memory, connections per second.
    Limit = 5,
    /// No such service or accelerator.
    Unknown = 6,
    /// The memory is unsealed, too small or missing.
    Memory = 7,
    /// The client broke the ring's protocol.
    Violation = 8,
    /// The server is ending.
    Ending = 9,
    /// The device failed.
    Device = 10,
}

impl Code {
    fn from_number(number: u32) -> Option<Code> {
        use Code::*;
        let all = [
            Malformed, Version, NotAllowed, Priority, Limit, Unknown, Memory, Violation, Ending,
            Device,
        ];
        all.into_iter().find(|code| *code as u32 == number)
    }
}

/// A refusal, unpacked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// What kind; None for a code of a newer server.
    pub code: Option<Code>,
    /// What was found and what was expected.
    pub text: String,
}

impl Refused {
    /// Packs a refusal; the text is cut where the packet ends.
    pub fn new(code: Code, text: &str) -> Refused {
        let mut bytes = [0; 200];
        let mut length = text.len().min(bytes.len());
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Refused { kind: Refused::KIND, code: code as u32, text: bytes }
    }

    /// Unpacks it.
    pub fn unpack(&self) -> Refusal {
        let length = self.text.iter().position(|&byte| byte == 0).unwrap_or(self.text.len());
        let text = String::from_utf8_lossy(&self.text[..length]).into_owned();
        Refusal { code: Code::from_number(self.code), text }
    }
}

/// What a client asks, parsed. Every field is still the client's allegation.
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
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_survive_the_socket() {
        let register = Register {
            kind: Register::KIND,
            chain_priority: 7,
            callback: 1,
            memory_bytes: 4096,
            exec_ns: 10_000_000,
            chain: Name::new("chain", "chain1").unwrap(),
            service: Name::new("service", "matmul").unwrap(),
            accelerator: Name::EMPTY,
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

    #[test]
    fn names_of_a_peer_are_checked() {
        assert!(Name::new("chain", "").is_err());
        assert!(Name::new("chain", &"x".repeat(NAME_BYTES + 1)).is_err());
        assert!(Name::new("chain", "a\nb").is_err());
        assert_eq!(Name([0xff; NAME_BYTES]).get(), None, "not UTF-8");
        let mut hidden = [0; NAME_BYTES];
        (hidden[0], hidden[2]) = (b'a', b'b');
        assert_eq!(Name(hidden).get(), None, "bytes after the end");
        assert_eq!(Name([b'a'; NAME_BYTES]).get().map(str::len), Some(NAME_BYTES));
    }

    #[test]
    fn refusals_carry_their_text_and_are_cut_at_characters() {
        let refusal = Refused::new(Code::Priority, "priority 99: expected 0 to 50").unpack();
        assert_eq!(refusal.code, Some(Code::Priority));
        assert_eq!(refusal.to_string(), "priority 99: expected 0 to 50");
        let long = "ä".repeat(150);
        assert_eq!(Refused::new(Code::Limit, &long).unpack().text, "ä".repeat(100));
    }
}
