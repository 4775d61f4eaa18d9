//! The request message: 64 bytes in the ring, version 1.
//!
//! ```text
//!  word 0 | launch id, chosen by the client                                  |
//!  word 1 | registration (32) | slot (16)         | reserved (8) | kind (8)  |  high to low
//!  word 2 | argument 0                                                       |
//!  word 3 | argument 1                                                       |
//!  word 4 | argument 2                                                       |
//!  word 5 | argument 3                                                       |
//!  word 6 | input length (32)             | input offset (32)                |
//!  word 7 | output length (32)            | output offset (32)               |
//! ```
//!
//! Input and output are ranges of the memory that belongs to the registration. `slot` names the
//! completion cell in which the client waits. A cancellation carries the slot of the request to
//! be cancelled in argument 0 and its launch id in argument 1, and has a slot of its own.

use shm::Message;

/// Version of the request message and of the session segment.
pub const VERSION: u32 = 1;

/// Request to launch: arguments and the ranges of the registration's memory that hold its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The service's scalar arguments; what they mean is the service's affair.
    pub arguments: [u64; 4],
    /// First byte of the input.
    pub input_offset: u32,
    /// Length of the input in bytes.
    pub input_length: u32,
    /// First byte of the output.
    pub output_offset: u32,
    /// Length of the output in bytes.
    pub output_length: u32,
}

impl Request {
    /// A request without arguments and data.
    pub fn new() -> Request {
        Request::default()
    }

    /// Sets up to four arguments; the rest is zero.
    ///
    /// # Panics
    /// With more than four arguments.
    pub fn arguments(mut self, arguments: &[u64]) -> Request {
        self.arguments[..arguments.len()].copy_from_slice(arguments);
        self
    }

    /// Sets the input range in bytes. A range beyond 4 GiB is refused by the server.
    pub fn input(mut self, offset: usize, length: usize) -> Request {
        (self.input_offset, self.input_length) = (clamp(offset), clamp(length));
        self
    }

    /// Sets the output range in bytes. A range beyond 4 GiB is refused by the server.
    pub fn output(mut self, offset: usize, length: usize) -> Request {
        (self.output_offset, self.output_length) = (clamp(offset), clamp(length));
        self
    }
}

/// Out-of-range values become the largest one, which no registered memory reaches.
fn clamp(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A message of the ring, taken apart. Every field is still the client's allegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Launch the registered service.
    Launch {
        /// The client's number for this launch.
        launch_id: u64,
        /// Number of the registration.
        registration: u32,
        /// Number of the completion cell.
        slot: u16,
        /// Arguments and data.
        request: Request,
    },
    /// Take back a request that has not begun.
    Cancel {
        /// The client's number for the cancellation.
        launch_id: u64,
        /// The cell that answers the cancellation.
        slot: u16,
        /// The cell of the request to be cancelled.
        target_slot: u16,
        /// The launch id of the request to be cancelled.
        target_launch_id: u64,
    },
}

/// Reason for which a message cannot be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// No such kind of message.
    #[error("message of unknown kind {0}")]
    Kind(u8),
    /// The reserved byte is not zero.
    #[error("the reserved byte is {0}, not 0")]
    Reserved(u8),
    /// A cancellation names a slot that cannot exist.
    #[error("cancellation of slot {0}")]
    Target(u64),
}

const LAUNCH: u8 = 1;
const CANCEL: u8 = 2;

impl Order {
    /// The order as a message of the ring.
    pub fn encode(&self) -> Message {
        match *self {
            Order::Launch { launch_id, registration, slot, request } => {
                let mut words = head(launch_id, registration, slot, LAUNCH);
                words[2..6].copy_from_slice(&request.arguments);
                words[6] = pair(request.input_length, request.input_offset);
                words[7] = pair(request.output_length, request.output_offset);
                words
            }
            Order::Cancel { launch_id, slot, target_slot, target_launch_id } => {
                let mut words = head(launch_id, 0, slot, CANCEL);
                (words[2], words[3]) = (u64::from(target_slot), target_launch_id);
                words
            }
        }
    }

    /// Takes a message apart. Any 64 bytes may come in.
    ///
    /// # Errors
    /// [`BadMessage`] when it is neither a launch nor a cancellation.
    pub fn decode(words: &Message) -> Result<Order, BadMessage> {
        let [kind, reserved, slot_low, slot_high, ..] = words[1].to_le_bytes();
        let slot = u16::from_le_bytes([slot_low, slot_high]);
        if reserved != 0 {
            return Err(BadMessage::Reserved(reserved));
        }
        match kind {
            LAUNCH => Ok(Order::Launch {
                launch_id: words[0],
                registration: high(words[1]),
                slot,
                request: Request {
                    arguments: [words[2], words[3], words[4], words[5]],
                    input_offset: low(words[6]),
                    input_length: high(words[6]),
                    output_offset: low(words[7]),
                    output_length: high(words[7]),
                },
            }),
            CANCEL => Ok(Order::Cancel {
                launch_id: words[0],
                slot,
                target_slot: u16::try_from(words[2]).map_err(|_| BadMessage::Target(words[2]))?,
                target_launch_id: words[3],
            }),
            other => Err(BadMessage::Kind(other)),
        }
    }
}

fn head(launch_id: u64, registration: u32, slot: u16, kind: u8) -> Message {
    let word = pair(registration, u32::from(slot) << 16 | u32::from(kind));
    [launch_id, word, 0, 0, 0, 0, 0, 0]
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

fn low(word: u64) -> u32 {
    word as u32
}

/// Result of a request, as the low half of the completion's status word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// The device did it.
    Done = 1,
    /// The request was taken back before it began, or its session ended.
    Cancelled = 2,
    /// The device failed.
    DeviceFailed = 3,
    /// The registration does not exist.
    UnknownRegistration = 4,
    /// A data range lies outside the registered memory.
    OutOfRange = 5,
    /// The service does not accept these arguments with these data sizes.
    BadArguments = 6,
    /// A cancellation came too late: the request has begun or has ended.
    TooLate = 7,
    /// The device broke down while the request ran, by it or by another one, and is set up anew.
    DeviceLost = 8,
}

impl Status {
    /// Bit of the status word: the request ran longer than its declared execution time.
    pub const OVERRUN: u32 = 1 << 16;
    /// Bit of the status word: the request was demoted to the lowest bucket while it ran.
    pub const DEMOTED: u32 = 1 << 17;

    /// The status in a completion's status word; None for a number that is none.
    pub fn from_word(word: u32) -> Option<Status> {
        use Status::*;
        let all = [
            Done,
            Cancelled,
            DeviceFailed,
            UnknownRegistration,
            OutOfRange,
            BadArguments,
            TooLate,
            DeviceLost,
        ];
        all.into_iter().find(|status| *status as u32 == word & 0xffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_ring() {
        let request = Request::new().arguments(&[1, u64::MAX]).input(8, 16).output(24, 1 << 31);
        let launch = Order::Launch { launch_id: 9, registration: u32::MAX, slot: 63, request };
        assert_eq!(Order::decode(&launch.encode()), Ok(launch));
        let cancel = Order::Cancel { launch_id: 1, slot: 2, target_slot: 3, target_launch_id: 4 };
        assert_eq!(Order::decode(&cancel.encode()), Ok(cancel));
    }

    #[test]
    fn garbage_is_refused_by_name() {
        assert_eq!(Order::decode(&[0; 8]), Err(BadMessage::Kind(0)));
        assert_eq!(Order::decode(&[u64::MAX; 8]), Err(BadMessage::Reserved(255)));
        let mut cancel = head(0, 0, 0, CANCEL);
        cancel[2] = 1 << 16;
        assert_eq!(Order::decode(&cancel), Err(BadMessage::Target(1 << 16)));
    }

    #[test]
    fn sizes_beyond_the_message_are_not_wrapped() {
        let request = Request::new().input(1 << 40, usize::MAX);
        assert_eq!((request.input_offset, request.input_length), (u32::MAX, u32::MAX));
    }
}
