//! The checks of the fuzz targets `trace_file` and `program_file` on fixed mutated inputs: see
//! `fuzz/README.md`.

use checks::{program_file, trace_file};
use record::{Kind, Record};
use std::sync::OnceLock;
use testing::random;
use trace::metadata::{Clock, LostRange};
use trace::{BlockHead, Metadata, StreamKind, Trace, TraceWriter};

/// A small trace with several streams, a loss and a gap.
fn seed() -> &'static [u8] {
    static SEED: OnceLock<Vec<u8>> = OnceLock::new();
    SEED.get_or_init(make_seed)
}

fn make_seed() -> Vec<u8> {
    let name = format!("fuzz-seed-{}.kt", std::process::id());
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut writer = TraceWriter::create(&path).unwrap();
    let streams = [StreamKind::Thread, StreamKind::Thread, StreamKind::Processor, StreamKind::Gpu];
    for (sequence, stream) in (0..).zip(streams) {
        let record = |time| Record { time, subject: 1, detail: 2, number: 3, kind: Kind::Switch };
        let records: Vec<_> = (0..3).map(|at| record(100 + at).to_raw()).collect();
        let lost = LostRange { count: 1, first: 200, last: 300 };
        let before = u64::from(sequence) * 5;
        writer
            .block(
                BlockHead { stream, process: 1, id: 2, sequence, torn: 1, before, lost },
                &records,
            )
            .unwrap();
    }
    let clock = Clock { start: (10, 1_000), end: (1_000, 9_000), ..Clock::default() };
    writer.finish(&Metadata { clock, ..Metadata::default() }).unwrap();
    assert_eq!(Trace::open(&path).unwrap().records(), 12);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

#[test]
fn mutated_traces_are_read_or_refused() {
    let seed = seed();
    let mut random = random::Random::new(0x6b65_6570_7469_6d65);
    trace_file::check(seed);
    for _ in 0..20_000 {
        trace_file::check(&random.mutated(seed));
        trace_file::check(&random.bytes(256));
    }
}

#[test]
fn mutated_indexes_and_footers_are_read_or_refused() {
    let seed = seed();
    let mut random = random::Random::new(0x7472_6163_655f_6b74);
    // The records, the entries after them, and the footer at the end: 12 * 32, 4 * 96, 64.
    let index = 64 + 12 * 32;
    let places: Vec<usize> = (index..index + 4 * 96).chain(seed.len() - 64..seed.len()).collect();
    for _ in 0..100_000 {
        let mut bytes = seed.to_vec();
        for _ in 0..=random.below(3) {
            bytes[places[random.below(places.len())]] ^= 1 << random.below(8);
        }
        trace_file::check(&bytes);
    }
}

#[test]
fn mutated_programs_have_a_reason() {
    // The start of a program with an interpreter, whose path stands behind its table.
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let seed = &own[..4096];
    let mut random = random::Random::new(0x7072_6f67_7261_6d73);
    program_file::check(seed);
    program_file::check(b"#!/proc/self/exe\n");
    for _ in 0..10_000 {
        // Of the table's entries only the first bytes of the file decide.
        let mut mutated = random.mutated(&seed[..1024]);
        mutated.extend(&seed[1024..]);
        program_file::check(&mutated);
        program_file::check(&random.mutated(b"\x7fELF\x02\x01\x01"));
    }
}
