//! Events of the kernel's tracer become records, one stream for each processor.
//!
//! Most events become one record each. A wake-up is two events: `sched_waking` on the processor
//! of the waking thread, and `sched_wakeup` when the thread is runnable, which may be reported by
//! an interrupt on another processor. The record has the time of the second and the waker of the
//! first, joined by the id of the thread: the last one before it that was not used yet. An
//! interrupt that wakes is thread 0.
//!
//! A kernel may leave out a switch and not count it; one in a virtual machine was seen to do so,
//! for single threads, at each switch away from them. Every event says which thread ran. Where
//! that is not the thread that came last, a switch is missing between this event and the one
//! before, and that time is given as a lost range.
//!
//! Names of threads come from the events; a thread's process from its birth, or from `/proc`.
//! Called by [`super::scheduler`].

use super::events::{Event, Thread};
use super::{ProcessorStream, add_range};
use crate::metadata::{LostRange, Task};
use record::layout::{Kind, Raw, Record, SwitchDetail};
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
struct Processor {
    records: Vec<Raw>,
    lost: Vec<LostRange>,
    /// Places of wake-ups whose waker is still to be found.
    wakeups: Vec<usize>,
    /// The thread that runs, as far as the events say, and the time of the last one.
    running: Option<(u32, u64)>,
}

struct Waking {
    wakee: u32,
    time: u64,
    waker: u32,
    processor: u32,
    used: bool,
}

struct Birth {
    time: u64,
    thread: u32,
    parent: u32,
    same_process: bool,
}

/// Collects events, in any order of processors, in the order of time on each.
#[derive(Default)]
pub(super) struct Streams {
    processors: BTreeMap<u32, Processor>,
    wakings: Vec<Waking>,
    births: Vec<Birth>,
    names: HashMap<u32, (u64, Vec<u8>)>,
    breaks: u64,
}

/// The finished streams.
pub(super) struct Finished {
    /// The streams, in order of processors and of time.
    pub processors: Vec<ProcessorStream>,
    /// The threads, by id.
    pub tasks: Vec<Task>,
    /// Places where a switch is missing that the kernel did not count.
    pub breaks: u64,
}

impl Streams {
    /// Records the thread that ran when an event happened, before the event is taken.
    pub(super) fn ran(&mut self, processor: u32, time: u64, thread: u32) {
        let stream = self.processors.entry(processor).or_default();
        if let Some((_, first)) = stream.running.filter(|(on, _)| *on != thread) {
            add_range(&mut stream.lost, LostRange { count: 1, first, last: time });
            self.breaks += 1;
        }
        stream.running = Some((thread, time));
    }

    /// Takes one event.
    pub(super) fn take(&mut self, processor: u32, time: u64, event: Event<'_>) {
        let record = match event {
            Event::Switch { from, from_state, to } => {
                self.name(time, from);
                self.name(time, to);
                let (from_priority, to_priority) = (from.priority, to.priority);
                let detail = SwitchDetail { from_priority, to_priority, from_state }.pack();
                let subject = pair(from.id, to.id);
                self.processors.entry(processor).or_default().running = Some((to.id, time));
                Record { time, subject, detail, number: processor, kind: Kind::Switch }
            }
            Event::Waking { waker, wakee } => {
                let wakee = wakee.id;
                self.wakings.push(Waking { wakee, time, waker, processor, used: false });
                return;
            }
            Event::Wakeup { waker, wakee } => {
                let stream = self.processors.entry(processor).or_default();
                stream.wakeups.push(stream.records.len());
                self.wakeup(processor, time, waker, wakee)
            }
            Event::WakeupNew { waker, wakee } => self.wakeup(processor, time, waker, wakee),
            Event::Boost { thread, name, old, new } => {
                self.name(time, Thread { id: thread, priority: new, name });
                let (subject, detail) = (u64::from(thread), pair(old.into(), new.into()));
                Record { time, subject, detail, number: processor, kind: Kind::Boost }
            }
            Event::Born { parent, thread, name, same_process } => {
                self.name(time, Thread { id: thread, priority: 0, name });
                self.births.push(Birth { time, thread, parent, same_process });
                return;
            }
            Event::FutexEnter { thread, address, operation, value } => {
                let detail = pair(operation, value);
                Record { time, subject: address, detail, number: thread, kind: Kind::FutexEnter }
            }
            Event::FutexExit { thread, result } => {
                Record { time, subject: 0, detail: result, number: thread, kind: Kind::FutexExit }
            }
        };
        self.processors.entry(processor).or_default().records.push(record.to_raw());
    }

    /// Marks the running thread as unknown: events are missing that were counted.
    pub(super) fn interrupted(&mut self, processor: u32) {
        self.processors.entry(processor).or_default().running = None;
    }

    /// Records the places where events of a processor are missing; makes the processor known even
    /// if all are.
    pub(super) fn lost(&mut self, processor: u32, ranges: impl IntoIterator<Item = LostRange>) {
        self.processors.entry(processor).or_default().lost.extend(ranges);
    }

    fn wakeup(&mut self, processor: u32, time: u64, waker: u32, wakee: Thread<'_>) -> Record {
        self.name(time, wakee);
        let (subject, detail) = (pair(waker, wakee.id), u64::from(wakee.priority));
        Record { time, subject, detail, number: processor, kind: Kind::Wakeup }
    }

    fn name(&mut self, time: u64, thread: Thread<'_>) {
        let (known, name) = self.names.entry(thread.id).or_default();
        if time >= *known {
            *known = time;
            if name != thread.name {
                name.clear();
                name.extend_from_slice(thread.name);
            }
        }
    }

    /// The streams and the threads; `process_of` knows the processes of threads that were there
    /// before.
    pub(super) fn finish(mut self, process_of: &mut dyn FnMut(u32) -> Option<u32>) -> Finished {
        self.join_wakeups();
        let tasks = self.tasks(process_of);
        let breaks = self.breaks;
        let stream = |(processor, mut stream): (u32, Processor)| {
            stream.records.sort_by_key(|record| record.time);
            stream.lost.sort_by_key(|range| range.first);
            ProcessorStream { processor, records: stream.records, lost: stream.lost }
        };
        let processors = self.processors.into_iter().map(stream).collect();
        Finished { processors, tasks, breaks }
    }

    fn join_wakeups(&mut self) {
        self.wakings.sort_by_key(|waking| (waking.wakee, waking.time));
        for stream in self.processors.values_mut() {
            for place in std::mem::take(&mut stream.wakeups) {
                let record = &mut stream.records[place];
                let key = (record.subject as u32, record.time);
                let after =
                    self.wakings.partition_point(|waking| (waking.wakee, waking.time) <= key);
                let before = after.checked_sub(1).map(|index| &mut self.wakings[index]);
                if let Some(waking) = before.filter(|waking| waking.wakee == key.0 && !waking.used)
                {
                    waking.used = true;
                    record.subject = pair(waking.waker, waking.wakee);
                    record.number = waking.processor;
                }
            }
        }
    }

    fn tasks(&mut self, process_of: &mut dyn FnMut(u32) -> Option<u32>) -> Vec<Task> {
        self.births.sort_by_key(|birth| birth.time);
        let mut processes = HashMap::new();
        for birth in &self.births {
            let process = if birth.same_process {
                let parent = birth.parent;
                *processes.entry(parent).or_insert_with(|| process_of(parent).unwrap_or(0))
            } else {
                birth.thread
            };
            processes.insert(birth.thread, process);
        }
        let mut tasks: Vec<Task> = Vec::with_capacity(self.names.len());
        for (thread, (_, name)) in self.names.drain() {
            let name = String::from_utf8_lossy(&name).into_owned();
            if thread == 0 {
                // There is one for each processor, with its number.
                let name = name.split('/').next().unwrap_or(&name).to_owned();
                tasks.push(Task { thread, pid: 0, name });
                continue;
            }
            let process = processes.get(&thread).copied();
            let pid = process.or_else(|| process_of(thread)).unwrap_or(0);
            tasks.push(Task { thread, pid, name });
        }
        tasks.sort_by_key(|task| task.thread);
        tasks
    }
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(id: u32, name: &str) -> Thread<'_> {
        Thread { id, priority: 120, name: name.as_bytes() }
    }

    fn wakeups(stream: &ProcessorStream) -> Vec<(u64, u64, u32)> {
        let wakeup = |record: &&Raw| record.kind == Kind::Wakeup.code();
        let parts = |record: &Raw| (record.time, record.subject, record.number);
        stream.records.iter().filter(wakeup).map(parts).collect()
    }

    #[test]
    fn wakeup_reported_by_an_interrupt_elsewhere_gets_the_waker_and_its_processor() {
        let mut streams = Streams::default();
        streams.take(1, 20, Event::Wakeup { waker: 0, wakee: thread(5, "b") });
        streams.take(0, 10, Event::Waking { waker: 4, wakee: thread(5, "b") });
        streams.take(0, 30, Event::Waking { waker: 9, wakee: thread(5, "b") });
        streams.take(1, 40, Event::Wakeup { waker: 0, wakee: thread(6, "c") });
        let streams = streams.finish(&mut |_| None).processors;
        assert_eq!(wakeups(&streams[0]), [(20, 4 << 32 | 5, 0), (40, 6, 1)]);
    }

    #[test]
    fn waking_is_used_once() {
        let mut streams = Streams::default();
        streams.take(0, 10, Event::Waking { waker: 4, wakee: thread(5, "b") });
        streams.take(0, 11, Event::Wakeup { waker: 4, wakee: thread(5, "b") });
        streams.take(1, 90, Event::Wakeup { waker: 0, wakee: thread(5, "b") });
        streams.take(1, 95, Event::WakeupNew { waker: 7, wakee: thread(8, "d") });
        let streams = streams.finish(&mut |_| None).processors;
        assert_eq!(wakeups(&streams[0]), [(11, 4 << 32 | 5, 0)]);
        assert_eq!(wakeups(&streams[1]), [(90, 5, 1), (95, 7 << 32 | 8, 1)]);
    }

    #[test]
    fn latest_name_and_the_process_of_birth_are_kept() {
        let mut streams = Streams::default();
        let born = |thread, same_process| Event::Born {
            parent: 10,
            thread,
            name: b"parent",
            same_process,
        };
        streams.take(1, 50, Event::Wakeup { waker: 1, wakee: thread(11, "own") });
        streams.take(0, 20, born(11, true));
        streams.take(0, 25, born(12, false));
        let (from, to) = (thread(0, "swapper/1"), thread(10, "parent"));
        streams.take(1, 60, Event::Switch { from, from_state: 0, to });
        let tasks = streams.finish(&mut |thread| (thread == 10).then_some(9)).tasks;
        let task = |thread, pid, name: &str| Task { thread, pid, name: name.into() };
        let expected = [
            task(0, 0, "swapper"),
            task(10, 9, "parent"),
            task(11, 9, "own"),
            task(12, 12, "parent"),
        ];
        assert_eq!(tasks, expected);
    }

    #[test]
    fn records_of_two_buffers_are_merged_by_time() {
        let mut streams = Streams::default();
        let switch = |from, to| Event::Switch {
            from: thread(from, "a"),
            from_state: 1,
            to: thread(to, "b"),
        };
        streams.take(0, 10, switch(1, 2));
        streams.take(0, 30, switch(2, 1));
        let value = Event::FutexEnter { thread: 2, address: 64, operation: 128, value: 3 };
        streams.take(0, 20, value);
        streams.lost(2, [LostRange { count: 1, first: 2, last: 3 }]);
        let streams = streams.finish(&mut |_| None).processors;
        let kinds: Vec<u16> = streams[0].records.iter().map(|record| record.kind).collect();
        let expected = [Kind::Switch, Kind::FutexEnter, Kind::Switch].map(Kind::code);
        assert_eq!(kinds, expected);
        assert_eq!(streams[0].records[1].detail, 128 << 32 | 3);
        assert_eq!((streams[1].processor, streams[1].lost.len()), (2, 1));
    }

    #[test]
    fn switch_that_the_kernel_left_out_is_a_lost_range_between_two_events() {
        let mut streams = Streams::default();
        let switch = |streams: &mut Streams, time, from, to| {
            streams.ran(3, time, from);
            let (from, to) = (thread(from, "a"), thread(to, "b"));
            streams.take(3, time, Event::Switch { from, from_state: 1, to });
        };
        switch(&mut streams, 10, 1, 2);
        switch(&mut streams, 20, 2, 3);
        streams.ran(3, 23, 3);
        streams.ran(3, 27, 4);
        switch(&mut streams, 30, 4, 5);
        switch(&mut streams, 50, 7, 8);
        streams.interrupted(3);
        switch(&mut streams, 60, 9, 1);
        let finished = streams.finish(&mut |_| None);
        let break_at = |first, last| LostRange { count: 1, first, last };
        assert_eq!(finished.processors[0].lost, [break_at(23, 27), break_at(30, 50)]);
        assert_eq!(finished.breaks, 2);
    }
}
