//! A participant that is attacked with packets of RTPS by another one on loopback: it lives, serves
//! others, and what it keeps is bounded.

mod interfaces;

use std::time::{Duration, Instant};

use interfaces::{Add, Pair, Sum, context, domain};
use ros::{Bell, Mapping, Qos};
use testing::attacker::{Attacker, resident_kib};
use testing::random;

const PACKETS: usize = 100_000;

#[test]
fn participant_outlives_100_000_hostile_packets_in_bounded_memory() {
    let domain = domain(0);
    let here = context(domain);
    let node = here.node("/math", "server").unwrap();
    let server = node.server::<Add>("add", Mapping::Enhanced, Qos::default()).unwrap();
    let mut attacker = Attacker::new(domain, 1);
    let mut random = random::Random::new(0x6e6f_6465);
    attacker.attack(&mut random, PACKETS / 10);
    let before = resident_kib(std::process::id());
    attacker.attack(&mut random, PACKETS - PACKETS / 10);
    let after = resident_kib(std::process::id());
    // Two incomplete samples for each of a few readers, notes on a thousand participants.
    assert!(after < before + (64 << 10), "{before} KiB became {after} KiB");
    // More than are kept; a newcomer finds room.
    attacker.crowd(&mut random, 2048);

    let there = context(domain);
    let client = there.node("/math", "client").unwrap();
    let client = client.client::<Add>("/math/add", Mapping::Enhanced, Qos::default()).unwrap();
    let (bell, start) = (Bell::new().unwrap(), Instant::now());
    let mut sent = false;
    let sum = loop {
        // The limit only ends a test that has failed.
        assert!(start.elapsed() < Duration::from_secs(60), "nobody serves after the attack");
        if !sent && client.is_served() && server.is_heard() {
            client.send(&Pair { a: 2, b: 3 }).unwrap();
            sent = true;
        }
        while let Some((id, Pair { a, b })) = server.take().unwrap() {
            server.respond(&id, &Sum { sum: a + b }).unwrap();
        }
        if let Some((_, Sum { sum })) = client.take().unwrap() {
            break sum;
        }
        bell.wait(Some(Duration::from_millis(20))).unwrap();
    };
    assert_eq!(sum, 5);
}
