// Added for Keeptime: vendor/README.md says why.
//! A message receiver with a reliable reader and a reliable writer, which a
//! remote participant is matched with; no threads, and no sockets to receive
//! from. Tests feed it packets. What it answers stays on the loopback interface.

use std::{
  cell::RefCell,
  rc::Rc,
  sync::{Arc, Mutex},
};

use bytes::Bytes;

use crate::{
  dds::{
    ddsdata::DDSData,
    qos::policy::{Durability, History, Reliability},
    statusevents::sync_status_channel,
    typedesc::TypeDesc,
    with_key::datawriter::WriteOptions,
  },
  messages::submessages::{
    elements::serialized_payload::SerializedPayload, submessage::AckSubmessage,
  },
  mio_source,
  network::{udp_listener::PacketOrigin, udp_sender::UDPSender},
  polling::{new_shared_timer, wake_channel, LoopWaker, WakeReceiver},
  rtps::{
    message_receiver::MessageReceiver,
    reader::{Reader, ReaderIngredients},
    rtps_reader_proxy::RtpsReaderProxy,
    rtps_writer_proxy::RtpsWriterProxy,
    transmit::InterfaceObservations,
    writer::{TimedEvent, Writer, WriterIngredients},
    writer_send_buffer::WriterSendBuffer,
  },
  structure::{
    dds_cache::TopicCache,
    duration::Duration,
    entity::RTPSEntity,
    guid::{EntityId, EntityKind, GuidPrefix, GUID},
  },
  QosPolicies, QosPolicyBuilder, RepresentationIdentifier,
};

/// Samples of the writer; the last one needs fragments.
pub const SAMPLES: usize = 32;

/// Size of the last sample.
pub const LARGE_SAMPLE_BYTES: usize = 10_000;

/// Receives packets as a participant does.
pub struct Receiving {
  receiver: MessageReceiver,
  acks: WakeReceiver<(GuidPrefix, AckSubmessage)>,
  liveness: WakeReceiver<GuidPrefix>,
  writer: Writer,
  cache: Arc<Mutex<TopicCache>>,
  observations: Rc<RefCell<InterfaceObservations>>,
}

impl Receiving {
  /// Prefix of the participant that receives.
  pub const PREFIX: [u8; 12] = [1; 12];
  /// Prefix of the remote participant.
  pub const REMOTE: [u8; 12] = [2; 12];
  /// Ids of the reader, of the remote writer that it is matched with, of the
  /// writer, and of the remote reader that is matched with it.
  pub const READER: [u8; 4] = [0, 0, 1, 0x07];
  pub const REMOTE_WRITER: [u8; 4] = [0, 0, 1, 0x02];
  pub const WRITER: [u8; 4] = [0, 0, 2, 0x02];
  pub const REMOTE_READER: [u8; 4] = [0, 0, 2, 0x07];

  /// # Errors
  /// When a socket to send from cannot be had.
  pub fn new() -> std::io::Result<Self> {
    let waker = LoopWaker::new();
    let (ack_sender, acks) = wake_channel(1024, &waker);
    let (liveness_sender, liveness) = wake_channel(8, &waker);
    let observations = Rc::new(RefCell::new(InterfaceObservations::new()));
    let own = GuidPrefix::new(&Self::PREFIX);
    let mut receiver = MessageReceiver::new(
      own,
      ack_sender,
      liveness_sender,
      None,
      Rc::clone(&observations),
    );
    let udp_sender = Rc::new(UDPSender::on_loopback()?);
    let (reader, cache) = reader(&udp_sender)?;
    receiver.add_reader(reader);
    let writer = writer(&udp_sender, &observations)?;
    Ok(Self {
      receiver,
      acks,
      liveness,
      writer,
      cache,
      observations,
    })
  }

  /// Handles one packet, and what it asks the writer for.
  pub fn packet(&mut self, bytes: &[u8]) {
    let origin = PacketOrigin {
      source: Some(([127, 0, 0, 1], 9).into()),
      local_if: None,
    };
    self
      .receiver
      .handle_received_packet(&Bytes::copy_from_slice(bytes), origin);
    while let Ok((from, ack)) = self.acks.try_recv() {
      if ack.writer_id() == self.writer.guid().entity_id {
        self.writer.handle_ack_nack(from, &ack);
      }
    }
    while self.liveness.try_recv().is_ok() {}
    let to_reader = remote(Self::REMOTE_READER);
    for event in [
      TimedEvent::SendRepairData { to_reader },
      TimedEvent::SendRepairFrags { to_reader },
    ] {
      self.writer.handle_timed_event(event);
    }
  }

  /// Memory that packets can make it take, in bytes, about.
  pub fn held_bytes(&self) -> usize {
    let readers = self.receiver.available_readers.values();
    readers.map(Reader::held_bytes).sum::<usize>()
      + self.writer.held_bytes()
      + self.cache.lock().map_or(0, |c| c.held_bytes())
      + self.observations.borrow().held_bytes()
  }

  /// Samples of the remote writer that the reader has received, read or not.
  pub fn received(&self) -> usize {
    self.cache.lock().map_or(0, |c| c.change_count())
  }
}

fn remote(id: [u8; 4]) -> GUID {
  let [a, b, c, kind] = id;
  GUID::new(
    GuidPrefix::new(&Receiving::REMOTE),
    EntityId::new([a, b, c], EntityKind::from(kind)),
  )
}

fn own(id: [u8; 4]) -> GUID {
  GUID {
    prefix: GuidPrefix::new(&Receiving::PREFIX),
    ..remote(id)
  }
}

fn qos() -> QosPolicies {
  let max_blocking_time = Duration::from_millis(100);
  QosPolicyBuilder::new()
    .reliability(Reliability::Reliable { max_blocking_time })
    .history(History::KeepAll)
    .durability(Durability::TransientLocal)
    .build()
}

fn reader(udp_sender: &Rc<UDPSender>) -> std::io::Result<(Reader, Arc<Mutex<TopicCache>>)> {
  let topic_name = "receiving".to_string();
  let typedesc = TypeDesc::new("bytes".to_string());
  let cache = TopicCache::new(topic_name.clone(), typedesc, &qos());
  let cache = Arc::new(Mutex::new(cache));
  let (status_sender, _) = sync_status_channel(4)?;
  let (participant_status_sender, _) = sync_status_channel(4)?;
  let (_, command_receiver) = wake_channel(4, &LoopWaker::new());
  let (notification_sender, _) = mio_source::notification_channel(4);
  let (_, poll_event_sender) = mio_source::make_poll_channel()?;
  let ingredients = ReaderIngredients {
    guid: own(Receiving::READER),
    notification_sender,
    status_sender,
    topic_name,
    topic_cache_handle: Arc::clone(&cache),
    like_stateless: false,
    qos_policy: qos(),
    data_reader_command_receiver: command_receiver,
    data_reader_waker: Arc::new(Mutex::new(None)),
    poll_event_sender,
    discovery_notify: None,
    security_plugins: None,
  };
  let mut reader = Reader::new(
    ingredients,
    Rc::clone(udp_sender),
    new_shared_timer(),
    participant_status_sender,
  );
  let writer = remote(Receiving::REMOTE_WRITER);
  let proxy = RtpsWriterProxy::new(writer, vec![], vec![], EntityId::UNKNOWN);
  reader.update_writer_proxy(proxy, &qos());
  Ok((reader, cache))
}

fn writer(
  udp_sender: &Rc<UDPSender>,
  observations: &Rc<RefCell<InterfaceObservations>>,
) -> std::io::Result<Writer> {
  let guid = own(Receiving::WRITER);
  let topic_name = "receiving".to_string();
  let limit = 2 * SAMPLES;
  let send_buffer = WriterSendBuffer::new(
    guid,
    topic_name.clone(),
    true,
    false,
    false,
    limit,
    limit,
    limit,
  );
  for sample in 1..=SAMPLES {
    let bytes = if sample == SAMPLES {
      LARGE_SAMPLE_BYTES
    } else {
      100
    };
    let payload = SerializedPayload::new(RepresentationIdentifier::CDR_LE, vec![0; bytes]);
    // There is room for all of them.
    let _ = send_buffer.admit_blocking(
      WriteOptions::default(),
      DDSData::new(payload),
      Some(std::time::Duration::ZERO),
    );
  }
  let (status_sender, _) = sync_status_channel(4)?;
  let (participant_status_sender, _) = sync_status_channel(4)?;
  let mut writer = Writer::new(
    WriterIngredients {
      guid,
      send_buffer,
      topic_name,
      like_stateless: false,
      qos_policies: qos(),
      status_sender,
      security_plugins: None,
    },
    Rc::clone(udp_sender),
    new_shared_timer(),
    participant_status_sender,
    Rc::clone(observations),
    Rc::from(Vec::new()),
  );
  let proxy = RtpsReaderProxy::new(remote(Receiving::REMOTE_READER), qos(), false);
  writer.update_reader_proxy(&proxy, &qos());
  Ok(writer)
}
