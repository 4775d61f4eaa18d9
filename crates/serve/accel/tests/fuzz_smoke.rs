//! The checks of the fuzz targets on fixed pseudo-random inputs, for machines without the nightly
//! toolchain. A coverage-guided run goes much deeper: see `fuzz/README.md`.

use accel::Request;
use accel::control::{Code, Deregister, Hello, MAGIC, Name, Packet, QueryStatus, Refused};
use accel::control::{MAX_PACKET, Register, Reprioritise, VERSION, flag};
use accel::control::{
    QueryAccelerator, QueryBandwidth, QueryChain, QueryMemory, QueryServer, QuerySession,
};
use accel::request::Order;
use checks::{control_packet, ring_consumer, ring_message};
use testing::random::Random;
use zerocopy::IntoBytes;

const ROUNDS: usize = 200_000;

/// Half of the inputs are random, half are mutated from the seeds.
fn feed(longest: usize, seeds: &[Vec<u8>], check: fn(&[u8])) {
    let mut random = Random::new(0x6b65_6570_7469_6d65);
    seeds.iter().for_each(|seed| check(seed));
    for _ in 0..ROUNDS / 2 {
        check(&random.bytes(longest));
        let seed = random.below(seeds.len());
        check(&random.mutated(&seeds[seed]));
    }
}

#[test]
fn control_packets_of_any_bytes_are_parsed_or_refused() {
    let name = |text| Name::new("name", text).unwrap();
    let register = Register {
        kind: Register::KIND,
        chain_priority: 7,
        callback: 1,
        memory_bytes: 4096,
        exec_ns: 10_000_000,
        exec_min_ns: 1,
        period_ns: 100_000_000,
        deadline_ns: 100_000_000,
        jitter_ns: 0,
        cpu_ns: 2_000_000,
        cpu_min_ns: u64::MAX,
        position: u32::MAX,
        requests: u32::MAX,
        core: 3,
        process_priority: 99,
        flags: flag::ALL,
        reserved: 0,
        chain: name("chain1"),
        service: name("mätmul"),
        accelerator: Name::EMPTY,
    };
    let hello = Hello { kind: Hello::KIND, version: VERSION, magic: MAGIC };
    let deregister = Deregister { kind: Deregister::KIND, registration: 3 };
    let kind = Reprioritise::KIND;
    let reprioritise = Reprioritise { kind, registration: 3, chain_priority: 9 };
    let seeds = [
        hello.as_bytes().to_vec(),
        register.as_bytes().to_vec(),
        deregister.as_bytes().to_vec(),
        reprioritise.as_bytes().to_vec(),
        QueryStatus::KIND.as_bytes().to_vec(),
        QueryServer::KIND.as_bytes().to_vec(),
        QueryBandwidth::KIND.as_bytes().to_vec(),
        QueryAccelerator { kind: QueryAccelerator::KIND, index: 1 }.as_bytes().to_vec(),
        QuerySession { kind: QuerySession::KIND, index: u32::MAX }.as_bytes().to_vec(),
        QueryChain { kind: QueryChain::KIND, index: 0 }.as_bytes().to_vec(),
        QueryMemory { kind: QueryMemory::KIND, index: 2 }.as_bytes().to_vec(),
        Refused::new(Code::Limit, &"ä".repeat(100)).as_bytes().to_vec(),
    ];
    feed(MAX_PACKET + 4, &seeds, control_packet::check);
}

#[test]
fn ring_messages_of_any_bits_are_taken_apart_or_refused() {
    let request = Request::new().arguments(&[1, u64::MAX]).input(8, 16).output(24, 1 << 31);
    let launch = Order::Launch { launch_id: 9, registration: 3, slot: 63, request };
    let cancel = Order::Cancel { launch_id: 1, slot: 2, target_slot: 3, target_launch_id: 4 };
    let seeds = [launch, cancel].map(|order| order.encode().as_bytes().to_vec());
    feed(64, &seeds, ring_message::check);
}

#[test]
fn ring_consumer_never_believes_a_hostile_producer() {
    // Some messages, a slot, pops; then a tail that wraps, a tail out of range, a lost head.
    let plausible = vec![1, 5, 3, 2, 1, 2, 3, 4, 5, 5, 5, 4, 1, 64, 4, 1, 64, 5, 4];
    let hostile = vec![0, 255, 255, 255, 255, 4, 1, 65, 4, 1, 64, 4, 2, 9, 9, 9, 9, 1, 3, 4];
    feed(120, &[plausible, hostile], ring_consumer::check);
}
