//! Decisions about claims, without a server.

use super::claim::{Declaration, Terms};
use super::*;
use accel::snapshot::{Origin, Standing};
use analysis::{Span, Wait};
use system::{ArbitrationPolicy, System};
use testing::tells;

const MS: u64 = 1_000_000;

/// Admission control of one accelerator, unless the text says otherwise.
fn admission(buckets: u32, text: &str) -> Admission {
    let accelerators = match text.contains("accelerators:") {
        true => String::new(),
        false => format!("accelerators: [{{id: gpu0, buckets: {buckets}}}]\n"),
    };
    let system = System::parse(&(accelerators + text), "test.yaml").unwrap();
    let options = crate::Options::default();
    Admission::new(crate::rules(&system, ArbitrationPolicy::Priority, &options, None))
}

/// A chain of one callback with one request, in a session of its own on a core of its own.
fn chain(name: &str, priority: u32, period_ms: u64, exec_ms: u64) -> Claim {
    let terms = Terms {
        period_ns: period_ms * MS,
        deadline_ns: period_ms * MS,
        jitter_ns: 0,
        wait: Wait::Suspend,
        best_effort: false,
    };
    let declaration = Declaration {
        terms,
        callback: 0,
        position: 0,
        cpu: Span::up_to(0),
        exec: Span::up_to(exec_ms * MS),
        requests: 1,
    };
    Claim {
        session: u64::from(priority),
        number: 0,
        pid: priority as i32,
        uid: 0,
        chain: name.into(),
        priority,
        accelerator: 0,
        source: Source::Declared(declaration),
        executor: Some((priority, 50)),
        declare: None,
        tally: Arc::default(),
    }
}

fn with(mut claim: Claim, change: impl Fn(&mut Declaration)) -> Claim {
    if let Source::Declared(declaration) = &mut claim.source {
        change(declaration);
    }
    claim
}

fn undeclared(name: &str, priority: u32) -> Claim {
    Claim { source: Source::Nobody, executor: None, ..chain(name, priority, 1, 1) }
}

impl Admission {
    /// Registers a claim; the refusal in words.
    fn add(&mut self, claim: Claim) -> Result<(), String> {
        let decision = self.register(claim).map_err(|(_, text)| text)?;
        let _ = self.commit(decision, Some(0));
        Ok(())
    }

    fn judged(&self, name: &str) -> &Judged {
        self.verdict().chains.iter().find(|judged| judged.name == name).unwrap()
    }

    fn standing(&self, name: &str) -> Standing {
        self.judged(name).standing
    }

    fn bucket(&self, priority: u32) -> u32 {
        self.spreads()[0][&priority]
    }
}

#[test]
fn chain_that_would_make_another_late_is_refused_with_the_reason() {
    let mut admission = admission(1, "");
    admission.add(chain("brake", 9, 100, 40)).unwrap();
    admission.add(chain("steer", 8, 200, 30)).unwrap();
    let before = admission.judged("brake").bound_ns;
    let (code, said) = admission.register(chain("map", 1, 1000, 70)).err().unwrap();
    assert_eq!(code, Code::Admission);
    tells(&said, &["\"map\"", "\"brake\"", "110 ms", "100 ms", "10 ms", "70 ms", "\"map\""]);
    assert_eq!(admission.judged("brake").bound_ns, before, "a refusal changes nothing");
    assert_eq!(admission.claims().len(), 2);
    assert_eq!((admission.counts.decisions, admission.counts.refused), (3, 1));
    admission.leave(9, None);
    admission.add(chain("map", 1, 1000, 70)).unwrap();
    assert_eq!(admission.standing("map"), Standing::Guaranteed);
}

#[test]
fn chain_that_cannot_keep_its_own_deadline_is_refused() {
    let mut admission = admission(2, "");
    admission.add(chain("brake", 9, 100, 60)).unwrap();
    let said = admission.add(chain("map", 1, 150, 80)).unwrap_err();
    tells(&said, &["\"map\"", "deadline", "bound", "\"brake\""]);
    let full = admission.add(chain("map", 1, 1000, 950)).unwrap_err();
    tells(&full, &["\"map\"", "deadline"]);
}

#[test]
fn best_effort_chain_is_let_in_unless_it_breaks_a_promise() {
    let mut admission = admission(2, "");
    admission.add(chain("brake", 9, 100, 60)).unwrap();
    let late = with(chain("map", 1, 150, 80), |d| d.terms.best_effort = true);
    admission.add(late).unwrap();
    assert_eq!(admission.standing("map"), Standing::BestEffort);
    assert_eq!(admission.judged("map").bound_ns, 0, "a bound that does not hold");
    assert_eq!(admission.standing("brake"), Standing::Guaranteed);
    let above = with(chain("above", 10, 100, 60), |d| d.terms.best_effort = true);
    let said = admission.add(above).unwrap_err();
    tells(&said, &["\"above\"", "\"brake\""]);
}

#[test]
fn undeclared_chain_is_let_in_only_below_every_promise() {
    let mut admission = admission(2, "");
    admission.add(undeclared("any", 50)).unwrap();
    admission.leave(50, None);
    admission.add(chain("brake", 9, 100, 60)).unwrap();
    let said = admission.add(undeclared("above", 10)).unwrap_err();
    tells(&said, &["\"above\"", "\"brake\"", "\"above\"", "no period", "\"gpu0\""]);
    assert!(admission.add(undeclared("equal", 9)).is_err());
    // An even spread would put the first of these two beside the promised one.
    admission.add(undeclared("low", 2)).unwrap();
    admission.add(undeclared("lower", 1)).unwrap();
    assert_eq!((admission.bucket(9), admission.bucket(2), admission.bucket(1)), (1, 0, 0));
    assert_eq!(admission.standing("brake"), Standing::Guaranteed);
    assert_eq!(admission.standing("low"), Standing::Undeclared);
    // Also when the promised ones become fewer.
    admission.leave(1, None);
    assert_eq!((admission.bucket(9), admission.bucket(2)), (1, 0));

    let mut single = self::admission(1, "");
    single.add(chain("brake", 9, 100, 60)).unwrap();
    let said = single.add(undeclared("low", 1)).unwrap_err();
    tells(&said, &["\"low\"", "no period", "bucket"]);
}

#[test]
fn undeclared_chain_of_the_same_client_is_in_the_way_of_its_promised_ones() {
    let mut admission = admission(4, CONFIGURED);
    admission.add(chain("brake", 9, 100, 1)).unwrap();
    let same = Claim { session: 9, pid: 9, accelerator: 1, ..undeclared("any", 1) };
    let said = admission.add(same.clone()).unwrap_err();
    tells(&said, &["\"any\"", "no period", "same client"]);
    admission.add(configured("steer", 0, 8, 3)).unwrap();
    assert!(admission.add(Claim { session: 3, accelerator: 0, ..same.clone() }).is_err());
    admission.add(Claim { session: 4, ..same }).unwrap();
}

#[test]
fn declared_chain_is_refused_where_an_undeclared_one_is_in_its_way() {
    let mut admission = admission(4, "");
    admission.add(undeclared("greedy", 50)).unwrap();
    let said = admission.add(chain("brake", 9, 100, 1)).unwrap_err();
    tells(&said, &["\"brake\"", "deadline", "\"greedy\"", "no period", "\"gpu0\""]);
    admission.add(with(chain("map", 8, 100, 1), |d| d.terms.best_effort = true)).unwrap();
    admission.add(chain("brake", 60, 100, 1)).unwrap();
}

/// The same claim of a client of another user.
fn of_a_stranger(claim: Claim) -> Claim {
    Claim { uid: 4_000_000_000, ..claim }
}

#[test]
fn small_declaration_of_another_user_keeps_nothing_more_critical_out() {
    for buckets in [1, 6] {
        let mut admission = admission(buckets, "");
        let small = with(chain("small", 0, 10, 1), |d| d.exec = Span::up_to(1000));
        admission.add(of_a_stranger(small.clone())).unwrap();
        assert_eq!(admission.standing("small"), Standing::Guaranteed);
        let decision = admission.register(chain("brake", 99, 100, 60)).unwrap();
        let news = admission.commit(decision, Some(0));
        tells(&news[0], &["\"small\"", "guarantee"]);
        assert_eq!(admission.standing("brake"), Standing::Guaranteed);
        assert_eq!(admission.standing("small"), Standing::Unguaranteed);
        assert!(admission.leave(99, None).is_empty());
        assert_eq!(admission.standing("small"), Standing::Guaranteed);
        // Also what declares nothing, or asks for no promise.
        let loud = with(chain("loud", 98, 100, 60), |d| d.terms.best_effort = true);
        for claim in [undeclared("any", 98), loud] {
            admission.add(claim).unwrap();
            assert_eq!(admission.standing("small"), Standing::Unguaranteed);
            admission.leave(98, None);
            assert_eq!(admission.standing("small"), Standing::Guaranteed);
        }
        // A user's own promise holds against its own clients.
        let own = of_a_stranger(chain("own", 5, 100, 60));
        assert!(admission.add(own).is_err());
    }
}

#[test]
fn more_critical_promise_and_the_configuration_give_way_to_nobody() {
    let mut admission = self::admission(1, "");
    admission.add(of_a_stranger(chain("brake", 9, 100, 60))).unwrap();
    assert!(admission.add(chain("map", 1, 1000, 70)).is_err(), "less critical");
    assert!(admission.add(undeclared("equal", 9)).is_err());
    assert_eq!(admission.standing("brake"), Standing::Guaranteed);
    let mut admission = self::admission(0, CONFIGURED);
    admission.add(of_a_stranger(configured("steer", 0, 8, 1))).unwrap();
    let said = admission.add(chain("map", 9, 100, 90)).unwrap_err();
    tells(&said, &["\"map\"", "\"steer\""]);
    assert!(admission.add(undeclared("any", 99)).is_err());
}

#[test]
fn spread_that_costs_nobody_a_promise_is_preferred() {
    // Evenly spread, 4 and 3 share the upper bucket, 2 and 1 the lower one, where 1 makes 2 late.
    let mut admission = admission(2, "");
    admission.add(chain("c3", 3, 100, 10)).unwrap();
    admission.add(of_a_stranger(chain("c2", 2, 50, 10))).unwrap();
    admission.add(chain("c1", 1, 1000, 60)).unwrap();
    assert_eq!([3, 2, 1].map(|priority| admission.bucket(priority)), [1, 1, 0]);
    admission.add(chain("c4", 4, 200, 10)).unwrap();
    assert_eq!([4, 3, 2, 1].map(|priority| admission.bucket(priority)), [1, 1, 1, 0]);
    assert_eq!(admission.standing("c2"), Standing::Guaranteed);
}

#[test]
fn who_leaves_costs_nobody_a_promise() {
    // Evenly spread, 4 and 3 share the upper bucket, 2 and 1 the lower one. Without 3, 4 and 2
    // would share it, and 2 has requests that are too long for that.
    let mut admission = admission(2, "");
    admission.add(chain("c4", 4, 50, 10)).unwrap();
    admission.add(chain("c3", 3, 100, 10)).unwrap();
    for claim in [chain("c2", 2, 1000, 60), chain("c1", 1, 2000, 10)] {
        admission.add(claim).unwrap();
    }
    let buckets = |a: &Admission| [4, 2, 1].map(|priority| a.bucket(priority));
    assert_eq!((buckets(&admission), admission.bucket(3)), ([1, 0, 0], 1));
    let lost = admission.leave(3, None);
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(buckets(&admission), [1, 0, 0], "not the even spread, [1, 1, 0]");
    assert_eq!(admission.standing("c4"), Standing::Guaranteed);
    // The even spread comes back if it costs nothing.
    admission.leave(2, None);
    assert_eq!((admission.bucket(4), admission.bucket(1)), (1, 0));
}

#[test]
fn chain_grows_callback_by_callback() {
    let mut admission = admission(2, "");
    let at = |position: u32, core: u32| Claim {
        session: u64::from(core),
        executor: Some((core, 50)),
        ..with(chain("brake", 9, 100, 10), |d| {
            (d.position, d.callback, d.cpu) = (position, u64::from(position), Span::up_to(5 * MS));
        })
    };
    admission.add(at(0, 1)).unwrap();
    let first = admission.judged("brake").clone();
    assert_eq!((first.callbacks, first.positions, first.bound_ns), (1, 1, 15 * MS));
    admission.add(at(3, 2)).unwrap();
    let second = admission.judged("brake").clone();
    assert_eq!((second.callbacks, second.positions, second.bound_ns), (2, 4, 30 * MS));
    // Another segment of the callback at position 0.
    admission.add(with(at(0, 1), |d| d.requests = 2)).unwrap();
    assert_eq!(admission.judged("brake").bound_ns, 50 * MS);
    let said = admission.add(with(at(1, 1), |d| d.requests = 6)).unwrap_err();
    tells(&said, &["115 ms", "100 ms"]);
    admission.leave(2, None);
    assert_eq!(admission.judged("brake").positions, 1);
}

#[test]
fn executors_of_one_core_disturb_each_other() {
    let mut admission = admission(2, "");
    let on = |name: &str, priority: u32, process_priority: u32| Claim {
        executor: Some((0, process_priority)),
        ..with(chain(name, priority, 100, 1), |d| d.cpu = Span::up_to(60 * MS))
    };
    admission.add(on("brake", 9, 50)).unwrap();
    let said = admission.add(on("map", 1, 60)).unwrap_err();
    tells(&said, &["\"map\"", "\"brake\"", "\"map\"", "core"]);
    let said = admission.add(on("map", 1, 50)).unwrap_err();
    tells(&said, &["\"map\"", "process 9", "process 1", "priority 50", "core 0", "expected"]);
    assert_eq!(admission.standing("brake"), Standing::Guaranteed);
}

const CONFIGURED: &str = "
accelerators: [{id: gpu0, buckets: 4}, {id: gpu1, buckets: 4}]
executors: [{id: e1, core: 1, priority: 90}, {id: e2, core: 1, priority: 80}]
chains:
- {id: steer, priority: 8, period: 100 ms, bucket: {gpu0: 1}, callbacks: [{id: a, executor: e1, cpu: 5 ms, segments: [{accel: gpu0, exec: 10 ms}]}, {id: b, executor: e1, segments: [{accel: gpu1, exec: 20 ms}]}]}
- {id: housekeeping, priority: 2, period: 1 s, callbacks: [{id: a, executor: e2, cpu: 30 ms}]}
";

fn configured(name: &str, index: usize, priority: u32, session: u64) -> Claim {
    let source = Source::File(index);
    Claim { session, source, executor: None, ..chain(name, priority, 1, 1) }
}

#[test]
fn configured_chain_comes_as_a_whole() {
    let mut admission = admission(0, CONFIGURED);
    let without_segments = admission.judged("housekeeping");
    assert_eq!(without_segments.standing, Standing::Guaranteed);
    assert_eq!(without_segments.bound_ns, 30 * MS);
    admission.add(configured("steer", 0, 8, 1)).unwrap();
    let steer = admission.judged("steer");
    assert_eq!((steer.origin, steer.bound_ns), (Origin::File, 35 * MS));
    assert_eq!(steer.uses, [0, 1], "also where nobody has registered yet");
    assert_eq!((admission.spreads()[0][&8], admission.spreads()[1][&8]), (1, 3));
    assert!(admission.judged("housekeeping").bound_ns > 30 * MS, "it runs below steer");
    let late = with(chain("map", 9, 100, 90), |_| {});
    let said = admission.add(late).unwrap_err();
    tells(&said, &["\"map\"", "\"steer\""]);
    // It stays while a client uses it.
    admission.add(configured("steer", 0, 8, 2)).unwrap();
    admission.leave(1, None);
    assert_eq!(admission.standing("steer"), Standing::Guaranteed);
    admission.leave(2, None);
    assert!(admission.spreads()[1].is_empty());
    admission.add(chain("map", 9, 100, 90)).unwrap();
}

#[test]
fn session_with_a_configured_chain_is_that_chains_executor() {
    let mut admission = admission(0, CONFIGURED);
    admission.add(configured("steer", 0, 8, 1)).unwrap();
    let own = Claim { session: 1, executor: Some((1, 90)), ..chain("extra", 1, 500, 1) };
    admission.add(own).unwrap();
    let said = {
        let other = Claim { session: 7, executor: Some((1, 90)), ..chain("alien", 3, 500, 1) };
        admission.add(other).unwrap_err()
    };
    tells(&said, &["\"e1\"", "process 3", "priority 90", "core 1"]);
}

#[test]
fn report_lets_everything_in_and_marks_who_lost_what() {
    let mut admission = admission(1, "server: {admission: report}");
    admission.add(chain("brake", 9, 100, 40)).unwrap();
    let decision = admission.register(chain("map", 1, 1000, 70)).unwrap();
    let news = admission.commit(decision, Some(0));
    tells(&news[0], &["\"brake\"", "guarantee", "bound"]);
    tells(&news[1], &["\"map\"", "guarantee"]);
    assert_eq!(admission.standing("brake"), Standing::Unguaranteed);
    tells(&admission.judged("brake").note(), &["10 ms"]);
    assert_eq!(admission.judged("brake").bound_ns, 0);
    tells(&admission.judged("map").note(), &["\"brake\"", "guarantee"]);
    assert!(admission.leave(1, None).is_empty());
    assert_eq!(admission.standing("brake"), Standing::Guaranteed);

    admission.add(undeclared("greedy", 20)).unwrap();
    tells(&admission.judged("brake").note(), &["\"greedy\"", "no period", "\"gpu0\""]);
    // Contradictions are refused all the same.
    let other = with(Claim { session: 3, ..chain("brake", 9, 200, 1) }, |d| d.position = 1);
    assert!(admission.add(other).is_err());
}

#[test]
fn chains_that_rely_on_one_without_a_guarantee_have_none() {
    let mut admission = admission(4, "server: {admission: report}");
    admission.add(chain("brake", 9, 100, 10)).unwrap();
    admission.add(chain("map", 8, 100, 10)).unwrap();
    // Between the two: it cannot get in the way of the upper one.
    admission.add(undeclared("greedy", 10)).unwrap();
    assert_eq!(admission.standing("brake"), Standing::Unguaranteed);
    assert_eq!(admission.standing("map"), Standing::Unguaranteed);
    admission.leave(10, None);
    admission.leave(9, None);
    assert_eq!(admission.standing("map"), Standing::Guaranteed);
}

#[test]
fn off_promises_nothing_and_spreads_evenly() {
    let mut admission = admission(4, "server: {admission: \"off\"}");
    admission.add(chain("brake", 9, 100, 99)).unwrap();
    admission.add(chain("map", 9, 100, 99)).unwrap();
    admission.add(undeclared("any", 10)).unwrap();
    assert!(admission.verdict().chains.iter().all(|c| c.standing == Standing::Unanalysed));
    assert_eq!((admission.bucket(10), admission.bucket(9)), (3, 1));
}

#[test]
fn new_priority_moves_the_whole_chain_or_nothing() {
    let mut admission = admission(1, "");
    admission.add(chain("brake", 9, 100, 40)).unwrap();
    let second = |d: &mut Declaration| (d.position, d.callback) = (1, 1);
    let second =
        with(Claim { session: 20, executor: Some((20, 50)), ..chain("map", 5, 500, 35) }, second);
    admission.add(Claim { session: 5, ..chain("map", 5, 500, 35) }).unwrap();
    admission.add(second).unwrap();
    let (code, said) = admission.reprioritise(5, 0, 12).err().unwrap();
    assert_eq!(code, Code::Admission);
    tells(&said, &["\"map\"", "\"brake\""]);
    let (code, _) = admission.reprioritise(5, 0, 9).err().unwrap();
    assert_eq!(code, Code::Declaration, "the priority of another chain");
    let (code, _) = admission.reprioritise(5, 77, 3).err().unwrap();
    assert_eq!(code, Code::Unknown);
    let (decision, moved) = admission.reprioritise(5, 0, 7).unwrap();
    assert_eq!(moved, [(5, 0), (20, 0)]);
    assert!(admission.commit(decision, None).is_empty());
    assert_eq!(admission.judged("map").priority, 7);
    assert_eq!(admission.standing("map"), Standing::Guaranteed);
    let mut strangers = admission.now.clone();
    strangers.claims[2].uid = 1000;
    admission.now = strangers;
    assert_eq!(admission.reprioritise(5, 0, 6).err().unwrap().0, Code::NotAllowed);
}

#[test]
fn hostile_numbers_are_decided_in_bounded_time() {
    // Utilisation just below 1, so that every bound is far more jobs away than the analysis counts.
    for (chains, requests) in [(2, 2), (8, 4), (60, 8)] {
        let mut admission = admission(64, "server: {admission: report}");
        let jobs = 1u64 << 32;
        let (period_ns, deadline_ns) = (1_000_003, 1_000_003 * jobs);
        let fast = with(chain("fast", 1000, 1, 1), |d| {
            (d.terms.period_ns, d.terms.deadline_ns) = (period_ns, period_ns);
            d.exec = Span::up_to(period_ns - 1);
        });
        admission.add(fast).unwrap();
        for i in 1..chains {
            let slow = with(chain(&format!("c{i}"), i, 1, 1), |d| {
                (d.terms.period_ns, d.terms.deadline_ns) = (deadline_ns, deadline_ns);
                d.exec = Span::up_to(jobs / u64::from(chains * requests) / 2);
                d.requests = requests;
            });
            admission.add(slow).unwrap();
        }
        let longest = short_time(admission.counts.longest_ns);
        println!("{chains} chains, {requests} requests, {jobs} jobs: {longest}");
    }
}
