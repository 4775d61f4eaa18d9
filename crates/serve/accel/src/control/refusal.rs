//! Refusals: what kind of no, and why in words.

use super::{Packet, Refused, pack_text, unpack_text};

/// Kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// A packet that cannot be understood.
    Malformed = 1,
    /// Another version of the protocol.
    Version = 2,
    /// The user may not connect.
    NotAllowed = 3,
    /// The priority is outside the range of the user, or not the chain's.
    Priority = 4,
    /// A limit is reached: sessions, registrations, memory, connections per second.
    Limit = 5,
    /// The service or accelerator does not exist.
    Unknown = 6,
    /// The memory is unsealed, too small or missing.
    Memory = 7,
    /// The client broke the ring's protocol.
    Violation = 8,
    /// The server is ending.
    Ending = 9,
    /// The device failed.
    Device = 10,
    /// A chain would miss its deadline: this one, or one that was admitted before.
    Admission = 11,
    /// The declaration contradicts itself, or an earlier registration of the same chain.
    Declaration = 12,
}

impl Code {
    fn from_number(number: u32) -> Option<Code> {
        use Code::*;
        let all = [
            Malformed,
            Version,
            NotAllowed,
            Priority,
            Limit,
            Unknown,
            Memory,
            Violation,
            Ending,
            Device,
            Admission,
            Declaration,
        ];
        all.into_iter().find(|code| *code as u32 == number)
    }
}

/// A refusal, unpacked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// Kind of the refusal; None for a code of a newer server.
    pub code: Option<Code>,
    /// The found and the expected value, in words.
    pub text: String,
}

impl Refused {
    /// Packs a refusal; the text is cut where the packet ends.
    pub fn new(code: Code, text: &str) -> Refused {
        Refused { kind: Refused::KIND, code: code as u32, text: pack_text(text) }
    }

    /// Unpacks it.
    pub fn unpack(&self) -> Refusal {
        Refusal { code: Code::from_number(self.code), text: unpack_text(&self.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::REFUSAL_BYTES;

    #[test]
    fn refusals_carry_their_text_and_are_cut_at_characters() {
        let refusal = Refused::new(Code::Priority, "priority 99: expected 0 to 50").unpack();
        assert_eq!(refusal.code, Some(Code::Priority));
        assert_eq!(refusal.to_string(), "priority 99: expected 0 to 50");
        let long = "ä".repeat(REFUSAL_BYTES);
        assert_eq!(Refused::new(Code::Limit, &long).unpack().text, "ä".repeat(REFUSAL_BYTES / 2));
        assert_eq!(Refused::new(Code::Declaration, "").unpack().code, Some(Code::Declaration));
    }
}
