//! Export for Perfetto, read by Perfetto's own trace processor.
//!
//! The processor is in the folder that `KEEPTIME_TRACE_PROCESSOR` names, which `cargo xtask test`
//! provides. Without it the tests say SKIP.

mod late_trace;

use late::survey;
use late_trace::*;
use record::{Class, Record};
use report::late::perfetto::{Options, Summary, write};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trace::metadata::Tier;
use trace::{StreamKind, Trace};

/// Query whose result must be empty for every trace: no part of the file was refused.
const WRONG: &str = "select name, idx, severity, value from stats \
    where severity in ('error', 'data_loss') and value > 0";

fn written(trace: &Trace, options: Options) -> (PathBuf, Summary) {
    let survey = survey(trace, &late::Options::default(), &mut |_, _| true).unwrap();
    let mut bytes = Vec::new();
    let mut told = 0;
    let progress = &mut |done: u64, total: u64| {
        assert!(done <= total && done >= told);
        told = done;
        true
    };
    let summary = write(trace, &survey, &options, &mut bytes, progress).unwrap();
    assert_eq!((told, summary.bytes), (trace.records(), bytes.len() as u64));
    let path = trace.path().with_extension("pftrace");
    std::fs::write(&path, bytes).unwrap();
    (path, summary)
}

/// The rows of each query; none without the trace processor.
fn ask(trace: &Path, queries: Value) -> Option<Value> {
    let Some(folder) = std::env::var_os("KEEPTIME_TRACE_PROCESSOR").map(PathBuf::from) else {
        println!("SKIP: KEEPTIME_TRACE_PROCESSOR names no folder; `cargo xtask test` does");
        return None;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/perfetto/query.mjs");
    let mut child = Command::new(folder.join("node"))
        .args([Path::new(script), &folder, trace])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the folder holds node");
    let mut input = child.stdin.take().unwrap();
    input.write_all(queries.to_string().as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", error.chars().take(2_000).collect::<String>());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn slices_arrows_and_names_are_what_happened() {
    let mut made = late_launch("perfetto-slices", Tier::Preload);
    made.text(3, "saxpy(float*)");
    made.block(StreamKind::Gpu, 0, &[kernel(5_300, 5_900, 7, 3), kernel(5_890, 6_000, 7, 3)]);
    let trace = made.finish();
    let (path, summary) = written(&trace, Options { locks: true });
    assert_eq!((summary.calls, summary.waits, summary.holds), (5, 2, 6));
    assert_eq!((summary.flows, summary.gpu, summary.lost_ranges), (3, 2, 1));
    let slices = "select s.ts - 5000000000 as ts, s.dur, s.depth, s.name, p.name as parent \
        from slice s join thread_track t on s.track_id = t.id join thread using (utid) \
        left join slice p on s.parent_id = p.id \
        where thread.tid = {} and s.dur > 0 and t.name is null order by s.ts, s.depth";
    let queries = json!({
        "wrong": WRONG,
        "launch": slices.replace("{}", "101"),
        "copy": slices.replace("{}", "102"),
        "threads": "select tid, thread.name, process.name as process, pid from thread \
            join process using (upid) where tid > 100 and tid < 900 order by tid",
        "flows": "select o.ts - 5000000000 as left_at, o.name as left, i.ts - 5000000000 as got_at, \
            i.name as got from flow join slice o on slice_out = o.id join slice i on slice_in = i.id \
            order by 1, 3",
        "held": "select s.name, s.ts - 5000000000 as ts, s.dur, s.depth from slice s \
            join thread_track t on s.track_id = t.id join thread using (utid) \
            where t.name = 'locks held' and tid = 101 order by s.ts",
        "counter": "select c.ts - 5000000000 as ts, c.value, t.name from counter c \
            join track t on c.track_id = t.id order by c.ts",
        "gpu": "select s.name, s.ts - 5000000000 as ts, s.dur, s.depth, t.name as track, \
            p.name as gpu from slice s join track t on s.track_id = t.id \
            join track p on t.parent_id = p.id where s.category = 'gpu' order by s.ts",
        "notes": "select s.name, a.key, coalesce(string_value, int_value) as value from slice s \
            join args a using (arg_set_id) where s.ts < 5000002200 and a.key like 'debug.%' \
            and s.category != 'hold' order by s.ts, a.key",
    });
    let Some(rows) = ask(&path, queries) else { return };
    let mutex = "M1";
    let slice = |ts: u64, dur: u64, depth: u64, name: &str, parent: Option<&str>| json!({"ts": ts, "dur": dur, "depth": depth, "name": name, "parent": parent});
    assert_eq!(rows["wrong"], json!([]));
    let launch = [
        slice(2_000, 3_200, 0, "cuLaunchKernel", None),
        slice(2_100, 2_950, 1, "wait M1", Some("cuLaunchKernel")),
        slice(6_000, 1_400, 0, "cuStreamSynchronize", None),
        slice(6_100, 1_200, 1, "wait C1", Some("cuStreamSynchronize")),
        slice(7_100, 200, 2, "retake M3", Some("wait C1")),
    ];
    assert_eq!(rows["launch"], json!(launch));
    let copy = [
        slice(1_000, 4_100, 0, "cuMemcpyHtoDAsync", None),
        slice(8_000, 100, 0, "cuMemcpyHtoDAsync", None),
        slice(8_100, 900, 0, "records lost", None),
        slice(9_100, 100, 0, "cuMemcpyHtoDAsync", None),
    ];
    assert_eq!(rows["copy"], json!(copy));
    let thread =
        |tid: u32, name: &str| json!({"tid": tid, "name": name, "process": "app", "pid": PID});
    let threads = [thread(LAUNCH, "launch"), thread(COPY, "copy"), thread(DEVICE, "device")];
    assert_eq!(rows["threads"], json!(threads));
    let flow = |left_at: u64, left: &str, got_at: u64, got: &str| json!({"left_at": left_at, "left": left, "got_at": got_at, "got": got});
    let flows = [
        flow(5_000, "release M1", 5_050, "got M1"),
        flow(7_100, "signal C1", 7_100, "signalled C1"),
        flow(7_200, "release M3", 7_300, "got M3"),
    ];
    assert_eq!(rows["flows"], json!(flows));
    let held =
        |name: &str, ts: u64, dur: u64| json!({"name": name, "ts": ts, "dur": dur, "depth": 0});
    // M1 is let go while M2 is held: they do not nest.
    let all_held = [
        held(mutex, 5_050, 20),
        held("M2", 5_060, 20),
        held("M3", 6_050, 50),
        held("M3", 7_300, 50),
    ];
    assert_eq!(rows["held"], json!(all_held));
    let count = |ts: u64, value: u32| json!({"ts": ts, "value": value, "name": "waiting for M1"});
    assert_eq!(rows["counter"], json!([count(2_100, 1), count(5_050, 0)]));
    let work = |ts: u64, dur: u64| {
        json!({"name": "saxpy(float*)", "ts": ts, "dur": dur, "depth": 0, "track": "stream 7",
            "gpu": "GPU 0"})
    };
    assert_eq!(rows["gpu"], json!([work(5_300, 600), work(5_890, 110)]));
    let note =
        |name: &str, key: &str, value: Value| json!({"name": name, "key": key, "value": value});
    let notes = [
        note("cuMemcpyHtoDAsync", "debug.bytes", json!("4194304")),
        note("cuMemcpyHtoDAsync", "debug.host memory", json!("pageable")),
        note("cuMemcpyHtoDAsync", "debug.result", json!("0")),
        note("cuMemcpyHtoDAsync", "debug.stream", json!("7")),
        note("cuLaunchKernel", "debug.kernel", json!("3840")),
        note("cuLaunchKernel", "debug.result", json!("0")),
        note("cuLaunchKernel", "debug.stream", json!("9")),
        note("wait M1", "debug.lock", json!("1280")),
        note("wait M1", "debug.owner tid", json!("102")),
        note("wait M1", "debug.owner's call", json!("cuMemcpyHtoDAsync")),
    ];
    assert_eq!(texts(&rows["notes"]), texts(&json!(notes)));
}

/// Rows as text: a column of several types has numbers as numbers.
fn texts(rows: &Value) -> Vec<String> {
    let text = |row: &Value| {
        let value = row["value"].as_str().map_or(row["value"].to_string(), String::from);
        format!("{} {} {value}", row["name"], row["key"])
    };
    rows.as_array().unwrap().iter().map(text).collect()
}

#[test]
fn processors_and_states_of_threads_appear() {
    let mut made = late_launch("perfetto-scheduler", Tier::Scheduler);
    scheduler(&mut made);
    let trace = made.finish();
    let (path, summary) = written(&trace, Options::default());
    assert_eq!((summary.switches, summary.wakeups, summary.holds), (9, 2, 0));
    let queries = json!({
        "wrong": WRONG,
        "states": "select s.ts - 5000000000 as ts, s.dur, s.state, s.cpu, w.name as waker \
            from thread_state s join thread t using (utid) left join thread w on s.waker_utid = w.utid \
            where t.tid = 101 order by s.ts",
        "sched": "select s.ts - 5000000000 as ts, s.dur, t.name, s.end_state from sched s \
            join thread t using (utid) where s.cpu = 1 order by s.ts",
        "intruder": "select s.dur, p.name as process from sched s join thread t using (utid) \
            join process p using (upid) where t.tid = 900",
        "lost": "select t.name, s.ts - 5000000000 as ts, s.dur from slice s \
            join track t on s.track_id = t.id where t.name like 'CPU%'",
    });
    let Some(rows) = ask(&path, queries) else { return };
    assert_eq!(rows["wrong"], json!([]));
    let state = |ts: u64, dur: i64, state: &str, cpu: Option<u32>, waker: Option<&str>| json!({"ts": ts, "dur": dur, "state": state, "cpu": cpu, "waker": waker});
    let states = [
        state(1_900, 300, "Running", Some(1), None),
        state(2_200, 2_810, "S", None, None),
        state(5_010, 30, "R", None, Some("copy")),
        state(5_040, 1_160, "Running", Some(1), None),
        state(6_200, 910, "S", None, None),
        state(7_110, 140, "R", None, Some("device")),
        // It came while records were missing: at the latest when they came again.
        state(7_250, 250, "Running", Some(1), None),
        state(7_500, -1, "S", None, None),
    ];
    assert_eq!(rows["states"], json!(states));
    let ran = |ts: u64, dur: i64, name: &str, end_state: Option<&str>| json!({"ts": ts, "dur": dur, "name": name, "end_state": end_state});
    let sched = [
        ran(1_900, 300, "launch", Some("S")),
        ran(2_200, 2_840, "swapper", Some("R")),
        ran(5_040, 1_160, "launch", Some("S")),
        ran(6_200, 910, "device", Some("S")),
        ran(7_110, 140, "records lost", Some("S")),
        ran(7_250, 250, "launch", Some("S")),
        ran(7_500, -1, "swapper", None),
    ];
    assert_eq!(rows["sched"], json!(sched));
    assert_eq!(rows["intruder"], json!([{"dur": 1_000, "process": "intruder"}]));
    assert_eq!(rows["lost"], json!([{"name": "CPU 1: records lost", "ts": 7_110, "dur": 140}]));
}

#[test]
fn without_the_scheduler_threads_have_times_off_the_processor() {
    let mut made = late_launch("perfetto-switches", Tier::Switches);
    made.block(StreamKind::Processor, 0, &[off(2_200, 0, LAUNCH, false), on(9_990, 0, 900)]);
    made.block(
        StreamKind::Processor,
        1,
        &[on(5_040, 1, LAUNCH), off(5_500, 1, 900, true), off(6_000, 1, LAUNCH, true)],
    );
    let trace = made.finish();
    let (path, summary) = written(&trace, Options::default());
    assert_eq!((summary.off_cpu, summary.switches), (2, 0));
    let queries = json!({
        "wrong": WRONG,
        "off": "select s.ts - 5000000000 as ts, s.dur, s.name, tid, a.int_value as cpu from slice s \
            join thread_track t on s.track_id = t.id join thread using (utid) \
            join args a on a.arg_set_id = s.arg_set_id and a.key = 'debug.to CPU' \
            where t.name = 'off CPU' order by s.ts",
    });
    let Some(rows) = ask(&path, queries) else { return };
    assert_eq!(rows["wrong"], json!([]));
    let off = [
        json!({"ts": 2_200, "dur": 2_840, "name": "off CPU", "tid": LAUNCH, "cpu": 1}),
        json!({"ts": 5_500, "dur": 4_490, "name": "preempted", "tid": 900, "cpu": 0}),
    ];
    assert_eq!(rows["off"], json!(off));
}

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A thread that calls, calls inside of calls, waits, holds locks that do not nest, and forgets to
/// end some of it; the records of the driver are never so bad.
fn wild_thread(dice: &mut Dice, from: u64, count: u64) -> Vec<Record> {
    let mut now = from;
    let records = (0..count).map(|_| {
        // Some have the time of the one before.
        now += dice.roll(40);
        let lock = 0x1000 + 0x40 * dice.roll(5);
        let class = if lock < 0x1080 { Class::Mutex } else { Class::Read };
        match dice.roll(8) {
            0 | 1 => enter(now, FUNCTIONS[dice.roll(4) as usize], 0x7, dice.roll(5_000)),
            2 | 3 => exit(now, dice.roll(2) as u32),
            4 => waiting(now, class, lock, 200 + dice.roll(4) as u32),
            5 => acquired(now, class, lock),
            _ => released(now, class, lock),
        }
    });
    records.collect()
}

#[test]
fn no_trace_is_so_wild_that_a_part_of_it_is_refused() {
    let mut made = Made::new("perfetto-wild", Tier::Scheduler);
    let mut dice = Dice(7);
    for thread in 200..204 {
        for block in 0..20 {
            let from = 10_000 + block * 100_000;
            let records = wild_thread(&mut dice, from, 400);
            let last = records.last().unwrap().time - START;
            let lost =
                if dice.roll(3) == 0 { (3, last, last + dice.roll(90_000)) } else { (0, 0, 0) };
            made.block_before_loss(StreamKind::Thread, thread, &records, lost);
        }
    }
    for processor in 0..2 {
        for block in 0..20 {
            let mut now = 10_000 + block * 100_000;
            let records: Vec<Record> = (0..300)
                .map(|_| {
                    now += dice.roll(200);
                    let mut thread = || 199 + dice.roll(6) as u32;
                    let (one, other) = (thread(), thread());
                    match dice.roll(4) {
                        0 => wakeup(now, processor, one, other),
                        state => switch(now, processor, one, other, state as u32 - 1),
                    }
                })
                .collect();
            let lost =
                if dice.roll(3) == 0 { (3, now, now + dice.roll(30_000)) } else { (0, 0, 0) };
            made.block_before_loss(StreamKind::Processor, processor, &records, lost);
        }
    }
    let trace = made.finish();
    let (path, summary) = written(&trace, Options { locks: true });
    let queries = json!({
        "wrong": WRONG,
        "counts": "select sum(category in ('launch', 'copy', 'sync')) as calls, \
            sum(name like 'wait %') as waits, sum(category = 'hold') as holds, \
            sum(name = 'records lost') as lost from slice",
        "flows": "select count(*) as n from flow",
        "kinds": "select sum(state = 'Running') > 1000 as running, count(waker_utid) > 100 as woken \
            from thread_state",
    });
    let Some(rows) = ask(&path, queries) else { return };
    assert_eq!(rows["wrong"], json!([]));
    let Summary { calls, waits, holds, lost_ranges, flows, .. } = summary;
    assert!(calls > 1_000 && waits > 500 && holds > 500 && lost_ranges > 10 && flows > 50);
    let counts = json!({"calls": calls, "waits": waits, "holds": holds, "lost": lost_ranges});
    assert_eq!(rows["counts"], json!([counts]));
    assert_eq!(rows["flows"], json!([{"n": flows}]));
    assert_eq!(rows["kinds"], json!([{"running": 1, "woken": 1}]));
}
