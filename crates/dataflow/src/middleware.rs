//! Transport of messages from module to module: as shared pointers, at no cost, as between the
//! parts of one process of CyberRT or ROS 2; or as bytes, as between processes
//! ([`crate::Graph::serialise`]).
//!
//! ```text
//!   publisher's core         mailbox            receiver's core
//!   code | serialise  -->  bytes, header  -->  copy, deserialise | code
//! ```
//!
//! The bytes are CDR, which ROS 2 sends, and which the crate `ros` reads and writes with the same
//! library. Both ends are chunks of the run ([`Host::code_ends`], [`Host::deserialised`]): the
//! executors charge and trace them apart from the module's code. Each wire's message is deserialised
//! once, before the first run that reads it begins; headers stay as they are.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use byteorder::LittleEndian;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cx::{Host, Run};
use crate::graph::Erased;
use crate::mailbox::Mailbox;
use crate::message::{Envelope, Payload};
use crate::{Stop, Topic};

/// Work of a chunk that is the middleware's, not the module's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Makes bytes of what the module publishes.
    Serialise {
        /// Number of bytes.
        bytes: u32,
    },
    /// Copies the bytes of a message that the module is about to read, and makes a value of them.
    Deserialise {
        /// Number of bytes.
        bytes: u32,
    },
}

/// Functions that make bytes of the values of a topic, and values of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codec {
    encode: fn(&dyn Any) -> Result<Vec<u8>, String>,
    decode: fn(&[u8]) -> Result<Payload, String>,
}

impl Codec {
    pub(crate) fn of<T>(_: &Topic<T>) -> Codec
    where
        T: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        Codec { encode: encode::<T>, decode: decode::<T> }
    }

    /// The bytes of a value of the topic.
    pub(crate) fn bytes(self, value: &Payload) -> Result<Arc<[u8]>, String> {
        (self.encode)(&**value).map(Arc::from).map_err(|said| format!("serialising: {said}"))
    }
}

fn encode<T: Serialize + 'static>(value: &dyn Any) -> Result<Vec<u8>, String> {
    let value = value.downcast_ref::<T>().expect("a topic carries one type");
    // The value in memory is about as large as its bytes, but for what it points to.
    let hint = std::mem::size_of::<T>();
    cdr_encoding::to_vec_with_size_hint::<T, LittleEndian>(value, hint)
        .map_err(|error| error.to_string())
}

fn decode<T: DeserializeOwned + Send + Sync + 'static>(bytes: &[u8]) -> Result<Payload, String> {
    let (value, used) =
        cdr_encoding::from_bytes::<T, LittleEndian>(bytes).map_err(|error| error.to_string())?;
    if used != bytes.len() {
        return Err(format!("found {} bytes, expected {used}", bytes.len()));
    }
    Ok(Arc::new(value))
}

/// A value on its way out of a run.
pub(crate) struct Sent {
    pub(crate) value: Payload,
    pub(crate) packed: Option<Packed>,
    /// Time at which it is out.
    pub(crate) sent_ns: u64,
}

/// A value as bytes.
pub(crate) struct Packed {
    pub(crate) bytes: Arc<[u8]>,
    codec: Codec,
    /// Time at which the serialisation began, and time for which it had a core.
    began_ns: u64,
    pub(crate) took_ns: u64,
}

impl Sent {
    /// Packs a value that a run publishes. If it goes as bytes, making them is a chunk of its own,
    /// which ends with the publication.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the value has no form as bytes.
    pub(crate) fn pack(host: &mut dyn Host, run: &Run, value: Payload) -> Result<Sent, Stop> {
        let packed = match run.codec {
            None => None,
            Some(codec) => {
                host.code_ends();
                let began_ns = host.now_ns();
                let bytes = codec.bytes(&value).map_err(Stop::Failed)?;
                Some(Packed { bytes, codec, began_ns, took_ns: 0 })
            }
        };
        Ok(Sent { value, packed, sent_ns: 0 })
    }

    /// A sensor's frame, whose bytes the sensor's own processor has made.
    pub(crate) fn frame(value: Payload, codec: Option<Codec>) -> Result<Sent, String> {
        let pack = |codec: Codec| {
            Ok::<_, String>(Packed { bytes: codec.bytes(&value)?, codec, began_ns: 0, took_ns: 0 })
        };
        let packed = codec.map(pack).transpose()?;
        Ok(Sent { value, packed, sent_ns: 0 })
    }

    /// Marks the end at `now_ns`, on the wall clock: the core was its own since it began.
    pub(crate) fn out_at(&mut self, now_ns: u64) {
        self.sent_ns = now_ns;
        if let Some(packed) = &mut self.packed {
            packed.took_ns = now_ns.saturating_sub(packed.began_ns);
        }
    }

    /// Sets the cost of serialising it on the virtual clock.
    pub(crate) fn charge(&mut self, cost_ns: u64) {
        if let Some(packed) = &mut self.packed {
            packed.took_ns = cost_ns;
        }
    }

    /// Returns the work of the chunk that ends with it, if it is bytes.
    pub(crate) fn carry(&self) -> Option<Carry> {
        let packed = self.packed.as_ref()?;
        Some(Carry::Serialise { bytes: length(&packed.bytes) })
    }

    pub(crate) fn parcel(&self) -> Option<Arc<Parcel>> {
        let Packed { bytes, codec, .. } = self.packed.as_ref()?;
        Some(Arc::new(Parcel::new(bytes.clone(), *codec)))
    }
}

/// A message as bytes, on one wire, and the receiver's copy once it was deserialised.
pub(crate) struct Parcel {
    bytes: Arc<[u8]>,
    codec: Codec,
    opened: OnceLock<Payload>,
}

impl Parcel {
    fn new(bytes: Arc<[u8]>, codec: Codec) -> Parcel {
        Parcel { bytes, codec, opened: OnceLock::new() }
    }

    /// The same for another receiver.
    pub(crate) fn addressed(&self) -> Arc<Parcel> {
        Arc::new(Parcel::new(self.bytes.clone(), self.codec))
    }

    /// The receiver's copy, if there is one.
    pub(crate) fn opened(&self) -> Option<&Payload> {
        self.opened.get()
    }

    /// Copies the bytes, as a transport between processes does, and makes the receiver's value.
    pub(crate) fn open(&self) -> Result<(), String> {
        let own = self.bytes.to_vec();
        let value = (self.codec.decode)(&own).map_err(|said| format!("deserialising: {said}"))?;
        // Another instance of the receiver may have been faster: its copy is as good.
        let _ = self.opened.set(value);
        Ok(())
    }
}

/// Messages that a run has read and that are bytes still.
pub(crate) struct Mail {
    /// All that was read, for [`Erased::gather`].
    boxes: Vec<Mailbox>,
    /// Messages that are still bytes, with their numbers.
    sealed: Vec<(u64, Arc<Parcel>)>,
}

impl Mail {
    /// Sizes of what was taken out of each mailbox; none if nothing is bytes.
    pub(crate) fn of<'a>(boxes: impl Iterator<Item = &'a Vec<Envelope>> + Clone) -> Option<Mail> {
        let sealed = boxes.clone().flatten().filter_map(|envelope| {
            let parcel = envelope.parcel.as_ref().filter(|parcel| parcel.opened().is_none())?;
            Some((envelope.header.id, parcel.clone()))
        });
        let sealed: Vec<_> = sealed.collect();
        (!sealed.is_empty())
            .then(|| Mail { boxes: boxes.map(|taken| Mailbox::of(taken)).collect(), sealed })
    }

    /// Deserialises it, each message as a chunk of its own, and reads the input again: what the
    /// module gets are its own copies.
    ///
    /// # Errors
    /// [`Stop::Failed`] if bytes are no value.
    pub(crate) fn open(
        mut self,
        host: &mut dyn Host,
        module: &dyn Erased,
    ) -> Result<Box<dyn Any + Send>, Stop> {
        for (message, parcel) in self.sealed {
            let began_ns = host.now_ns();
            parcel.open().map_err(Stop::Failed)?;
            host.deserialised(message, length(&parcel.bytes), began_ns);
        }
        Ok(module.gather(&mut self.boxes).expect("it was complete when it was read"))
    }
}

/// Length, up to the largest that a trace can hold.
pub(crate) fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
