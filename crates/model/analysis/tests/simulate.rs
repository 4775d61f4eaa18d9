//! Simulation: schedules made by hand, published responses, and rules that every schedule keeps.

use analysis::simulate::{
    Doing, Execution, Interval, Jitter, Kappa, Release, Resource, Scenario, SearchOptions,
    Simulator, Split, Tie, Trace, hyperperiod_ns, search,
};
use analysis::{
    Accelerator, Callback, Chain, Error, Executor, Segment, Span, Status, System, Variant, Wait,
    analyze,
};
use fastrand::Rng;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A callback with its requests, each an accelerator and a time.
fn callback(executor: usize, cpu_ns: u64, requests: &[(usize, u64)]) -> Callback {
    let segment = |&(accelerator, exec_ns): &(usize, u64)| Segment {
        accelerator,
        exec: Span::up_to(exec_ns),
        cpu_before_ns: 0,
    };
    let segments = requests.iter().map(segment).collect();
    Callback { executor, cpu: Span::up_to(cpu_ns), segments }
}

/// A suspending chain in bucket 0 of the first accelerator.
fn chain(priority: u32, period_ns: u64, callbacks: Vec<Callback>) -> Chain {
    Chain {
        priority,
        period_ns,
        deadline_ns: period_ns,
        jitter_ns: 0,
        wait: Wait::Suspend,
        best_effort: false,
        buckets: vec![0],
        callbacks,
    }
}

/// Executors by core and process priority, and one accelerator with two buckets.
fn system(executors: &[(u32, u32)], chains: Vec<Chain>) -> System {
    let executor = |&(core, priority): &(u32, u32)| Executor { core, priority };
    System {
        accelerators: vec![Accelerator { buckets: 2, concurrent_lowest: false }],
        executors: executors.iter().map(executor).collect(),
        chains,
        ..System::default()
    }
}

/// All chains released periodically from these instants until the horizon.
fn released(system: &System, offsets_ns: &[u64], horizon_ns: u64) -> Scenario {
    let mut scenario = Scenario { horizon_ns, ..Scenario::synchronous(system) };
    for (behaviour, &offset_ns) in scenario.chains.iter_mut().zip(offsets_ns) {
        behaviour.offset_ns = offset_ns;
    }
    scenario
}

/// Simulates, and insists on the rules of the model.
fn trace(system: &System, scenario: &Scenario) -> Trace {
    let trace = Simulator::new(system).unwrap().trace(scenario, &mut |_| true);
    if let Err(violation) = trace.check(system) {
        panic!("{violation}\n{system:#?}\n{scenario:#?}");
    }
    trace
}

/// Returns the intervals of the resources with this name, one line each: resource, span, chain.
fn told(trace: &Trace, name: &str) -> Vec<String> {
    let tell = |interval: &Interval| {
        let resource = match interval.resource {
            Resource::Core(core) => format!("core {core}"),
            Resource::Accelerator(_) => "device".to_owned(),
        };
        let doing = match interval.doing {
            Doing::Run => "",
            Doing::Spin => " spins",
            Doing::Switch => " switches",
        };
        let (start_ns, end_ns) = (interval.start_ns, interval.end_ns);
        format!("{resource} {start_ns}..{end_ns} {}{doing}", ["A", "B", "C"][interval.chain])
    };
    let lines = trace.intervals.iter().map(tell);
    lines.filter(|line| line.starts_with(name)).collect()
}

/// The longest response of each chain.
fn worst_ns(system: &System, scenario: &Scenario) -> Vec<u64> {
    let outcome = trace(system, scenario).outcome;
    outcome.chains.iter().map(|chain| chain.worst_ns.expect("every chain has a job")).collect()
}

/// `A` above `B` on one core and on the device; `A` spins, `B` suspends; `epsilon` 1 before each
/// request (at 4, 9 and 16), `kappa` 1 for each switch.
///
/// ```text
///         0         1         2
///         0123456789012345678901234
/// release B A         .  A
/// core 0  BBAAAsssBB    AAAssss
/// device       AAA  BBBBBBBxAAAxBB
/// ```
#[test]
fn higher_executor_and_bucket_preempt_and_pay_kappa() {
    let mut a = chain(2, 12, vec![callback(0, 2, &[(0, 3)])]);
    a.wait = Wait::Spin;
    a.buckets = vec![1];
    let b = chain(1, 30, vec![callback(1, 3, &[(0, 9)])]);
    let mut system = system(&[(0, 2), (0, 1)], vec![a, b]);
    (system.epsilon_ns, system.kappa_ns) = (1, 1);
    let scenario = Scenario { kappa: Kappa::Physical, ..released(&system, &[2, 0], 20) };
    let trace = trace(&system, &scenario);
    let core = [
        "core 0 0..2 B",
        "core 0 2..5 A",
        "core 0 5..8 A spins",
        "core 0 8..10 B",
        "core 0 14..17 A",
        "core 0 17..21 A spins",
    ];
    assert_eq!(told(&trace, "core"), core);
    let device = [
        "device 5..8 A",
        "device 10..17 B",
        "device 17..18 A switches",
        "device 18..21 A",
        "device 21..22 B switches",
        "device 22..24 B",
    ];
    assert_eq!(told(&trace, "device"), device);
    let ends: Vec<u64> = trace.jobs.iter().map(|job| job.end_ns).collect();
    assert_eq!(ends, [24, 8, 21]);
}

/// `A` in the upper bucket; `B` above `C` in the lower one; one core each.
fn one_bucket_for_two() -> System {
    let mut a = chain(3, 50, vec![callback(0, 1, &[(0, 2)])]);
    a.buckets = vec![1];
    let b = chain(2, 50, vec![callback(1, 1, &[(0, 2)])]);
    let c = chain(1, 50, vec![callback(2, 1, &[(0, 6)])]);
    let mut system = system(&[(0, 1), (1, 1), (2, 1)], vec![a, b, c]);
    system.kappa_ns = 1;
    system
}

/// The started request of `C` goes on after it was preempted, although `B` waits: a bucket is not
/// preempted from inside. `A` starts over `C`, and so costs two switches; `B` costs none.
///
/// ```text
///         0         1
///         01234567890123
/// core 0    A
/// core 1   B
/// core 2  C
/// device   CCxAAxCCCCBB
/// ```
#[test]
fn started_request_ends_before_its_bucket_serves_a_higher_chain() {
    let system = one_bucket_for_two();
    let scenario = Scenario { kappa: Kappa::Physical, ..released(&system, &[2, 1, 0], 50) };
    let expected = [
        "device 1..3 C",
        "device 3..4 A switches",
        "device 4..6 A",
        "device 6..7 C switches",
        "device 7..11 C",
        "device 11..13 B",
    ];
    assert_eq!(told(&trace(&system, &scenario), "device"), expected);
    assert_eq!(worst_ns(&system, &scenario), [4, 12, 11]);
}

/// The same with the overheads of the bounds: every request takes `2 kappa + sigma` longer, and
/// `sigma` only where all share a bucket.
///
/// ```text
///         0         1         2
///         01234567890123456789012
/// device   CCAAAAACCCCCCCBBBBB
/// ```
#[test]
fn worst_kappa_and_sigma_make_every_request_longer() {
    let mut system = one_bucket_for_two();
    system.sigma_ns = 1;
    let scenario = Scenario { kappa: Kappa::Worst, ..released(&system, &[2, 1, 0], 50) };
    let expected = ["device 1..3 C", "device 3..8 A", "device 8..15 C", "device 15..20 B"];
    assert_eq!(told(&trace(&system, &scenario), "device"), expected);
    for chain in &mut system.chains {
        chain.buckets = vec![0];
    }
    let expected = ["device 1..8 C", "device 8..11 A", "device 11..14 B"];
    assert_eq!(told(&trace(&system, &scenario), "device"), expected);
}

/// `A` asks while the device switches to the request of `C` that `B` had preempted: the switch is
/// ended, and another one follows.
///
/// ```text
///         0         1
///         0123456789012345678
/// core 0        A
/// core 1    B
/// core 2  C
/// device   CCxxxBxxxxxxAxxxCC
/// ```
#[test]
fn switch_is_not_preempted() {
    let mut a = chain(3, 50, vec![callback(0, 1, &[(0, 1)])]);
    let mut b = chain(2, 50, vec![callback(1, 1, &[(0, 1)])]);
    (a.buckets, b.buckets) = (vec![1], vec![1]);
    let c = chain(1, 50, vec![callback(2, 1, &[(0, 4)])]);
    let mut system = system(&[(0, 1), (1, 1), (2, 1)], vec![a, b, c]);
    system.kappa_ns = 3;
    let scenario = Scenario { kappa: Kappa::Physical, ..released(&system, &[7, 2, 0], 50) };
    let expected = [
        "device 1..3 C",
        "device 3..6 B switches",
        "device 6..7 B",
        "device 7..10 C switches",
        "device 10..13 A switches",
        "device 13..14 A",
        "device 14..17 C switches",
        "device 17..19 C",
    ];
    assert_eq!(told(&trace(&system, &scenario), "device"), expected);
}

/// `A` and the first callback of `B` share an executor, which `B` holds while it waits. `C` is in
/// a lower executor of the core and runs meanwhile. The second callback of `B` is on another
/// core, 2 away.
///
/// ```text
///         0         1
///         0123456789
/// core 0  BBCCCAC
/// core 1         B
/// device    BBB
/// ```
#[test]
fn waiting_callback_holds_its_executor_but_not_its_core() {
    let a = chain(3, 50, vec![callback(0, 1, &[])]);
    let b = chain(2, 50, vec![callback(0, 2, &[(0, 3)]), callback(2, 1, &[])]);
    let c = chain(1, 50, vec![callback(1, 4, &[])]);
    let mut system = system(&[(0, 2), (0, 1), (1, 1)], vec![a, b, c]);
    system.hop_ns = 2;
    let scenario = released(&system, &[1, 0, 0], 50);
    let expected =
        ["core 0 0..2 B", "core 0 2..5 C", "core 0 5..6 A", "core 0 6..7 C", "core 1 7..8 B"];
    assert_eq!(told(&trace(&system, &scenario), "core"), expected);
    assert_eq!(worst_ns(&system, &scenario), [5, 8, 7]);
}

/// A chain goes back to ready between two callbacks, so that a higher one gets in between; a job
/// waits for the job before it; a release may be late, and the response counts from the nominal
/// one.
///
/// ```text
///         0         1
///         01234567890123
/// release B  A   b             (b: the second job of B)
/// core 0  BBBBAABBBBB...
/// ```
#[test]
fn callbacks_are_not_preempted_and_jobs_queue() {
    let a = chain(2, 50, vec![callback(0, 2, &[])]);
    let mut b = chain(1, 7, vec![callback(0, 4, &[]), callback(0, 3, &[])]);
    b.jitter_ns = 1;
    let system = system(&[(0, 1)], vec![a, b]);
    let mut scenario = released(&system, &[3, 0], 8);
    let jobs = |scenario: &Scenario| -> Vec<(u64, u64, u64)> {
        let jobs = trace(&system, scenario).jobs;
        let jobs = jobs.iter().filter(|job| job.chain == 1);
        jobs.map(|job| (job.nominal_ns, job.released_ns, job.end_ns)).collect()
    };
    assert_eq!(jobs(&scenario), [(0, 0, 9), (7, 7, 16)]);
    assert_eq!(worst_ns(&system, &scenario), [3, 9]);
    scenario.chains[1].jitter = Jitter::First;
    assert_eq!(jobs(&scenario), [(0, 1, 10), (7, 7, 17)]);
    scenario.horizon_ns = 7;
    assert_eq!(worst_ns(&system, &scenario), [4, 10]);
}

/// Callbacks split their time where the scenario says, but never closer than `cpu_before_ns`.
#[test]
fn processor_time_is_split_as_the_scenario_says() {
    let mut a = chain(1, 50, vec![callback(0, 9, &[(0, 1), (0, 1)])]);
    a.callbacks[0].segments[1].cpu_before_ns = 3;
    let system = system(&[(0, 1)], vec![a]);
    let asked = |split| {
        let mut scenario = released(&system, &[0], 1);
        scenario.chains[0].split = split;
        let requests = trace(&system, &scenario).requests;
        requests.iter().map(|request| request.asked_ns).collect::<Vec<_>>()
    };
    assert_eq!(asked(Split::First), [6, 10]);
    assert_eq!(asked(Split::Last), [0, 4]);
    assert_eq!(asked(Split::Even), [2, 8]);
}

/// `A` ends at 5 when `B`, in a higher executor, is released.
#[test]
fn tie_between_end_and_release_goes_either_way() {
    let a = chain(1, 50, vec![callback(0, 5, &[])]);
    let b = chain(2, 50, vec![callback(1, 3, &[])]);
    let system = system(&[(0, 1), (0, 2)], vec![a, b]);
    let respond = |tie, seed| {
        let scenario = Scenario { tie, seed, ..released(&system, &[0, 5], 50) };
        worst_ns(&system, &scenario)[0]
    };
    assert_eq!(respond(Tie::CompletionFirst, 0), 5);
    assert_eq!(respond(Tie::DecisionFirst, 0), 5);
    assert_eq!(respond(Tie::ReleaseFirst, 0), 8);
    let drawn: Vec<u64> = (0..20).map(|seed| respond(Tie::Random, seed)).collect();
    assert!(drawn.contains(&5) && drawn.contains(&8), "{drawn:?}");
}

/// The executor of all three is freed at 5, when `A` is released; `C` has waited since 1.
#[test]
fn tie_between_decision_and_release_goes_either_way() {
    let a = chain(3, 50, vec![callback(0, 2, &[])]);
    let b = chain(2, 50, vec![callback(0, 5, &[])]);
    let c = chain(1, 50, vec![callback(0, 4, &[])]);
    let system = system(&[(0, 1)], vec![a, b, c]);
    let respond = |tie, seed| {
        let scenario = Scenario { tie, seed, ..released(&system, &[5, 0, 1], 50) };
        worst_ns(&system, &scenario)[0]
    };
    assert_eq!(respond(Tie::CompletionFirst, 0), 2);
    assert_eq!(respond(Tie::ReleaseFirst, 0), 2);
    assert_eq!(respond(Tie::DecisionFirst, 0), 6);
    let drawn: Vec<u64> = (0..20).map(|seed| respond(Tie::Random, seed)).collect();
    assert!(drawn.contains(&2) && drawn.contains(&6), "{drawn:?}");
}

/// Executors of priority 0 come after the others, in either order among themselves.
#[test]
fn time_shared_executors_run_last_in_any_order() {
    let work = |priority, executor| chain(priority, 50, vec![callback(executor, 3, &[])]);
    let chains = vec![work(3, 0), work(2, 1), work(1, 2)];
    let system = system(&[(0, 0), (0, 0), (0, 1)], chains);
    let respond = |seed| worst_ns(&system, &Scenario { seed, ..Scenario::synchronous(&system) });
    let drawn: Vec<Vec<u64>> = (0..20).map(respond).collect();
    assert!(drawn.contains(&vec![6, 9, 3]) && drawn.contains(&vec![9, 6, 3]), "{drawn:?}");
}

/// A chain that cannot keep up is released until 8 of its jobs wait.
#[test]
fn overloaded_chain_is_not_released_any_more() {
    let system = system(&[(0, 1)], vec![chain(1, 10, vec![callback(0, 11, &[])])]);
    let scenario = Scenario { horizon_ns: 10_000, ..Scenario::synchronous(&system) };
    let outcome = trace(&system, &scenario).outcome.chains[0];
    assert!(outcome.overloaded);
    // One job more waits after each 100: the ninth would at 900, when 82 of 91 have ended.
    assert_eq!((outcome.jobs, outcome.misses, outcome.unfinished), (89, 89, 0));
    assert_eq!((outcome.best_ns, outcome.worst_ns), (Some(11), Some(11 + 88)));
}

/// Theorem 1 as printed gives `hi` 2 ms; it takes 61.999 ms.
#[test]
fn waiting_callback_blocks_its_executor_for_longer_than_the_printed_theorem_says() {
    let mut hi = chain(2, 100 * MS, vec![callback(0, MS, &[])]);
    hi.deadline_ns = 50 * MS;
    let lo = chain(1, 200 * MS, vec![callback(0, MS, &[(0, 60 * MS)])]);
    let system = system(&[(0, 1)], vec![hi, lo]);
    let scenario = released(&system, &[2 * US, US], 100 * MS);
    assert_eq!(worst_ns(&system, &scenario)[0], 61_999 * US);
    let options = SearchOptions { starts: 20, steps: 200, ..SearchOptions::default() };
    let found = &search(&system, &options, &mut |_, _| true).unwrap()[0];
    // The request may also begin at the same instant, and `lo` may be chosen just before.
    assert_eq!(found.outcome.worst_ns, Some(62 * MS));
}

/// Case study 1 of PAAM: six chains with an executor and a core each, one accelerator, and copies
/// of chains 1 and 3 as best effort on the cores of chains 5 and 6.
fn case_study_1() -> System {
    let rows: [(u32, u32, u64, u32, &[u64]); 8] = [
        (8, 2, 120, 5, &[2, 6]),
        (7, 3, 120, 5, &[2, 8, 9]),
        (6, 4, 220, 4, &[6, 8, 4, 8]),
        (5, 5, 260, 3, &[5, 7, 2]),
        (4, 6, 360, 2, &[2, 1, 7]),
        (3, 7, 400, 1, &[2, 7]),
        (2, 6, 120, 0, &[2, 6]),
        (1, 7, 220, 0, &[6, 8, 4, 8]),
    ];
    let executor = |(index, row): (usize, &(u32, u32, u64, u32, &[u64]))| Executor {
        core: row.1,
        priority: if index < 6 { 99 } else { 0 },
    };
    let chain_of = |(executor, row): (usize, &(u32, u32, u64, u32, &[u64]))| {
        let request = [(0, 10 * MS)];
        let callbacks = row.4.iter().map(|cpu| callback(executor, cpu * MS, &request));
        let mut chain = chain(row.0, row.2 * MS, callbacks.collect());
        chain.buckets = vec![row.3];
        chain.best_effort = executor >= 6;
        chain
    };
    System {
        kappa_ns: 129 * US,
        epsilon_ns: 391 * US,
        accelerators: vec![Accelerator { buckets: 6, concurrent_lowest: false }],
        executors: rows.iter().enumerate().map(executor).collect(),
        chains: rows.iter().enumerate().map(chain_of).collect(),
        ..System::default()
    }
}

/// The responses that were found before, in an independent simulation, are found here within 5 %
/// or passed. The chains that the bound accepts stay below it.
#[test]
fn search_finds_the_responses_of_case_study_1() {
    let system = case_study_1();
    let found = search(&system, &SearchOptions::default(), &mut |_, _| true).unwrap();
    let bounds = analyze(&system, Variant::Tight).unwrap();
    let known_us = [48_900, 69_800, 119_400, 187_800, 215_600, 361_600];
    for (chain, known_us) in known_us.into_iter().enumerate() {
        let response_ns = found[chain].outcome.worst_ns.unwrap();
        assert!(response_ns >= known_us * US / 100 * 95, "chain {chain}: {response_ns}");
        let bound = &bounds.chains[chain];
        assert_eq!(bound.status == Status::Ok, chain < 3, "chain {chain}");
        if bound.status == Status::Ok {
            assert!(response_ns <= bound.response_ns.unwrap(), "chain {chain}: {response_ns}");
        }
    }
}

/// No bound accepts chain 6 of case study 1, and rightly: with all chains periodic and all times
/// the greatest it can miss its deadline of 400 ms. The requests of its last callback are pushed
/// past the fourth release of chains 1 and 2.
#[test]
fn chain_6_of_case_study_1_can_miss_its_deadline() {
    let system = case_study_1();
    let offsets_us = [10_000, 10_400, 5_000, 0, 1_000, 5_000, 0, 0];
    let mut scenario = released(&system, &offsets_us.map(|offset_us| offset_us * US), 450 * MS);
    scenario.seed = 110;
    let (first, even, random) = (Split::First, Split::Even, Split::Random);
    let splits = [first, even, random, first, random, random, first, first];
    for (behaviour, split) in scenario.chains.iter_mut().zip(splits) {
        behaviour.split = split;
    }
    let outcome = trace(&system, &scenario).outcome;
    assert!(outcome.chains[5].worst_ns > Some(428 * MS), "{outcome:?}");
    assert_eq!(outcome.chains[5].misses, 1);
}

/// A small system with everything in it.
fn random_system(rng: &mut Rng) -> System {
    let accelerators = rng.usize(0..3);
    let buckets = rng.u32(1..4);
    let executors: Vec<Executor> = (0..rng.u32(1..6))
        .map(|index| Executor {
            core: rng.u32(0..3),
            priority: if rng.u8(..4) == 0 { 0 } else { index + 1 },
        })
        .collect();
    let count = rng.u32(1..6);
    let chains = (0..count).map(|index| {
        let period_ns = rng.u64(10..60);
        Chain {
            priority: index + 1,
            period_ns,
            deadline_ns: rng.u64(1..=period_ns),
            jitter_ns: if rng.bool() { 0 } else { rng.u64(..period_ns) },
            wait: if rng.bool() { Wait::Spin } else { Wait::Suspend },
            best_effort: false,
            buckets: vec![index * buckets / count; accelerators],
            callbacks: (0..rng.usize(1..5))
                .map(|_| random_callback(executors.len(), accelerators, rng))
                .collect(),
        }
    });
    let chains = chains.collect();
    System {
        kappa_ns: rng.u64(..4),
        epsilon_ns: rng.u64(..3),
        sigma_ns: rng.u64(..3),
        hop_ns: rng.u64(..4),
        accelerators: vec![Accelerator { buckets, concurrent_lowest: false }; accelerators],
        executors,
        chains,
    }
}

fn random_callback(executors: usize, accelerators: usize, rng: &mut Rng) -> Callback {
    let span = |least: u64, rng: &mut Rng| {
        let max_ns = rng.u64(least..6);
        Span { min_ns: rng.u64(..=max_ns), max_ns }
    };
    let segments = if accelerators == 0 { 0 } else { rng.usize(..3) };
    let segments: Vec<Segment> = (0..segments)
        .map(|_| Segment {
            accelerator: rng.usize(..accelerators),
            exec: span(0, rng),
            cpu_before_ns: rng.u64(..3),
        })
        .collect();
    let before_ns = segments.iter().map(|segment| segment.cpu_before_ns).sum();
    Callback { executor: rng.usize(..executors), cpu: span(before_ns, rng), segments }
}

#[test]
fn every_schedule_of_random_systems_keeps_the_rules() {
    let mut rng = Rng::with_seed(7);
    for _ in 0..1_000 {
        let system = random_system(&mut rng);
        for _ in 0..3 {
            let scenario = Scenario::random(&system, rng.u64(..));
            let trace = trace(&system, &scenario);
            let mut simulator = Simulator::new(&system).unwrap();
            assert_eq!(*simulator.run(&scenario), trace.outcome);
        }
    }
}

#[test]
fn same_scenario_gives_the_same_schedule() {
    let mut rng = Rng::with_seed(8);
    for _ in 0..100 {
        let system = random_system(&mut rng);
        let scenarios = [rng.u64(..), rng.u64(..)].map(|seed| Scenario::random(&system, seed));
        let mut simulator = Simulator::new(&system).unwrap();
        let first = simulator.trace(&scenarios[0], &mut |_| true);
        simulator.run(&scenarios[1]);
        assert_eq!(simulator.trace(&scenarios[0], &mut |_| true), first);
    }
}

#[test]
fn found_scenario_has_the_response_that_was_found() {
    let mut rng = Rng::with_seed(9);
    let options = SearchOptions { starts: 20, steps: 40, ..SearchOptions::default() };
    for _ in 0..20 {
        let system = random_system(&mut rng);
        let found = search(&system, &options, &mut |_, _| true).unwrap();
        for (chain, worst) in found.iter().enumerate() {
            let again = trace(&system, &worst.scenario);
            assert_eq!(again.outcome.chains[chain], worst.outcome);
            let jobs = again.jobs.iter().filter(|job| job.chain == chain);
            let ended = jobs.filter(|job| job.end_ns != u64::MAX);
            let responses: Vec<u64> = ended.map(|job| job.end_ns - job.nominal_ns).collect();
            assert_eq!(responses, worst.responses_ns);
        }
        assert_eq!(search(&system, &options, &mut |_, _| true).unwrap(), found);
    }
}

/// A schedule of a million years ends when it is told to, in the middle.
#[test]
fn schedule_that_is_stopped_has_what_happened_until_then() {
    let system = system(&[(0, 1)], vec![chain(1, 10, vec![callback(0, 3, &[])])]);
    let scenario = released(&system, &[0], u64::MAX / 2);
    let mut until_ns = 0;
    let mut watch = |now_ns| {
        until_ns = now_ns;
        now_ns < 100_000
    };
    let trace = Simulator::new(&system).unwrap().trace(&scenario, &mut watch);
    assert!(until_ns >= 100_000);
    let outcome = trace.outcome.chains[0];
    assert_eq!((outcome.worst_ns, outcome.unfinished), (Some(3), 0));
    assert!(outcome.jobs >= 10_000 && trace.jobs.iter().all(|job| job.nominal_ns <= until_ns));
}

#[test]
fn search_ends_in_the_middle_of_a_schedule() {
    let system = system(
        &[(0, 1)],
        vec![
            chain(2, 10, vec![callback(0, 3, &[])]),
            // So long that no schedule of it ends.
            chain(1, 1 << 50, vec![callback(0, 3, &[])]),
        ],
    );
    let mut looks = 0;
    let mut watch = |done, _| {
        assert_eq!(done, 0);
        looks += 1;
        looks < 5
    };
    let found = search(&system, &SearchOptions::default(), &mut watch);
    assert_eq!((found, looks), (Err(Error::Stopped), 5));
}

/// A schedule in which something is wrong does not pass for a good one.
#[test]
fn check_finds_what_is_wrong_in_a_schedule() {
    let system = one_bucket_for_two();
    let scenario = Scenario { kappa: Kappa::Physical, ..released(&system, &[2, 1, 0], 50) };
    let good = trace(&system, &scenario);
    let wrong = |change: &dyn Fn(&mut Trace)| {
        let mut trace = good.clone();
        change(&mut trace);
        let violation = trace.check(&system).expect_err("this schedule is wrong");
        violation.what
    };
    let on_device = |trace: &Trace, place: usize| {
        let is_device = |i: &Interval| matches!(i.resource, Resource::Accelerator(_));
        let mut places = (0..trace.intervals.len()).filter(|&i| is_device(&trace.intervals[i]));
        places.nth(place).unwrap()
    };
    let shorter = wrong(&|trace| {
        let last = on_device(trace, 5);
        trace.intervals[last].end_ns -= 1;
    });
    assert!(shorter.contains("served for 1"), "{shorter}");
    let missing = wrong(&|trace| {
        let switch = on_device(trace, 1);
        trace.intervals.remove(switch);
    });
    assert!(missing.contains("rests"), "{missing}");
    let early = wrong(&|trace| trace.requests[1].start_ns = 5);
    assert!(early.contains("started"), "{early}");
    let response = wrong(&|trace| trace.outcome.chains[0].worst_ns = Some(3));
    assert!(response.contains("responded"), "{response}");
    let late = wrong(&|trace| trace.callbacks[0].start_ns += 1);
    assert!(late.contains("rests") || late.contains("out of"), "{late}");
}

#[test]
fn least_and_drawn_times_stay_within_their_spans() {
    let mut a = chain(1, 50, vec![callback(0, 0, &[])]);
    a.callbacks[0].cpu = Span { min_ns: 4, max_ns: 8 };
    let system = system(&[(0, 1)], vec![a]);
    let outcome = |execution| {
        let mut scenario = Scenario { horizon_ns: 5_000, ..Scenario::synchronous(&system) };
        scenario.chains[0].execution = execution;
        let chain = trace(&system, &scenario).outcome.chains[0];
        (chain.best_ns.unwrap(), chain.worst_ns.unwrap())
    };
    assert_eq!(outcome(Execution::Worst), (8, 8));
    assert_eq!(outcome(Execution::Least), (4, 4));
    assert_eq!(outcome(Execution::Random), (4, 8));
}

#[test]
fn sporadic_releases_are_at_least_a_period_apart() {
    let system = system(&[(0, 1)], vec![chain(1, 10, vec![callback(0, 1, &[])])]);
    let mut scenario = Scenario { horizon_ns: 2_000, ..Scenario::synchronous(&system) };
    scenario.chains[0].release = Release::Sporadic { extra_ns: 5 };
    let jobs = trace(&system, &scenario).jobs;
    let apart: Vec<u64> =
        jobs.windows(2).map(|pair| pair[1].nominal_ns - pair[0].nominal_ns).collect();
    assert_eq!((apart.iter().min(), apart.iter().max()), (Some(&10), Some(&15)));
}

#[test]
fn hyperperiod_is_the_least_common_multiple() {
    let with = |periods: &[u64]| {
        let chains = periods.iter().map(|&period_ns| chain(1, period_ns, vec![])).collect();
        hyperperiod_ns(&system(&[], chains))
    };
    assert_eq!(with(&[4, 6, 10]), Some(60));
    assert_eq!(with(&[]), None);
    assert_eq!(with(&[u64::MAX, u64::MAX - 1]), None);
}

/// Measures the number of simulations in a second: `cargo test --release -p keeptime-analysis --test
/// simulate -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn simulations_per_second() {
    let mut system = case_study_1();
    system.executors.truncate(6);
    system.chains.truncate(6);
    let mut simulator = Simulator::new(&system).unwrap();
    for tie in [Tie::CompletionFirst, Tie::Random] {
        let begin = std::time::Instant::now();
        let (mut jobs, mut runs) = (0, 0u32);
        while begin.elapsed().as_secs() < 2 {
            let scenario = Scenario { tie, ..Scenario::random(&system, runs.into()) };
            jobs += simulator.run(&scenario).chains.iter().map(|chain| chain.jobs).sum::<u64>();
            runs += 1;
        }
        let per_second = f64::from(runs) / begin.elapsed().as_secs_f64();
        println!("{tie:?}: {per_second:.0} simulations/s of {} jobs", jobs / u64::from(runs));
    }
}
