//! The report of bounds, through its public door, on values written down by hand: every status,
//! every reason, and what is said of them.

use analysis::{
    Accelerator, Analysis, Callback, Chain, ChainBound, Executor, PartBound, Refusal, Segment,
    Span, Status, System, Term, TermKind, Variant, Wait,
};
use report::analysis::{Bounds, Names, advice, composition, explain, json, table};
use serde_json::json;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn term(kind: TermKind, chain: usize, ns: u64) -> Term {
    Term { kind, chain, ns }
}

fn callback(executor: usize, cpu_ns: u64, exec_ns: &[u64]) -> Callback {
    let segment = |&ns: &u64| Segment { accelerator: 0, exec: Span::up_to(ns), cpu_before_ns: 0 };
    let segments = exec_ns.iter().map(segment).collect();
    Callback { executor, cpu: Span::up_to(cpu_ns), segments }
}

fn chain(priority: u32, period_ns: u64, bucket: u32, callbacks: Vec<Callback>) -> Chain {
    Chain {
        priority,
        period_ns,
        deadline_ns: period_ns,
        jitter_ns: 0,
        wait: Wait::Suspend,
        best_effort: false,
        buckets: vec![bucket],
        callbacks,
    }
}

/// One part whose quantities are what its terms sum up to.
fn part(executor: usize, callbacks: std::ops::Range<usize>, terms: Vec<Term>) -> PartBound {
    PartBound {
        executor,
        callbacks,
        blocking_ns: Some(0),
        cpu_ns: 2 * MS,
        segment_handling_ns: vec![Some(10 * MS + 500)],
        handling_l2_ns: Some(10 * MS + 500),
        handling_l3_ns: None,
        handling_ns: Some(11 * MS),
        response_ns: Some(terms.iter().map(|term| term.ns).sum()),
        terms,
    }
}

/// brake is guaranteed, steer is late, map relies on steer, log is best effort and has no bound.
fn robot() -> Bounds {
    let log = chain(1, 500 * MS, 0, vec![callback(1, MS, &[100 * MS])]);
    let system = System {
        kappa_ns: 100 * US,
        hop_ns: 500 * US,
        accelerators: vec![Accelerator { buckets: 4, concurrent_lowest: true }],
        executors: vec![Executor { core: 1, priority: 80 }, Executor { core: 2, priority: 70 }],
        chains: vec![
            chain(9, 50 * MS, 3, vec![callback(0, 2 * MS, &[10 * MS])]),
            chain(8, 60 * MS, 2, vec![callback(0, 8 * MS, &[20 * MS])]),
            chain(7, 200 * MS, 1, vec![callback(0, MS, &[5 * MS]), callback(1, 3 * MS, &[])]),
            Chain { best_effort: true, ..log },
        ],
        ..System::default()
    };
    let bound = |status, response_ns, relies_on, refusal, parts| ChainBound {
        status,
        response_ns,
        parts,
        relies_on,
        refusal,
    };
    use TermKind::{
        Accelerator as Own, AcceleratorInterference as OnGpu, Blocking, BucketBlocking, Cpu,
        ExecutorInterference,
    };
    let late = vec![
        term(OnGpu, 0, 30_600 * US),
        term(Own, 1, 20_200 * US),
        term(ExecutorInterference, 0, 12 * MS),
        term(Cpu, 1, 8 * MS),
        term(Blocking, 2, 6 * MS),
    ];
    let largest = Some(late[0]);
    let mut passed = part(0, 0..1, late);
    passed.response_ns = None;
    let front = part(0, 0..1, vec![term(OnGpu, 1, 90 * MS), term(Cpu, 2, MS)]);
    let back = part(1, 1..2, vec![term(Cpu, 2, 3 * MS)]);
    let chains = vec![
        bound(
            Status::Ok,
            Some(37_400_100),
            vec![],
            None,
            vec![part(
                0,
                0..1,
                vec![
                    term(BucketBlocking, 1, 20_200 * US),
                    term(Own, 0, 10_200_100),
                    term(Blocking, 1, 5 * MS),
                    term(Cpu, 0, 2 * MS),
                ],
            )],
        ),
        bound(
            Status::Miss,
            None,
            vec![0],
            Some(Refusal::Late { part: Some(0), missing_ns: 16_800 * US, largest }),
            vec![passed],
        ),
        bound(
            Status::Dependent,
            Some(94_500 * US),
            vec![0, 1],
            Some(Refusal::Relies { chain: 1 }),
            vec![front, back],
        ),
        bound(
            Status::Miss,
            None,
            vec![],
            Some(Refusal::Concurrent { accelerator: 0 }),
            vec![part(1, 0..1, vec![term(Own, 3, 100 * MS)])],
        ),
    ];
    Bounds {
        file: "robot.yaml".to_owned(),
        names: Names {
            accelerators: vec!["gpu0".to_owned()],
            executors: vec!["front".to_owned(), "rear".to_owned()],
            chains: ["brake", "steer", "map", "log"].map(str::to_owned).to_vec(),
        },
        system,
        analysis: Analysis { variant: Variant::Tight, schedulable: false, chains },
        marks: vec!["every accelerator time is 1.25 times that of the file".to_owned()],
    }
}

#[test]
fn table_says_who_is_guaranteed_and_why_others_are_not() {
    let expected = "\
robot.yaml: not schedulable (tight analysis)
! every accelerator time is 1.25 times that of the file

  times in ms
  chain  priority   period  deadline     bound   slack        status
  brake         9   50.000    50.000    37.401  12.599  25 %  guaranteed
  steer         8   60.000    60.000         -       -        late by at least 16.8 ms
  map           7  200.000   200.000  (94.500)       -        no guarantee: relies on steer
  log           1  500.000   500.000         -       -        no bound: bucket 0 of gpu0 is concurrent (best effort)
";
    assert_eq!(table(&robot(), false), expected);
}

#[test]
fn composition_has_the_largest_addend_first_and_sums_up_to_the_bound() {
    let expected = "\
brake: 37.401 ms, deadline 50.000, guaranteed
  20.200  54 %  ████████████  blocking by steer in a bucket of gpu0
  10.201  27 %  ██████        own time on gpu0
   5.000  13 %  ███           blocking by steer on executor front
   2.000   5 %  █             own processor time

steer: no bound; beyond 76.800 ms, deadline 60.000, late by at least 16.8 ms
  30.600  39 %  █████████  interference of brake on gpu0
  20.200  26 %  ██████     own time on gpu0
  12.000  15 %  ███        interference of brake on executor front
   8.000  10 %  ██         own processor time
   6.000   7 %  █          blocking by map on executor front

map: (94.500) ms, deadline 200.000, no guarantee: relies on steer
  90.000  95 %  ██████████████████████  interference of steer on gpu0
   4.000   4 %  █                       own processor time
   0.500   0 %  █                       hops between its executors
";
    assert_eq!(composition(&robot(), false), expected);
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    for (coloured, plain) in [
        (table(&robot(), true), table(&robot(), false)),
        (composition(&robot(), true), composition(&robot(), false)),
        (explain(&robot(), 2, true), explain(&robot(), 2, false)),
    ] {
        let mut stripped = String::new();
        for (i, part) in coloured.split('\u{1b}').enumerate() {
            stripped += if i == 0 { part } else { part.split_once('m').unwrap().1 };
        }
        assert_eq!(stripped, plain);
        assert_ne!(coloured, plain);
    }
}

#[test]
fn explanation_goes_part_by_part_and_names_whom_it_relies_on() {
    let text = explain(&robot(), 2, false);
    for line in [
        "  part 1 of 2: callback 1 of 2 on executor front (core 1, priority 80)",
        "  H[1]  10.001  handling of request 1 on gpu0 alone (Lemma 2)",
        "  H3         -  all requests within R (Lemma 3)",
        "  R     91.000  response time of the part",
        "  part 2 of 2: callback 2 of 2 on executor rear (core 2, priority 70)",
        "map relies on brake being in time, and it is.",
        "map relies on steer being in time, which is not guaranteed.",
        "map is in bucket 1 of gpu0 (3 is served first).",
    ] {
        assert!(text.lines().any(|found| found.trim() == line.trim()), "{line}\n{text}");
    }
}

#[test]
fn advice_begins_where_the_trouble_begins() {
    let advice = advice(&robot());
    let expected = [
        "1 of 3 chains whose deadlines count is guaranteed.",
        "Change steer first: its bound passes the deadline of 60 ms by at least 16.8 ms.",
        "The largest thing that can be taken away is interference of brake on gpu0 (30.6 ms): it \
         must shrink by 16.8 ms (55 %), at least.",
        "The largest cause is chain brake: 42.6 ms, 55 % of the bound, in all.",
        "map would be in time, but has no guarantee as long as one that it relies on has none.",
    ];
    assert_eq!(advice, expected);
}

#[test]
fn advice_adds_up_what_must_shrink_together() {
    let mut robot = robot();
    let late = |missing_ns| Some(Refusal::Late { part: Some(0), missing_ns, largest: None });
    robot.analysis.chains[1].refusal = late(40 * MS);
    let together = "No single thing is large enough: interference of brake on gpu0 (30.6 ms) and \
                    interference of brake on executor front (12 ms) must shrink by 40 ms (94 %) \
                    together, at least.";
    assert_eq!(advice(&robot)[2], together);
    robot.analysis.chains[1].refusal = late(60 * MS);
    let alone = "Even alone it is late: its own work takes 28.2 ms. Shorten that, or give it more \
                 time.";
    assert_eq!(advice(&robot)[2], alone);
}

#[test]
fn advice_names_who_asks_for_too_much() {
    let mut robot = robot();
    robot.analysis.chains[1].status = Status::Ok;
    robot.analysis.chains[2].status = Status::Miss;
    robot.analysis.chains[2].refusal = Some(Refusal::Overload { accelerator: 0, chain: 2 });
    let text = "Change what is above map first: with overheads those chains ask for 54 % of gpu0, \
                which leaves nothing for it. The largest shares: steer 33 % and brake 20 %.";
    assert_eq!(advice(&robot)[1], text);
    assert!(table(&robot, false).contains("no bound: gpu0 is overloaded\n"));
    robot.analysis.chains[2].refusal = Some(Refusal::Overload { accelerator: 0, chain: 1 });
    assert!(table(&robot, false).contains("no bound: gpu0 is overloaded for steer\n"));
}

#[test]
fn advice_for_a_system_that_holds_is_its_least_slack() {
    let mut robot = robot();
    robot.analysis.schedulable = true;
    for chain in &mut robot.analysis.chains[..3] {
        chain.status = Status::Ok;
        chain.response_ns.get_or_insert(59_999_999);
    }
    let expected = [
        "All 3 chains whose deadlines count are guaranteed.",
        "steer has the least slack: 1 ns, 0 % of its deadline; the largest thing it waits for is \
         interference of brake on gpu0 (30.6 ms).",
    ];
    assert_eq!(advice(&robot), expected);
    assert!(table(&robot, false).starts_with("robot.yaml: schedulable (tight analysis)\n"));
}

#[test]
fn published_numbers_are_never_called_guarantees() {
    let mut robot = robot();
    robot.analysis.variant = Variant::Published;
    robot.analysis.schedulable = true;
    let text = table(&robot, false);
    let first = "robot.yaml: accepted, but that means nothing (published analysis)\n! UNSOUND: ";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("25 %  accepted\n") && !text.contains("guaranteed"), "{text}");
    assert_eq!(advice(&robot), ["1 of 3 chains whose deadlines count is accepted."]);
    assert!(json(&robot)["warning"].as_str().unwrap().starts_with("UNSOUND"));
}

#[test]
fn jitter_of_a_chain_is_part_of_its_bound() {
    let mut robot = robot();
    robot.system.chains[0].jitter_ns = 7 * MS;
    assert!(
        composition(&robot, false).contains("   7.000  15 %  ███         own release jitter\n")
    );
}

#[test]
fn json_has_the_agreed_keys_first_and_times_in_nanoseconds() {
    let json = json(&robot());
    let keys: Vec<&String> = json.as_object().unwrap().keys().take(5).collect();
    assert_eq!(keys, ["schema", "version", "partial", "schedulable", "chains"]);
    let chains = json["chains"].as_object().unwrap();
    assert_eq!(chains.keys().collect::<Vec<_>>(), ["brake", "steer", "map", "log"]);
    let brake = chains["brake"].as_object().unwrap();
    assert_eq!(brake.keys().take(3).collect::<Vec<_>>(), ["status", "R_star_ns", "parts"]);
    let part = brake["parts"][0].as_object().unwrap();
    let keys = "executor B_ns E_ns H_segments_l2_ns H_l2_ns H_l3_ns H_star_ns R_ns terms";
    assert_eq!(part.keys().collect::<Vec<_>>(), keys.split(' ').collect::<Vec<_>>());
    assert_eq!(brake["R_star_ns"], json!(37_400_100));
    assert_eq!(part["H_segments_l2_ns"], json!([10_000_500]));
    assert_eq!((&part["E_ns"], &part["H_l3_ns"]), (&json!(2_000_000), &json!(null)));
    assert_eq!(
        part["terms"][0],
        json!({"kind": "bucket_blocking", "chain": "steer", "time_ns": 20_200_000})
    );
    let of = |id: &str, key: &str| json["chains"][id][key].clone();
    assert_eq!(["steer", "map", "log"].map(|id| of(id, "status")), ["miss", "dep", "miss"]);
    assert_eq!((of("map", "R_star_ns"), of("map", "slack_ns")), (json!(94_500_000), json!(null)));
    assert_eq!(of("map", "relies_on"), json!(["brake", "steer"]));
    assert_eq!(of("steer", "reason")["missing_ns"], 16_800_000);
    assert_eq!(of("log", "reason")["accelerator"], "gpu0");
    assert_eq!(of("brake", "reason"), json!(null));
}

/// The words of real analyses sum up to their bounds, whatever the system.
#[test]
fn addends_of_a_real_analysis_sum_up() {
    let mut summed = 0;
    for variant in [Variant::Tight, Variant::Sound] {
        let mut bounds = robot();
        bounds.system.accelerators[0].concurrent_lowest = false;
        bounds.analysis = analysis::analyze(&bounds.system, variant).unwrap();
        for (chain, bound) in bounds.analysis.chains.iter().enumerate() {
            let Some(response_ns) = bound.response_ns else { continue };
            let text = explain(&bounds, chain, false);
            let addends = text.lines().skip(1).take_while(|line| !line.is_empty());
            let sum: f64 =
                addends.map(|l| l.split_whitespace().next().unwrap().parse::<f64>().unwrap()).sum();
            assert!((sum - response_ns as f64 / 1e6).abs() < 0.01, "{sum} {response_ns}\n{text}");
            summed += 1;
        }
    }
    assert!(summed >= 4, "{summed} bounds");
}
