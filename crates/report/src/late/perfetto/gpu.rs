//! Work on the GPU becomes slices, a track for each stream of a GPU.
//!
//! Work in one stream does not overlap, but its times are measured, and a kernel may seem to begin
//! a little before the one before it ended. Work that would overlap goes to another track of the
//! same name, which is shown as one with the first.

use super::Export;
use super::packets::Note;
use super::track::About;
use crate::Error;
use record::{Kind, Record};
use std::collections::HashMap;

/// Tracks for one stream; work that would need more is moved to begin when it can.
const MOST_LANES: usize = 16;

/// Tracks of the GPUs' streams, with the end of the latest work of each.
#[derive(Default)]
pub(super) struct Gpus {
    /// Lanes by GPU and stream.
    lanes: HashMap<(u32, u32), Vec<u64>>,
    tracks: HashMap<(u32, u32, usize), u32>,
}

impl Gpus {
    /// A track that is free from `from` on, and when it is.
    fn lane(&mut self, gpu: u32, stream: u32, from: u64, to: u64) -> (u32, u64) {
        let lanes = self.lanes.entry((gpu, stream)).or_default();
        let free = lanes.iter().position(|end| *end <= from);
        let lane = free.unwrap_or_else(|| {
            if lanes.len() < MOST_LANES {
                lanes.push(0);
            }
            lanes.len() - 1
        });
        let from = from.max(lanes[lane]);
        lanes[lane] = to.max(from);
        let number = self.tracks.len() as u32;
        (*self.tracks.entry((gpu, stream, lane)).or_insert(number), from)
    }
}

impl Export<'_, '_> {
    /// A record of a GPU.
    pub(super) fn gpu_record(
        &mut self,
        process: u32,
        gpu: u32,
        record: &Record,
    ) -> Result<(), Error> {
        let (begin, end) = (record.time, record.subject.max(record.time));
        let (stream, correlation) = ((record.detail >> 32) as u32, record.detail as u32);
        let bytes = ("bytes", Note::Number(record.number.into()));
        let mut notes = vec![("correlation", Note::Number(correlation.into()))];
        let name = match record.kind {
            Kind::GpuKernel => {
                let text = self.texts.get(&(process, u64::from(record.number)));
                text.copied().unwrap_or("kernel")
            }
            Kind::GpuCopy => "copy",
            Kind::GpuMemset => "memset",
            _ => return Ok(()),
        };
        if record.kind != Kind::GpuKernel {
            notes.push(bytes);
        }
        let (track, begin) = self.gpus.lane(gpu, stream, begin, end);
        let to = &mut self.to;
        let parent = Some(self.tracks.child(to, About::Gpu(gpu), &format!("GPU {gpu}"), None)?);
        let about = About::GpuStream(gpu, track);
        let track = self.tracks.child(to, about, &format!("stream {stream}"), parent)?;
        self.summary.gpu += 1;
        self.slice((begin, end.max(begin)), track, name, "gpu", &notes)
    }
}
