//! The check of the fuzz target `ros_message` on fixed random and mutated inputs: see
//! `fuzz/README.md`.

#[path = "../../../fuzz/checks/random.rs"]
mod random;
#[path = "../../../fuzz/checks/ros_message.rs"]
mod ros_message;

use ros::cdr::encode;
use ros::message::keeptime::{ChainStatus, ListResponse, RegisterRequest, SubmitRequest};

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
