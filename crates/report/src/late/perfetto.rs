//! A trace as Perfetto has them, for its user interface and its SQL.
//!
//! One pass over all streams in the order of time ([`order`]); each record becomes at most a few
//! packets, which are written at once. Kept are the open slices of each thread, the locks in use
//! and the names that were written, so that a trace may be larger than memory.
//!
//! - Threads have a track with their calls, in them their waits for locks; if it is wanted, one
//!   with the locks that they hold.
//! - An arrow leads from the release of a lock, or the signal, to the thread that it let in.
//! - Each lock that was waited for has a counter of the threads that wait.
//! - Switches and wake-ups of the scheduler are written as the kernel's own events, so that
//!   Perfetto's tracks of processors and states of threads appear.
//! - Where records are missing, a slice says so.
//!
//! Called by `keeptime report --perfetto`.

mod gpu;
pub(crate) mod message;
mod order;
pub(crate) mod packets;
mod perfetto_lock;
mod processor;
mod thread;
mod track;

use super::spans::Change;
use super::spans::function::Functions;
use crate::Error;
use gpu::Gpus;
use late::Survey;
use message::{INSTANT, SLICE_BEGIN, SLICE_END};
use order::{Order, Step};
use packets::{Event, Notes, Packets, Track};
use perfetto_lock::Locks;
use processor::Processors;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;
use thread::Thread;
use trace::{StreamKind, Trace};
use track::Tracks;

/// Options of the export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// True to write the locks that each thread holds. They are often the most frequent events.
    pub locks: bool,
}

/// Numbers of the things that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Size of the file.
    pub bytes: u64,
    /// Packets in it.
    pub packets: u64,
    /// Calls.
    pub calls: u64,
    /// Waits for locks and signals.
    pub waits: u64,
    /// Holds of locks.
    pub holds: u64,
    /// Arrows from a thread to the one that it let in.
    pub flows: u64,
    /// Switches of the scheduler.
    pub switches: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// Times that threads were off the processor, where switches of others are not known.
    pub off_cpu: u64,
    /// Kernels, copies and memory sets on GPUs.
    pub gpu: u64,
    /// Ranges of time from which records are missing.
    pub lost_ranges: u64,
    /// Returns from calls whose begin is missing, and which are not shown.
    pub unmatched: u64,
    /// Records of kinds that are not known, and are not shown.
    pub unknown_kinds: u64,
}

/// Writes a trace in Perfetto's format. Locks are called as in `survey`, the first pass over the
/// same trace. `progress` is told how many records of how many were read; if it returns false, the
/// file ends with these records.
///
/// # Errors
/// [`Error::Trace`] when the trace cannot be read, [`Error::Write`] when `out` cannot be written.
pub fn write(
    trace: &Trace,
    survey: &Survey,
    options: &Options,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Summary, Error> {
    let mut export = Export::new(trace, survey, *options, out)?;
    let mut order = Order::new(trace);
    let (mut done, total) = (0_u64, trace.records());
    while let Some(step) = order.next()? {
        export.step(step)?;
        done += u64::from(matches!(step, Step::Record { .. }));
        if done % (1 << 18) == 0 && !progress(done, total) {
            return export.finish(order.skipped);
        }
    }
    progress(total, total);
    export.finish(order.skipped)
}

/// A trace on its way.
struct Export<'s, 'o> {
    trace: &'s Trace,
    options: Options,
    to: Packets<'o>,
    tracks: Tracks<'s>,
    locks: Locks<'s>,
    functions: Functions<'s>,
    /// Names of kernels, by process and handle.
    kernels: HashMap<(u32, u64), &'s str>,
    /// Texts by process and number.
    texts: HashMap<(u32, u64), &'s str>,
    contended_only: bool,
    threads: HashMap<u32, Thread>,
    /// Changes by the current record; kept for its memory.
    changes: Vec<Change>,
    processors: Processors,
    gpus: Gpus,
    summary: Summary,
}

impl<'s, 'o> Export<'s, 'o> {
    fn new(
        trace: &'s Trace,
        survey: &'s Survey,
        options: Options,
        out: &'o mut dyn Write,
    ) -> Result<Export<'s, 'o>, Error> {
        let about = trace.metadata();
        let mut to = Packets::begin(trace, out)?;
        track::describe_machine(&mut to, trace.start(), about)?;
        let kernels = about.kernels.iter();
        let texts = about.texts.iter();
        Ok(Export {
            trace,
            options,
            to,
            tracks: Tracks::new(trace, survey),
            locks: Locks::new(survey),
            functions: Functions::new(&about.functions),
            kernels: kernels.map(|of| ((of.process, of.handle), of.name.as_str())).collect(),
            texts: texts.map(|of| ((of.process, of.number), of.text.as_str())).collect(),
            contended_only: about.settings.contended_only,
            threads: HashMap::new(),
            changes: Vec::new(),
            processors: Processors::new(about),
            gpus: Gpus::default(),
            summary: Summary::default(),
        })
    }

    fn step(&mut self, step: Step) -> Result<(), Error> {
        let trace = self.trace;
        let (Step::Begins { stream, .. } | Step::Record { stream, .. } | Step::Ends { stream, .. }) =
            step;
        let of = &trace.streams()[stream as usize];
        match (of.kind, step) {
            (StreamKind::Thread, Step::Begins { block, .. }) => {
                self.thread_begins(stream, &of.blocks[block])
            }
            (StreamKind::Thread, Step::Record { record, .. }) => {
                self.thread_record(stream, &record)
            }
            (StreamKind::Thread, Step::Ends { block, .. }) => {
                let next = of.blocks.get(block + 1).map(|next| next.first);
                self.thread_ends(stream, &of.blocks[block], next)
            }
            (StreamKind::Processor, Step::Begins { block, .. }) => {
                self.processor_begins(of.id, &of.blocks[block])
            }
            (StreamKind::Processor, Step::Record { record, .. }) => {
                self.kernel_record(of.id, &record)
            }
            (StreamKind::Processor, Step::Ends { block, .. }) => {
                self.processor_ends(of.id, &of.blocks[block])
            }
            (StreamKind::Gpu, Step::Record { record, .. }) => {
                self.gpu_record(of.process, of.id, &record)
            }
            (StreamKind::Gpu | StreamKind::Flow, _) => Ok(()),
        }
    }

    fn finish(mut self, unknown_kinds: u64) -> Result<Summary, Error> {
        self.summary.unknown_kinds = unknown_kinds;
        self.flush_processors()?;
        self.to.flush()?;
        (self.summary.packets, self.summary.bytes) = (self.to.packets, self.to.bytes);
        Ok(self.summary)
    }

    /// A point in time since the start of recording, as the survey counts.
    fn at_ns(&self, ticks: u64) -> u64 {
        self.trace.clock().duration_ns(ticks.saturating_sub(self.trace.start()))
    }

    /// A slice whose begin and end are both known.
    fn slice(
        &mut self,
        (from, to): (u64, u64),
        track: Track,
        name: &str,
        category: &'static str,
        notes: &Notes<'_>,
    ) -> Result<(), Error> {
        self.to.event(
            from,
            Event {
                kind: SLICE_BEGIN,
                track,
                name: Some(name),
                category: Some(category),
                notes,
                ..Event::default()
            },
        )?;
        self.to.event(to, Event { kind: SLICE_END, track, ..Event::default() })
    }

    fn instant(
        &mut self,
        ticks: u64,
        track: Track,
        name: &str,
        notes: &Notes<'_>,
    ) -> Result<(), Error> {
        let event = Event { kind: INSTANT, track, name: Some(name), notes, ..Event::default() };
        self.to.event(ticks, event)
    }
}
