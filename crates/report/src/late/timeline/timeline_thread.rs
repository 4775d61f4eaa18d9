//! Calls, waits and holds of all threads in all windows.
//!
//! Each thread is followed from its first record, since what it holds when a window begins may
//! have been taken long before, and up to where the last window is over.

use super::window::{Span, Window};
use crate::Error;
use crate::late::spans::{Change, Follower, Gap, Open};
use trace::{Stream, StreamKind, Trace};

/// Reads the threads of a trace into the windows.
pub(super) fn read(trace: &Trace, windows: &mut [Window]) -> Result<(), Error> {
    let Some(last) = windows.iter().map(|window| window.to).max() else { return Ok(()) };
    for (stream, of) in (0..).zip(trace.streams()) {
        if of.kind == StreamKind::Thread {
            Reader { trace, windows, stream, last, time: trace.start() }.read(of)?;
        }
    }
    Ok(())
}

struct Reader<'r> {
    trace: &'r Trace,
    windows: &'r mut [Window],
    stream: u32,
    /// End of the last window.
    last: u64,
    /// The latest record.
    time: u64,
}

impl Reader<'_> {
    fn read(&mut self, of: &Stream) -> Result<(), Error> {
        let contended_only = self.trace.metadata().settings.contended_only;
        let mut follower = Follower::new(of.process, contended_only);
        let (mut records, mut changes) = (Vec::new(), Vec::new());
        for (at, block) in of.blocks.iter().enumerate() {
            if block.count > 0 && block.first > self.last {
                self.still_open(&follower, self.last);
                return Ok(());
            }
            let gap = Gap::before(block, self.time);
            self.missing(&mut follower, gap, block.torn > 0);
            self.trace.read(block, &mut records)?;
            for record in &records {
                self.time = self.time.max(record.time);
                follower.apply(record, &mut changes);
                changes.drain(..).for_each(|change| self.change(change, self.time));
            }
            let next = of.blocks.get(at + 1).map(|next| next.first);
            let gap = Gap::after(block, self.time.max(block.last), next);
            self.missing(&mut follower, gap, block.torn > 0);
        }
        self.still_open(&follower, self.trace.end().max(self.time));
        Ok(())
    }

    /// Records are missing, or may be: torn ones are at unknown places of a block.
    fn missing(&mut self, follower: &mut Follower, gap: Option<Gap>, torn: bool) {
        self.time = gap.map_or(self.time, |gap| gap.from);
        if gap.is_some() || torn {
            let mut changes = Vec::new();
            follower.forget(&mut changes);
            changes.into_iter().for_each(|change| self.change(change, self.time));
        }
        let Some(Gap { from, to, count }) = gap else { return };
        for window in self.windows.iter_mut() {
            if let Some(inside) = window.inside(from, to) {
                window.lost.add(inside, (self.stream, from, to, count));
            }
        }
        self.time = to;
    }

    fn change(&mut self, change: Change, now: u64) {
        let (stream, to) = (self.stream, now);
        match change {
            Change::CallEnds(what, depth, end) => {
                let (from, end) = (what.since, Some(end));
                self.add(Span { stream, depth, from, to, end, what }, |window| &mut window.calls);
            }
            Change::WaitEnds(what, depth, end) => {
                let (from, end) = (what.since, Some(end));
                self.add(Span { stream, depth, from, to, end, what }, |window| &mut window.waits);
            }
            Change::HoldEnds(what, end) => {
                let (from, end, depth) = (what.since, Some(end), what.lane);
                self.add(Span { stream, depth, from, to, end, what }, |window| &mut window.holds);
            }
            Change::Signalled(key) => {
                for window in self.windows.iter_mut() {
                    if window.inside(now, now).is_some() {
                        window.signals.add(0, (now, stream, key));
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the calls, waits and holds that had not ended yet.
    fn still_open(&mut self, follower: &Follower, to: u64) {
        let (stream, end) = (self.stream, None);
        for (depth, open) in (0..).zip(follower.open()) {
            match *open {
                Open::Call(what) => {
                    let span = Span { stream, depth, from: what.since, to, end, what };
                    self.add(span, |window| &mut window.calls);
                }
                Open::Wait(what) => {
                    let span = Span { stream, depth, from: what.since, to, end, what };
                    self.add(span, |window| &mut window.waits);
                }
            }
        }
        for what in follower.held() {
            let (from, depth, what) = (what.since, what.lane, *what);
            self.add(Span { stream, depth, from, to, end, what }, |window| &mut window.holds);
        }
    }

    fn add<T: Copy>(
        &mut self,
        span: Span<T>,
        kept: impl Fn(&mut Window) -> &mut super::window::Kept<Span<T>>,
    ) {
        for window in self.windows.iter_mut() {
            if let Some(weight) = window.weight(&span) {
                kept(window).add(weight, span);
            }
        }
    }
}
