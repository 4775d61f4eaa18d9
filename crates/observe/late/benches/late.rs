//! Benchmark of the two passes, in records per second.
//!
//! A trace is made of 16 threads whose calls interleave at every record, which is the worst case
//! for merging: launches with eight locks each (some waited for), copies, waits for the device;
//! beside them four processors with switches and wake-ups. Then it is read without being looked
//! at, surveyed, and its worst calls are explained.
//!
//! `cargo bench -p keeptime-late --bench late -- [RECORDS]`, by default 20 million (640 MB in the target
//! folder, removed afterwards).

use late::{Options, explain, survey, verdicts};
use record::{Action, Class, Kind, Raw, Record, SwitchDetail};
use std::path::{Path, PathBuf};
use std::time::Instant;
use trace::metadata::{Clock, Tier};
use trace::{BlockHead, Metadata, StreamKind, Trace, TraceWriter};

const THREADS: u32 = 16;
const PROCESSORS: u32 = 4;
const PER_BLOCK: usize = 2046;

/// A generator of numbers that look random (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % most
    }
}

/// One stream being made.
struct Line {
    head: BlockHead,
    time: u64,
    records: Vec<Raw>,
}

impl Line {
    fn new(stream: StreamKind, process: u32, id: u32) -> Line {
        let lost = trace::metadata::LostRange::default();
        let head = BlockHead { stream, process, id, sequence: 0, torn: 0, before: 0, lost };
        Line { head, time: 1000 + u64::from(id), records: Vec::with_capacity(2 * PER_BLOCK) }
    }

    fn put(&mut self, kind: Kind, subject: u64, detail: u64, number: u32) {
        let record = Record { time: self.time, subject, detail, number, kind };
        self.records.push(record.to_raw());
    }

    fn flush(&mut self, writer: &mut TraceWriter, least: usize) {
        while self.records.len() >= least.max(1) {
            let count = self.records.len().min(PER_BLOCK);
            writer.block(self.head, &self.records[..count]).expect("the block is written");
            self.records.drain(..count);
            self.head.sequence += 1;
            self.head.before += count as u64;
        }
    }

    fn lock(&mut self, dice: &mut Dice, class: Class, address: u64) {
        let released = if class == Class::Mutex { class } else { Class::ReadWrite };
        if dice.below(16) == 0 {
            self.put(Kind::Lock(class, Action::Waiting), address, 0x7000, 0);
            self.time += dice.below(4000);
        }
        self.put(Kind::Lock(class, Action::Acquired), address, 0x7000 + address % 512, 0);
        self.time += 20 + dice.below(60);
        self.put(Kind::Lock(released, Action::Released), address, 0x7000, 0);
        self.time += 20 + dice.below(60);
    }

    fn call(&mut self, dice: &mut Dice) {
        let (function, detail) = match dice.below(20) {
            0 => (2, 0),
            1 | 2 => (1, 1 << dice.below(24)),
            _ => (0, 0x5000 + dice.below(60)),
        };
        self.put(Kind::Enter, 7, detail, function);
        self.time += 50 + dice.below(100);
        for lock in 0..8u64 {
            let class = [Class::Mutex, Class::Read, Class::Mutex, Class::Write][lock as usize % 4];
            self.lock(dice, class, 0x1000 + lock * 64);
        }
        self.put(Kind::Exit, 0, 0, 0);
        self.time += 100 + dice.below(200);
    }

    fn switch(&mut self, dice: &mut Dice) {
        let task = |dice: &mut Dice| 100 + dice.below(u64::from(THREADS));
        let (from, to) = (task(dice), task(dice));
        let detail =
            SwitchDetail { from_priority: 120, to_priority: 120, from_state: dice.below(2) as u32 };
        self.put(Kind::Wakeup, from << 32 | to, 120, self.head.id);
        self.time += 500;
        self.put(Kind::Switch, from << 32 | to, detail.pack(), self.head.id);
        self.time += 2000 + dice.below(6000);
    }
}

fn write(path: &Path, records: u64) {
    let mut writer = TraceWriter::create(path).expect("the file is made");
    let mut dice = Dice(1);
    let threads = (0..THREADS).map(|at| Line::new(StreamKind::Thread, 1, 100 + at));
    let mut threads: Vec<Line> = threads.collect();
    let processors = (0..PROCESSORS).map(|at| Line::new(StreamKind::Processor, 0, at));
    let mut processors: Vec<Line> = processors.collect();
    let mut written = 0;
    while written < records {
        for line in &mut threads {
            let before = line.records.len();
            line.call(&mut dice);
            written += (line.records.len() - before) as u64;
            line.flush(&mut writer, PER_BLOCK);
        }
        let now = threads.iter().map(|line| line.time).min().unwrap_or(0);
        for line in &mut processors {
            while line.time < now {
                line.switch(&mut dice);
                written += 2;
            }
            line.flush(&mut writer, PER_BLOCK);
        }
    }
    let lines = threads.iter_mut().chain(&mut processors);
    lines.for_each(|line| line.flush(&mut writer, 1));
    let end = threads.iter().chain(&processors).map(|line| line.time).max().unwrap_or(0) + 1000;
    let functions = ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"];
    let mut metadata = Metadata {
        clock: Clock { start: (0, 0), end: (end, end), ..Clock::default() },
        tier: Tier::Scheduler,
        functions: functions.map(String::from).to_vec(),
        ..Metadata::default()
    };
    metadata.machine.processors = PROCESSORS;
    writer.finish(&metadata).expect("the file is finished");
}

/// Peak of this process's memory so far, in kilobytes.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Time that this process has spent on a processor, in seconds: what counts on a busy machine.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = stat.split_whitespace().next().and_then(|first| first.parse::<u64>().ok());
    ns.unwrap_or(0) as f64 / 1e9
}

fn measured<T>(what: &str, records: u64, work: impl FnOnce() -> T) -> T {
    let (start, busy) = (Instant::now(), processor_seconds());
    let result = work();
    let (seconds, busy) = (start.elapsed().as_secs_f64(), processor_seconds() - busy);
    let rate = |seconds: f64| records as f64 / seconds / 1e6;
    println!(
        "{what:<18} {seconds:>6.3} s elapsed, {busy:>6.3} s on a processor: {:>6.2} and {:>6.2} \
         million records/s; peak {} kB",
        rate(seconds),
        rate(busy),
        peak_kb()
    );
    result
}

fn main() {
    let wanted = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("late-bench.kt");
    write(&path, wanted.unwrap_or(20_000_000));
    let trace = Trace::open(&path).expect("the file is a trace");
    let (records, options) = (trace.records(), Options::default());
    println!("{records} records");
    let read = || {
        let mut buffer = Vec::new();
        let blocks = trace.streams().iter().flat_map(|stream| &stream.blocks);
        blocks.map(|block| trace.read(block, &mut buffer).expect("a block")).sum::<usize>()
    };
    measured("reading alone", records, read);
    for round in 1..=3 {
        let found = measured(&format!("survey, round {round}"), records, || {
            survey(&trace, &options, &mut |_, _| true).expect("a survey")
        });
        let calls = measured(&format!("explain, round {round}"), records, || {
            explain(&trace, &found, &options).expect("explained")
        });
        let judged = verdicts(&found, &calls, &options, |_| true);
        println!("{} kinds, {} calls, {} verdicts", found.kinds.len(), calls.len(), judged.len());
    }
    std::fs::remove_file(&path).expect("the file is removed");
}
