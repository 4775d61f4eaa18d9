//! Refusals of claims, and their words.

use super::*;
use zerocopy::FromZeros;

fn packet() -> Register {
    Register {
        period_ns: 100,
        exec_ns: 10,
        requests: 1,
        flags: flag::EXECUTOR,
        ..Register::new_zeroed()
    }
}

const EXEC: Exec = Exec { most_ns: Some(10), least_ns: 0, budget_ns: Some(10) };

/// Words of a refusal, and the change that causes it.
type Case = (&'static str, fn(&mut Register));

/// Returns the words of the refusal of the packet after a change.
fn said(change: impl Fn(&mut Register)) -> String {
    let mut packet = packet();
    change(&mut packet);
    let place = executor(&packet).map(|_| None);
    place.and_then(|_: Option<()>| declaration(&packet, &EXEC)).unwrap_err().1
}

#[test]
fn numbers_that_cannot_be_are_refused_with_what_was_expected() {
    assert!(declaration(&packet(), &EXEC).unwrap().is_some());
    let cases: [Case; 16] = [
        ("deadline 101 ns: expected at most the period, 100 ns", |p| p.deadline_ns = 101),
        ("jitter 101 ns: expected at most the period", |p| p.jitter_ns = 101),
        ("period 18446744073709551615 ns: expected at most 2^53 ns", |p| {
            p.period_ns = u64::MAX;
        }),
        ("cpu 18446744073709551615 ns: expected at most 2^53 ns", |p| p.cpu_ns = u64::MAX),
        ("cpu_min 2 ns: expected at most cpu, 1 ns", |p| (p.cpu_ns, p.cpu_min_ns) = (1, 2)),
        ("exec_min 11 ns: expected at most exec, 10 ns", |p| p.exec_min_ns = 11),
        ("position 4294967295: expected 0 to 1023", |p| p.position = u32::MAX),
        ("4294967295 requests of one job: expected 1 to 256", |p| p.requests = u32::MAX),
        ("0 requests of one job: expected 1 to 256", |p| p.requests = 0),
        ("core 4294967295: expected 0 to 1023", |p| p.core = u32::MAX),
        ("process priority 100: expected 0 to 99", |p| p.process_priority = 100),
        ("flags 0x", |p| p.flags = u32::MAX),
        ("reserved field", |p| p.reserved = 1),
        ("deadline 5 ns without a period", |p| (p.period_ns, p.deadline_ns) = (0, 5)),
        ("best effort without a period", |p| {
            (p.period_ns, p.flags) = (0, flag::BEST_EFFORT);
        }),
        ("a core or process priority without the flag", |p| (p.flags, p.core) = (0, 1)),
    ];
    for (expected, change) in cases {
        let said = said(change);
        assert!(said.contains(expected), "{said}, not {expected}");
    }
}

#[test]
fn declaration_needs_an_execution_time_that_somebody_knows() {
    let refused = declaration(&packet(), &Exec::default()).unwrap_err().1;
    assert!(refused.contains("execution time is not known"), "{refused}");
    let mut nothing = packet();
    nothing.period_ns = 0;
    assert_eq!(declaration(&nothing, &Exec::default()), Ok(None));
}

#[test]
fn deadline_is_the_period_where_none_is_declared() {
    let declared = declaration(&packet(), &EXEC).unwrap().unwrap();
    assert_eq!((declared.terms.deadline_ns, declared.terms.period_ns), (100, 100));
}

fn claim(session: u64, position: u32) -> Claim {
    let declared = declaration(&packet(), &EXEC).unwrap().unwrap();
    let declared = Declaration { position, callback: u64::from(position), ..declared };
    Claim {
        session,
        number: 0,
        pid: session as i32,
        uid: 0,
        chain: "brake".into(),
        priority: 7,
        accelerator: 0,
        source: Source::Declared(declared),
        executor: Some((session as u32, 50)),
        declare: None,
        tally: Arc::default(),
    }
}

fn with(claim: &Claim, change: impl Fn(&mut Declaration)) -> Claim {
    let mut claim = claim.clone();
    if let Source::Declared(declaration) = &mut claim.source {
        change(declaration);
    }
    claim
}

#[test]
fn registrations_of_one_chain_agree() {
    let text = "
accelerators: [{id: gpu0, buckets: 2}, {id: gpu1, buckets: 2}]
executors: [{id: e, core: 0, priority: 1}]
chains: [{id: steer, priority: 3, period: 1 ms, callbacks: [{id: a, executor: e, segments: [{accel: gpu0, exec: 1us}]}]}]";
    let file = System::parse(text, "test.yaml").unwrap();
    let first = claim(1, 0);
    let refused = |claim: Claim| check(&file, std::slice::from_ref(&first), &claim).unwrap_err().1;
    let fine = |claim: Claim| check(&file, std::slice::from_ref(&first), &claim);
    assert_eq!(fine(claim(2, 1)), Ok(()), "another callback in another session");
    assert_eq!(fine(claim(1, 0)), Ok(()), "another segment of the same callback");

    let other = with(&claim(2, 1), |d| d.terms.period_ns = 200);
    assert!(refused(other).contains("declares period 200 ns, not 100 ns as process 1 did"));
    let other = with(&claim(2, 1), |d| d.terms.wait = Wait::Spin);
    assert!(refused(other).contains("wait spin, not suspend"));
    let other = with(&claim(2, 1), |d| d.terms.best_effort = true);
    assert!(refused(other).contains("best effort true, not false"));
    let other = Claim { priority: 8, ..claim(2, 1) };
    assert!(refused(other).contains("priority 8, not 7"));
    let other = Claim { source: Source::Nobody, ..claim(2, 1) };
    assert!(refused(other).contains("has a period, which process 1 declares"));
    let other = Claim { executor: Some((9, 9)), ..claim(1, 1) };
    assert!(refused(other).contains("this client declared core 1 at priority 50"));
    let other = Claim { executor: None, ..claim(2, 1) };
    assert!(refused(other).contains("declares a period but no executor"));
    assert!(refused(claim(2, 0)).contains("position 0 of chain \"brake\" is that of callback 0"));
    let other = with(&claim(1, 0), |d| d.position = 5);
    assert!(refused(other).contains("callback 0 of chain \"brake\" stands at position 0, not 5"));
    let other = with(&claim(1, 0), |d| d.cpu.max_ns = 5);
    assert!(refused(other).contains("declares cpu 0 ns to 5 ns"));
    let other = Claim { chain: "map".into(), ..claim(2, 0) };
    assert!(refused(other).contains("priority 7, which is that of chain \"brake\""));
    let other = Claim { chain: "map".into(), priority: 3, ..claim(2, 0) };
    assert!(refused(other).contains("priority 3, which is that of chain \"steer\""));
    let other = Claim { source: Source::File(0), accelerator: 1, ..claim(2, 0) };
    assert!(refused(other).contains("no segment on accelerator \"gpu1\""));
}

#[test]
fn what_one_decision_can_cost_is_limited() {
    let file = System::parse("accelerators: [{id: gpu0, buckets: 2}]", "test.yaml").unwrap();
    let many = |count: usize, requests: u32| -> Vec<Claim> {
        let one = |i: usize| Claim {
            chain: format!("c{i}"),
            priority: i as u32,
            ..with(&claim(i as u64, 0), |d| d.requests = requests)
        };
        (0..count).map(one).collect()
    };
    let claims = many(MAX_CHAINS + 1, 1);
    let (last, first) = claims.split_last().unwrap();
    assert_eq!(check(&file, first, last).unwrap_err().0, Code::Limit);
    assert_eq!(check(&file, &first[1..], last), Ok(()));
    let claims = many((MAX_REQUESTS_IN_ALL / MAX_REQUESTS) as usize + 1, MAX_REQUESTS);
    let (last, first) = claims.split_last().unwrap();
    assert_eq!(check(&file, first, last).unwrap_err().0, Code::Limit);
    assert_eq!(check(&file, &first[1..], last), Ok(()));
}

#[test]
fn user_declares_no_more_than_its_share() {
    let file = System::parse("accelerators: [{id: gpu0, buckets: 2}, {id: gpu1, buckets: 2}]", "t");
    let file = file.unwrap();
    let may = |shares: &[(&str, u32)]| {
        let shares = shares.iter().map(|(id, percent)| ((*id).to_owned(), *percent));
        Some(Arc::new(shares.collect::<BTreeMap<String, u32>>()))
    };
    let asks = |exec_ns: u64, declare: Option<Arc<BTreeMap<String, u32>>>| {
        let claim = Claim { declare, ..claim(2, 1) };
        with(&claim, |d| (d.exec, d.terms.period_ns) = (Span::up_to(exec_ns), 100))
    };
    let first = asks(20, None);
    let others = [Claim { session: 1, ..with(&first, |d| (d.position, d.callback) = (0, 0)) }];
    let said = |claim: Claim| check(&file, &others, &claim).unwrap_err();
    assert_eq!(check(&file, &others, &asks(99, None)), Ok(()));
    assert_eq!(check(&file, &others, &asks(5, may(&[("gpu0", 25)]))), Ok(()));
    let (code, text) = said(asks(6, may(&[("gpu0", 25)])));
    assert_eq!(code, Code::Limit);
    assert!(text.contains("ask for 26.00 % of accelerator \"gpu0\", the limit"), "{text}");
    assert!(said(asks(1, may(&[("gpu1", 90)]))).1.contains("limit of this user is 0 %"));
    let (code, text) = said(asks(1, may(&[])));
    assert_eq!(code, Code::NotAllowed);
    assert!(text.contains("user 0 may not declare any"), "{text}");
    // The declarations of another user do not count.
    let stranger = Claim { uid: 7, ..others[0].clone() };
    let claim = asks(25, may(&[("gpu0", 25)]));
    assert_eq!(check(&file, &[stranger], &claim), Ok(()));
    // A client that declares nothing is not concerned.
    let nothing = Claim { source: Source::Nobody, chain: "other".into(), ..asks(1, may(&[])) };
    assert_eq!(check(&file, &others, &nothing), Ok(()));
}

#[test]
fn one_user_does_not_take_the_place_of_all_declarations() {
    let file = System::parse("accelerators: [{id: gpu0, buckets: 2}]", "t").unwrap();
    const STRANGER: u32 = 4_000_000_000;
    let chain = |number: u32, uid: u32| {
        let mut claim = Claim { uid, ..claim(u64::from(number), 0) };
        (claim.chain, claim.priority) = (format!("c{number}"), number);
        claim
    };
    let most = (MAX_CHAINS / 2) as u32;
    let taken: Vec<Claim> = (0..most).map(|number| chain(number, STRANGER)).collect();
    let (code, text) = check(&file, &taken, &chain(most, STRANGER)).unwrap_err();
    assert_eq!(
        (code, text.as_str()),
        (Code::Limit, "128 chains are declared, the limit of one user")
    );
    assert_eq!(check(&file, &taken, &chain(most, STRANGER + 1)), Ok(()));
    assert_eq!(check(&file, &taken, &chain(most, 0)), Ok(()));
}
