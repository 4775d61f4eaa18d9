//! Traces made by hand: a file in the folder for temporary files of the tests, from records whose
//! times are nanoseconds since the start of recording.

#![allow(dead_code)] // Each test uses a part.

use record::layout::host_copy;
use record::{Action, Class, Kind, Raw, Record, SwitchDetail};
use std::path::PathBuf;
use trace::metadata::{Clock, LostRange, Machine, Metadata, Process, Task, Text, Tier};
use trace::{BlockHead, StreamKind, Trace, TraceWriter};

/// Ticks of the counter when recording begins; one tick is one nanosecond.
pub(crate) const START: u64 = 1_000_000;
/// `CLOCK_MONOTONIC` then.
pub(crate) const START_NS: u64 = 5_000_000_000;
/// Length of the recording, in ticks.
pub(crate) const LENGTH: u64 = 100_000_000;
pub(crate) const PROCESS: u32 = 1;
pub(crate) const PID: u32 = 100;

/// The functions that calls may be of.
pub(crate) const FUNCTIONS: [&str; 4] =
    ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize", "cuGraphLaunch"];

/// A trace that is being made.
pub(crate) struct Made {
    writer: TraceWriter,
    path: PathBuf,
    pub metadata: Metadata,
    /// Sequence and records so far of each stream.
    had: Vec<(StreamKind, u32, u32, u64)>,
}

impl Made {
    pub(crate) fn new(name: &str, tier: Tier) -> Made {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.kt"));
        let writer = TraceWriter::create(&path).expect("the folder of the tests can be written");
        let metadata = Metadata {
            command: vec!["app".into(), "--fast".into()],
            clock: Clock {
                source: "monotonic".into(),
                even: true,
                start: (START, START_NS),
                end: (START + LENGTH, START_NS + LENGTH),
                spread: 1,
            },
            tier,
            machine: Machine { processors: 2, kernel: "6.1.0".into(), ..Machine::default() },
            processes: vec![Process {
                number: PROCESS,
                pid: PID,
                parent: 1,
                started: START,
                program: "/opt/app".into(),
            }],
            functions: FUNCTIONS.map(String::from).to_vec(),
            ..Metadata::default()
        };
        Made { writer, path, metadata, had: Vec::new() }
    }

    /// A thread of the machine.
    pub(crate) fn task(&mut self, thread: u32, pid: u32, name: &str) {
        self.metadata.tasks.push(Task { thread, pid, name: name.into() });
    }

    pub(crate) fn text(&mut self, number: u64, text: &str) {
        self.metadata.texts.push(Text { process: PROCESS, number, text: text.into() });
    }

    /// A block of a stream, after which nothing was lost.
    pub(crate) fn block(&mut self, stream: StreamKind, id: u32, records: &[Record]) {
        self.block_before_loss(stream, id, records, (0, 0, 0));
    }

    /// A block after which so many records were lost, from when to when.
    pub(crate) fn block_before_loss(
        &mut self,
        stream: StreamKind,
        id: u32,
        records: &[Record],
        (count, first, last): (u64, u64, u64),
    ) {
        let known = self.had.iter().position(|had| (had.0, had.1) == (stream, id));
        let at = known.unwrap_or_else(|| {
            self.had.push((stream, id, 0, 0));
            self.had.len() - 1
        });
        let (_, _, sequence, before) = self.had[at];
        let process = if stream == StreamKind::Processor { 0 } else { PROCESS };
        let lost = if count == 0 {
            LostRange::default()
        } else {
            LostRange { count, first: START + first, last: START + last }
        };
        let head = BlockHead { stream, process, id, sequence, torn: 0, before, lost };
        let raws: Vec<Raw> = records.iter().map(Record::to_raw).collect();
        self.writer.block(head, &raws).expect("the file can be written");
        self.had[at] = (stream, id, sequence + 1, before + records.len() as u64);
    }

    pub(crate) fn finish(self) -> Trace {
        self.writer.finish(&self.metadata).expect("the file can be written");
        Trace::open(&self.path).expect("what was written can be read")
    }
}

fn record(at: u64, kind: Kind, subject: u64, detail: u64, number: u32) -> Record {
    Record { time: START + at, subject, detail, number, kind }
}

/// The first record of a thread.
pub(crate) fn named(at: u64, name: &str) -> Record {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let word = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("8"));
    record(at, Kind::Thread, word(0), word(8), 0)
}

pub(crate) fn enter(at: u64, symbol: &str, stream: u64, detail: u64) -> Record {
    let number = FUNCTIONS.iter().position(|known| *known == symbol).expect("a function above");
    record(at, Kind::Enter, stream, detail, number as u32)
}

/// The detail of a copy from memory that is not pinned.
pub(crate) fn pageable(bytes: u64) -> u64 {
    host_copy(bytes, false)
}

pub(crate) fn exit(at: u64, result: u32) -> Record {
    record(at, Kind::Exit, 0, 0, result)
}

pub(crate) fn waiting(at: u64, class: Class, lock: u64, owner: u32) -> Record {
    record(at, Kind::Lock(class, Action::Waiting), lock, 0, owner)
}

pub(crate) fn acquired(at: u64, class: Class, lock: u64) -> Record {
    record(at, Kind::Lock(class, Action::Acquired), lock, 0, 0)
}

pub(crate) fn released(at: u64, class: Class, lock: u64) -> Record {
    record(at, Kind::Lock(class, Action::Released), lock, 0, 0)
}

pub(crate) fn condition(at: u64, action: Action, condition: u64, mutex: u64) -> Record {
    record(at, Kind::Lock(Class::Condition, action), condition, mutex, 0)
}

/// A switch from one thread to another; state 0: it was preempted.
pub(crate) fn switch(at: u64, processor: u32, from: u32, to: u32, from_state: u32) -> Record {
    let detail = SwitchDetail { from_priority: 120, to_priority: 120, from_state };
    record(at, Kind::Switch, u64::from(from) << 32 | u64::from(to), detail.pack(), processor)
}

pub(crate) fn wakeup(at: u64, processor: u32, waker: u32, wakee: u32) -> Record {
    record(at, Kind::Wakeup, u64::from(waker) << 32 | u64::from(wakee), 120, processor)
}

pub(crate) fn off(at: u64, processor: u32, thread: u32, preempted: bool) -> Record {
    record(at, Kind::OffCpu, thread.into(), preempted.into(), processor)
}

pub(crate) fn on(at: u64, processor: u32, thread: u32) -> Record {
    record(at, Kind::OnCpu, thread.into(), 0, processor)
}

pub(crate) fn kernel(at: u64, end: u64, stream: u32, name: u32) -> Record {
    record(at, Kind::GpuKernel, START + end, u64::from(stream) << 32 | 9, name)
}

pub(crate) const MUTEX: u64 = 0x500;
pub(crate) const INNER: u64 = 0x600;
pub(crate) const QUEUE: u64 = 0x700;
pub(crate) const DONE: u64 = 0x800;
pub(crate) const LAUNCH: u32 = 101;
pub(crate) const COPY: u32 = 102;
pub(crate) const DEVICE: u32 = 103;

/// A launch waits for a mutex that a copy holds, which is preempted meanwhile; then it waits for a
/// signal of the device's thread. Later the copying thread's records are missing for a while.
pub(crate) fn late_launch(name: &str, tier: Tier) -> Made {
    let mut made = Made::new(name, tier);
    for (thread, name) in [(100, "app"), (LAUNCH, "launch"), (COPY, "copy"), (DEVICE, "device")] {
        made.task(thread, PID, name);
    }
    made.task(900, 900, "intruder");
    let (thread, mutex, copy) = (StreamKind::Thread, Class::Mutex, "cuMemcpyHtoDAsync_v2");
    let records = [
        named(500, "copy"),
        enter(1_000, copy, 0x7, pageable(4 << 20)),
        acquired(1_100, mutex, MUTEX),
        released(5_000, mutex, MUTEX),
        exit(5_100, 0),
        enter(8_000, copy, 0x7, pageable(4096)),
    ];
    made.block_before_loss(thread, COPY, &records, (5, 8_100, 9_000));
    let records = [enter(9_100, copy, 0x7, pageable(4096)), exit(9_200, 1)];
    made.block(thread, COPY, &records);
    let records = [
        named(600, "launch"),
        enter(2_000, "cuLaunchKernel", 0x9, 0xf00),
        waiting(2_100, mutex, MUTEX, COPY),
        acquired(5_050, mutex, MUTEX),
        acquired(5_060, mutex, INNER),
        released(5_070, mutex, MUTEX),
        released(5_080, mutex, INNER),
        exit(5_200, 0),
        enter(6_000, "cuStreamSynchronize", 0x9, 0),
        acquired(6_050, mutex, QUEUE),
        condition(6_100, Action::Waiting, DONE, QUEUE),
        condition(7_300, Action::Acquired, DONE, QUEUE),
        released(7_350, mutex, QUEUE),
        exit(7_400, 0),
    ];
    made.block(thread, LAUNCH, &records);
    let records = [
        named(700, "device"),
        acquired(7_000, mutex, QUEUE),
        condition(7_100, Action::Signalled, DONE, 0),
        released(7_200, mutex, QUEUE),
    ];
    made.block(thread, DEVICE, &records);
    made
}

/// Adds the scheduler's records from the time of [`late_launch`].
pub(crate) fn scheduler(made: &mut Made) {
    let records = [
        switch(900, 0, 0, COPY, 0),
        switch(3_000, 0, COPY, 900, 0),
        switch(4_000, 0, 900, COPY, 1),
        wakeup(5_010, 0, COPY, LAUNCH),
        switch(9_500, 0, COPY, 0, 1),
    ];
    made.block(StreamKind::Processor, 0, &records);
    let records = [
        switch(1_900, 1, 0, LAUNCH, 0),
        switch(2_200, 1, LAUNCH, 0, 1),
        switch(5_040, 1, 0, LAUNCH, 0),
        switch(6_200, 1, LAUNCH, DEVICE, 1),
        wakeup(7_110, 1, DEVICE, LAUNCH),
    ];
    made.block_before_loss(StreamKind::Processor, 1, &records, (2, 7_110, 7_250));
    // That the device's thread went and the other one came is among what is missing.
    made.block(StreamKind::Processor, 1, &[switch(7_500, 1, LAUNCH, 0, 1)]);
}
