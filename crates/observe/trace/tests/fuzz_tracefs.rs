//! The checks of the fuzz targets `tracefs_page` and `perf_record` on fixed mutated inputs: see
//! `fuzz/README.md`.

use checks::{perf_record, tracefs_page};
use testing::random::Random;

const ROUNDS: usize = 20_000;

const PAGES: [&[u8]; 4] = [
    include_bytes!("data/tracefs-switches.page"),
    include_bytes!("data/tracefs-boost.page"),
    include_bytes!("data/tracefs-futex.page"),
    include_bytes!("data/tracefs-missed.page"),
];

#[test]
fn mutated_pages_are_parsed_or_refused() {
    let mut random = Random::new(0x7472_6163);
    for _ in 0..ROUNDS {
        let seed = PAGES[random.below(PAGES.len())];
        // Most of a page is names: mutate its beginning on its own, so that headers are hit.
        let head = random.below(400);
        let mut page = random.mutated(&seed[..head]);
        page.extend_from_slice(&seed[head..]);
        tracefs_page::check(&page);
        tracefs_page::check(&random.mutated(seed));
        tracefs_page::check(&random.bytes(200));
    }
}

#[test]
fn mutated_descriptions_are_parsed_or_refused() {
    let mut random = Random::new(0x666f_726d);
    let text = [tracefs_page::FORMATS.as_bytes(), b"\nEND\n", PAGES[0]].concat();
    for _ in 0..ROUNDS / 10 {
        tracefs_page::check(&random.mutated(&text));
    }
}

#[test]
fn mutated_ring_records_are_parsed_or_refused() {
    let mut random = Random::new(0x7065_7266);
    let record = |kind: u8, misc: u8, body: usize| {
        let size = (32 + body) as u8;
        let mut bytes = vec![kind, 0, 0, 0, 0, misc, size, 0];
        bytes.resize(32 + body, 3);
        bytes
    };
    let kinds = [(2, 16), (3, 16), (4, 24), (7, 24), (14, 0), (99, 8)];
    let seed = kinds.map(|(kind, body)| record(kind, 0x20, body)).concat();
    for _ in 0..ROUNDS {
        perf_record::check(&random.mutated(&seed));
        perf_record::check(&random.bytes(120));
    }
}
