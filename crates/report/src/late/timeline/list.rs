//! The lists of one window: what was kept of it, as numbers.

use super::arrow::{Arrow, arrows};
use super::data::{Data, Task};
use super::timeline_cause;
use super::timeline_processor::{Ran, Scheduled, State, Stood, coarser};
use super::window::{Kept, Span, Window};
use crate::Error;
use crate::late::What;
use crate::late::spans::function::Detail;
use crate::late::spans::{Call, End, Gap, Hold, Wait};
use crate::number::{bytes, listed, time};
use late::{Explained, Part};
use record::layout::{BYTES_MASK, PAGEABLE, PINNED};
use record::{Class, Kind, Record};
use trace::StreamKind;
use trace::metadata::Tier;

/// Bit of `flags`: it had not ended, or its end is missing.
const OPEN: i64 = 1;
/// Waits: it ended without the lock. Calls: it returned an error.
const FAILED: i64 = 2;
/// Waits and holds: for reading.
const READ: i64 = 4;
/// Calls: this is the one.
const TARGET: i64 = 8;

impl Data<'_> {
    /// Sentences on the part of a window that the page holds.
    pub(super) fn kept(&self, window: &Window, left_out: u64) -> String {
        let length = time(self.trace.clock().duration_ns(window.to - window.from));
        let mut cut = Vec::new();
        for (name, kept, total) in [
            ("calls", window.calls.len(), window.calls.total),
            ("waits", window.waits.len(), window.waits.total),
            ("locks held", window.holds.len(), window.holds.total),
        ] {
            cut.extend((kept < total).then(|| format!("{kept} of {total} {name}")));
        }
        let mut words = format!("This page holds {length} around the call. ");
        words += &match cut.as_slice() {
            [] => "Nothing that happened in it was left out.".to_owned(),
            cut => format!(
                "Of what happened in it: {}, those of this thread first, then the longest.",
                listed(cut)
            ),
        };
        if self.survey.contended_only {
            words += " Locks that were taken without waiting were not recorded: the holder of one \
                      is known only where the lock itself named it.";
        }
        if left_out > 0 {
            words += &format!(" {left_out} records of the scheduler were left out.");
        }
        words
    }

    /// Begin, counted from the begin of the window, and duration, in nanoseconds.
    fn when(&self, window: &Window, from: u64, to: u64) -> [i64; 2] {
        let clock = self.trace.clock();
        let from_ns = if from >= window.from {
            clock.duration_ns(from - window.from) as i64
        } else {
            -(clock.duration_ns(window.from - from) as i64)
        };
        [from_ns, clock.duration_ns(to.saturating_sub(from)) as i64]
    }

    pub(super) fn spans(&mut self, window: &mut Window) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
        let order = |from: u64, depth: u32| (from, depth);
        let calls: Vec<Span<Call>> =
            window.calls.sorted(|span| order(span.from, span.depth)).into_iter().copied().collect();
        let waits: Vec<Span<Wait>> =
            window.waits.sorted(|span| order(span.from, span.depth)).into_iter().copied().collect();
        let holds: Vec<Span<Hold>> =
            window.holds.sorted(|span| order(span.from, span.depth)).into_iter().copied().collect();
        let calls = calls.iter().flat_map(|span| self.call(window, span)).collect();
        let waits = waits.iter().flat_map(|span| self.wait(window, span)).collect();
        let holds = holds.iter().flat_map(|span| self.hold(window, span)).collect();
        (calls, waits, holds)
    }

    fn call(&mut self, window: &Window, span: &Span<Call>) -> [i64; 7] {
        let [from, duration] = self.when(window, span.from, span.to);
        let call = &self.survey.worst[window.worst as usize];
        let target = span.stream == window.stream
            && span.depth == call.depth
            && self.at_ns(span.from) == call.at_ns;
        let failed = matches!(span.end, Some(End::Returned { result: 1.., .. }));
        let flags =
            open(span.end) | if failed { FAILED } else { 0 } | if target { TARGET } else { 0 };
        let name = self.functions.of(span.what.function).name;
        let (name, note) = (self.texts.of(name), self.note(span));
        let note = self.texts.of(&note);
        let task = self.task(Task::Stream(span.stream));
        [task, span.depth.into(), from, duration, name, note, flags]
    }

    /// Special properties of a call.
    fn note(&self, span: &Span<Call>) -> String {
        let process = self.trace.streams()[span.stream as usize].process;
        let Call { function, subject, detail, .. } = span.what;
        let mut words = Vec::new();
        match self.functions.of(function).detail {
            Detail::Kernel => {
                let kernel = self.kernels.get(&(process, detail));
                words.extend(kernel.map(|kernel| format!("kernel {kernel}")));
            }
            Detail::Bytes => {
                let memory = match detail & (PINNED | PAGEABLE) {
                    PINNED => " pinned",
                    PAGEABLE => " pageable",
                    _ => "",
                };
                words.push(format!("{}{memory}", bytes(detail & BYTES_MASK)));
            }
            Detail::Graph | Detail::Nothing => {}
        }
        words.extend((subject != 0).then(|| format!("stream {subject:#x}")));
        match span.end {
            Some(End::Returned { result: 0, captured: true }) => words.push("captured".into()),
            Some(End::Returned { result: 0, .. }) => {}
            Some(End::Returned { result, .. }) => words.push(format!("returned error {result}")),
            Some(_) => words.push("its return is missing".into()),
            None => words.push("goes on".into()),
        }
        words.join(", ")
    }

    fn wait(&mut self, window: &Window, span: &Span<Wait>) -> [i64; 7] {
        let [from, duration] = self.when(window, span.from, span.to);
        let lock = self.lock(span.what.lock, span.from);
        let owner = match span.what.owner {
            0 => -1,
            tid => self.task_at(tid, span.from),
        };
        let failed = matches!(span.end, Some(End::Failed(_)));
        let flags = open(span.end)
            | if failed { FAILED } else { 0 }
            | if span.what.class == Class::Read { READ } else { 0 };
        let task = self.task(Task::Stream(span.stream));
        [task, span.depth.into(), from, duration, lock, owner, flags]
    }

    fn hold(&mut self, window: &Window, span: &Span<Hold>) -> [i64; 6] {
        let [from, duration] = self.when(window, span.from, span.to);
        let lock = self.lock(span.what.lock, span.from);
        let flags = open(span.end) | if span.what.read { READ } else { 0 };
        let task = self.task(Task::Stream(span.stream));
        [task, span.depth.into(), from, duration, lock, flags]
    }

    pub(super) fn arrows(&mut self, window: &Window) -> Vec<i64> {
        let arrows = arrows(window);
        let most = self.options.items / 2;
        let arrow = |arrow: &Arrow| {
            let from = self.when(window, arrow.from.0, arrow.from.0)[0];
            let to = self.when(window, arrow.to.0, arrow.to.0)[0];
            let left = self.task(Task::Stream(arrow.from.1));
            let got = self.task(Task::Stream(arrow.to.1));
            let lock = self.lock(arrow.lock, arrow.to.0);
            [from, left, to, got, lock]
        };
        arrows.iter().take(most).flat_map(arrow).collect()
    }

    pub(super) fn states(
        &mut self,
        window: &Window,
        scheduled: &Scheduled,
        width: u64,
        rows: &[i64],
    ) -> Vec<i64> {
        let mut own = Vec::new();
        for stood in &scheduled.stood {
            if let Some(stream) = self.stream(stood.tid, stood.from) {
                let task = self.task(Task::Stream(stream));
                if rows.contains(&task) {
                    own.push(*stood);
                }
            }
        }
        let length = |stood: &Stood| stood.to - stood.from;
        let join = |one: &Stood, two: &Stood| {
            let state = if one.state == two.state { one.state } else { State::Mixed };
            (one.tid == two.tid && one.to == two.from).then_some(Stood {
                to: two.to,
                state,
                ..*one
            })
        };
        let own = coarser(own, self.options.items, width, length, join);
        let entry = |stood: &Stood| {
            let task = self.task_at(stood.tid, stood.from);
            let [from, duration] = self.when(window, stood.from, stood.to);
            [task, from, duration, stood.state as i64, i64::from(stood.processor)]
        };
        own.iter().flat_map(entry).collect()
    }

    pub(super) fn runs(&mut self, window: &Window, scheduled: &Scheduled, width: u64) -> Vec<i64> {
        if self.survey.tier != Tier::Scheduler {
            return Vec::new();
        }
        let length = |ran: &Ran| ran.to - ran.from;
        let join = |one: &Ran, two: &Ran| {
            let tid = one.tid.filter(|tid| Some(*tid) == two.tid);
            (one.processor == two.processor && one.to == two.from).then_some(Ran {
                to: two.to,
                tid,
                ..*one
            })
        };
        let ran = coarser(scheduled.ran.clone(), self.options.items, width, length, join);
        let entry = |ran: &Ran| {
            let task = ran.tid.map_or(-1, |tid| self.task_at(tid, ran.from));
            let [from, duration] = self.when(window, ran.from, ran.to);
            [i64::from(ran.processor), from, duration, task, i64::from(ran.priority)]
        };
        ran.iter().flat_map(entry).collect()
    }

    pub(super) fn wakes(
        &mut self,
        window: &Window,
        scheduled: &Scheduled,
        rows: &[i64],
    ) -> Vec<i64> {
        let mut wakes = Vec::new();
        for woke in &scheduled.woke {
            let wakee = self.task_at(woke.wakee, woke.at);
            if rows.contains(&wakee) && wakes.len() < self.options.items {
                let waker = if woke.waker == 0 { -1 } else { self.task_at(woke.waker, woke.at) };
                wakes.extend([self.when(window, woke.at, woke.at)[0], waker, wakee]);
            }
        }
        wakes
    }

    pub(super) fn boosts(
        &mut self,
        window: &Window,
        scheduled: &Scheduled,
        rows: &[i64],
    ) -> Vec<i64> {
        let mut boosts = Vec::new();
        for (at, tid, old, new) in &scheduled.boosts {
            let task = self.task_at(*tid, *at);
            if rows.contains(&task) && boosts.len() < self.options.items {
                let at = self.when(window, *at, *at)[0];
                boosts.extend([at, task, i64::from(*old), i64::from(*new)]);
            }
        }
        boosts
    }

    pub(super) fn lost(&mut self, window: &mut Window) -> Vec<i64> {
        let lost: Vec<_> = window.lost.sorted(|lost| lost.1).into_iter().copied().collect();
        let entry = |(stream, from, to, count): &(u32, u64, u64, u64)| {
            let [from, duration] = self.when(window, *from, *to);
            [self.task(Task::Stream(*stream)), from, duration, *count as i64]
        };
        lost.iter().flat_map(entry).collect()
    }

    /// Those of processors have a negative number for the thread: -1 is processor 0.
    pub(super) fn lost_of_processors(&self, window: &Window, scheduled: &Scheduled) -> Vec<i64> {
        let entry = |(processor, gap): &(u32, Gap)| {
            let [from, duration] = self.when(window, gap.from, gap.to);
            [-1 - i64::from(*processor), from, duration, gap.count as i64]
        };
        scheduled.lost.iter().take(self.options.items).flat_map(entry).collect()
    }

    /// Work on the GPUs: the names of the rows, and the work.
    pub(super) fn gpu(&mut self, window: &Window) -> Result<(Vec<String>, Vec<i64>), Error> {
        let (mut rows, mut kept) = (Vec::new(), Kept::new(self.options.items));
        let mut records = Vec::new();
        for of in self.trace.streams().iter().filter(|of| of.kind == StreamKind::Gpu) {
            for block in &of.blocks {
                // A block says when its work began, not when it ended.
                if block.count == 0 || block.first > window.to {
                    continue;
                }
                self.trace.read(block, &mut records)?;
                for record in &records {
                    if let Some(inside) = window.inside(record.time, record.subject) {
                        kept.add(inside, (of.process, of.id, *record));
                    }
                }
            }
        }
        let mut work = Vec::new();
        let sorted = kept.sorted(|(_, gpu, record)| (*gpu, record.detail >> 32, record.time));
        for (process, gpu, record) in sorted {
            let row = format!("GPU {gpu}, stream {}", record.detail >> 32);
            let at = rows.iter().position(|known| *known == row).unwrap_or_else(|| {
                rows.push(row);
                rows.len() - 1
            });
            let [from, duration] = self.when(window, record.time, record.subject);
            let name = self.work_name(*process, record);
            work.extend([at as i64, from, duration, self.texts.of(&name)]);
        }
        Ok((rows, work))
    }

    fn work_name(&self, process: u32, record: &Record) -> String {
        let texts = &self.trace.metadata().texts;
        let is = |of: &&trace::metadata::Text| {
            of.process == process && of.number == u64::from(record.number)
        };
        match record.kind {
            Kind::GpuKernel => texts.iter().find(is).map_or("kernel".into(), |of| of.text.clone()),
            Kind::GpuCopy => format!("copy of {}", bytes(record.number.into())),
            Kind::GpuMemset => format!("memory set of {}", bytes(record.number.into())),
            _ => "work".into(),
        }
    }

    /// Parts of the call by their causes, if it was taken apart.
    pub(super) fn parts(&mut self, window: &Window, explained: &[Explained]) -> Vec<i64> {
        let Some(found) = explained.iter().find(|of| of.worst == window.worst) else {
            return Vec::new();
        };
        let call = &self.survey.worst[window.worst as usize];
        let begin = call.at_ns as i64 - self.at_ns(window.from) as i64;
        let mut kept = Kept::new(self.options.items / 4);
        for part in &found.parts {
            if let Some(from_ns) = part.from_ns {
                kept.add(part.duration_ns, (from_ns, part));
            }
        }
        let mut parts = Vec::new();
        for (from_ns, part) in kept.sorted(|(from_ns, _)| *from_ns) {
            let (cause, text) = timeline_cause::words(self.survey, &part.cause);
            let cause = What::ALL.iter().position(|what| *what == cause).unwrap_or(0);
            let text = self.texts.of(&text);
            parts.extend([begin + *from_ns as i64, part.duration_ns as i64, cause as i64, text]);
        }
        // The last part is the time after the parts that are listed in their order.
        let ends = |part: &Part| Some(part.from_ns? + part.duration_ns);
        let listed = found.parts.iter().filter_map(ends).max().unwrap_or(0);
        if listed < found.duration_ns && found.parts.iter().any(|part| part.from_ns.is_none()) {
            let text =
                self.texts.of("more parts, which are added up in the list of the worst calls");
            let (from, duration) = (begin + listed as i64, (found.duration_ns - listed) as i64);
            parts.extend([from, duration, What::ALL.len() as i64, text]);
        }
        parts
    }
}

fn open(end: Option<End>) -> i64 {
    match end {
        None | Some(End::Missing) => OPEN,
        _ => 0,
    }
}
