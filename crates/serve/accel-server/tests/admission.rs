//! Admission of chains, the promises to them, and their fate: through the real client.

mod support;

use accel::control::{self, Code, Name, Packet, Refused, flag};
use accel::snapshot::{Chain, Origin, Snapshot, Standing};
use accel::socket::{Received, Socket};
use accel::{CallbackId, Client, Error, Registration, Request, Status, Wait};
use std::time::Duration;
use support::{Busy, Fixture, PATIENCE, given, one_gpu, serve, signal, spawn, work};
use testing::tells;
use zerocopy::{FromZeros, IntoBytes};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A chain of one callback on a core of its own.
fn declared(chain: &str, priority: u32, period_ms: u64, exec_ms: u64) -> Registration {
    Registration::service("busy")
        .chain(chain, priority)
        .period(ms(period_ms))
        .exec(ms(exec_ms))
        .executor(priority, 50)
}

/// A client of its own with this registration.
fn client_of(
    fixture: &Fixture,
    registration: &Registration,
) -> Result<(Client, CallbackId), Error> {
    let mut client = fixture.client();
    let callback = client.register(registration)?;
    Ok((client, callback))
}

fn refusal(error: Error) -> (Code, String) {
    match error {
        Error::Refused(refusal) => (refusal.code.unwrap(), refusal.text),
        other => panic!("{other}"),
    }
}

fn snapshot(fixture: &Fixture) -> Snapshot {
    fixture.client().snapshot().unwrap()
}

fn chain(snapshot: &Snapshot, name: &str) -> Chain {
    snapshot
        .chains
        .iter()
        .find(|chain| chain.name == name)
        .unwrap_or_else(|| panic!("{name}"))
        .clone()
}

/// Waits until the server's chains are as they should become.
fn until(fixture: &Fixture, what: &str, condition: impl Fn(&Snapshot) -> bool) {
    // One connection: the server lets nobody connect without end.
    let mut client = fixture.client();
    testing::until_ok(what, || {
        let snapshot = client.snapshot().unwrap();
        if condition(&snapshot) { Ok(()) } else { Err(Box::new(snapshot)) }
    });
}

#[test]
fn third_chain_is_refused_until_there_is_room_and_disturbs_nobody() {
    let fixture = serve(&one_gpu("buckets: 1", ""));
    let brake = client_of(&fixture, &declared("brake", 9, 100, 40));
    let (mut brake, callback) = brake.unwrap();
    let (mut steer, steer_callback) = client_of(&fixture, &declared("steer", 8, 400, 30)).unwrap();
    let before = snapshot(&fixture);
    let (code, said) = refusal(client_of(&fixture, &declared("map", 1, 1000, 70)).err().unwrap());
    assert_eq!(code, Code::Admission);
    tells(&said, &["\"map\"", "\"brake\"", "110 ms", "100 ms", "10 ms", "70 ms", "\"map\""]);
    let after = snapshot(&fixture);
    for name in ["brake", "steer"] {
        let (before, after) = (chain(&before, name), chain(&after, name));
        assert_eq!(after.standing, Some(Standing::Guaranteed), "{name}");
        assert_eq!((before.bound_ns, before.buckets), (after.bound_ns, after.buckets));
    }
    assert_eq!(after.chains.len(), 2);
    assert_eq!((after.server.refused, after.counters.refusals), (1, 1));
    let outcome = brake.run(callback, &work(1)).unwrap();
    assert_eq!(outcome.status, Status::Done);
    let seen = chain(&snapshot(&fixture), "brake");
    // A machine with other work may interrupt it for longer than the chain declares.
    let overruns = u64::from(outcome.overran);
    assert_eq!((seen.requests, seen.overruns, seen.origin), (1, overruns, Some(Origin::Clients)));
    assert!(seen.longest_ns.unwrap() > 500_000);

    brake.deregister(callback).unwrap();
    let (_map, _) = client_of(&fixture, &declared("map", 1, 1000, 70)).unwrap();
    let now = snapshot(&fixture);
    assert_eq!(chain(&now, "map").standing, Some(Standing::Guaranteed));
    assert_eq!(chain(&now, "map").bound_ns, Some(100_000_000));
    assert_eq!(steer.run(steer_callback, &work(1)).unwrap().status, Status::Done);
}

#[test]
#[ignore = "run as a process of its own by death_of_a_client_frees_its_share"]
fn client_that_holds_a_share() {
    let Some((socket, _)) = given() else { return };
    let mut client = Client::connect(socket).unwrap();
    client.register(&declared("hog", 9, 100, 80)).unwrap();
    support::stay();
}

#[test]
fn death_of_a_client_frees_its_share() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let mut hog = spawn("client_that_holds_a_share", &fixture, "");
    until(&fixture, "the hog is there", |s| s.chains.iter().any(|c| c.name == "hog"));
    let refused = client_of(&fixture, &declared("map", 1, 200, 60)).err().unwrap();
    assert_eq!(refusal(refused).0, Code::Admission);
    signal(&hog, libc::SIGKILL);
    hog.wait().unwrap();
    until(&fixture, "the hog is gone", |s| s.chains.is_empty());
    let (_map, _) = client_of(&fixture, &declared("map", 1, 200, 60)).unwrap();
}

#[test]
fn remaining_chains_show_the_better_bound_that_a_departure_leaves() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let (upper, _) = client_of(&fixture, &declared("upper", 9, 100, 20)).unwrap();
    let (_lower, _) = client_of(&fixture, &declared("lower", 1, 400, 50)).unwrap();
    let before = chain(&snapshot(&fixture), "lower").bound_ns.unwrap();
    assert!(before >= 70_000_000, "{before}");
    drop(upper);
    until(&fixture, "the bound falls", |s| chain(s, "lower").bound_ns == Some(50_000_000));
}

#[test]
fn undeclared_chains_come_in_only_where_they_break_no_promise() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let plain = |name: &str, priority| Registration::service("busy").chain(name, priority);
    let (above, _) = client_of(&fixture, &plain("above", 50)).unwrap();
    let refused = client_of(&fixture, &declared("brake", 9, 100, 40)).err().unwrap();
    let (code, said) = refusal(refused);
    assert_eq!(code, Code::Admission);
    tells(&said, &["\"above\"", "no period", "\"gpu0\""]);
    drop(above);
    until(&fixture, "it is gone", |s| s.chains.is_empty());
    let (_brake, _) = client_of(&fixture, &declared("brake", 9, 100, 40)).unwrap();
    for priority in [9, 50, u32::MAX] {
        let refused = client_of(&fixture, &plain("any", priority)).err().unwrap();
        assert_eq!(refusal(refused).0, Code::Admission, "{priority}");
    }
    let mut low = Busy::with(&fixture, plain("low", 2));
    let mut lower = Busy::with(&fixture, plain("lower", 1));
    assert_eq!((low.run(1).status, lower.run(1).status), (Status::Done, Status::Done));
    let now = snapshot(&fixture);
    assert_eq!(chain(&now, "brake").buckets, [(0, 1)]);
    for name in ["low", "lower"] {
        let chain = chain(&now, name);
        assert_eq!((chain.standing, chain.buckets), (Some(Standing::Undeclared), vec![(0, 0)]));
    }
    // Neither can it climb there later.
    let (code, _) = refusal(low.client.reprioritise(low.callback, 10).unwrap_err());
    assert_eq!(code, Code::Admission);
    assert_eq!(low.run(1).status, Status::Done);
}

#[test]
fn new_priority_of_a_declared_chain_is_a_decision_too() {
    let fixture = serve(&one_gpu("buckets: 1", ""));
    let (_brake, _) = client_of(&fixture, &declared("brake", 9, 100, 40)).unwrap();
    let mut client = fixture.client();
    let map =
        |position: u32| declared("map", 5, 500, 35).position(position).callback(position.into());
    let first = client.register(&map(0)).unwrap();
    let second = client.register(&map(1)).unwrap();
    let (code, said) = refusal(client.reprioritise(first, 12).unwrap_err());
    assert_eq!(code, Code::Admission);
    tells(&said, &["\"map\"", "\"brake\""]);
    assert_eq!(chain(&snapshot(&fixture), "map").priority, 5);
    client.reprioritise(first, 3).unwrap();
    let moved = chain(&snapshot(&fixture), "map");
    assert_eq!((moved.priority, moved.callbacks, moved.registrations), (3, 2, 2));
    client.run(second, &work(1)).unwrap();
    // The client knows it for both callbacks: they come back as one chain.
    client.reconnect(PATIENCE).unwrap();
    until(&fixture, "the old session is gone", |s| chain(s, "map").registrations == 2);
    assert_eq!(chain(&snapshot(&fixture), "map").priority, 3);
}

#[test]
fn chain_of_several_clients_is_one_chain() {
    let fixture = serve(&one_gpu("buckets: 4", "kappa: 100us\nepsilon: 50us\nhop: 200us"));
    let part = |position: u32| {
        Registration::service("busy")
            .chain("see", 7)
            .period(ms(100))
            .deadline(ms(80))
            .cpu(ms(5))
            .cpu_min(ms(1))
            .exec(ms(10))
            .exec_min(ms(2))
            .requests(2)
            .jitter(ms(1))
            .callback(position.into())
            .position(position)
            .executor(position, 40)
            .wait(Wait::Spin)
    };
    let (_first, _) = client_of(&fixture, &part(0)).unwrap();
    let half = chain(&snapshot(&fixture), "see");
    assert_eq!((half.callbacks, half.positions), (1, 1));
    let (second, _) = client_of(&fixture, &part(1)).unwrap();
    let whole = chain(&snapshot(&fixture), "see");
    assert_eq!((whole.callbacks, whole.positions, whole.registrations), (2, 2, 2));
    assert_eq!((whole.period_ns, whole.deadline_ns), (Some(100_000_000), Some(80_000_000)));
    // Each part: 5 ms, and twice 10 ms + epsilon; a hop, and the jitter of the release. Nobody is
    // there to preempt, which would cost 2 kappa.
    let bound_ns = |kappa_ns: u64| {
        let part_ns = 5_000_000 + 2 * (10_000_000 + 2 * kappa_ns + 50_000);
        Some(2 * part_ns + 200_000 + 1_000_000)
    };
    assert_eq!(whole.bound_ns, bound_ns(0));
    let below = Registration::service("busy").chain("below", 1);
    let (below, _) = client_of(&fixture, &below).unwrap();
    assert_eq!(chain(&snapshot(&fixture), "see").bound_ns, bound_ns(100_000));
    drop(below);
    until(&fixture, "nobody is below", |s| chain(s, "see").bound_ns == bound_ns(0));
    let other = part(2).period(ms(200));
    let (code, said) = refusal(client_of(&fixture, &other).err().unwrap());
    assert_eq!(code, Code::Declaration);
    tells(&said, &["200 ms", "100 ms"]);
    drop(second);
    until(&fixture, "one half is left", |s| chain(s, "see").callbacks == 1);
    // A contradiction between the kernel and the declaration is reported.
    let sessions = snapshot(&fixture).sessions;
    let session = sessions.iter().find(|s| s.registrations == 1).unwrap();
    assert_eq!(session.executor, Some((0, 40)));
    tells(&session.note, &["core 0", "priority 40"]);
}

/// A registration packet that nothing is wrong with.
fn packet() -> control::Register {
    control::Register {
        kind: control::Register::KIND,
        chain_priority: 3,
        exec_ns: 1_000_000,
        period_ns: 100_000_000,
        requests: 1,
        flags: flag::EXECUTOR,
        chain: Name::new("chain", "raw").unwrap(),
        service: Name::new("service", "busy").unwrap(),
        ..control::Register::new_zeroed()
    }
}

/// The answer to a packet in an open session: None when the server closed it.
fn answer(socket: &Socket, packet: &[u8]) -> Option<Vec<u8>> {
    socket.send(packet, &[]).unwrap();
    let mut buffer = [0; control::MAX_PACKET];
    loop {
        match socket.receive(&mut buffer).unwrap() {
            Received::Packet(length, _) => return Some(buffer[..length].to_vec()),
            Received::Nothing => assert!(socket.wait_readable(60_000).unwrap()),
            Received::Closed => return None,
        }
    }
}

#[test]
fn hostile_declarations_are_refused_and_harm_nobody() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let (mut honest, callback) = client_of(&fixture, &declared("honest", 90, 100, 10)).unwrap();
    let socket = Socket::connect(&fixture.socket, support::PATIENCE).unwrap();
    let version = control::VERSION;
    let hello = control::Hello { kind: control::Hello::KIND, version, magic: control::MAGIC };
    assert!(control::Welcome::parse(&answer(&socket, hello.as_bytes()).unwrap()).is_some());
    let cases: [fn(&mut control::Register); 17] = [
        |p| (p.period_ns, p.deadline_ns) = (0, 1),
        |p| (p.period_ns, p.cpu_ns) = (0, 1),
        |p| (p.period_ns, p.flags) = (0, flag::BEST_EFFORT),
        |p| p.deadline_ns = p.period_ns + 1,
        |p| p.deadline_ns = u64::MAX,
        |p| p.jitter_ns = u64::MAX,
        |p| (p.period_ns, p.exec_ns) = (u64::MAX, u64::MAX),
        |p| p.exec_ns = u64::MAX,
        |p| p.exec_ns = p.period_ns + 1,
        |p| p.exec_ns = 0,
        |p| (p.cpu_ns, p.cpu_min_ns) = (u64::MAX, u64::MAX),
        |p| p.position = u32::MAX,
        |p| p.requests = u32::MAX,
        |p| p.requests = 0,
        |p| p.flags = u32::MAX,
        |p| p.flags = 0,
        |p| (p.core, p.process_priority) = (u32::MAX, u32::MAX),
    ];
    for (index, change) in cases.into_iter().enumerate() {
        let mut packet = packet();
        change(&mut packet);
        let answer = answer(&socket, packet.as_bytes()).expect("the session goes on");
        let refused = Refused::parse(&answer).unwrap_or_else(|| panic!("{index}: {packet:?}"));
        let refusal = refused.unpack();
        let expected = [Code::Admission, Code::Declaration];
        assert!(expected.contains(&refusal.code.unwrap()), "{index}: {refusal:?}");
    }
    // Nonsense, but in range: the smallest and largest times that can be declared.
    for (period_ns, exec_ns) in [(1, 1), (1 << 53, 1 << 53), (2, 1), (1 << 53, 1)] {
        let packet = control::Register { period_ns, exec_ns, ..packet() };
        let answer = answer(&socket, packet.as_bytes()).expect("the session goes on");
        if let Some(registered) = control::Registered::parse(&answer) {
            let kind = control::Deregister::KIND;
            let gone = control::Deregister { kind, registration: registered.registration };
            assert!(self::answer(&socket, gone.as_bytes()).is_some());
        }
        assert_eq!(chain(&snapshot(&fixture), "honest").standing, Some(Standing::Guaranteed));
    }
    let good = answer(&socket, packet().as_bytes()).unwrap();
    assert!(control::Registered::parse(&good).is_some(), "{:?}", Refused::parse(&good));
    honest.run(callback, &work(1)).unwrap();
}

const CONFIGURED: &str = "
executors: [{id: e, core: 1, priority: 90}]
services: [{name: nap, accelerator: gpu0, kernel: busy, arguments: [1000000]}]
chains:
- {id: steer, priority: 8, period: 100 ms, callbacks: [{id: a, executor: e, cpu: 5 ms, segments: [{accel: gpu0, exec: 60 ms}]}, {id: b, executor: e, cpu: 5 ms}]}
- {id: log, priority: 1, period: 1 s, best_effort: true, callbacks: [{id: a, executor: e, segments: [{accel: gpu0, exec: 5 ms}]}]}
";

#[test]
fn configured_chain_is_admitted_as_the_file_describes_it() {
    let fixture = serve(&one_gpu("buckets: 4", CONFIGURED));
    let (_map, _) = client_of(&fixture, &declared("map", 9, 100, 50)).unwrap();
    let nap = Registration::service("nap").chain("steer", 8);
    let (code, said) = refusal(client_of(&fixture, &nap).err().unwrap());
    assert_eq!(code, Code::Admission);
    tells(&said, &["\"steer\"", "deadline"]);
    drop(_map);
    until(&fixture, "map is gone", |s| s.chains.is_empty());
    let (mut steer, callback) = client_of(&fixture, &nap).unwrap();
    let now = chain(&snapshot(&fixture), "steer");
    assert_eq!((now.origin, now.standing), (Some(Origin::File), Some(Standing::Guaranteed)));
    assert_eq!((now.bound_ns, now.callbacks), (Some(70_000_000), 2));
    steer.run(callback, &Request::new()).unwrap();
    let (code, said) = refusal(client_of(&fixture, &declared("steer", 8, 50, 1)).err().unwrap());
    assert_eq!(code, Code::Declaration);
    tells(&said, &["50 ms", "100 ms"]);
    let (_log, _) = client_of(&fixture, &Registration::service("nap").chain("log", 1)).unwrap();
    assert_eq!(chain(&snapshot(&fixture), "log").standing, Some(Standing::BestEffort));
    let (code, _) = refusal(client_of(&fixture, &declared("other", 1, 100, 1)).err().unwrap());
    assert_eq!(code, Code::Declaration, "the priority of a configured chain");
}

#[test]
fn configured_chain_is_held_to_its_time() {
    // So much that a machine that is disturbed keeps it, too.
    let fixture = serve(&one_gpu("buckets: 4", &CONFIGURED.replace("60 ms", "40 ms")));
    let plain = Registration::service("busy").chain("steer", 8);
    let (mut steer, callback) = client_of(&fixture, &plain).unwrap();
    assert!(!steer.run(callback, &work(1)).unwrap().overran);
    assert!(steer.run(callback, &work(100)).unwrap().overran);
    assert_eq!(chain(&snapshot(&fixture), "steer").overruns, 1);
}

#[test]
fn requests_that_come_more_often_than_declared_are_counted_and_told() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let (mut client, callback) = client_of(&fixture, &declared("liar", 5, 60_000, 10)).unwrap();
    for _ in 0..5 {
        client.run(callback, &work(1)).unwrap();
    }
    let liar = chain(&snapshot(&fixture), "liar");
    assert_eq!((liar.requests, liar.excess), (5, 3), "two jobs can come close together");
    assert!(fixture.logged("chain liar: process"), "{:?}", fixture.log);
}

#[test]
fn report_lets_everything_in_and_says_who_has_no_guarantee() {
    let server = "server: {priority: 0, admission: report}";
    let fixture = serve(&one_gpu("buckets: 1", server));
    let (_brake, _) = client_of(&fixture, &declared("brake", 9, 100, 40)).unwrap();
    let (_map, _) = client_of(&fixture, &declared("map", 1, 1000, 70)).unwrap();
    let now = snapshot(&fixture);
    assert_eq!(now.server.admission, "report");
    let brake = chain(&now, "brake");
    assert_eq!((brake.standing, brake.bound_ns), (Some(Standing::Unguaranteed), None));
    tells(&brake.note, &["10 ms"]);
    assert!(fixture.logged("chain \"map\" has no guarantee: it relies on chain \"brake\""));
    let (_any, _) = client_of(&fixture, &Registration::service("busy").chain("any", 50)).unwrap();
}

#[test]
fn off_and_policies_without_an_analysis_promise_nothing() {
    for (server, note) in [
        ("server: {priority: 0, admission: \"off\"}", ""),
        ("server: {priority: 0, policy: fifo}", "there is no analysis of policy fifo"),
        ("server: {priority: 0, policy: timeslice}", "there is no analysis of policy timeslice"),
    ] {
        let fixture = serve(&one_gpu("buckets: 1", server));
        let (_brake, _) = client_of(&fixture, &declared("brake", 9, 100, 90)).unwrap();
        let (_map, _) = client_of(&fixture, &declared("map", 9, 100, 90)).unwrap();
        let now = snapshot(&fixture);
        assert_eq!((now.server.admission.as_str(), now.server.analysis.as_str()), ("off", ""));
        assert!(now.server.note.starts_with(note) && now.server.note.is_empty() == note.is_empty());
        assert_eq!(fixture.server().admission_note(), now.server.note);
        assert!(now.chains.iter().all(|c| c.standing == Some(Standing::Unanalysed)), "{now:?}");
    }
}

#[test]
fn sound_analysis_promises_less() {
    // Two requests of a chain below: the refined bound knows that they cannot both come in time.
    let bound = |server: &str| {
        let fixture = serve(&one_gpu("buckets: 1", server));
        let upper = declared("upper", 9, 1000, 10).requests(3);
        let (_upper, _) = client_of(&fixture, &upper).unwrap();
        let (_lower, _) = client_of(&fixture, &declared("lower", 1, 1000, 20)).unwrap();
        chain(&snapshot(&fixture), "upper").bound_ns.unwrap()
    };
    let tight = bound("server: {priority: 0}");
    let sound = bound("server: {priority: 0, analysis: sound}");
    assert_eq!(sound, 90_000_000);
    assert!(tight < sound, "{tight} {sound}");
}

#[test]
fn overheads_are_measured_where_nobody_disturbs() {
    let fixture = serve(&one_gpu("buckets: 2", "sigma: 1us\nepsilon: 2us"));
    let mut busy = Busy::new(&fixture, "any", 1);
    for _ in 0..50 {
        busy.run(1);
    }
    let now = snapshot(&fixture);
    assert_eq!((now.server.sigma_ns, now.server.epsilon_ns), (1000, 2000));
    let gpu = &now.accelerators[0];
    assert_eq!((gpu.id.as_str(), gpu.buckets, gpu.registrations), ("gpu0", 2, 1));
    for measured in [gpu.sigma, gpu.epsilon] {
        assert!(measured.count >= 45, "{measured:?}");
        let order = [1, measured.p50_ns, measured.p99_ns, measured.max_ns];
        assert!(order.is_sorted(), "{measured:?}");
    }
}

#[test]
fn questions_beyond_the_end_are_answered_and_count_as_nothing() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let before = fixture.server().counters().refusals;
    assert!(snapshot(&fixture).chains.is_empty());
    assert_eq!(fixture.server().counters().refusals, before);
    assert!(fixture.client().snapshot().unwrap().sessions.len() <= 2);
}
