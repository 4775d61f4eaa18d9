//! Random systems through the public door: they keep what they promise, and stay what they were.

use analysis::generate::{
    Error, Fig14, Overheads, Proposal, deadline_monotonic, log_uniform, random, split, stream,
    tiny, uunifast, uunifast_discard,
};
use analysis::{Analyzer, Chain, Span, Status, System, Variant, Wait};

const SETS: u64 = 10_000;

/// Draws and checks a system for each number below [`SETS`].
fn each(draw: impl Fn(u64) -> System) {
    for set in 0..SETS {
        let system = draw(set);
        if let Err(error) = system.check() {
            panic!("set {set}: {error}\n{system:#?}");
        }
    }
}

fn exec_ns(chain: &Chain) -> u64 {
    chain.segments().map(|segment| segment.exec.max_ns).sum()
}

fn cpu_ns(chain: &Chain) -> u64 {
    chain.callbacks.iter().map(|callback| callback.cpu.max_ns).sum()
}

/// Every number of a system.
fn numbers(system: &System) -> Vec<u64> {
    let mut numbers = vec![system.kappa_ns, system.epsilon_ns, system.sigma_ns, system.hop_ns];
    for accelerator in &system.accelerators {
        numbers.extend([u64::from(accelerator.buckets), accelerator.concurrent_lowest.into()]);
    }
    for executor in &system.executors {
        numbers.extend([executor.core, executor.priority].map(u64::from));
    }
    for chain in &system.chains {
        numbers.extend([u64::from(chain.priority), (chain.wait == Wait::Spin).into()]);
        numbers.extend([chain.period_ns, chain.deadline_ns, chain.jitter_ns]);
        numbers.push(chain.best_effort.into());
        numbers.extend(chain.buckets.iter().map(|&bucket| u64::from(bucket)));
        for callback in &chain.callbacks {
            numbers.extend([callback.executor as u64, callback.cpu.min_ns, callback.cpu.max_ns]);
            for segment in &callback.segments {
                numbers.extend([segment.accelerator as u64, segment.cpu_before_ns]);
                numbers.extend([segment.exec.min_ns, segment.exec.max_ns]);
            }
        }
    }
    numbers
}

/// FNV-1a of a system.
fn hash(system: &System) -> u64 {
    numbers(system)
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

#[test]
fn every_system_passes_the_check_of_the_model() {
    each(|set| random(&mut stream(1, 0, set)));
    each(|set| tiny(&mut stream(1, 1, set)));
    each(|set| {
        let chains = 1 + (set % u64::from(Fig14::MAX_CHAINS)) as u32;
        let point = Fig14 { wait: Wait::Spin, ..Fig14::a(chains, (set % 101) as u32) };
        point.draw(&mut stream(1, 2, set))
    });
    each(|set| Fig14::b((set % 101) as u32, (set / 101 % 101) as u32).draw(&mut stream(1, 3, set)));
    each(|set| {
        let proposal = Proposal {
            callbacks: (1, 1 + set as usize % 6),
            segments: (0, 1 + set as usize % 4),
            accelerator_to_cpu: [0.1, 1.0, 9.0][set as usize % 3],
            accelerators: 1 + set as usize % 3,
            buckets: 1 + set as u32 % 7,
            cores: 1 + set as u32 % 5,
            chains_per_executor: 1 + set as usize % 4,
            spinning: 0.5,
            spanning: 0.5,
            deadline_factor: [0.5, 1.0][set as usize % 2],
            ..Proposal::new(5 + set as usize % 8, 0.3)
        };
        proposal.draw(&mut stream(1, 4, set)).unwrap()
    });
}

#[test]
fn sets_stay_what_they_were() {
    // If one of these changes, published studies can no longer be repeated: say so in the change,
    // and give the command a new version.
    assert_eq!(hash(&Fig14::a(6, 10).draw(&mut stream(7, 6, 42))), FIG14);
    assert_eq!(hash(&Proposal::new(8, 0.5).draw(&mut stream(7, 8, 42)).unwrap()), PROPOSAL);
    assert_eq!(hash(&random(&mut stream(7, 0, 42))), RANDOM);
    assert_eq!(hash(&tiny(&mut stream(7, 0, 42))), TINY);
}

const FIG14: u64 = 0x5d8a_aef3_c248_8f83;
const PROPOSAL: u64 = 0x23c2_fce5_7d62_d993;
const RANDOM: u64 = 0xebbd_7967_2d91_cc43;
const TINY: u64 = 0xe154_a02e_a3e6_faa2;

#[test]
fn fig14a_is_what_the_published_scripts_draw() {
    let system = Fig14::a(12, 20).draw(&mut stream(3, 12, 0));
    assert_eq!((system.kappa_ns, system.epsilon_ns, system.sigma_ns, system.hop_ns), (0, 0, 0, 0));
    assert_eq!(system.accelerators.len(), 1);
    for (i, chain) in (1u32..).zip(&system.chains) {
        assert_eq!(chain.priority, 99 - i);
        assert_eq!(chain.buckets, [if i <= 5 { 5 } else { 4 }], "chain {i}");
        assert_eq!((chain.deadline_ns, chain.jitter_ns), (chain.period_ns, 0));
        assert_eq!((chain.wait, chain.best_effort), (Wait::Suspend, false));
        assert_eq!(chain.callbacks.len(), 4);
        let executor = system.executors[i as usize - 1];
        assert_eq!((executor.core, executor.priority), (2 + i % 6, chain.priority));
        // T U / 8 = T / 40.
        let share = Span::up_to(chain.period_ns / 40);
        for callback in &chain.callbacks {
            assert_eq!((callback.executor, callback.cpu), (i as usize - 1, share));
            assert_eq!(callback.segments.len(), 1);
            let segment = callback.segments[0];
            assert_eq!((segment.accelerator, segment.exec, segment.cpu_before_ns), (0, share, 0));
        }
        assert_eq!(5 * (exec_ns(chain) + cpu_ns(chain)), chain.period_ns);
    }
}

#[test]
fn fig14_periods_are_every_multiple_of_10_ms_with_half_weight_at_the_ends() {
    let mut count = [0u32; 101];
    for set in 0..SETS {
        for chain in Fig14::a(9, 10).draw(&mut stream(5, 9, set)).chains {
            assert_eq!(chain.period_ns % 10_000_000, 0);
            count[(chain.period_ns / 10_000_000) as usize] += 1;
        }
    }
    assert!(count[..10].iter().all(|&count| count == 0));
    // 901 values; 5 of them become 100 ms, 6 become 1000 ms, 10 each of the others.
    let expected = |step: usize| match step {
        10 => 5.0 / 901.0,
        100 => 6.0 / 901.0,
        _ => 10.0 / 901.0,
    };
    let total = (9 * SETS) as f64;
    let chi_square: f64 = (10..=100)
        .map(|step| {
            (f64::from(count[step]) - total * expected(step)).powi(2) / (total * expected(step))
        })
        .sum();
    // 90 degrees of freedom: above 137.2 once in a thousand seeds.
    assert!(chi_square < 137.2, "{chi_square}");
}

#[test]
fn fig14b_divides_the_same_utilisation_otherwise() {
    for (percent, share) in [(10, 10), (35, 70), (70, 100), (5, 0)] {
        let system = Fig14::b(percent, share).draw(&mut stream(3, 4, 1));
        assert_eq!(system.chains.len(), 4);
        for chain in &system.chains {
            let both_ns = chain.period_ns / 100 * u64::from(percent);
            assert_eq!(exec_ns(chain) + cpu_ns(chain), both_ns);
            assert_eq!(100 * exec_ns(chain), both_ns * u64::from(share));
        }
    }
    assert_eq!(Fig14::b(10, 50), Fig14::a(4, 10));
}

#[test]
fn periods_are_common_to_all_utilisations_of_a_stream() {
    // The curves of a figure then differ by what they show, not by chance.
    let periods = |percent: u32| -> Vec<u64> {
        let system = Fig14::a(6, percent).draw(&mut stream(1, 6, 5));
        system.chains.iter().map(|chain| chain.period_ns).collect()
    };
    assert_eq!(periods(10), periods(70));
}

#[test]
fn uunifast_sums_to_the_total_and_is_uniform() {
    let rng = &mut stream(11, 0, 0);
    for count in [1, 2, 5, 20] {
        let mut above_half = vec![0u32; count];
        for _ in 0..SETS {
            let shares = uunifast(rng, count, 0.7);
            assert_eq!(shares.len(), count);
            assert!((shares.iter().sum::<f64>() - 0.7).abs() < 1e-9);
            for (share, above) in shares.iter().zip(&mut above_half) {
                assert!((0.0..=0.7).contains(share));
                *above += u32::from(*share > 0.35);
            }
        }
        // A share of a uniform vector is above half the total with probability 2^(1 - count),
        // whichever share it is. Five standard deviations.
        let probability = 0.5f64.powi(count as i32 - 1);
        let deviation = (SETS as f64 * probability * (1.0 - probability)).sqrt();
        for above in above_half {
            let off = (f64::from(above) - SETS as f64 * probability).abs();
            assert!(off <= 5.0 * deviation + 1.0, "{count} shares: {above} above half");
        }
    }
    assert!(uunifast(rng, 0, 0.7).is_empty());
}

#[test]
fn discarding_keeps_the_cap_and_says_when_it_cannot() {
    let rng = &mut stream(12, 0, 0);
    for _ in 0..1000 {
        let shares = uunifast_discard(rng, 4, 1.0, 0.4).unwrap();
        assert!(shares.iter().all(|share| *share <= 0.4));
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
    let error = uunifast_discard(rng, 4, 1.7, 0.4).unwrap_err();
    assert_eq!(error, Error::Discarded { chains: 4, total: 1.7, cap: 0.4, draws: 0 });
    assert!(error.to_string().contains("found 4 chains that share 1.7"));
    assert!(matches!(uunifast_discard(rng, 9, 3.59, 0.4), Err(Error::Discarded { .. })));
}

#[test]
fn every_octave_of_log_uniform_is_as_likely() {
    let rng = &mut stream(13, 0, 0);
    let mut count = [0u32; 6];
    for _ in 0..60_000 {
        // 64 to 4095 in steps of 1: six octaves.
        let drawn = log_uniform(rng, 64, 4095, 1);
        count[drawn.ilog2() as usize - 6] += 1;
    }
    let chi_square: f64 = count.iter().map(|&count| (f64::from(count) - 1e4).powi(2) / 1e4).sum();
    // 5 degrees of freedom: above 20.5 once in a thousand seeds.
    assert!(chi_square < 20.5, "{count:?}");
    let drawn: Vec<u64> = (0..5000).map(|_| log_uniform(rng, 20, 100, 20)).collect();
    assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&20), Some(&100)));
    assert!(drawn.iter().all(|drawn| drawn % 20 == 0));
}

#[test]
fn split_loses_nothing() {
    let rng = &mut stream(14, 0, 0);
    for total in [0, 1, 5, 17, 1_000_000] {
        for parts in [1, 2, 5] {
            for least in [0, 1] {
                let pieces = split(rng, total, parts, least);
                assert_eq!(pieces.len(), parts);
                assert!(pieces.iter().all(|&piece| piece >= least));
                assert_eq!(pieces.iter().sum::<u64>(), total.max(least * parts as u64));
            }
        }
    }
    assert!(split(rng, 7, 0, 1).is_empty());
    // The first piece is 0 to 9, each as likely.
    let first: u64 = (0..20_000).map(|_| split(rng, 9, 2, 0)[0]).sum();
    assert!((85_000..95_000).contains(&first), "{first}");
}

#[test]
fn proposal_asks_for_what_was_asked_and_orders_by_deadline() {
    let proposal = Proposal { spanning: 0.5, ..Proposal::new(9, 0.6) };
    let (mut spinning, mut spanning) = (0, 0);
    for set in 0..300 {
        let system = proposal.draw(&mut stream(2, 9, set)).unwrap();
        assert_eq!((system.kappa_ns, system.epsilon_ns), (129_000, 391_000));
        let share = |ns: u64, chain: &Chain| ns as f64 / chain.period_ns as f64;
        let on_accelerator: f64 = system.chains.iter().map(|c| share(exec_ns(c), c)).sum();
        let on_cores: f64 = system.chains.iter().map(|c| share(cpu_ns(c), c)).sum();
        assert!((on_accelerator - 0.6).abs() < 1e-5 && (on_cores - 0.6).abs() < 1e-5);
        for chain in &system.chains {
            assert!((20..=1000).contains(&(chain.period_ns / 1_000_000)));
            assert_eq!(chain.period_ns % 1_000_000, 0);
            assert!(share(exec_ns(chain) + cpu_ns(chain), chain) <= 0.9 + 1e-6);
            assert!((2..=5).contains(&chain.callbacks.len()));
            spinning += u32::from(chain.wait == Wait::Spin);
            spanning += u32::from(chain.parts().count() == 2);
        }
        let order = system.chains_by_priority();
        let deadlines =
            order.windows(2).map(|p| [p[0], p[1]].map(|c| system.chains[c].deadline_ns));
        assert!(deadlines.into_iter().all(|[higher, lower]| higher <= lower));
        // Nine chains in pairs.
        assert_eq!(system.executors.len(), 5);
    }
    assert_eq!(spinning, 0);
    assert!((1000..1700).contains(&spanning), "{spanning} of 2700 chains span two executors");
}

#[test]
fn deadline_monotonic_changes_the_order_and_nothing_else() {
    for set in 0..500 {
        for given in [random(&mut stream(4, 0, set)), Fig14::a(9, 10).draw(&mut stream(4, 1, set))]
        {
            let mut ordered = deadline_monotonic(&given);
            ordered.check().unwrap();
            let order = ordered.chains_by_priority();
            let deadlines: Vec<u64> =
                order.iter().map(|&c| ordered.chains[c].deadline_ns).collect();
            assert!(deadlines.is_sorted());
            // The executor of the most critical chain comes first, where it has a core to itself
            // or not.
            let first = ordered.chains[order[0]].callbacks[0].executor;
            let highest = ordered.executors.iter().map(|executor| executor.priority).max();
            if ordered.chains[order[0]].parts().count() == 1 {
                assert_eq!(Some(ordered.executors[first].priority), highest);
            }
            for (chain, was) in ordered.chains.iter_mut().zip(&given.chains) {
                chain.priority = was.priority;
                chain.buckets.clone_from(&was.buckets);
            }
            for (executor, was) in ordered.executors.iter_mut().zip(&given.executors) {
                executor.priority = was.priority;
            }
            assert_eq!(ordered, given);
        }
    }
    let once = Proposal::new(8, 0.4).draw(&mut stream(4, 2, 0)).unwrap();
    assert_eq!(deadline_monotonic(&once), once, "a proposal is ordered already");
}

#[test]
fn proposal_refuses_what_it_cannot_draw_and_names_it() {
    let refusal = |proposal: Proposal| proposal.draw(&mut stream(1, 1, 1)).unwrap_err().to_string();
    let fine = Proposal::new(6, 0.5);
    assert_eq!(
        refusal(Proposal { spinning: 1.5, ..fine }),
        "spinning: found 1.5, expected a probability from 0 to 1"
    );
    assert!(refusal(Proposal { chains: 0, ..fine }).starts_with("chains: found 0"));
    assert!(refusal(Proposal { callbacks: (3, 2), ..fine }).starts_with("callbacks: found 3 to 2"));
    assert!(refusal(Proposal { segments: (0, 0), ..fine }).starts_with("segments"));
    assert!(refusal(Proposal { utilisation: f64::NAN, ..fine }).starts_with("utilisation"));
    assert!(refusal(Proposal { cap: 0.0, ..fine }).starts_with("cap"));
    assert!(refusal(Proposal { accelerator_to_cpu: 0.0, ..fine }).contains("ratio"));
    assert!(refusal(Proposal { utilisation: 3.0, ..fine }).contains("expected a lower total"));
    assert!(Proposal { overheads: Overheads::NONE, ..fine }.check().is_ok());
}

/// Each feature that a bound could get wrong is in some of the systems, and not in all of them.
#[test]
fn random_systems_have_every_feature_now_and_then() {
    for draw in [random, tiny] {
        let systems: Vec<System> = (0..2000).map(|set| draw(&mut stream(6, 0, set))).collect();
        let some = |what: &str, has: &dyn Fn(&System) -> bool| {
            let count = systems.iter().filter(|system| has(system)).count();
            assert!((60..1940).contains(&count), "{what}: {count} of 2000 systems");
        };
        let chain = |has: fn(&Chain) -> bool| move |s: &System| s.chains.iter().any(has);
        some("kappa", &|s| s.kappa_ns > 0);
        some("epsilon", &|s| s.epsilon_ns > 0);
        some("sigma", &|s| s.sigma_ns > 0);
        some("hop", &|s| s.hop_ns > 0);
        some("two accelerators", &|s| s.accelerators.len() > 1);
        some("three accelerators", &|s| s.accelerators.len() > 2);
        some("one bucket", &|s| s.accelerators[0].buckets == 1);
        some("six buckets", &|s| s.accelerators[0].buckets == 6);
        some("one executor", &|s| s.executors.len() == 1);
        some("five executors", &|s| s.executors.len() == 5);
        some("three cores", &|s| s.executors.iter().any(|e| e.core == 2));
        some("spin", &chain(|c| c.wait == Wait::Spin));
        some("suspend", &chain(|c| c.wait == Wait::Suspend));
        some("parts", &chain(|c| c.parts().count() > 1));
        some(
            "a revisit",
            &chain(|c| {
                let visits: Vec<usize> =
                    c.parts().map(|part| c.callbacks[part.start].executor).collect();
                visits.iter().enumerate().any(|(at, visit)| visits[..at].contains(visit))
            }),
        );
        some("no accelerator", &chain(|c| c.segments().count() == 0));
        some("jitter", &chain(|c| c.jitter_ns > 0));
        some("a short deadline", &chain(|c| c.deadline_ns < c.period_ns));
        some("best effort", &chain(|c| c.best_effort));
        some("a best case", &chain(|c| c.segments().any(|s| s.exec.min_ns > 0)));
        some("cpu before", &chain(|c| c.segments().any(|s| s.cpu_before_ns > 0)));
        some("not deadline monotonic", &|s| {
            let order = s.chains_by_priority();
            order.windows(2).any(|p| s.chains[p[0]].deadline_ns > s.chains[p[1]].deadline_ns)
        });
    }
    let most = (0..2000).map(|set| tiny(&mut stream(6, 0, set)));
    let periods = most.flat_map(|system| system.chains).map(|chain| chain.period_ns);
    assert!(periods.clone().min() == Some(8) && periods.max() == Some(40));
}

/// A generator whose chains all pass, or all fail, would test nothing.
#[test]
fn a_good_share_of_random_chains_has_a_guarantee() {
    let mut analyzer = Analyzer::new();
    for draw in [random, tiny] {
        for variant in [Variant::Published, Variant::Sound, Variant::Tight] {
            let (mut guaranteed, mut chains) = (0, 0);
            for set in 0..1000 {
                analyzer.load(&draw(&mut stream(8, 0, set))).unwrap();
                let verdict = analyzer.run(variant);
                guaranteed += verdict.chains.iter().filter(|c| c.0 == Status::Ok).count();
                chains += verdict.chains.len();
            }
            let share = guaranteed as f64 / chains as f64;
            assert!((0.1..0.6).contains(&share), "{variant:?}: {guaranteed} of {chains} chains");
        }
    }
}
