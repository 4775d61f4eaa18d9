//! The trace file: any bytes may come from a disk, or from somebody else's machine.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use trace::Trace;

/// Panics when the reader does, or when it accepts a trace whose parts do not fit together.
pub fn check(bytes: &[u8]) {
    let memory = memfd_create("trace", MemfdFlags::CLOEXEC).expect("a file in memory");
    let mut file = File::from(memory);
    file.write_all(bytes).expect("room in memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    match Trace::open(path.as_ref()) {
        Ok(trace) => check_trace(&trace, bytes.len() as u64),
        Err(error) => assert!(error.to_string().starts_with(&path), "{error}"),
    }
}

fn check_trace(trace: &Trace, bytes: u64) {
    let mut total = 0;
    let mut records = Vec::new();
    assert!(trace.streams().is_sorted_by_key(|stream| stream.kind));
    for stream in trace.streams() {
        assert!(stream.blocks.is_sorted_by(|a, b| a.sequence < b.sequence));
        let unknown = stream.unknown();
        assert!(unknown.iter().all(|(from, to)| from <= to), "{unknown:?}");
        assert!(unknown.is_sorted_by(|a, b| a.1 < b.0), "{unknown:?}");
        for block in &stream.blocks {
            total += u64::from(block.count);
            let Ok(skipped) = trace.read(block, &mut records) else { continue };
            assert_eq!(records.len() + skipped, block.count as usize);
            let within = |time| (block.first..=block.last).contains(&time);
            assert!(records.iter().all(|record| within(record.time)));
        }
    }
    assert_eq!(total, trace.records());
    assert!(total * 32 <= bytes);
    assert!(trace.start() < trace.end());
    assert!(trace.clock().ns(trace.start()) < trace.clock().ns(trace.end()));
}
