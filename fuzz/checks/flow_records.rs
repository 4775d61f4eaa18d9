//! Records of a graph from a trace file: any bytes may come from a disk.

use ::record::{Raw, Record};
use dataflow::trace::{Event, Names, Point, Reactions, record};

/// Panics when the reader or the search for reactions does, or when what it accepts is written as
/// other records than those that were read.
pub fn check(bytes: &[u8]) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let records = bytes.chunks_exact(32).filter_map(|chunk| {
        let last = number(&chunk[24..]);
        Record::from_raw(&Raw {
            time: number(&chunk[..8]),
            subject: number(&chunk[8..16]),
            detail: number(&chunk[16..24]),
            number: last as u32,
            kind: (last >> 32) as u16,
            lap: 0,
        })
    });
    let records: Vec<Record> = records.collect();
    let list = || (0..4).map(|number| number.to_string()).collect();
    let names = Names { modules: list(), groups: list(), sources: list(), topics: list() };
    let Ok(events) = record::decode(&records, &names) else { return };
    check_events(&events);
    let mut again = Vec::new();
    events.iter().for_each(|event| record::encode(event, &mut again));
    assert_eq!(record::decode(&again, &names).as_ref(), Ok(&events));
}

fn check_events(events: &[Event]) {
    let reactions = Reactions::new(events);
    let sources = events.iter().filter_map(|event| match event.point {
        Point::Injected { source, captured_ns, .. } => Some((source, captured_ns)),
        _ => None,
    });
    for (source, captured_ns) in sources.take(8) {
        if let Some(way) = reactions.first(source, captured_ns, |_| true) {
            let _ = (way.total_ns(), way.unexplained_ns());
        }
    }
}
