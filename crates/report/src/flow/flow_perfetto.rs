//! A trace of drives in Perfetto's format: a process for each drive, a thread for each simulated
//! core, a slice for each time in which a run had it.

use super::FlowRun;
use crate::Error;
use crate::late::perfetto::message::{
    Data, ProcessDescriptor, SLICE_BEGIN, SLICE_END, ThreadDescriptor, TrackDescriptor,
};
use crate::late::perfetto::packets::{Event, Note, Packets, Track};
use std::collections::BTreeMap;
use std::io::Write;
use trace::Trace;

/// Writes what `run` has of `trace`; returns how many slices.
///
/// # Errors
/// [`Error::Write`] when `out` cannot be written.
pub fn perfetto(trace: &Trace, run: &FlowRun, out: &mut dyn Write) -> Result<u64, Error> {
    let mut to = Packets::begin(trace, out)?;
    let mut slices = 0;
    for (number, drive) in (1_i32..).zip(&run.drives) {
        let track = (number as Track) << 32;
        to.data(Data::TrackDescriptor(TrackDescriptor {
            uuid: Some(track),
            process: Some(ProcessDescriptor {
                pid: Some(number),
                cmdline: Vec::new(),
                process_name: Some(drive.policy.clone()),
            }),
            ..TrackDescriptor::default()
        }))?;
        let mut cores: BTreeMap<&(String, u16), Track> = BTreeMap::new();
        for span in &drive.spans {
            let next = track + cores.len() as Track + 1;
            let core = *cores.entry(&span.core).or_insert(next);
            if core == next {
                to.data(Data::TrackDescriptor(TrackDescriptor {
                    uuid: Some(core),
                    thread: Some(ThreadDescriptor {
                        pid: Some(number),
                        tid: Some(i64::from(number) << 16 | (core - track) as i64),
                        thread_name: Some(format!("{} {}", span.core.0, span.core.1)),
                    }),
                    ..TrackDescriptor::default()
                }))?;
            }
            let name = span.module.and_then(|module| drive.modules.get(module));
            let notes = [
                ("frame", Note::Number(span.frame)),
                ("fast path", Note::Bool(span.fast)),
                ("guest", Note::Bool(span.guest)),
                ("cancelled", Note::Bool(span.cancelled)),
            ];
            let name = Some(name.map_or("work ahead", |module| module.name.as_str()));
            let begin =
                Event { kind: SLICE_BEGIN, track: core, name, notes: &notes, ..Event::default() };
            to.event(span.start_ns, begin)?;
            to.event(span.end_ns, Event { kind: SLICE_END, track: core, ..Event::default() })?;
            slices += 1;
        }
    }
    to.flush()?;
    Ok(slices)
}
