//! Publishers and subscriptions, and the readers and writers below them.

use crate::cdr;
use crate::names::wire_type;
use crate::node::Endpoints;
use crate::wire::{Adapter, Limit, Payload};
use crate::{Error, Qos};
use rustdds::dds::WriteError;
use rustdds::no_key::{DataWriter, SimpleDataReader};
use rustdds::{
    DataWriterStatus, GUID, RTPSEntity, StatusEvented, Timestamp, TopicKind, WriteOptionsBuilder,
    rpc::SampleIdentity,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, SystemTime};

/// A message of ROS 2: fields in the order of its `.msg` file.
pub trait Message: Serialize + DeserializeOwned + 'static {
    /// Its type as ROS 2 writes it: `std_msgs/msg/String`.
    const TYPE: &'static str;
}

/// A message that came, and from where.
#[derive(Clone, Debug)]
pub struct Sample<M> {
    /// The message.
    pub message: M,
    /// Time at which it was sent, by the sender's clock, if the sender says so.
    pub sent: Option<SystemTime>,
    /// The writer, unique in the domain.
    pub writer: [u8; 16],
    /// The message's number among those of its writer.
    pub sequence: i64,
}

/// Sends messages to a topic.
pub struct Publisher<M> {
    writer: Writer,
    message: PhantomData<fn(&M)>,
}

impl<M: Message> Publisher<M> {
    pub(crate) fn new(endpoints: &Arc<Endpoints>, name: &str, qos: &Qos) -> Result<Self, Error> {
        let topic = format!("rt{}", endpoints.name().resolve(name)?);
        let writer = Writer::new(endpoints, &topic, M::TYPE, qos)?;
        Ok(Publisher { writer, message: PhantomData })
    }

    /// Sends a message. Waits no longer than [`Qos::block_ms`].
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when readers are too far behind; the message is not sent then.
    /// [`Error::Write`] when the message has no serialised form.
    pub fn publish(&self, message: &M) -> Result<(), Error> {
        self.writer.write(message, None)
    }

    /// Sends bytes that the caller serialised, without the head of four bytes.
    ///
    /// # Errors
    /// [`Error::WouldBlock`].
    pub fn publish_bytes(&self, bytes: Vec<u8>) -> Result<(), Error> {
        self.writer.send(bytes, None).map(|_| ())
    }

    /// Number of readers that get the messages published from now on: those of other participants
    /// that were found and whose qualities fit.
    pub fn subscribers(&self) -> usize {
        self.writer.readers()
    }

    /// The topic's name on the wire.
    pub fn topic(&self) -> &str {
        &self.writer.topic
    }
}

/// Receives the messages of a topic.
pub struct Subscription<M> {
    reader: Reader,
    message: PhantomData<fn() -> M>,
}

impl<M: Message> Subscription<M> {
    pub(crate) fn new(endpoints: &Arc<Endpoints>, name: &str, qos: &Qos) -> Result<Self, Error> {
        let topic = format!("rt{}", endpoints.name().resolve(name)?);
        let reader = Reader::new(endpoints, &topic, M::TYPE, qos, Keep::All)?;
        Ok(Subscription { reader, message: PhantomData })
    }

    /// The oldest message that was not taken, or none. Never waits for the network.
    ///
    /// # Errors
    /// [`Error::Malformed`]; the next call goes on with the message behind it.
    pub fn take(&self) -> Result<Option<Sample<M>>, Error> {
        let Some(raw) = self.reader.take()? else { return Ok(None) };
        let (message, _) = cdr::decode(&raw.bytes, raw.order)
            .map_err(|reason| Error::malformed(&self.reader.topic, reason))?;
        let Raw { sent, writer, sequence, .. } = raw;
        Ok(Some(Sample { message, sent, writer: writer.to_bytes(), sequence }))
    }

    /// Calls `ring` after each message that comes when [`take`](Subscription::take) has last
    /// returned none, and once at once. The call comes from the
    /// thread that DDS receives on: it must be short, and must not call back into this crate.
    /// [`Bell::ring`](crate::Bell::ring) is meant for it.
    pub fn on_message(&self, ring: impl Fn() + Send + Sync + 'static) {
        self.reader.on_message(Box::new(ring));
    }

    /// Number of messages that were dropped because more than [`Qos::depth`] were waiting.
    pub fn overwritten(&self) -> u64 {
        self.reader.overwritten.load(Ordering::Relaxed)
    }

    /// The topic's name on the wire.
    pub fn topic(&self) -> &str {
        &self.reader.topic
    }
}

/// The DDS writer behind a publisher, a server or a client.
pub(crate) struct Writer {
    // Before the endpoints: while DDS still has the writer, the node says so.
    writer: DataWriter<Payload, Adapter>,
    pub topic: String,
    matched: Mutex<Matched>,
    endpoints: Arc<Endpoints>,
}

/// The readers that DDS sends a writer's messages to. Discovery knows a reader earlier: what is
/// published before the match is not for it.
#[derive(Clone, Copy)]
enum Matched {
    /// A number of readers.
    Readers(usize),
    /// Perhaps not all events were kept: those that discovery knows.
    Unknown,
}

/// Number of events that DDS keeps for a writer if they are not fetched; later ones are lost.
const KEPT_EVENTS: usize = 4;

impl Writer {
    pub(crate) fn new(
        endpoints: &Arc<Endpoints>,
        topic: &str,
        type_name: &str,
        qos: &Qos,
    ) -> Result<Writer, Error> {
        let policies = qos.writer();
        let dds = endpoints.context();
        let failed = |reason| Error::create(format!("a writer of {topic}"), reason);
        let handle = dds
            .participant
            .create_topic(topic.to_owned(), wire_type(type_name)?, &policies, TopicKind::NoKey)
            .map_err(|error| failed(error.to_string()))?;
        let writer = dds
            .publisher
            .create_datawriter_no_key(&handle, Some(policies))
            .map_err(|error| failed(error.to_string()))?;
        endpoints.add_writer(writer.guid());
        let matched = Mutex::new(Matched::Readers(0));
        Ok(Writer { writer, topic: topic.to_owned(), matched, endpoints: Arc::clone(endpoints) })
    }

    pub(crate) fn write<T: Serialize>(
        &self,
        message: &T,
        related: Option<SampleIdentity>,
    ) -> Result<(), Error> {
        let bytes = cdr::encode(message)
            .map_err(|reason| Error::Write { topic: self.topic.clone(), reason })?;
        self.send(bytes, related).map(|_| ())
    }

    pub(crate) fn send(
        &self,
        bytes: Vec<u8>,
        related: Option<SampleIdentity>,
    ) -> Result<SampleIdentity, Error> {
        let options = WriteOptionsBuilder::new()
            .source_timestamp(Timestamp::now())
            .related_sample_identity_opt(related)
            .build();
        let topic = || self.topic.clone();
        self.writer.write_with_options(Payload::new(bytes), options).map_err(|error| match error {
            WriteError::WouldBlock { .. } => Error::WouldBlock { topic: topic() },
            other => Error::Write { topic: topic(), reason: other.to_string() },
        })
    }

    pub(crate) fn guid(&self) -> GUID {
        self.writer.guid()
    }

    pub(crate) fn readers(&self) -> usize {
        let mut matched = self.matched.lock().unwrap_or_else(PoisonError::into_inner);
        let events: Vec<_> = std::iter::from_fn(|| self.writer.try_recv_status()).collect();
        let last = events.iter().rev().find_map(|event| match event {
            DataWriterStatus::PublicationMatched { current, .. } => Some(current.count()),
            _ => None,
        });
        match last {
            _ if events.len() >= KEPT_EVENTS => *matched = Matched::Unknown,
            Some(count) => *matched = Matched::Readers(count.try_into().unwrap_or(0)),
            None => {}
        }
        match *matched {
            Matched::Readers(count) => count,
            Matched::Unknown => self.discovered(),
        }
    }

    /// Have all matched readers acknowledged all that was sent?
    pub(crate) fn is_acknowledged(&self) -> bool {
        // An error is that of a writer which is not there any more.
        self.writer.wait_for_acknowledgments(Duration::ZERO).unwrap_or(true)
    }

    fn discovered(&self) -> usize {
        let readers = self.endpoints.context().participant.discovered_readers();
        let topic = |reader: &&Found| *reader.subscription_topic_data.topic_name() == self.topic;
        readers.iter().filter(topic).count()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.endpoints.remove_writer(self.writer.guid());
    }
}

type Found = rustdds::discovery::DiscoveredReaderData;

/// A message's bytes, and from where they came.
pub(crate) struct Raw {
    pub bytes: rustdds::bytes::Bytes,
    pub order: cdr::Order,
    pub sent: Option<SystemTime>,
    pub received: SystemTime,
    pub writer: GUID,
    pub sequence: i64,
    pub related: Option<SampleIdentity>,
}

/// Filter of a topic's messages for a reader.
pub(crate) enum Keep {
    /// All.
    All,
    /// Responses whose payload begins with this half of a client's id.
    Cyclone(u64),
    /// Responses that are related to a request of this writer.
    Related(GUID),
}

impl Keep {
    fn keeps(&self, raw: &Raw) -> bool {
        match self {
            Keep::All => true,
            Keep::Cyclone(client) => match cdr::decode::<u64>(&raw.bytes, raw.order) {
                Ok((found, _)) => found == *client,
                Err(_) => false,
            },
            Keep::Related(writer) => raw.related.is_some_and(|id| id.writer_guid == *writer),
        }
    }
}

/// Bytes by which a message may exceed the limit and is still reported; a larger one is skipped.
const MARGIN_BYTES: usize = 64 << 10;

/// The DDS reader behind a subscription, a server or a client.
pub(crate) struct Reader {
    reader: SimpleDataReader<Payload, Adapter>,
    pub topic: String,
    max_bytes: usize,
    depth: usize,
    keep: Keep,
    waiting: Mutex<VecDeque<Result<Raw, Error>>>,
    ring: Mutex<Option<Waker>>,
    overwritten: AtomicU64,
    endpoints: Arc<Endpoints>,
}

impl Reader {
    pub(crate) fn new(
        endpoints: &Arc<Endpoints>,
        topic: &str,
        type_name: &str,
        qos: &Qos,
        keep: Keep,
    ) -> Result<Reader, Error> {
        let policies = qos.reader();
        let dds = endpoints.context();
        // A larger message arrives in no reader of this process: it is skipped.
        rustdds::raise_max_sample_bytes(qos.max_bytes.saturating_add(MARGIN_BYTES));
        let failed = |reason| Error::create(format!("a reader of {topic}"), reason);
        let handle = dds
            .participant
            .create_topic(topic.to_owned(), wire_type(type_name)?, &policies, TopicKind::NoKey)
            .map_err(|error| failed(error.to_string()))?;
        let reader = dds
            .subscriber
            .create_simple_datareader_no_key(&handle, Some(policies))
            .map_err(|error| failed(error.to_string()))?;
        endpoints.add_reader(reader.guid());
        Ok(Reader {
            reader,
            topic: topic.to_owned(),
            max_bytes: qos.max_bytes,
            depth: qos.depth.max(1).into(),
            keep,
            waiting: Mutex::default(),
            ring: Mutex::default(),
            overwritten: AtomicU64::new(0),
            endpoints: Arc::clone(endpoints),
        })
    }

    /// The oldest message. When there is none, the bell is armed before the last look, so that
    /// what comes between is either returned or rings.
    pub(crate) fn take(&self) -> Result<Option<Raw>, Error> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.drain(&mut waiting);
        if waiting.is_empty() {
            let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.reader.set_waker(ring);
            self.drain(&mut waiting);
        }
        waiting.pop_front().transpose()
    }

    pub(crate) fn on_message(&self, ring: Box<dyn Fn() + Send + Sync>) {
        let ring = Waker::from(Arc::new(Ring(ring)));
        *self.ring.lock().unwrap_or_else(PoisonError::into_inner) = Some(ring.clone());
        self.reader.set_waker(Some(ring.clone()));
        ring.wake();
    }

    /// Returns true if a writer of the topic has been found.
    pub(crate) fn has_writer(&self) -> bool {
        let writers = self.endpoints.context().participant.discovered_writers();
        writers.iter().any(|writer| writer.publication_topic_data.topic_name == self.topic)
    }

    /// Moves what DDS has into the queue, and keeps the last of it.
    fn drain(&self, waiting: &mut VecDeque<Result<Raw, Error>>) {
        self.reader.drain_read_notifications();
        loop {
            match self.reader.try_take_one_with(Limit(self.max_bytes)) {
                Ok(None) => return,
                Ok(Some(change)) => match self.raw(change) {
                    Ok(raw) if !self.keep.keeps(&raw) => {}
                    raw => waiting.push_back(raw),
                },
                Err(error) => waiting.push_back(Err(Error::malformed(&self.topic, error))),
            }
            if waiting.len() > self.depth {
                waiting.pop_front();
                self.overwritten.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn raw(&self, change: Change) -> Result<Raw, Error> {
        let related = change.write_options.related_sample_identity();
        let sent = change.source_timestamp().and_then(system_time);
        let received = system_time(change.receive_instant).unwrap_or(SystemTime::UNIX_EPOCH);
        let Change { writer_guid: writer, sequence_number, sample, .. } = change;
        let Payload { bytes, order } = sample;
        let bytes = bytes.map_err(|found| {
            let most = self.max_bytes;
            Error::malformed(&self.topic, format!("{found} bytes, expected at most {most}"))
        })?;
        Ok(Raw { bytes, order, sent, received, writer, sequence: sequence_number.into(), related })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.endpoints.remove_reader(self.reader.guid());
    }
}

type Change = rustdds::no_key::DeserializedCacheChange<Payload>;

struct Ring(Box<dyn Fn() + Send + Sync>);

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        (self.0)();
    }
}

/// The wire's time is in units of 2^-32 seconds since 1970.
fn system_time(stamp: Timestamp) -> Option<SystemTime> {
    let ticks = stamp.to_ticks();
    let nanoseconds = (u64::from(ticks as u32) * 1_000_000_000) >> 32;
    let since = Duration::new(ticks >> 32, nanoseconds as u32);
    SystemTime::UNIX_EPOCH.checked_add(since)
}
