//! Serialised messages between DDS and this crate: copied, measured, not looked at.

use crate::cdr::Order;
use rustdds::RepresentationIdentifier;
use rustdds::bytes::Bytes;
use rustdds::no_key::{Decode, DefaultDecoder, DeserializerAdapter, SerializerAdapter};
use std::convert::Infallible;

/// A message's bytes as they came, or how many they were if that was too many.
pub(crate) struct Payload {
    pub bytes: Result<Bytes, usize>,
    pub order: Order,
}

impl Payload {
    pub(crate) fn new(bytes: Vec<u8>) -> Payload {
        Payload { bytes: Ok(bytes.into()), order: Order::Little }
    }
}

/// Copies a payload of at most this number of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Limit(pub usize);

impl<'de> Decode<'de, Payload> for Limit {
    type Error = Infallible;

    fn decode_bytes(
        self,
        bytes: &'de [u8],
        encoding: RepresentationIdentifier,
    ) -> Result<Payload, Infallible> {
        let order = match encoding {
            RepresentationIdentifier::CDR_BE => Order::Big,
            _ => Order::Little,
        };
        let fits = bytes.len() <= self.0;
        let bytes = if fits { Ok(Bytes::copy_from_slice(bytes)) } else { Err(bytes.len()) };
        Ok(Payload { bytes, order })
    }
}

/// Connects payloads with the readers and writers of DDS.
pub(crate) struct Adapter;

impl DeserializerAdapter<Payload> for Adapter {
    type Error = Infallible;
    type Decoded = Payload;

    fn supported_encodings() -> &'static [RepresentationIdentifier] {
        &[RepresentationIdentifier::CDR_LE, RepresentationIdentifier::CDR_BE]
    }

    fn transform_decoded(payload: Payload) -> Payload {
        payload
    }
}

impl DefaultDecoder<Payload> for Adapter {
    type Decoder = Limit;
    const DECODER: Limit = Limit(usize::MAX);
}

impl SerializerAdapter<Payload> for Adapter {
    type Error = Infallible;

    fn output_encoding() -> RepresentationIdentifier {
        RepresentationIdentifier::CDR_LE
    }

    fn to_bytes(payload: &Payload) -> Result<Bytes, Infallible> {
        Ok(payload.bytes.clone().unwrap_or_default())
    }
}
