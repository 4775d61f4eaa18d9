//! First pass over one thread: the meaning of its records for its calls and its locks.

use super::World;
use super::calls::{Candidate, Frame};
use super::locks::{Actor, Cache, Mark};
use super::sequence::{Gathered, Gives, Op, Whose};
use super::work::{GraphSize, handle};
use crate::function::{Host, NO_KIND, Role};
use crate::hash::Mix;
use crate::identity::{Family, Key};
use crate::pattern::{MOST_STEPS, Step};
use crate::snapshot::{LockHold, Snapshot, Wait};
use record::{Class, Kind, Record};
use std::hash::Hasher;

/// Calls that may be open at once in a thread; more mean that their ends are missing.
const MOST_OPEN: usize = 64;

/// A thread's state.
#[derive(Debug)]
pub(crate) struct ThreadState {
    pub stream: u32,
    pub process: u32,
    pub tid: u32,
    /// Records are missing somewhere around, so nothing is measured.
    pub doubtful: bool,
    pub frames: Vec<Frame>,
    pub held: Vec<LockHold>,
    /// Locks that it held when its records began to be missing.
    pub lost: Vec<u32>,
    pub wait: Option<(Wait, Mark)>,
    /// Once controls that it runs or waits for, and since when. Their code may take locks.
    pub once: Vec<(u32, u64)>,
    steps: Vec<Step>,
    pub cache: Box<Cache>,
    gathered: Gathered,
    pub about: About,
}

/// Data of a thread that is kept after its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub name: [u8; 16],
    /// The kernel's number: 0 to 99 real-time, 100 to 139 others.
    pub priority: Option<u16>,
    pub records: u64,
    pub calls: u64,
    pub call_ticks: u64,
    pub waited: u64,
    pub acquisitions: u64,
    /// Calls that were open when its records ended: kind and begin.
    pub unfinished: Vec<(u32, u64)>,
}

impl ThreadState {
    pub(crate) fn new(stream: u32, process: u32, tid: u32) -> ThreadState {
        ThreadState {
            stream,
            process,
            tid,
            doubtful: false,
            frames: Vec::new(),
            held: Vec::new(),
            lost: Vec::new(),
            wait: None,
            once: Vec::new(),
            steps: Vec::new(),
            cache: Box::new(Cache::new()),
            gathered: Gathered::default(),
            about: About::default(),
        }
    }

    /// Returns the calls, holds and wait that are open now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            calls: self.frames.iter().map(|frame| (frame.kind, frame.enter)).collect(),
            held: self.held.clone(),
            wait: self.wait.map(|(wait, _)| wait),
            lost: self.lost.clone(),
        }
    }

    /// The kind of call that it is in.
    pub(crate) fn kind(&self) -> u32 {
        self.frames.last().map_or(NO_KIND, |frame| frame.kind)
    }

    /// Itself, as locks know it.
    pub(crate) fn actor(&self) -> Actor {
        Actor { stream: self.stream, kind: self.kind(), doubtful: self.doubtful }
    }

    /// Returns the key of a lock of its process.
    pub(crate) fn key(&self, family: Family, address: u64) -> Key {
        Key { process: self.process, family, address }
    }

    /// Adds a step to the pattern of its call.
    #[inline]
    pub(crate) fn step(&mut self, serial: u32, class: Class, acquired: bool, time: u64) {
        let full = self.steps.len() >= MOST_STEPS;
        let Some(frame) = self.frames.last_mut() else { return };
        if full {
            self.frames.iter_mut().for_each(|frame| frame.too_long = true);
            return;
        }
        let step = Step { serial, class, acquired, time };
        frame.hash = step.mixed(frame.hash);
        self.steps.push(step);
    }
}

impl World {
    /// Applies a thread's record.
    #[inline]
    pub(crate) fn apply(&mut self, thread: &mut ThreadState, record: &Record) {
        match record.kind {
            Kind::Lock(class, action) => self.lock(thread, record, class, action),
            Kind::Enter => self.enter(thread, record),
            Kind::Exit => self.exit(thread, record),
            Kind::Thread => {
                thread.about.name[..8].copy_from_slice(&record.subject.to_le_bytes());
                thread.about.name[8..].copy_from_slice(&record.detail.to_le_bytes());
                thread.about.priority = Some(kernel_priority(record.number));
            }
            Kind::Graph => {
                let (copies, memsets) = ((record.detail >> 32) as u32, record.detail as u32);
                let size = GraphSize { kernels: record.number, copies, memsets };
                self.work.graph(thread.process, record.subject, size);
            }
            _ => {}
        }
    }

    fn enter(&mut self, thread: &mut ThreadState, record: &Record) {
        if thread.frames.len() >= MOST_OPEN {
            self.forget_open(thread);
        }
        let kind = self.functions.kind(record.number, record.detail);
        let outstanding = if self.functions.of(kind).0.role.queues() {
            self.work.outstanding(thread.process, self.stream_of(thread, record.number, record))
        } else {
            0
        };
        thread.frames.push(Frame {
            kind,
            function: record.number,
            enter: record.time,
            subject: record.subject,
            detail: self.functions.detail(record.number, record.detail),
            outstanding,
            steps_from: thread.steps.len(),
            hash: Mix::default(),
            too_long: false,
            acquisitions: 0,
            waited: 0,
        });
    }

    fn stream_of(&self, thread: &ThreadState, function: u32, record: &Record) -> u64 {
        handle(record.subject, self.functions.per_thread(function), thread.tid)
    }

    fn exit(&mut self, thread: &mut ThreadState, record: &Record) {
        let Some(frame) = thread.frames.pop() else {
            self.losses.unmatched_exits += 1;
            return;
        };
        let ticks = record.time - frame.enter;
        let captured = record.detail == 1;
        self.give_to_device(thread, &frame, record, ticks);
        let kinds = self.functions.kinds();
        if kinds > self.kinds.len() {
            self.kinds.resize_with(kinds, Default::default);
        }
        let state = &mut self.kinds[frame.kind as usize];
        if thread.doubtful {
            state.unknown += 1;
            self.losses.unknown_calls += 1;
        } else {
            state.durations.add(ticks);
            state.acquisitions.add(u64::from(frame.acquisitions));
            if frame.waited > 0 {
                state.waited.add(frame.waited);
            }
            state.failed += u64::from(record.number != 0);
            state.captured += u64::from(captured);
            if frame.too_long {
                state.patterns.too_long += 1;
            } else if thread.steps.len() > frame.steps_from {
                let steps = &thread.steps[frame.steps_from..];
                state.patterns.add(frame.hash, frame.enter, steps);
            }
            let (depth, stream) = (thread.frames.len() as u32, thread.stream);
            let candidate = || Candidate::new(&frame, record, stream, depth);
            state.longest.offer(self.worst, candidate, ticks);
        }
        if self.functions.of(frame.kind).1.is_some() {
            state.bytes = state.bytes.saturating_add(frame.detail);
        }
        thread.returned(&frame, ticks);
    }

    /// Applies a call that returns to the repeated sequences and to the device's queues.
    fn give_to_device(
        &mut self,
        thread: &mut ThreadState,
        frame: &Frame,
        record: &Record,
        ticks: u64,
    ) {
        if record.number != 0 {
            return;
        }
        self.gather(thread, frame, ticks, record.detail == 1);
        let role = self.functions.of(frame.kind).0.role;
        if role == Role::Other {
            return;
        }
        let totals = &mut self.work.totals;
        if record.detail == 1 {
            totals.captured += 1;
            return;
        }
        let process = thread.process;
        let stream = handle(frame.subject, self.functions.per_thread(frame.function), thread.tid);
        match role {
            Role::Launch => totals.launches += 1,
            Role::GraphLaunch => self.work.graph_launched(process, frame.detail),
            Role::Copy | Role::BlockingCopy => {
                totals.copies += 1;
                totals.copied_bytes = totals.copied_bytes.saturating_add(frame.detail);
            }
            Role::Memset => totals.memsets += 1,
            Role::WaitStream | Role::WaitAll => totals.syncs += 1,
            _ => {}
        }
        match role {
            Role::WaitStream | Role::PollStream => self.work.empty(process, stream),
            Role::WaitAll | Role::PollEvent | Role::BlockingCopy => self.work.all_empty(process),
            _ => self.work.queued(process, stream),
        }
    }

    /// Applies a call that succeeded to the repeated sequences. Only the outermost call is one that
    /// the program made, so calls inside of others are no part of its sequences. It is kept out of
    /// the loop over the records, most of which are of locks.
    #[inline(never)]
    fn gather(&mut self, thread: &mut ThreadState, frame: &Frame, ticks: u64, captured: bool) {
        let base = self.functions.of(frame.kind).0;
        if !thread.frames.is_empty() || captured || thread.doubtful {
            return;
        }
        let whose = Whose { process: thread.process, stream: thread.stream };
        if base.cut.is_some() {
            thread.gathered.close(&mut self.units, whose, frame.kind);
            return;
        }
        let (function, host) = self.functions.sizeless(frame.kind);
        let (gives, what) = match base.role {
            Role::Launch => (Gives::Launch, frame.detail),
            Role::GraphLaunch => (Gives::Graph, 0),
            Role::Copy if host == Host::Pageable => (Gives::PageableCopy, host as u64),
            Role::Copy => (Gives::Copy, host as u64),
            Role::Memset => (Gives::Memset, 0),
            _ => return,
        };
        let per_thread = self.functions.per_thread(frame.function);
        let op = Op {
            same: Mix::default().with(u64::from(function)).with(what).finish(),
            kind: frame.kind,
            acquisitions: frame.acquisitions,
            detail: frame.detail,
            ticks,
            waited: frame.waited,
            gives,
            default_stream: handle(frame.subject, per_thread, thread.tid) == 0,
        };
        thread.gathered.add(op, &mut self.units, whose);
    }

    /// Records are missing: open calls, waits and holds may have ended at an unknown time.
    pub(crate) fn forget_open(&mut self, thread: &mut ThreadState) {
        self.forget_wait(thread);
        for held in thread.held.drain(..) {
            let state = &mut self.locks.states[held.lock as usize];
            state.left(held.read, None);
            thread.lost.push(held.lock);
            state.unknown_holds += 1;
            self.losses.unknown_holds += 1;
        }
        for frame in thread.frames.drain(..) {
            self.kinds.resize_with(self.functions.kinds().max(self.kinds.len()), Default::default);
            self.kinds[frame.kind as usize].unknown += 1;
            self.losses.unknown_calls += 1;
        }
        thread.once.clear();
        thread.steps.clear();
        thread.gathered.clear();
    }

    /// The thread has no more records, and none are missing at its end.
    pub(crate) fn ends(&mut self, thread: &mut ThreadState) {
        let whose = Whose { process: thread.process, stream: thread.stream };
        thread.gathered.close(&mut self.units, whose, NO_KIND);
        thread.about.unfinished =
            thread.frames.iter().map(|frame| (frame.kind, frame.enter)).collect();
        // A thread that died waiting waits no more; what it holds it holds for ever.
        let kind = thread.kind();
        if let Some((wait, _)) = thread.wait.take() {
            self.locks.states[wait.lock as usize].wait_ends();
            self.locks.states[wait.lock as usize].never_ended += 1;
            self.left.waits.push((thread.stream, wait, kind));
        }
        self.left.held.extend(thread.held.iter().map(|held| (thread.stream, *held)));
    }
}

impl ThreadState {
    /// Counts a wait for a lock.
    pub(crate) fn has_waited(&mut self, ticks: u64) {
        self.about.waited += ticks;
        if let Some(frame) = self.frames.last_mut() {
            frame.waited += ticks;
        }
    }

    /// A call has returned: what it did with locks its caller did as well.
    fn returned(&mut self, frame: &Frame, ticks: u64) {
        match self.frames.last_mut() {
            Some(outer) => {
                outer.acquisitions += frame.acquisitions;
                outer.waited += frame.waited;
                for step in &self.steps[frame.steps_from.min(self.steps.len())..] {
                    outer.hash = step.mixed(outer.hash);
                }
            }
            None => {
                self.steps.clear();
                self.about.calls += 1;
                self.about.call_ticks += ticks;
            }
        }
    }
}

/// Returns the priority in a `Thread` record, as the kernel counts it.
pub(crate) fn kernel_priority(number: u32) -> u16 {
    const FIFO: u32 = 1;
    const ROUND_ROBIN: u32 = 2;
    const DEADLINE: u32 = 6;
    let (policy, value) = (number >> 16, number as u16);
    match policy {
        FIFO | ROUND_ROBIN => 99u16.saturating_sub(value),
        DEADLINE => 0,
        _ => (120 + i32::from(value as i16).clamp(-20, 19)) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::kernel_priority;

    #[test]
    fn priorities_are_those_of_the_kernel() {
        let number = |policy: u32, priority: i16| policy << 16 | u32::from(priority as u16);
        assert_eq!(kernel_priority(number(1, 50)), 49);
        assert_eq!(kernel_priority(number(2, 99)), 0);
        assert_eq!(kernel_priority(number(0, 0)), 120);
        assert_eq!(kernel_priority(number(0, -20)), 100);
        assert_eq!(kernel_priority(number(3, 19)), 139);
    }
}
