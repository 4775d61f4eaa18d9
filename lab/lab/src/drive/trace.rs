//! `keeptime-lab drive --trace`: what happened in the stack, as a trace file.
//!
//! A trace of a recorded program has what was seen of threads, locks and calls: a drive has none of
//! them, but runs of modules and messages, so that the file has records of its own kind
//! (`record::Flow`) and another version.

use std::path::Path;

use ::trace::metadata::{self, Flow, FlowDrive, LostRange, Machine};
use ::trace::{BlockHead, Metadata, StreamKind, TraceWriter};
use anyhow::Context;
use dataflow::trace::{Event, Point, record};
use driving::drive::DriveOutcome;
use report::drive::DriveRun;

use super::clock::Clock;

/// Records of a block.
const BLOCK: usize = 1 << 14;

/// A trace that is being written.
pub(super) struct Tape {
    writer: TraceWriter,
    flow: Flow,
    clock: Clock,
    end_ns: u64,
}

impl Tape {
    /// Begins a trace of drives of this scenario by this stack.
    pub(super) fn create(path: &Path, run: &DriveRun, clock: Clock) -> anyhow::Result<Tape> {
        let writer = TraceWriter::create_flow(path).context("--trace")?;
        let (scenario, stack) = (run.scenario.clone(), run.stack.clone());
        Ok(Tape { writer, flow: Flow { scenario, stack, drives: Vec::new() }, clock, end_ns: 0 })
    }

    /// Adds a drive.
    pub(super) fn add(&mut self, policy: String, outcome: &DriveOutcome) -> anyhow::Result<()> {
        let mut records = Vec::with_capacity(2 * outcome.events.len());
        outcome.events.iter().for_each(|event| record::encode(event, &mut records));
        let raws: Vec<_> = records.iter().map(::record::Record::to_raw).collect();
        let process = self.flow.drives.len() as u32;
        let mut before = outcome.lost_events;
        for (sequence, block) in (0..).zip(raws.chunks(BLOCK)) {
            let (stream, lost) = (StreamKind::Flow, LostRange::default());
            let head = BlockHead { stream, process, id: 0, sequence, torn: 0, before, lost };
            self.writer.block(head, block)?;
            before += block.len() as u64;
        }
        self.end_ns = outcome.events.last().map_or(0, |event| event.at_ns).max(self.end_ns);
        self.flow.drives.push(about(policy, outcome));
        Ok(())
    }

    /// Ends the trace.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let end = self.end_ns.max(1_000);
        let source = match self.clock {
            Clock::Virtual => "simulated",
            Clock::Wall => "monotonic",
        };
        let source = source.to_owned();
        let clock =
            metadata::Clock { source, even: true, start: (0, 0), end: (end, end), spread: 0 };
        let processors = std::thread::available_parallelism().map_or(0, |count| count.get() as u32);
        let metadata = Metadata {
            command: std::env::args().collect(),
            clock,
            machine: Machine { processors, ..Machine::default() },
            flow: Some(self.flow),
            ..Metadata::default()
        };
        Ok(self.writer.finish(&metadata)?)
    }
}

fn about(policy: String, outcome: &DriveOutcome) -> FlowDrive {
    let names = outcome.names.clone();
    let reaction = outcome.reaction.as_ref().and_then(|way| {
        let sent = |event: &Event| match event.point {
            Point::Actuated { message } if event.at_ns == way.command_ns => Some(message),
            _ => None,
        };
        Some((way.hazard_ns, outcome.events.iter().find_map(sent)?))
    });
    FlowDrive {
        policy,
        modules: names.modules,
        groups: names.groups,
        sources: names.sources,
        topics: names.topics,
        frames: outcome.scans,
        driven_ns: (outcome.driven * 1e9) as u64,
        reaction,
    }
}
