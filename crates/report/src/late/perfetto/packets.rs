//! Packets, one after the other, in the only form in which they leave: with their clock, with
//! names interned, and without anything kept but the names.
//!
//! All packets are of one sequence. Times are nanoseconds of `CLOCK_MONOTONIC`, which is also the
//! trace's primary clock. Scheduler events have no clock of their own in the format: they are
//! taken to be of `CLOCK_BOOTTIME`. A recording does not know that clock; the snapshot at the
//! begin says that both show the same, so that everything stands beside everything else.

use super::message::*;
use crate::Error;
use prost::Message;
use record::clock::Calibration;
use std::collections::HashMap;
use std::io::Write;
use trace::Trace;

/// The only sequence of packets.
const SEQUENCE: u32 = 1;
/// `Trace.packet`, the field that every packet of a file is.
const PACKET_KEY: u8 = 1 << 3 | 2;
/// Number of bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 1 << 16;

/// A track, by its number in the file.
pub(crate) type Track = u64;

/// Output of packets.
pub(crate) struct Packets<'o> {
    out: &'o mut dyn Write,
    buffer: Vec<u8>,
    clock: Calibration,
    names: Names,
    pub packets: u64,
    pub bytes: u64,
}

/// A value of an annotation, before its texts are interned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note<'a> {
    Bool(bool),
    Number(u64),
    Signed(i64),
    Pointer(u64),
    Text(&'a str),
}

/// Annotations of an event: what it is called, and its value.
pub(crate) type Notes<'a> = [(&'static str, Note<'a>)];

/// Event on a track, without its time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Event<'a> {
    pub kind: u32,
    pub track: Track,
    pub name: Option<&'a str>,
    pub category: Option<&'static str>,
    pub notes: &'a Notes<'a>,
    pub value: Option<i64>,
    /// A flow that goes on from here.
    pub flow: Option<u64>,
    /// A flow that ends here.
    pub ends_flow: Option<u64>,
}

impl<'o> Packets<'o> {
    /// Writes what comes before all events.
    pub(crate) fn begin(trace: &Trace, out: &'o mut dyn Write) -> Result<Packets<'o>, Error> {
        let (buffer, names) = (Vec::with_capacity(BUFFER_BYTES + 4096), Names::default());
        let clock = trace.clock();
        let mut packets = Packets { out, buffer, clock, names, packets: 0, bytes: 0 };
        let now = packets.ns(trace.start());
        let reading = |id| Clock { clock_id: Some(id), timestamp: Some(now) };
        packets.put(TracePacket {
            sequence_flags: Some(STATE_CLEARED),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(MONOTONIC),
            }),
            data: Some(Data::ClockSnapshot(ClockSnapshot {
                clocks: vec![reading(MONOTONIC), reading(BOOT_TIME)],
                primary_trace_clock: Some(MONOTONIC),
            })),
            ..TracePacket::default()
        })?;
        Ok(packets)
    }

    /// A point in time in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        self.clock.ns(ticks)
    }

    /// Writes a packet that has no time.
    pub(crate) fn data(&mut self, data: Data) -> Result<(), Error> {
        self.put(TracePacket { data: Some(data), ..TracePacket::default() })
    }

    /// Writes a packet.
    pub(crate) fn timed(&mut self, ticks: u64, data: Data) -> Result<(), Error> {
        let (timestamp, sequence_flags) = (Some(self.ns(ticks)), Some(NEEDS_STATE));
        self.put(TracePacket {
            timestamp,
            sequence_flags,
            data: Some(data),
            ..TracePacket::default()
        })
    }

    /// Writes an event on a track.
    pub(crate) fn event(&mut self, ticks: u64, event: Event<'_>) -> Result<(), Error> {
        let mut new = InternedData::default();
        let names = &mut self.names;
        let mut notes = Vec::with_capacity(event.notes.len());
        for (name, note) in event.notes {
            let name_iid = names.of(NameKind::Annotation, name, &mut new);
            let value = match note {
                Note::Bool(is) => Value::Bool(*is),
                Note::Number(number) => Value::Number(*number),
                Note::Signed(number) => Value::Signed(*number),
                Note::Pointer(address) => Value::Pointer(*address),
                Note::Text(text) => Value::Text(names.of(NameKind::Text, text, &mut new)),
            };
            notes.push(DebugAnnotation { name_iid: Some(name_iid), value: Some(value) });
        }
        let track_event = TrackEvent {
            r#type: Some(event.kind),
            track_uuid: Some(event.track),
            name_iid: event.name.map(|name| names.of(NameKind::Event, name, &mut new)),
            category_iids: event
                .category
                .map(|name| names.of(NameKind::Category, name, &mut new))
                .into_iter()
                .collect(),
            debug_annotations: notes,
            counter_value: event.value,
            flow_ids: event.flow.into_iter().collect(),
            terminating_flow_ids: event.ends_flow.into_iter().collect(),
        };
        self.put(TracePacket {
            timestamp: Some(self.ns(ticks)),
            sequence_flags: Some(NEEDS_STATE),
            interned_data: (new != InternedData::default()).then_some(new),
            data: Some(Data::TrackEvent(track_event)),
            ..TracePacket::default()
        })
    }

    fn put(&mut self, mut packet: TracePacket) -> Result<(), Error> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        let before = self.buffer.len();
        self.buffer.push(PACKET_KEY);
        // A vector grows, so there is always room.
        packet.encode_length_delimited(&mut self.buffer).expect("a vector has room");
        self.packets += 1;
        self.bytes += (self.buffer.len() - before) as u64;
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Gives out what was gathered.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.out.write_all(&self.buffer).map_err(|reason| Error::Write { reason })?;
        self.buffer.clear();
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum NameKind {
    Category,
    Event,
    Annotation,
    Text,
}

/// Texts that were written, each kind by itself. They are names of functions, kernels and locks,
/// whose number does not grow with that of the records.
#[derive(Default)]
struct Names([HashMap<String, u64>; 4]);

impl Names {
    /// The number of a text, which goes into `new` when it has not been written.
    fn of(&mut self, kind: NameKind, text: &str, new: &mut InternedData) -> u64 {
        let known = &mut self.0[kind as usize];
        if let Some(iid) = known.get(text) {
            return *iid;
        }
        let iid = known.len() as u64 + 1;
        known.insert(text.to_owned(), iid);
        let list = match kind {
            NameKind::Category => &mut new.event_categories,
            NameKind::Event => &mut new.event_names,
            NameKind::Annotation => &mut new.debug_annotation_names,
            NameKind::Text => &mut new.debug_annotation_string_values,
        };
        list.push(Name { iid: Some(iid), name: Some(text.to_owned()) });
        iid
    }
}
