//! Cost of recording, measured by hand.

use super::program::Program;
use super::seen::collect;
use super::{alone, is_root, last_core, need_root, request};
use std::collections::BTreeMap;
use trace::kernel::{Collector, Wanted};
use trace::metadata::Tier;

/// Prints a table; run by hand: `cargo test -p keeptime-trace --test kernel cost_ -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement of half a minute, not a check"]
fn cost_of_a_switch_in_each_tier() {
    need_root!();
    let _alone = alone();
    let (_, core) = last_core();
    let kinds = [("off", Tier::Preload, false), ("switches", Tier::Switches, false)];
    let more = [("scheduler", Tier::Scheduler, false), ("with futex", Tier::Scheduler, true)];
    for (role, rounds) in [("yield_to_each_other", "100000"), ("ping_pong", "20000")] {
        let mut times: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for _ in 0..7 {
            for (name, tier, futex) in kinds.into_iter().chain(more) {
                let pauses = [("COMPUTE_US", "0"), ("LOOKS", "0")];
                let place = [("CORE", core.as_str()), ("ROUNDS", rounds), ("REAL_TIME", "1")];
                let settings = [&pauses[..], &place[..]].concat();
                let program = Program::waiting(role, &settings);
                let mut asked = request(program.id(), Wanted::Exactly(tier));
                (asked.futex, asked.bytes_per_processor) = (futex, 64 << 20);
                let seen = collect(Collector::start(&asked).unwrap(), program);
                seen.little_is_lost();
                times.entry(name).or_default().push(seen.said["nanoseconds"]);
            }
        }
        for (name, mut times) in times {
            times.sort_unstable();
            let (least, middle, most) = (times[0], times[times.len() / 2], times[times.len() - 1]);
            println!("{role} {name}: {least} / {middle} / {most} ns per switch (min/median/max)");
        }
    }
}
