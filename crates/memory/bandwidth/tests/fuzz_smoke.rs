//! The checks of the fuzz target on fixed pseudo-random inputs, for machines without the nightly
//! toolchain. A coverage-guided run goes much deeper: see `fuzz/README.md`.
#![cfg(not(loom))]

use bandwidth::handshake::{Hello, PACKET_BYTES, Refusal, Welcome};
use bandwidth::page::VERSION;
use checks::bandwidth_packet;
use testing::random;

const ROUNDS: usize = 200_000;

#[test]
fn packets_and_cells_of_any_bytes_are_read_or_refused() {
    let mut random = random::Random::new(0x6b65_6570_7469_6d65);
    let mut cell = [0; 64];
    cell[0] = VERSION as u8;
    cell[4] = 1;
    let hello = Hello { version: VERSION, image: u64::MAX };
    let seeds = [
        hello.packet().to_vec(),
        Welcome::Offset(4032).packet().to_vec(),
        Welcome::Refused(Refusal::Full).packet().to_vec(),
        cell.to_vec(),
    ];
    seeds.iter().for_each(|seed| bandwidth_packet::check(seed));
    for _ in 0..ROUNDS / 2 {
        bandwidth_packet::check(&random.bytes(PACKET_BYTES + 4));
        let seed = random.below(seeds.len());
        bandwidth_packet::check(&random.mutated(&seeds[seed]));
    }
}
