//! Message between modules: a value with a header that describes it.

use std::any::Any;
use std::sync::Arc;

use crate::middleware::Parcel;

/// The deadline of what no object bounds.
pub const NO_DEADLINE: u64 = u64::MAX;

/// A value as the runtime carries it.
pub(crate) type Payload = Arc<dyn Any + Send + Sync>;

/// The number of a source of messages, as [`crate::Graph::source`] gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub(crate) u16);

impl SourceId {
    /// The number, in the order in which the sources were added.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// Part of a frame's result that a message carries: number `index` of `of`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// 1 for the first part.
    pub index: u16,
    /// Number of parts of the frame's result.
    pub of: u16,
}

impl Part {
    /// The only part of a result that is not divided.
    pub const WHOLE: Part = Part { index: 1, of: 1 };

    /// The first part of a result of `of` parts.
    pub fn first(of: u16) -> Part {
        Part { index: 1, of }
    }

    /// Returns true if the result was divided.
    pub fn is_partial(self) -> bool {
        self.of > 1
    }
}

/// One sensor frame that a message was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Source of the frame.
    pub source: SourceId,
    /// The frame's number at its source, from 0.
    pub frame: u64,
    /// Time at which it was captured, in nanoseconds of the executor's clock.
    pub captured_ns: u64,
}

/// Deadline of the reaction to one object (COLA, section 4.1: object-level deadlines).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectDeadline {
    /// The object's number, as perception gave it.
    pub id: u32,
    /// Time until which a command that reacts to the object must be out, in nanoseconds of the
    /// executor's clock; [`NO_DEADLINE`] if the object is no danger.
    pub deadline_ns: u64,
}

/// Description of a message: its frame, times and deadlines. The runtime fills it in; modules read
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The message's number, unique in a run.
    pub id: u64,
    /// The frame that the message belongs to: its first active input's.
    pub frame: u64,
    /// Time at which that frame was captured.
    pub captured_ns: u64,
    /// The frame's source.
    pub source: SourceId,
    /// Time at which the message was published.
    pub published_ns: u64,
    /// The objects that were seen so far, with their deadlines.
    pub objects: Arc<[ObjectDeadline]>,
    /// The earliest of the objects' deadlines and of the source's own (COLA, section 4.1:
    /// the deadline of a message is the earliest among all objects of its frame).
    pub deadline_ns: u64,
    /// The source's own deadline, which no object makes later.
    pub limit_ns: u64,
    /// Part of the frame's result that the message carries.
    pub part: Part,
    /// The newest frame of each source that the message was computed from, by source.
    pub provenance: Arc<[Origin]>,
}

impl Header {
    /// Returns true if the message was computed from a frame of `source` captured at `since_ns` or
    /// later.
    pub fn knows(&self, source: SourceId, since_ns: u64) -> bool {
        self.provenance
            .iter()
            .any(|origin| origin.source == source && origin.captured_ns >= since_ns)
    }
}

/// A value with its header. Copies share the value.
#[derive(Debug)]
pub struct Message<T> {
    /// Description of the message.
    pub header: Arc<Header>,
    /// The value.
    pub value: Arc<T>,
}

impl<T> Clone for Message<T> {
    fn clone(&self) -> Self {
        Message { header: self.header.clone(), value: self.value.clone() }
    }
}

impl<T> std::ops::Deref for Message<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A message whose value's type is forgotten.
#[derive(Clone)]
pub(crate) struct Envelope {
    pub(crate) header: Arc<Header>,
    pub(crate) value: Payload,
    /// The value as bytes, if the topic's messages are.
    pub(crate) parcel: Option<Arc<Parcel>>,
}

impl Envelope {
    /// The message again, with the receiver's own copy of the value if it has made one. Topics are
    /// typed, so the type is the right one.
    pub(crate) fn open<T: Send + Sync + 'static>(self) -> Message<T> {
        let own = self.parcel.and_then(|parcel| parcel.opened().cloned());
        let value = own.unwrap_or(self.value).downcast().expect("a topic carries one type");
        Message { header: self.header, value }
    }

    /// The same for one receiver, who makes a value of the bytes for himself.
    pub(crate) fn addressed(&self) -> Envelope {
        let parcel = self.parcel.as_ref().map(|parcel| parcel.addressed());
        Envelope { parcel, ..self.clone() }
    }

    /// Makes a value of the bytes, if it is bytes.
    pub(crate) fn unseal(&self) -> Result<(), String> {
        self.parcel.as_ref().map_or(Ok(()), |parcel| parcel.open())
    }
}
