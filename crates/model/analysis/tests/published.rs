//! Numbers that are published or follow from the published theorem.

mod support;

use analysis::{Accelerator, Executor, Status, System, Variant, analyze};
use support::{MS, US, callback, case_study_1, chain, counterexample};

/// The guaranteed response times of the first chains, in microseconds.
fn guaranteed_us(system: &System, variant: Variant) -> Vec<Option<f64>> {
    let analysis = analyze(system, variant).unwrap();
    let guaranteed = |chain: &analysis::ChainBound| match chain.status {
        Status::Ok => chain.response_ns.map(|ns| ns as f64 / 1e3),
        _ => None,
    };
    analysis.chains.iter().map(guaranteed).collect()
}

#[test]
fn case_study_1_has_the_values_of_theorem_1() {
    for variant in [Variant::Published, Variant::Sound] {
        let free = guaranteed_us(&case_study_1(0, 0), variant);
        assert_eq!(free[..3], [Some(48e3), Some(89e3), Some(216e3)]);
        assert_eq!(free[3..], [None; 5]);
        let overheads = guaranteed_us(&case_study_1(129 * US, 391 * US), variant);
        assert_eq!(overheads[..2], [Some(49_814.0), Some(91_979.0)]);
        assert_eq!(overheads[2..], [None; 6]);
    }
}

#[test]
fn case_study_1_is_bounded_better_by_the_refinements() {
    let free = guaranteed_us(&case_study_1(0, 0), Variant::Tight);
    assert!(free[1].unwrap() <= 69e3 && free[2].unwrap() <= 166e3);
    let overheads = guaranteed_us(&case_study_1(129 * US, 391 * US), Variant::Tight);
    assert!(overheads[1].unwrap() <= 71_463.0 && overheads[2].unwrap() <= 171_176.0);
}

#[test]
fn printed_theorem_promises_two_milliseconds_where_sixty_are_needed() {
    let system = counterexample();
    let of = |variant| analyze(&system, variant).unwrap().chains[0].response_ns;
    assert_eq!(of(Variant::Published), Some(2 * MS));
    assert_eq!(of(Variant::Sound), None, "62 ms is above the deadline of 50 ms");
    assert_eq!(of(Variant::Tight), None);
}

#[test]
fn exact_times_prove_two_more_chains_of_case_study_1() {
    let mut system = case_study_1(0, 0);
    for callback in system.chains.iter_mut().flat_map(|chain| &mut chain.callbacks) {
        callback.cpu.min_ns = callback.cpu.max_ns;
        for segment in &mut callback.segments {
            segment.exec.min_ns = segment.exec.max_ns;
            segment.cpu_before_ns = callback.cpu.max_ns;
        }
    }
    let exact = guaranteed_us(&system, Variant::Tight);
    assert_eq!(exact[..5], [48e3, 69e3, 166e3, 224e3, 330e3].map(Some));
    assert_eq!(exact[5..], [None; 3]);
}

/// Lemma 4 (PiCAS): without accelerators, blocking by one callback and whole jobs of those above.
#[test]
fn chains_without_accelerators_have_the_bound_of_picas() {
    let one = |priority, executor, period, cpu: &[u64]| {
        let callbacks = cpu.iter().map(|cpu| callback(executor, cpu * MS, 0)).collect();
        chain(priority, period * MS, 0, callbacks)
    };
    let system = System {
        accelerators: vec![Accelerator { buckets: 1, concurrent_lowest: false }],
        executors: vec![Executor { core: 0, priority: 9 }, Executor { core: 0, priority: 8 }],
        chains: vec![
            one(1, 0, 100, &[3]),
            one(4, 1, 60, &[5]),
            one(3, 1, 200, &[10, 5]),
            one(2, 1, 500, &[7, 4]),
        ],
        ..System::default()
    };
    for variant in [Variant::Published, Variant::Sound] {
        let bounds = guaranteed_us(&system, variant);
        // 3; 10 + 5 + 2 * 3; 7 + 15 + 2 * 5 + 2 * 3; 0 + 11 + 2 * 5 + 2 * 15 + 2 * 3.
        assert_eq!(bounds, [3e3, 21e3, 38e3, 57e3].map(Some), "{variant:?}");
    }
}
