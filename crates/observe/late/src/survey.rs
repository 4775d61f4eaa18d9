//! The first pass: every record once, in the order of time, into tables.
//!
//! The streams are merged ([`crate::merge`]) rather than read one after the other, since
//! what a lock or a device queue is at some moment depends on all threads: how many waited when
//! one was let in, which generation of a lock an address meant, what was launched before. Memory
//! is bounded by the threads alive at one time, and tables per lock, kind of call, device stream,
//! graph and thread; nothing grows with the number of records but the snapshots, which are
//! limited in number ([`crate::snapshot`]).
//!
//! If records of a thread are missing, all that was open in it is counted as unknown and forgotten;
//! all that lies in a block with unfinished records is counted as unknown as well.

pub(crate) mod calls;
mod graphs;
pub(crate) mod load;
mod locking;
pub(crate) mod locks;
pub(crate) mod sequence;
pub(crate) mod summary;
pub(crate) mod thread;
pub(crate) mod work;
mod worst;

use crate::Options;
use crate::function::Functions;
use crate::gap::{gap_after, is_missing_after, missing_after};
use crate::gpu::Works;
use crate::merge::{Merge, Run};
use crate::open::Left;
use crate::processors::Missing;
use crate::result::{Losses, Survey};
use crate::snapshot::Snapshots;
use crate::survey::calls::KindState;
use crate::survey::load::{Checkpoint, LoadState};
use crate::survey::locks::Locks;
use crate::survey::sequence::Units;
use crate::survey::summary::Tables;
use crate::survey::thread::{About, ThreadState};
use crate::survey::work::Work;
use trace::{Block, Error, Stream, StreamKind, Trace};

/// Tables of the first pass that all threads share.
#[derive(Debug)]
pub(crate) struct World {
    pub functions: Functions,
    pub kinds: Vec<KindState>,
    pub locks: Locks,
    pub work: Work,
    pub units: Units,
    pub losses: Losses,
    pub left: Left,
    contended_only: bool,
    worst: usize,
}

/// State of the first pass while it reads the trace.
struct Surveyor<'t> {
    trace: &'t Trace,
    world: World,
    threads: Vec<Option<Box<ThreadState>>>,
    about: Vec<About>,
    snapshots: Snapshots,
    load: LoadState,
    gpu: Works,
}

/// Reads the whole trace once. `progress` is told how many records of how many were read; if it
/// returns false, the survey is of these records only.
///
/// # Errors
/// As [`Trace::read`].
pub fn survey(
    trace: &Trace,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Survey, Error> {
    let mut surveyor = Surveyor::new(trace, options);
    let mut merge = Merge::all(trace);
    let (mut done, mut told) = (0, 0);
    while let Some(run) = merge.next_run()? {
        done += run.records.len() as u64;
        surveyor.take(&run);
        if done - told >= 1 << 18 {
            told = done;
            if !progress(done, trace.records()) {
                break;
            }
        }
    }
    surveyor.world.losses.unknown_kinds = merge.skipped();
    Ok(surveyor.finish(options))
}

impl<'t> Surveyor<'t> {
    fn new(trace: &'t Trace, options: &Options) -> Surveyor<'t> {
        let streams = trace.streams();
        let streams_of = |kind| streams.iter().filter(move |stream| stream.kind == kind);
        let blocks = |kind| streams_of(kind).map(|stream| stream.blocks.len()).sum();
        let metadata = trace.metadata();
        let processors =
            metadata.machine.processors.max(streams_of(StreamKind::Processor).count() as u32);
        let tids = streams_of(StreamKind::Thread).map(|stream| stream.id).collect();
        let most = options.snapshots;
        let kernel = blocks(StreamKind::Processor);
        let mut load = LoadState::new(metadata.tier, processors, kernel, most, tids);
        for stream in streams_of(StreamKind::Processor).filter(|s| s.blocks[0].missing_before > 0) {
            load.gap_begins(stream.id, Missing::Anything, trace.start());
        }
        let processors = load.processors.clone();
        load.checkpoints.push(Checkpoint { time: 0, processors });
        Surveyor {
            trace,
            world: World {
                functions: Functions::new(&metadata.functions),
                kinds: Vec::new(),
                locks: Locks::default(),
                work: Work::default(),
                units: Units::default(),
                losses: Losses::default(),
                left: Left::default(),
                contended_only: metadata.settings.contended_only,
                worst: options.worst,
            },
            threads: streams.iter().map(|_| None).collect(),
            about: vec![About::default(); streams.len()],
            snapshots: Snapshots::new(streams.len(), blocks(StreamKind::Thread), most),
            load,
            gpu: Works::default(),
        }
    }

    fn take(&mut self, run: &Run<'_>) {
        let stream = &self.trace.streams()[run.stream as usize];
        let block = &stream.blocks[run.block];
        match stream.kind {
            StreamKind::Thread => self.take_thread(run, stream, block),
            StreamKind::Processor => self.take_processor(run, stream, block),
            StreamKind::Gpu => {
                run.records.iter().for_each(|record| self.gpu.add(stream.process, record));
            }
            // A trace of graphs has no calls.
            StreamKind::Flow => {}
        }
        if run.ends {
            let losses = &mut self.world.losses;
            losses.torn += u64::from(block.torn);
            losses.overwritten += block.missing_before;
            losses.lost += block.lost.count;
        }
    }

    fn take_thread(&mut self, run: &Run<'_>, stream: &Stream, block: &Block) {
        let place = &mut self.threads[run.stream as usize];
        let new = || Box::new(ThreadState::new(run.stream, stream.process, stream.id));
        let thread = place.get_or_insert_with(new);
        let world = &mut self.world;
        if run.begins {
            if block.missing_before > 0 || block.torn > 0 {
                world.forget_open(thread);
            }
            thread.doubtful = block.torn > 0;
            if self.snapshots.wanted(run.block) {
                self.snapshots.keep(run.stream, run.block, thread.snapshot());
            }
            thread.lost.clear();
        }
        for record in run.records {
            world.apply(thread, record);
        }
        thread.about.records += run.records.len() as u64;
        if run.ends {
            if block.lost.count > 0 || block.torn > 0 {
                world.forget_open(thread);
            }
            if run.block + 1 == stream.blocks.len() {
                self.snapshots.keep_end(run.stream, thread.snapshot());
                world.ends(thread);
                self.about[run.stream as usize] = std::mem::take(&mut thread.about);
                *place = None;
            }
        }
    }

    fn take_processor(&mut self, run: &Run<'_>, stream: &Stream, block: &Block) {
        if run.begins {
            let begins = run.records.first().map_or(block.first, |record| record.time);
            self.load.block_begins(stream.id, begins);
        }
        for record in run.records {
            self.load.apply(record);
        }
        if run.ends && gap_after(stream, run.block) {
            self.load.gap_begins(stream.id, missing_after(stream, run.block), block.last);
            if !is_missing_after(stream, run.block) {
                self.load.processors.gap_ends(stream.id);
            }
        }
    }

    fn finish(self, options: &Options) -> Survey {
        let Surveyor { trace, world, about, snapshots, load, gpu, .. } = self;
        Tables { trace, world, about, snapshots, load, gpu }.summarise(options)
    }
}
