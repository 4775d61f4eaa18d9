//! The check of the fuzz target `flow_records` on fixed mutated inputs: see `fuzz/README.md`.

use checks::flow_records;
use record::{Flow, Kind, Record};
use testing::random;

/// A frame that comes in, is read by a run, and becomes a command.
fn seed() -> Vec<u8> {
    let record = |time, flow, subject, detail, number| Record {
        time,
        subject,
        detail,
        number,
        kind: Kind::Flow(flow),
    };
    let records = [
        record(10, Flow::Injected, 0, 1, 0),
        record(10, Flow::More, 1, 9, 0),
        record(10, Flow::Arrived, 0, 1, 1 << 16),
        record(12, Flow::Start, 5, 1 << 40, 1),
        record(12, Flow::More, 3, 4, 0),
        record(12, Flow::More, 90, 0, 0),
        record(12, Flow::Read, 5, 1, 0),
        record(12, Flow::Resumed, 5, 0, 0),
        record(20, Flow::Paused, 5, 0, 0),
        record(20, Flow::Published, 5, 2, 1 << 16 | 1),
        record(20, Flow::More, 1, 0, 0),
        record(20, Flow::Actuated, 5, 2, 0),
        record(20, Flow::End, 5, 8, 0),
    ];
    let bytes = |record: &Record| {
        let last = u64::from(record.number) | u64::from(record.kind.code()) << 32;
        [record.time, record.subject, record.detail, last].map(u64::to_le_bytes).concat()
    };
    records.iter().flat_map(bytes).collect()
}

#[test]
fn mutated_records_are_events_or_refused() {
    let mut random = random::Random::new(0x666c_6f77);
    let seed = seed();
    flow_records::check(&seed);
    for _ in 0..20_000 {
        flow_records::check(&random.mutated(&seed));
    }
}
