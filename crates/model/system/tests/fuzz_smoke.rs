//! The check of the fuzz target `system_file` on fixed mutated inputs: see `fuzz/README.md`.

use checks::system_file;
use testing::random;

const SEED: &str = r#"
time_unit: us
kappa: 129
accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 99}]
chains:
  - id: chain1
    priority: 6
    period: 120 ms
    bucket: {gpu0: 5}
    callbacks:
      - {id: c1, executor: e1, cpu: 2000, segments: [{accel: gpu0, exec: 10000, service: m}]}
services: [{name: m, accelerator: gpu0, kernel: matmul, arguments: [64], exec: 10 ms}]
server: {policy: fifo, limits: {sessions: 3}}
"#;

#[test]
fn mutated_system_files_are_parsed_or_refused() {
    assert!(system::System::parse(SEED, "seed.yaml").is_ok(), "the seed should be correct");
    let mut random = random::Random::new(0x6b65_6570_7469_6d65);
    for _ in 0..20_000 {
        let bytes = random.mutated(SEED.as_bytes());
        system_file::check(&String::from_utf8_lossy(&bytes));
    }
}
