//! Traces made by hand: a tape takes records of threads and processors, writes them with the
//! writer that recordings use, and opens the file.

#![allow(dead_code, reason = "each test program uses a part of it")]

use late::result::CallKind;
use late::{
    Cause, Evidence, Explained, GpuState, Holder, Options, Survey, Verdict, explain, survey,
};
use record::{Action, Class, Kind, Record, SwitchDetail};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use trace::metadata::{Clock, LostRange, Tier};
use trace::{BlockHead, Metadata, StreamKind, Trace, TraceWriter};

/// Records in blocks.
pub(crate) struct Tape {
    pub metadata: Metadata,
    streams: Vec<Line>,
}

/// A stream of a tape.
pub(crate) type Stream = usize;

struct Line {
    kind: StreamKind,
    process: u32,
    id: u32,
    blocks: Vec<Block>,
}

#[derive(Default)]
struct Block {
    records: Vec<Record>,
    missing_before: u64,
    torn: u32,
    lost: LostRange,
}

/// End of the tapes, in ticks.
pub(crate) const END: u64 = 100_000_000;
pub(crate) const OK: u32 = 0;

impl Tape {
    /// A tick is a nanosecond, and the trace begins at 0.
    pub(crate) fn new(tier: Tier) -> Tape {
        let clock = Clock {
            source: "tsc".into(),
            even: true,
            start: (0, 7_000_000),
            end: (END, 7_000_000 + END),
            spread: 0,
        };
        let mut metadata = Metadata { clock, tier, ..Metadata::default() };
        metadata.machine.processors = 2;
        Tape { metadata, streams: Vec::new() }
    }

    fn stream(&mut self, kind: StreamKind, process: u32, id: u32) -> Stream {
        self.streams.push(Line { kind, process, id, blocks: vec![Block::default()] });
        self.streams.len() - 1
    }

    pub(crate) fn thread(&mut self, process: u32, tid: u32) -> Stream {
        self.stream(StreamKind::Thread, process, tid)
    }

    pub(crate) fn processor(&mut self, number: u32) -> Stream {
        self.stream(StreamKind::Processor, 0, number)
    }

    pub(crate) fn gpu(&mut self, process: u32) -> Stream {
        self.metadata.settings.gpu = true;
        self.stream(StreamKind::Gpu, process, 0)
    }

    /// A kernel by the number of its name.
    pub(crate) fn kernel(&mut self, stream: Stream, from: u64, to: u64, name: u32) {
        self.put(stream, from, Kind::GpuKernel, to, 7 << 32, name);
    }

    pub(crate) fn put(
        &mut self,
        stream: Stream,
        time: u64,
        kind: Kind,
        subject: u64,
        detail: u64,
        number: u32,
    ) {
        let block = self.streams[stream].blocks.last_mut().unwrap();
        block.records.push(Record { time, subject, detail, number, kind });
    }

    pub(crate) fn name(
        &mut self,
        stream: Stream,
        time: u64,
        name: &str,
        policy: u32,
        priority: i16,
    ) {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let half = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let number = policy << 16 | u32::from(priority as u16);
        self.put(stream, time, Kind::Thread, half(0), half(8), number);
    }

    pub(crate) fn enter(
        &mut self,
        stream: Stream,
        time: u64,
        symbol: &str,
        subject: u64,
        detail: u64,
    ) {
        let known = self.metadata.functions.iter().position(|function| function == symbol);
        let number = known.unwrap_or_else(|| {
            self.metadata.functions.push(symbol.into());
            self.metadata.functions.len() - 1
        });
        self.put(stream, time, Kind::Enter, subject, detail, number as u32);
    }

    pub(crate) fn exit(&mut self, stream: Stream, time: u64) {
        self.put(stream, time, Kind::Exit, 0, 0, OK);
    }

    /// A call that does nothing that is recorded.
    pub(crate) fn call(&mut self, stream: Stream, from: u64, to: u64, symbol: &str, detail: u64) {
        self.enter(stream, from, symbol, 7, detail);
        self.exit(stream, to);
    }

    /// Calls of one length that make it the usual one of their kind.
    pub(crate) fn usual(
        &mut self,
        stream: Stream,
        from: u64,
        length: u64,
        symbol: &str,
        detail: u64,
    ) {
        for call in 0..20 {
            let begin = from + call * (length + 10);
            self.call(stream, begin, begin + length, symbol, detail);
        }
    }

    pub(crate) fn lock(
        &mut self,
        stream: Stream,
        time: u64,
        class: Class,
        action: Action,
        lock: u64,
    ) {
        self.put(stream, time, Kind::Lock(class, action), lock, 0, 0);
    }

    pub(crate) fn waits(&mut self, stream: Stream, time: u64, class: Class, lock: u64, owner: u32) {
        self.put(stream, time, Kind::Lock(class, Action::Waiting), lock, 0, owner);
    }

    pub(crate) fn takes(&mut self, stream: Stream, time: u64, lock: u64) {
        self.lock(stream, time, Class::Mutex, Action::Acquired, lock);
    }

    pub(crate) fn releases(&mut self, stream: Stream, time: u64, lock: u64) {
        self.lock(stream, time, Class::Mutex, Action::Released, lock);
    }

    pub(crate) fn condition(
        &mut self,
        stream: Stream,
        time: u64,
        action: Action,
        lock: u64,
        mutex: u64,
        result: u32,
    ) {
        self.put(stream, time, Kind::Lock(Class::Condition, action), lock, mutex, result);
    }

    /// On this processor, one thread with its priority leaves and another one comes.
    pub(crate) fn switch(
        &mut self,
        stream: Stream,
        time: u64,
        from: (u32, u16),
        to: (u32, u16),
        from_state: u32,
    ) {
        let detail = SwitchDetail { from_priority: from.1, to_priority: to.1, from_state };
        let subject = u64::from(from.0) << 32 | u64::from(to.0);
        let number = self.streams[stream].id;
        self.put(stream, time, Kind::Switch, subject, detail.pack(), number);
    }

    pub(crate) fn wakeup(&mut self, stream: Stream, time: u64, waker: u32, wakee: (u32, u16)) {
        let subject = u64::from(waker) << 32 | u64::from(wakee.0);
        let number = self.streams[stream].id;
        self.put(stream, time, Kind::Wakeup, subject, u64::from(wakee.1), number);
    }

    /// Begins another block.
    pub(crate) fn cut(&mut self, stream: Stream) {
        self.streams[stream].blocks.push(Block::default());
    }

    /// Cuts all streams into blocks, of these numbers of records by turns.
    pub(crate) fn cut_every(&mut self, counts: &[usize]) {
        let mut counts = counts.iter().copied().cycle();
        for line in &mut self.streams {
            let mut records = line.blocks.drain(..).flat_map(|block| block.records).peekable();
            let mut blocks = Vec::new();
            while records.peek().is_some() {
                let count = counts.next().unwrap();
                let records = records.by_ref().take(count).collect();
                blocks.push(Block { records, ..Block::default() });
            }
            drop(records);
            line.blocks = blocks;
        }
    }

    /// `cut`, with this number of records missing between.
    pub(crate) fn overwritten(&mut self, stream: Stream, count: u64) {
        let missing_before = count;
        self.streams[stream].blocks.push(Block { missing_before, ..Block::default() });
    }

    /// Records were lost after the present block.
    pub(crate) fn lost(&mut self, stream: Stream, count: u64, first: u64, last: u64) {
        self.streams[stream].blocks.last_mut().unwrap().lost = LostRange { count, first, last };
    }

    /// A record of the present block is torn.
    pub(crate) fn torn(&mut self, stream: Stream) {
        self.streams[stream].blocks.last_mut().unwrap().torn = 1;
    }

    /// Writes the tape and opens it. The file is gone when the trace is closed.
    pub(crate) fn trace(&self) -> Trace {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("late-{}-{count}.kt", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut writer = TraceWriter::create(&path).unwrap();
        for line in &self.streams {
            let mut before = 0;
            for (sequence, block) in (0u32..).zip(&line.blocks) {
                before += block.missing_before;
                let head = BlockHead {
                    stream: line.kind,
                    process: line.process,
                    id: line.id,
                    sequence,
                    torn: block.torn,
                    before,
                    lost: block.lost,
                };
                let raws: Vec<_> = block.records.iter().map(Record::to_raw).collect();
                writer.block(head, &raws).unwrap();
                before += raws.len() as u64 + u64::from(block.torn);
            }
        }
        writer.finish(&self.metadata).unwrap();
        let trace = Trace::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        trace
    }

    /// Both passes.
    pub(crate) fn explained(&self) -> (Survey, Vec<Explained>) {
        self.explained_with(&Options::default())
    }

    pub(crate) fn explained_with(&self, options: &Options) -> (Survey, Vec<Explained>) {
        let trace = self.trace();
        let survey = survey(&trace, options, &mut |_, _| true).unwrap();
        let explained = explain(&trace, &survey, options).unwrap();
        assert_eq!(explained.len(), survey.worst.len());
        for call in &explained {
            check(&survey, call);
        }
        (survey, explained)
    }
}

/// Checks an explained call: its parts must be its whole duration.
pub(crate) fn check(survey: &Survey, call: &Explained) {
    let worst = &survey.worst[call.worst as usize];
    assert_eq!(call.duration_ns, worst.duration_ns);
    assert_eq!(call.parts.iter().map(|part| part.ticks).sum::<u64>(), call.duration_ticks);
    assert_eq!(call.parts.iter().map(|part| part.duration_ns).sum::<u64>(), call.duration_ns);
    assert_eq!(call.sums.total_ns(), call.duration_ns);
    let mut reached = 0;
    for part in call.parts.iter().filter(|part| part.from_ns.is_some()) {
        assert_eq!(part.from_ns, Some(reached), "parts in the order of time without a gap");
        reached += part.duration_ns;
    }
}

/// Checks verdicts: their numbers are of one population each, and the worst occasion is the one
/// that they are as bad as.
pub(crate) fn check_verdicts(
    survey: &Survey,
    verdicts: &[Verdict],
    asked: impl Fn(&CallKind) -> bool,
) {
    assert!(verdicts.is_sorted_by_key(|verdict| !verdict.asked), "those asked for come first");
    for verdict in verdicts {
        let lost = &verdict.lost;
        assert!(lost.calls.len() as u64 <= lost.looked_at, "{verdict:?}");
        for (call, ns) in &lost.calls {
            let call = &survey.worst[*call as usize];
            assert!((1..=call.duration_ns).contains(ns), "{verdict:?}");
            assert_eq!(asked(&survey.kinds[call.kind as usize]), verdict.asked, "{verdict:?}");
        }
        let most = lost.calls.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
        assert!(verdict.severity_ns >= most, "{verdict:?}");
        if let Some(worst) = &verdict.worst {
            assert_eq!(verdict.severity_ns, worst.lost_ns, "{verdict:?}");
            assert!(worst.lost_ns <= worst.duration_ns, "{verdict:?}");
            if let Some(call) = worst.explained {
                assert_eq!((lost.by(call), most), (worst.lost_ns, worst.lost_ns), "{verdict:?}");
            }
        }
        check_evidence(verdict);
    }
}

/// Checks that each share is a part of its whole.
fn check_evidence(verdict: &Verdict) {
    let (part, whole) = match verdict.evidence {
        Evidence::LockConvoy { waits, acquisitions, .. } => (waits, acquisitions),
        Evidence::ReaderStarvation { times, waits, .. }
        | Evidence::WriterStarvation { times, waits, .. } => (times, waits),
        Evidence::Oversubscription { over_ns, observed_ns, waited_ns, .. } => {
            assert_eq!(waited_ns, verdict.lost.total_ns());
            (over_ns, observed_ns)
        }
        Evidence::RepeatedLaunches { estimated_saving_ns, launching_ns, .. } => {
            (estimated_saving_ns, launching_ns)
        }
        _ => return,
    };
    assert!(part <= whole, "{verdict:?}");
}

/// The survey alone.
pub(crate) fn surveyed(tape: &Tape) -> Survey {
    survey(&tape.trace(), &Options::default(), &mut |_, _| true).unwrap()
}

/// The explained call of a thread that began at a time.
pub(crate) fn find(
    (survey, explained): &(Survey, Vec<Explained>),
    tid: u32,
    at_ns: u64,
) -> &Explained {
    let is = |call: &&Explained| {
        let worst = &survey.worst[call.worst as usize];
        worst.at_ns == at_ns && survey.threads[worst.thread as usize].tid == tid
    };
    explained.iter().find(is).expect("the call is among the worst ones")
}

/// The holders of a part that is waiting for a lock.
pub(crate) fn holders(cause: &Cause) -> &[Holder] {
    match cause {
        Cause::Lock { holders, .. } => holders,
        other => panic!("no lock: {other:?}"),
    }
}

/// Returns, for each part that waited for a lock, its first holder and its duration.
pub(crate) fn holder_tids(call: &Explained) -> Vec<(u32, u64)> {
    let locks = call.parts.iter().filter(|part| matches!(part.cause, Cause::Lock { .. }));
    locks.map(|part| (holders(&part.cause)[0].task.tid, part.duration_ns)).collect()
}

/// Returns a call's parts, one word each, with their durations.
pub(crate) fn story(call: &Explained) -> Vec<(&'static str, u64)> {
    let word = |cause: &Cause| match cause {
        Cause::Executing => "executing",
        Cause::Lock { .. } => "lock",
        Cause::HandOver { .. } => "hand-over",
        Cause::WokenLate { .. } => "woken late",
        Cause::Preempted { .. } => "preempted",
        Cause::Signal { .. } => "signal",
        Cause::Blocked => "blocked",
        Cause::QueueFull { .. } => "queue full",
        Cause::Gpu { state, .. } => match state {
            GpuState::OwnWork => "gpu works",
            GpuState::LongerThanUsual => "gpu is slow",
            GpuState::Between => "gpu between",
            GpuState::NotGiven => "gpu not given",
            GpuState::Over => "gpu over",
            GpuState::ToldLate => "gpu told late",
            GpuState::NotRecorded => "gpu",
        },
        Cause::Unexplained { .. } => "unexplained",
    };
    call.parts.iter().map(|part| (word(&part.cause), part.duration_ns)).collect()
}
