//! Services: a request topic, a response topic, and a head that says what belongs together.
//!
//! The place of the head depends on the middleware of the other side, and cannot be seen from a
//! message:
//!
//! | mapping | request | response |
//! |---|---|---|
//! | [`Mapping::Cyclone`], `rmw_cyclonedds` | payload begins with half of the client's id (8 bytes) and a number (8) | the same 16 bytes |
//! | [`Mapping::Enhanced`], `rmw_fastrtps`, `rmw_connextdds` | the sample's own id, beside the payload | that id as the related one |
//!
//! Every client of a service receives all responses; what is for others is dropped on arrival.

use crate::cdr::{self, Order};
use crate::node::Endpoints;
use crate::topic::{Keep, Raw, Reader, Writer};
use crate::{Durability, Error, Qos, Reliability};
use rustdds::rpc::SampleIdentity;
use rustdds::{GUID, SequenceNumber};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

/// A service of ROS 2.
pub trait Service: 'static {
    /// Its type as ROS 2 writes it: `std_srvs/srv/Empty`.
    const TYPE: &'static str;
    /// The fields above the dashes of its `.srv` file.
    type Request: Serialize + DeserializeOwned;
    /// The fields below.
    type Response: Serialize + DeserializeOwned;
}

/// The way in which requests and responses find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// The mapping of `rmw_cyclonedds`.
    #[default]
    Cyclone,
    /// The mapping of `rmw_fastrtps` and `rmw_connextdds`.
    Enhanced,
}

/// Id of the request that a response belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    related: SampleIdentity,
    head: Head,
    received: SystemTime,
}

impl RequestId {
    /// The writer of the request, unique in the domain, as long as the client lives.
    pub fn writer(&self) -> [u8; 16] {
        self.related.writer_guid.to_bytes()
    }

    /// Time at which the request came to this process.
    pub fn received(&self) -> SystemTime {
        self.received
    }
}

/// The first 16 bytes of a payload: half an id and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
struct Head {
    client: u64,
    number: i64,
}

const HEAD_BYTES: usize = 16;

/// Answers the requests of a service.
pub struct Server<S> {
    reader: Reader,
    writer: Writer,
    mapping: Mapping,
    service: PhantomData<fn(S)>,
}

impl<S: Service> Server<S> {
    pub(crate) fn new(
        endpoints: &Arc<Endpoints>,
        name: &str,
        mapping: Mapping,
        qos: &Qos,
    ) -> Result<Server<S>, Error> {
        let (requests, responses) = topics(endpoints, name)?;
        let qos = reliable(qos);
        // The writer first: a client that sees the reader may already be answered.
        let writer = Writer::new(endpoints, &responses, &kind::<S>("Response"), &qos)?;
        let reader = Reader::new(endpoints, &requests, &kind::<S>("Request"), &qos, Keep::All)?;
        Ok(Server { reader, writer, mapping, service: PhantomData })
    }

    /// The oldest request that was not taken, or none. Never waits.
    ///
    /// # Errors
    /// [`Error::Malformed`]; the next call goes on with the request behind it.
    pub fn take(&self) -> Result<Option<(RequestId, S::Request)>, Error> {
        let Some(raw) = self.reader.take()? else { return Ok(None) };
        let malformed = |reason| Error::malformed(&self.reader.topic, reason);
        let (head, body) = self.mapping.split(&raw).map_err(malformed)?;
        let (request, _) = cdr::decode(body, raw.order).map_err(malformed)?;
        Ok(Some((RequestId { related: identity(&raw), head, received: raw.received }, request)))
    }

    /// Sends the response to a request.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when too many responses are not acknowledged; [`Error::Write`].
    pub fn respond(&self, request: &RequestId, response: &S::Response) -> Result<(), Error> {
        let bytes = self.mapping.join(request.head, response, &self.writer.topic)?;
        // Only for who needs it.
        let related = match self.mapping {
            Mapping::Cyclone => None,
            Mapping::Enhanced => Some(request.related),
        };
        self.writer.send(bytes, related).map(|_| ())
    }

    /// Returns true if a client gets responses.
    pub fn is_heard(&self) -> bool {
        self.writer.readers() > 0
    }

    /// Have the clients acknowledged all responses? Those that are not acknowledged are on the way,
    /// or are sent again by DDS.
    pub fn is_acknowledged(&self) -> bool {
        self.writer.is_acknowledged()
    }

    /// Says when a request has come; as
    /// [`Subscription::on_message`](crate::Subscription::on_message).
    pub fn on_request(&self, ring: impl Fn() + Send + Sync + 'static) {
        self.reader.on_message(Box::new(ring));
    }
}

/// Calls a service.
pub struct Client<S> {
    reader: Reader,
    writer: Writer,
    mapping: Mapping,
    numbers: AtomicI64,
    service: PhantomData<fn(S)>,
}

impl<S: Service> Client<S> {
    pub(crate) fn new(
        endpoints: &Arc<Endpoints>,
        name: &str,
        mapping: Mapping,
        qos: &Qos,
    ) -> Result<Client<S>, Error> {
        let (requests, responses) = topics(endpoints, name)?;
        let qos = reliable(qos);
        let writer = Writer::new(endpoints, &requests, &kind::<S>("Request"), &qos)?;
        let keep = match mapping {
            Mapping::Cyclone => Keep::Cyclone(half(writer.guid())),
            Mapping::Enhanced => Keep::Related(writer.guid()),
        };
        let reader = Reader::new(endpoints, &responses, &kind::<S>("Response"), &qos, keep)?;
        Ok(Client { reader, writer, mapping, numbers: AtomicI64::new(1), service: PhantomData })
    }

    /// Sends a request, and says under which number its response will come.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], [`Error::Write`].
    pub fn send(&self, request: &S::Request) -> Result<i64, Error> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let head = Head { client: half(self.writer.guid()), number };
        let bytes = self.mapping.join(head, request, &self.writer.topic)?;
        let sent = self.writer.send(bytes, None)?;
        Ok(match self.mapping {
            Mapping::Cyclone => number,
            Mapping::Enhanced => sent.sequence_number.into(),
        })
    }

    /// The oldest response that was not taken, with its request's number, or none.
    ///
    /// # Errors
    /// [`Error::Malformed`]; the next call goes on with the response behind it.
    pub fn take(&self) -> Result<Option<(i64, S::Response)>, Error> {
        Ok(self.take_with_time()?.map(|(number, response, _)| (number, response)))
    }

    /// [`take`](Client::take), with the time at which the response came to this process.
    pub(crate) fn take_with_time(&self) -> Result<Option<(i64, S::Response, SystemTime)>, Error> {
        let Some(raw) = self.reader.take()? else { return Ok(None) };
        let malformed = |reason| Error::malformed(&self.reader.topic, reason);
        let (head, body) = self.mapping.split(&raw).map_err(malformed)?;
        let (response, _) = cdr::decode(body, raw.order).map_err(malformed)?;
        let number = match self.mapping {
            Mapping::Cyclone => head.number,
            Mapping::Enhanced => identity(&raw).sequence_number.into(),
        };
        Ok(Some((number, response, raw.received)))
    }

    /// Have the servers acknowledged all requests? Those that are not acknowledged are on the way,
    /// or are sent again by DDS.
    pub fn is_acknowledged(&self) -> bool {
        self.writer.is_acknowledged()
    }

    /// Says when a response has come; as
    /// [`Subscription::on_message`](crate::Subscription::on_message).
    pub fn on_response(&self, ring: impl Fn() + Send + Sync + 'static) {
        self.reader.on_message(Box::new(ring));
    }

    /// Returns true if a server takes requests and its responses are received.
    pub fn is_served(&self) -> bool {
        self.writer.readers() > 0 && self.reader.has_writer()
    }
}

impl Mapping {
    /// The head and the rest of a payload.
    fn split(self, raw: &Raw) -> Result<(Head, &[u8]), String> {
        match self {
            Mapping::Enhanced => Ok((Head { client: 0, number: 0 }, &raw.bytes)),
            Mapping::Cyclone => split_head(&raw.bytes, raw.order),
        }
    }

    fn join<T: Serialize>(self, head: Head, body: &T, topic: &str) -> Result<Vec<u8>, Error> {
        let bytes = match self {
            Mapping::Enhanced => cdr::encode(body),
            Mapping::Cyclone => cdr::encode(&(head, body)),
        };
        bytes.map_err(|reason| Error::Write { topic: topic.to_owned(), reason })
    }
}

fn split_head(bytes: &[u8], order: Order) -> Result<(Head, &[u8]), String> {
    let (head, _) = cdr::decode(bytes, order)?;
    // The head is a multiple of the largest alignment: behind it, counting begins anew.
    Ok((head, &bytes[HEAD_BYTES..]))
}

/// Returns the id that a response is related to: the one that the request names, or else the
/// request's own. A sender that knows only half of its sample's id leaves the number open.
fn identity(raw: &Raw) -> SampleIdentity {
    let own = SampleIdentity {
        writer_guid: raw.writer,
        sequence_number: SequenceNumber::from(raw.sequence),
    };
    match raw.related {
        Some(related) if related.sequence_number == SequenceNumber::UNKNOWN => {
            SampleIdentity { sequence_number: own.sequence_number, ..related }
        }
        Some(related) => related,
        None => own,
    }
}

fn topics(endpoints: &Endpoints, name: &str) -> Result<(String, String), Error> {
    let full = endpoints.name().resolve(name)?;
    Ok((format!("rq{full}Request"), format!("rr{full}Reply")))
}

fn kind<S: Service>(half: &str) -> String {
    format!("{}_{half}", S::TYPE)
}

fn half(guid: GUID) -> u64 {
    let bytes = guid.to_bytes();
    u64::from_le_bytes(std::array::from_fn(|i| bytes[8 + i]))
}

fn reliable(qos: &Qos) -> Qos {
    let reliability = Reliability::Reliable;
    Qos { reliability, durability: Durability::Volatile, ..*qos }
}
