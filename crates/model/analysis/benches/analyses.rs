//! Number of chain sets analysed in a second, and duration of an admission decision.
//!
//! The sets are those of figure 14a of PAAM: 84 points (utilisation 10 to 70 % per chain, 1 to 12
//! chains), so that a rate is that of the whole study. Beside them the same sets with the
//! `response-time-analysis` crate of Brandenburg et al.: once Theorem 1 put together from its
//! types, which must give the same results, and once its nearest ready-made test, preemptive
//! fixed priority, with the accelerator as the processor.
//!
//! `cargo bench -p keeptime-analysis --bench analyses`

#![allow(missing_docs, reason = "criterion generates a public function")]

use analysis::generate::{Fig14, Overheads, Proposal, stream};
use analysis::{Analyzer, System, Variant};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::{RBF, RequestBound};
use response_time_analysis::supply::Dedicated;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet::Scalar;
use response_time_analysis::{fixed_point, fixed_priority};
use std::hint::black_box;

const SETS_PER_POINT: u64 = 10;

fn figure_14a() -> Vec<System> {
    let points = (1..=7).flat_map(|u| (1..=12).map(move |n| (n, 10 * u)));
    let sets = points.flat_map(|(chains, utilisation)| {
        (0..SETS_PER_POINT).map(move |set| {
            let point = u64::from(100 * utilisation + chains);
            Fig14::a(chains, utilisation).draw(&mut stream(1, point, set))
        })
    });
    sets.collect()
}

/// Chains that are all schedulable, with 4 segments each.
fn admitted(chains: usize, utilisation: f64) -> System {
    let proposal = Proposal {
        callbacks: (4, 4),
        segments: (1, 1),
        chains_per_executor: 1,
        cores: chains as u32,
        buckets: 6,
        overheads: Overheads::NONE,
        ..Proposal::new(chains, utilisation)
    };
    let mut analyzer = Analyzer::new();
    let sets = (0..1000).map(|set| proposal.draw(&mut stream(1, chains as u64, set)));
    let schedulable =
        |system: &System| analyzer.load(system).is_ok() && analyzer.run(Variant::Tight).schedulable;
    sets.map(|system| system.expect("the parameters are in range"))
        .find(schedulable)
        .expect("one of a thousand sets is schedulable")
}

fn sets(criterion: &mut Criterion) {
    let systems = figure_14a();
    check_same_results(&systems);
    let mut group = criterion.benchmark_group("figure-14a");
    group.throughput(Throughput::Elements(systems.len() as u64));
    let mut analyzer = Analyzer::new();
    let variants = [
        ("theorem-1-published", Variant::Published),
        ("theorem-1-sound", Variant::Sound),
        ("tight", Variant::Tight),
    ];
    for (name, variant) in variants {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut accepted = 0;
                for system in &systems {
                    analyzer.load(black_box(system)).expect("generated systems are valid");
                    accepted += u32::from(analyzer.run(variant).schedulable);
                }
                accepted
            });
        });
    }
    let mut laid_out: Vec<Analyzer> = Vec::new();
    for system in &systems {
        let mut analyzer = Analyzer::new();
        analyzer.load(system).expect("generated systems are valid");
        laid_out.push(analyzer);
    }
    group.bench_function("theorem-1-sound-laid-out-before", |bencher| {
        let mut accepts = |analyzer: &mut Analyzer| analyzer.run(Variant::Sound).schedulable;
        bencher.iter(|| laid_out.iter_mut().map(&mut accepts).filter(|&accepted| accepted).count());
    });
    group.bench_function("response-time-analysis-crate-theorem-1", |bencher| {
        let accepts = |system: &&System| theorem_1(black_box(system)).iter().all(Option::is_some);
        bencher.iter(|| systems.iter().filter(accepts).count());
    });
    group.bench_function("response-time-analysis-crate-preemptive-fp", |bencher| {
        let accepts = |system: &&System| preemptive(black_box(system));
        bencher.iter(|| systems.iter().filter(accepts).count());
    });
    group.finish();
}

fn admission(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("admission");
    for (chains, utilisation) in [(12, 0.25), (100, 0.1)] {
        let system = admitted(chains, utilisation);
        let decide = |system: &System| {
            let mut analyzer = Analyzer::new();
            analyzer.load(black_box(system)).expect("generated systems are valid");
            analyzer.decide(Variant::Tight).schedulable
        };
        group.bench_function(format!("{chains}-chains-accepted"), |bencher| {
            bencher.iter(|| assert!(decide(&system)));
        });
        let mut late = system.clone();
        let candidate = &mut late.chains[chains / 2];
        for callback in &mut candidate.callbacks {
            callback.segments[0].exec.max_ns = candidate.period_ns / 4;
        }
        group.bench_function(format!("{chains}-chains-refused-and-explained"), |bencher| {
            bencher.iter(|| assert!(!decide(&late)));
        });
    }
    group.finish();
}

type Demand = RBF<Sporadic, Scalar>;

/// A chain's demand with `ceil(t / T) + 1` jobs in a window `t`: a whole period of jitter.
fn carried_in(period_ns: u64, demand_ns: u64) -> Demand {
    let period = Duration::from(period_ns);
    RBF::new(Sporadic::new(period, period), Scalar::new(Service::from(demand_ns)))
}

/// Theorem 1 for sets like those of figure 14a (one executor per chain, all segments of a chain
/// alike, no overheads): the response times within the deadline, in the order of the chains.
fn theorem_1(system: &System) -> Vec<Option<u64>> {
    let processor = Dedicated::new();
    let demand = |chain: &analysis::Chain| -> u64 { chain.segments().map(|s| s.exec.max_ns).sum() };
    let mut accelerator: Vec<Demand> = Vec::with_capacity(system.chains.len());
    let mut responses = Vec::with_capacity(system.chains.len());
    // The generator gives priorities in falling order.
    for (index, chain) in system.chains.iter().enumerate() {
        let segments = chain.segments().count() as u64;
        let longest = chain.segments().map(|s| s.exec.max_ns).max().unwrap_or(0);
        let below = system.chains[index + 1..].iter();
        let same = below.filter(|other| other.buckets[0] == chain.buckets[0]);
        let blocking = same.flat_map(|other| other.segments()).map(|s| s.exec.max_ns).max();
        let blocking = blocking.unwrap_or(0);
        let above = |t: Duration| -> Service {
            accelerator.iter().map(|other| other.service_needed(t)).sum()
        };
        let utilisation: f64 = system.chains[..index]
            .iter()
            .map(|other| demand(other) as f64 / other.period_ns as f64)
            .sum();
        // Shares are whole percents here: what is not below 1 is 1 or more.
        let handling = (utilisation < 0.999).then(|| {
            fixed_point::search(&processor, Duration::from(u64::MAX / 4), |t| {
                Service::from(longest + blocking) + above(t)
            })
        });
        let l2 = match handling {
            Some(Ok(handling)) => u64::from(handling).saturating_mul(segments),
            _ => u64::MAX,
        };
        let l3 = demand(chain) + segments * blocking;
        let cpu: u64 = chain.callbacks.iter().map(|callback| callback.cpu.max_ns).sum();
        let place = &system.executors[chain.callbacks[0].executor];
        let preempting: Vec<Demand> = system.chains[..index]
            .iter()
            .filter(|other| system.executors[other.callbacks[0].executor].core == place.core)
            .map(|other| {
                let cpu = other.callbacks.iter().map(|callback| callback.cpu.max_ns).sum();
                carried_in(other.period_ns, cpu)
            })
            .collect();
        let response = fixed_point::search(&processor, Duration::from(chain.deadline_ns), |t| {
            let l3 = Service::from(l3) + above(t);
            let handling = Service::from(l2).min(l3);
            let interference: Service =
                preempting.iter().map(|other| other.service_needed(t)).sum();
            Service::from(cpu) + handling + interference
        });
        responses.push(response.ok().map(u64::from));
        accelerator.push(carried_in(chain.period_ns, demand(chain)));
    }
    responses
}

/// The crate's analysis of preemptive fixed priorities, with the accelerator as the processor.
fn preemptive(system: &System) -> bool {
    let demand = |chain: &analysis::Chain| -> Demand {
        let exec_ns = chain.segments().map(|s| s.exec.max_ns).sum::<u64>();
        let arrivals = Sporadic::new_zero_jitter(Duration::from(chain.period_ns));
        RBF::new(arrivals, Scalar::new(Service::from(exec_ns)))
    };
    let demands: Vec<Demand> = system.chains.iter().map(demand).collect();
    let meets = |(index, chain): (usize, &analysis::Chain)| {
        let deadline = Duration::from(chain.deadline_ns);
        let bound = fixed_priority::fully_preemptive::dedicated_uniproc_rta(
            &demands[index],
            &demands[..index],
            deadline,
        );
        bound.is_ok_and(|bound| bound <= deadline)
    };
    // Every chain is analysed, as by the others.
    system.chains.iter().enumerate().filter(|&chain| meets(chain)).count() == system.chains.len()
}

/// The two implementations of Theorem 1 agree on every set.
fn check_same_results(systems: &[System]) {
    let mut analyzer = Analyzer::new();
    for system in systems {
        analyzer.load(system).expect("generated systems are valid");
        let verdict = analyzer.run(Variant::Published);
        let responses: Vec<_> = verdict.chains.iter().map(|&(_, response)| response).collect();
        assert_eq!(responses, theorem_1(system));
    }
}

criterion_group!(benches, sets, admission);
criterion_main!(benches);
