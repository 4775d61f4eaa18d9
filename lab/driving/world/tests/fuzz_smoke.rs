//! The checks of the fuzz targets `opendrive` and `traci_message` on fixed mutated inputs: see
//! `fuzz/README.md`.

use checks::{opendrive, traci_message};
use testing::random;

const SEEDS: [&str; 2] = [
    include_str!("../../../../examples/drive/bend.xodr"),
    include_str!("../../../../examples/drive/junction.xodr"),
];

#[test]
fn mutated_opendrive_files_are_parsed_or_refused() {
    let mut random = random::Random::new(0x6f70_656e_6472_6976);
    for round in 0..6_000 {
        let bytes = random.mutated(SEEDS[round % 2].as_bytes());
        opendrive::check(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn opendrive_files_with_other_digits_are_parsed_or_refused() {
    let mut random = random::Random::new(0x6469_6769_7473);
    let mut accepted = 0;
    for round in 0..3_000 {
        let mut bytes = SEEDS[round % 2].as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            if let Some(digit) = bytes[at..].iter_mut().find(|byte| byte.is_ascii_digit()) {
                *digit = b"0123456789.-e"[random.below(13)];
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        accepted += u32::from(world::opendrive::parse(&text, "seed.xodr").is_ok());
        opendrive::check(&text);
    }
    assert!((300..2_700).contains(&accepted), "{accepted} accepted");
}

#[test]
fn mutated_answers_of_sumo_are_read_or_refused() {
    let mut random = random::Random::new(0x7472_6163_6921);
    let lines =
        include_str!("recorded/sumo.txt").lines().filter_map(|line| line.strip_prefix("< "));
    let seeds: Vec<Vec<u8>> = lines
        .map(|line| {
            // Without the message's length.
            let pairs = (8..line.len()).step_by(2);
            pairs.map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap()).collect()
        })
        .collect();
    for round in 0..20_000 {
        let seed = &seeds[round % seeds.len()];
        traci_message::check(&random.mutated(seed));
        traci_message::check(&seed[..random.below(seed.len() + 1)]);
    }
}
