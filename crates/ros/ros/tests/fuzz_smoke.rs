//! The checks of the fuzz targets `ros_message` and `rtps_packet` on fixed random and mutated inputs:
//! see `fuzz/README.md`.

use checks::{ros_message, rtps_packet};
use ros::cdr::encode;
use ros::message::keeptime::{ChainStatus, ListResponse, RegisterRequest, SubmitRequest};
use rustdds::receiving::{Receiving, SAMPLES};
use testing::{random, rtps};

fn seeds() -> Vec<Vec<u8>> {
    let register = RegisterRequest {
        client: [7; 16],
        sequence: 1,
        chain: "perception".into(),
        service: "vecadd".into(),
        memory_bytes: 4096,
        ..RegisterRequest::default()
    };
    let submit = SubmitRequest {
        client: [7; 16],
        registration: 3,
        sequence: 9,
        arguments: vec![64],
        input: vec![1; 64],
        output_bytes: 32,
        ..SubmitRequest::default()
    };
    let chain = ChainStatus { name: "brake".into(), priority: 9, ..ChainStatus::default() };
    let list = ListResponse { chains: vec![chain], ..ListResponse::default() };
    let node = ("/robot", "talker", vec![[1u8; 16]], vec![[2u8; 16], [3u8; 16]]);
    let announced = ([9u8; 16], vec![node]);
    vec![
        encode(&register).unwrap(),
        encode(&submit).unwrap(),
        encode(&list).unwrap(),
        encode(&announced).unwrap(),
    ]
}

#[test]
fn mutated_and_random_messages_are_read_or_refused() {
    let mut random = random::Random::new(0x726f_7332);
    for seed in seeds() {
        ros_message::check(&seed);
        for _ in 0..10_000 {
            ros_message::check(&random.mutated(&seed));
        }
    }
    for _ in 0..10_000 {
        ros_message::check(&random.bytes(200));
    }
}

fn ids() -> rtps::Ids {
    rtps::Ids {
        remote: Receiving::REMOTE,
        reader: Receiving::READER,
        remote_writer: Receiving::REMOTE_WRITER,
        writer: Receiving::WRITER,
        remote_reader: Receiving::REMOTE_READER,
    }
}

/// One packet with these submessages.
fn packet(submessages: &[Vec<u8>]) -> Vec<u8> {
    [rtps::header(Receiving::REMOTE), submessages.concat()].concat()
}

#[test]
fn hostile_rtps_packets_are_handled_in_bounded_memory() {
    let mut random = random::Random::new(0x5254_5053);
    for _ in 0..10 {
        let mut receiving = Receiving::new().unwrap();
        for _ in 0..10_000 {
            rtps_packet::one(&mut receiving, &rtps::packet(&mut random, &ids()));
        }
    }
    for _ in 0..1000 {
        rtps_packet::check(&random.bytes(400));
    }
}

/// The packet of 52 bytes that ended the gateway, and its like.
#[test]
fn huge_ranges_do_not_keep_samples_from_being_received() {
    let ids = ids();
    let far = 1 << 40;
    let mut receiving = Receiving::new().unwrap();
    let heartbeat = packet(&[rtps::heartbeat(&ids, 1, far, 1)]);
    assert_eq!(heartbeat.len(), 52);
    rtps_packet::one(&mut receiving, &heartbeat);
    rtps_packet::one(&mut receiving, &packet(&[rtps::gap(&ids, 4, far, &[])]));
    for sample in 1..=3 {
        rtps_packet::one(&mut receiving, &packet(&[rtps::data(&ids, sample, b"text")]));
    }
    assert_eq!(receiving.received(), 3);
    // After the gap, and none twice.
    for sample in [far, far, 5] {
        rtps_packet::one(&mut receiving, &packet(&[rtps::data(&ids, sample, b"text")]));
    }
    assert_eq!(receiving.received(), 4);
    // Numbers that no sample can have: the ends of all numbers, and -1.
    for last in [i64::MAX, i64::MIN, -1] {
        rtps_packet::one(&mut receiving, &packet(&[rtps::heartbeat(&ids, 1, last, 2)]));
        rtps_packet::one(&mut receiving, &packet(&[rtps::gap(&ids, last, 1, &[u32::MAX; 8])]));
        rtps_packet::one(&mut receiving, &packet(&[rtps::acknack(&ids, last, &[u32::MAX; 8], 1)]));
    }
    rtps_packet::one(&mut receiving, &packet(&[rtps::data(&ids, far + 1, b"text")]));
    assert_eq!(receiving.received(), 5);
}

#[test]
fn fragments_that_no_sample_has_are_not_noted() {
    let ids = ids();
    let mut receiving = Receiving::new().unwrap();
    let held = receiving.held_bytes();
    for (base, count) in [0, 1 << 31, u32::MAX - 255, u32::MAX].into_iter().zip(1..) {
        for sample in [1, SAMPLES as i64, 1 << 40] {
            let nack = rtps::nack_frag(&ids, sample, base, &[u32::MAX; 8], count);
            rtps_packet::one(&mut receiving, &packet(&[nack]));
        }
    }
    assert!(receiving.held_bytes() <= held + 1024, "{} of {held}", receiving.held_bytes());
    let of = |sample, first, fragment_bytes, sample_bytes| rtps::Fragments {
        sample,
        first,
        count: 1,
        fragment_bytes,
        sample_bytes,
    };
    // The ends of samples of 4 GiB and of 1 MiB, of which nothing else comes.
    for sample in 1..1000 {
        for of in [of(sample, 1, 1024, u32::MAX), of(sample + 2000, 1023, 1024, 1 << 20)] {
            let frag = rtps::data_frag(&ids, &of, &[1; 1024]);
            rtps_packet::one(&mut receiving, &packet(&[frag]));
        }
    }
    // And one that comes whole, and is next: the others wait.
    let whole = |first| rtps::data_frag(&ids, &of(1500, first, 1024, 2048), &[0; 1024]);
    let before = receiving.received();
    rtps_packet::one(&mut receiving, &packet(&[whole(1), whole(2)]));
    assert_eq!(receiving.received(), before + 1);
}
