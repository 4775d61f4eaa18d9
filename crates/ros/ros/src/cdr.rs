//! Messages as bytes: plain CDR, as DDS implementations of ROS 2 send it.
//!
//! The functions that read take foreign bytes. They allocate no more than the bytes can hold: a
//! length that is not backed by bytes is an error.

use byteorder::{BigEndian, LittleEndian};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The lowest first.
    Little,
    /// The highest first.
    Big,
}

/// The message's bytes, lowest first, without the head of four bytes.
///
/// # Errors
/// A text that tells why a value has no form in CDR.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, String> {
    cdr_encoding::to_vec::<T, LittleEndian>(message).map_err(|error| error.to_string())
}

/// Reads a message, and says how many bytes it took. What stands behind it is left.
///
/// # Errors
/// A text that describes the fault of the bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], order: Order) -> Result<(T, usize), String> {
    match order {
        Order::Little => cdr_encoding::from_bytes::<T, LittleEndian>(bytes),
        Order::Big => cdr_encoding::from_bytes::<T, BigEndian>(bytes),
    }
    .map_err(|error| error.to_string())
}

/// `uint8[]` of a message, in one piece: element by element it would cost several nanoseconds a
/// byte. For `#[serde(with = "ros::cdr::bytes")]`.
pub mod bytes {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    /// Writes the length and the bytes.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    /// Reads the length and as many bytes.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_bytes(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        name: String,
        value: u64,
        #[serde(with = "bytes")]
        data: Vec<u8>,
        list: Vec<u16>,
    }

    fn sample() -> Sample {
        Sample { name: "ab".into(), value: 7, data: vec![1, 2, 3], list: vec![4, 5] }
    }

    /// Bytes written by hand after the specification: alignment from the start, strings with their
    /// zero byte.
    #[rustfmt::skip]
    const WIRE: [u8; 36] = [
        3, 0, 0, 0, b'a', b'b', 0, 0,
        7, 0, 0, 0, 0, 0, 0, 0,
        3, 0, 0, 0, 1, 2, 3, 0,
        2, 0, 0, 0, 4, 0, 5, 0,
        99, 99, 99, 99,
    ];

    #[test]
    fn bytes_are_those_of_the_specification() {
        assert_eq!(encode(&sample()).unwrap(), WIRE[..32]);
        assert_eq!(decode::<Sample>(&WIRE, Order::Little).unwrap(), (sample(), 32));
    }

    #[test]
    fn a_length_that_no_bytes_back_is_an_error() {
        for (at, lengths) in [(0, 4), (16, 4), (24, 4)] {
            let mut bytes = WIRE[..32].to_vec();
            bytes[at..at + lengths].fill(0xff);
            assert!(decode::<Sample>(&bytes, Order::Little).is_err(), "length at {at}");
        }
        for short in 0..32 {
            assert!(decode::<Sample>(&WIRE[..short], Order::Little).is_err(), "{short} bytes");
        }
    }
}
