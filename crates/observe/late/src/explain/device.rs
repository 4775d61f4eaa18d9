//! A wait for the GPU, taken apart by the work that ran there.
//!
//! A thread that waits for the GPU spins, or sleeps in the driver: its own records do not say for
//! what. The work of its process that ended before the call returned is what the call waited for.
//! While such work runs, the call waits for that; while none runs although more is to come, the
//! GPU was not given to it. A GPU that is shared may also tell late of the end: it has switched to another
//! process before. A piece of work that runs for much longer than it usually does shared
//! the GPU, or ran at lower clocks: what goes beyond the usual time is set apart.

use super::raw::Gpu;
use crate::gpu::Works;
use crate::merge::{Merge, Range};
use crate::result::Inner;
use trace::{Block, Error, StreamKind, Trace};

/// Longest time in nanoseconds between two pieces of own work for which nothing but the GPU's own
/// steps are to blame.
const BETWEEN_NS: u64 = 20_000;
/// Least time in nanoseconds by which work must exceed its usual time to count as longer.
const LEAST_BEYOND_NS: u64 = 5_000;
/// Share of the usual time by which work must exceed it.
const BEYOND: u64 = 4;
/// Uncertainty in nanoseconds of the GPU's clock against the processor's.
const CLOCKS_NS: u64 = 5_000;

/// Work on a GPU.
#[derive(Clone, Copy, Debug)]
struct Span {
    process: u32,
    from: u64,
    to: u64,
    /// End of its usual time.
    usual: u64,
    work: u32,
}

/// Work that ran on GPUs in and around a window.
#[derive(Debug)]
pub(crate) struct Device {
    /// False if the recording had no eye on the GPU.
    recorded: bool,
    /// By begin.
    spans: Vec<Span>,
    between: u64,
    clocks: u64,
}

impl Device {
    /// Reads the work that may overlap with the time from `from` to `to`.
    ///
    /// # Errors
    /// As [`Trace::read`].
    pub(crate) fn read(trace: &Trace, inner: &Inner, from: u64, to: u64) -> Result<Device, Error> {
        let works: &Works = &inner.works;
        let ticks = |ns: u64| (ns as f64 / inner.clock.ns_per_tick()) as u64;
        let least = ticks(LEAST_BEYOND_NS);
        let begin = from.saturating_sub(works.longest);
        let in_time = |block: &Block| block.count > 0 && block.last >= begin && block.first <= to;
        let mut ranges = Vec::new();
        for (stream, of) in (0u32..).zip(trace.streams()) {
            let first = of.blocks.iter().position(in_time);
            let last = of.blocks.iter().rposition(in_time);
            if let (StreamKind::Gpu, Some(first), Some(last)) = (of.kind, first, last) {
                ranges.push(Range { stream, from: first, to: last + 1 });
            }
        }
        let (mut spans, mut merge) = (Vec::new(), Merge::new(trace, &ranges));
        while let Some(run) = merge.next_run()? {
            let process = trace.streams()[run.stream as usize].process;
            for record in run.records {
                if record.subject < from || record.time > to {
                    continue;
                }
                let work = works.place(process, record);
                let usually = inner.usual_work.get(work as usize).copied().unwrap_or(u64::MAX);
                let most = usually.saturating_add((usually / BEYOND).max(least));
                let is_long = record.subject - record.time.min(record.subject) > most;
                let usual = if is_long { record.time + usually } else { record.subject };
                let (from, to) = (record.time, record.subject);
                spans.push(Span { process, from, to, usual, work });
            }
        }
        spans.sort_by_key(|span| span.from);
        Ok(Device {
            recorded: trace.metadata().settings.gpu && works.longest > 0,
            spans,
            between: ticks(BETWEEN_NS),
            clocks: ticks(CLOCKS_NS),
        })
    }

    /// The states of the GPU from `enter` to `exit`, for a call of a process that returned then:
    /// each with its end, in the order of time, the last one at `exit`. None if it did no work of
    /// the process meanwhile.
    pub(crate) fn states(&self, process: u32, enter: u64, exit: u64) -> Vec<(u64, Gpu)> {
        if !self.recorded {
            return vec![(exit, Gpu::NotRecorded)];
        }
        // What was not over when the call returned was not waited for.
        let waited: Vec<Span> = self
            .spans
            .iter()
            .filter(|span| span.process == process && span.from < exit && span.to > enter)
            .filter(|span| span.to <= exit + self.clocks)
            .copied()
            .collect();
        let Some(over) = waited.iter().map(|span| span.to.min(exit)).max() else {
            return Vec::new();
        };
        let mut cuts: Vec<u64> = waited.iter().flat_map(|s| [s.from, s.usual, s.to]).collect();
        cuts.extend([over, exit]);
        cuts.retain(|cut| (enter + 1..=exit).contains(cut));
        cuts.sort_unstable();
        cuts.dedup();
        let mut states: Vec<(u64, Gpu)> = Vec::new();
        let (mut from, mut begun, mut running) = (enter, 0, Vec::new());
        for to in cuts {
            while begun < waited.len() && waited[begun].from <= from {
                running.push(waited[begun]);
                begun += 1;
            }
            running.retain(|span: &Span| span.to > from);
            let state = match state(&running, from) {
                Some(state) => state,
                None if from >= over && exit - over > self.between => Gpu::ToldLate,
                None if from >= over => Gpu::Over,
                None if to - from <= self.between => Gpu::Between,
                None => Gpu::NotGiven,
            };
            match states.last_mut() {
                Some((end, last)) if *last == state => *end = to,
                _ => states.push((to, state)),
            }
            from = to;
        }
        states
    }
}

/// Work that runs and is not beyond its usual time comes first.
fn state(running: &[Span], now: u64) -> Option<Gpu> {
    let usual = running.iter().find(|span| now < span.usual);
    let longest = || running.iter().max_by_key(|span| span.to);
    usual.map(|span| Gpu::Own(span.work)).or_else(|| longest().map(|span| Gpu::Longer(span.work)))
}
