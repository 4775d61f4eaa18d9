//! The server as a holder of the bandwidth lock, with the regulator's side looked at as the threads
//! of the cores do.

mod support;

use accel::snapshot::Bandwidth;
use accel::{Client, Registration, Request, Status, Ticket};
use bandwidth::holders::{Config, HolderStatus, Holders};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::{Busy, Fixture, given, serve, signal, spawn, work};
use testing::until;

/// A socket that no other test uses.
fn socket() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("keeptime-server-lock-{}-{number}.sock", std::process::id());
    std::env::temp_dir().join(name)
}

fn regulator(socket: &Path) -> Holders {
    Holders::start(Config { socket: socket.into(), ..Config::default() }).unwrap()
}

/// Two accelerators with a service each that asks for the lock, and one that does not.
fn system(socket: &Path) -> String {
    format!(
        "accelerators: [{{id: left, buckets: 6}}, {{id: right, buckets: 6}}]
services:
  - {{name: locked, accelerator: left, kernel: busy, bandwidth_lock: true}}
  - {{name: locked-right, accelerator: right, kernel: busy, bandwidth_lock: true}}
  - {{name: plain, accelerator: left, kernel: busy}}
server: {{priority: 0, bandwidth_socket: \"{}\"}}",
        socket.display()
    )
}

fn of(fixture: &Fixture, service: &str) -> Busy {
    Busy::with(fixture, Registration::service(service).chain(service, 5))
}

fn holder(holders: &Holders) -> HolderStatus {
    let status = holders.status();
    let [holder] = status.holders[..] else { panic!("{status:?}") };
    holder
}

fn told(fixture: &Fixture) -> Bandwidth {
    fixture.client().snapshot().unwrap().bandwidth.expect("services ask for the lock")
}

/// Waits for a request and lets it end well: how long it was on its device, ns.
fn finish(busy: &mut Busy, mut ticket: Ticket) -> u64 {
    let outcome = busy.wait(&mut ticket);
    assert_eq!(outcome.status, Status::Done);
    outcome.finished_ns - outcome.started_ns
}

#[test]
fn lock_is_held_while_a_request_that_asks_for_it_is_on_a_device_and_not_otherwise() {
    let socket = socket();
    let holders = regulator(&socket);
    let fixture = serve(&system(&socket));
    assert_eq!((holder(&holders).pid, holder(&holders).holds), (std::process::id(), 0));
    let (mut locked, mut plain) = (of(&fixture, "locked"), of(&fixture, "plain"));

    let ticket = plain.submit(500);
    fixture.until("it runs", |c| c.running == 1);
    assert!(!holders.is_held(), "nobody asks for it");
    // Waits in its bucket, with the same priority.
    let waiting = locked.submit(500);
    fixture.until("it waits", |c| c.queued == 1);
    assert!(!holders.is_held(), "what asks for it is not on the device");
    finish(&mut plain, ticket);
    let mut on_the_device = finish(&mut locked, waiting);
    assert!(!holders.is_held());
    assert_eq!(holder(&holders).acquisitions, 1);

    for round in 2..5 {
        let ticket = locked.submit(300);
        fixture.until("it runs", |c| c.running == 1);
        assert!(holders.is_held());
        assert_eq!((holder(&holders).holds, holder(&holders).acquisitions), (1, round));
        on_the_device += finish(&mut locked, ticket);
        assert!(!holders.is_held(), "the answer comes after the lock was given back");
    }
    let told = told(&fixture);
    assert_eq!((told.socket.as_str(), told.note.as_str()), (socket.to_str().unwrap(), ""));
    assert_eq!((told.services, told.running, told.locked), (2, 0, 4));
    assert_eq!((told.unlocked, told.interrupted, told.acquisitions), (0, 0, 4));
    assert!(told.held_ns >= on_the_device, "{told:?}, {on_the_device} ns on the device");
}

#[test]
fn last_of_several_requests_gives_it_back() {
    let socket = socket();
    let holders = regulator(&socket);
    let fixture = serve(&system(&socket));
    let (mut left, mut right) = (of(&fixture, "locked"), of(&fixture, "locked-right"));
    let long = left.submit(1000);
    fixture.until("it runs", |c| c.running == 1);
    let short = right.submit(1);
    finish(&mut right, short);
    assert!(holders.is_held(), "the other one is still there");
    finish(&mut left, long);
    assert!(!holders.is_held());
    assert_eq!(holder(&holders).acquisitions, 1);
}

#[test]
fn lock_is_not_free_between_requests_that_wait_for_each_other() {
    let socket = socket();
    let holders = regulator(&socket);
    let fixture = serve(&system(&socket));
    let (mut plain, mut locked) = (of(&fixture, "plain"), of(&fixture, "locked"));
    let first = plain.submit(500);
    fixture.until("it runs", |c| c.running == 1);
    let queued: Vec<Ticket> = (0..20).map(|_| locked.submit(1)).collect();
    fixture.until("they wait", |c| c.queued == 20);
    finish(&mut plain, first);
    for ticket in queued {
        finish(&mut locked, ticket);
    }
    assert!(!holders.is_held());
    assert_eq!(holder(&holders).acquisitions, 1);
    assert_eq!(told(&fixture).locked, 20);
}

#[test]
fn what_is_cancelled_before_it_runs_takes_nothing() {
    let socket = socket();
    let holders = regulator(&socket);
    let fixture = serve(&system(&socket));
    let (mut plain, mut locked) = (of(&fixture, "plain"), of(&fixture, "locked"));
    let first = plain.submit(500);
    fixture.until("it runs", |c| c.running == 1);
    let mut waiting = locked.submit(1);
    fixture.until("it waits", |c| c.queued == 1);
    locked.client.deregister(locked.callback).unwrap();
    assert_eq!(locked.wait(&mut waiting).status, Status::Cancelled);
    finish(&mut plain, first);
    assert_eq!((holder(&holders).holds, holder(&holders).acquisitions), (0, 0));
}

#[test]
fn client_that_is_killed_gives_it_back() {
    let socket = socket();
    let holders = regulator(&socket);
    let fixture = serve(&system(&socket));
    for _ in 0..3 {
        let mut victim = spawn("client_with_a_long_request", &fixture, "60000");
        fixture.until("it runs", |c| c.running == 1);
        assert!(holders.is_held());
        signal(&victim, libc::SIGKILL);
        until("the lock is free", || !holders.is_held());
        victim.wait().unwrap();
    }
    assert_eq!(holder(&holders).acquisitions, 3);
    assert_eq!(told(&fixture).running, 0);
}

#[test]
#[ignore = "run by client_that_is_killed_gives_it_back"]
fn client_with_a_long_request() {
    let Some((socket, word)) = given() else { return };
    let mut client = Client::connect(socket).unwrap();
    let locked = client.register(&Registration::service("locked").chain("victim", 9)).unwrap();
    let _ = client.run(locked, &work(word.parse().unwrap()));
}

#[test]
fn server_that_is_killed_holds_nothing() {
    let socket = socket();
    let holders = regulator(&socket);
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "server_with_a_long_request"])
        .env("KEEPTIME_TEST_SOCKET", &socket)
        .env("KEEPTIME_TEST_WORD", "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("it runs")));
    assert!(holders.is_held());
    assert_eq!(holder(&holders).pid, server.id());
    signal(&server, libc::SIGKILL);
    let killed = Instant::now();
    until("the lock is free", || !holders.is_held());
    println!("free after {:?}", killed.elapsed());
    server.wait().unwrap();
    until("the regulator has counted it", || holders.status().died_holding == 1);
    assert!(holders.status().holders.is_empty());
}

#[test]
#[ignore = "run by server_that_is_killed_holds_nothing"]
fn server_with_a_long_request() {
    let Some((socket, _)) = given() else { return };
    let fixture = serve(&system(&socket));
    let mut locked = of(&fixture, "locked");
    let mut ticket = locked.submit(60_000);
    fixture.until("it runs", |c| c.running == 1);
    println!("it runs");
    locked.wait(&mut ticket);
}

#[test]
fn server_that_ends_is_no_holder_any_more() {
    let socket = socket();
    let holders = regulator(&socket);
    let mut fixture = serve(&system(&socket));
    let mut locked = of(&fixture, "locked");
    let _running = locked.submit(60_000);
    fixture.until("it runs", |c| c.running == 1);
    fixture.stop();
    assert!(!holders.is_held());
    assert!(holders.status().holders.is_empty());
}

#[test]
fn requests_go_on_without_a_regulator_and_have_the_lock_when_it_comes_and_comes_back() {
    let socket = socket();
    let fixture = serve(&system(&socket));
    let said = |text: &str| {
        let log = fixture.log.lock().unwrap();
        log.iter().filter(|line| line.contains(text)).count()
    };
    let absent = "no regulator answers: connect: No such file or directory";
    assert_eq!(said(absent), 1, "{:?}", fixture.log);
    let mut locked = of(&fixture, "locked");
    assert_eq!(locked.run(1).status, Status::Done);
    let before = told(&fixture);
    assert!(before.note.contains(absent), "{before:?}");
    assert_eq!((before.locked, before.unlocked, before.acquisitions), (0, 1, 0));

    let long = locked.submit(20_000);
    fixture.until("it runs", |c| c.running == 1);
    let holders = regulator(&socket);
    until("the lock is taken for what runs already", || holders.is_held());
    fixture.until_logged("regulator found");
    assert_eq!(told(&fixture).note, "");

    drop(holders);
    fixture.until_logged("the regulator has ended");
    let between = told(&fixture);
    assert_eq!((between.running, between.interrupted, between.acquisitions), (1, 1, 1));
    assert!(between.note.contains("the regulator has ended"), "{between:?}");
    let holders = regulator(&socket);
    until("the lock is taken again", || holders.is_held());
    drop(long);
    locked.client.deregister(locked.callback).unwrap();
    drop(locked);
    until("its client is gone", || !holders.is_held());

    let mut locked = of(&fixture, "locked");
    assert_eq!(locked.run(1).status, Status::Done);
    let after = told(&fixture);
    assert_eq!((after.locked, after.unlocked, after.acquisitions), (1, 2, 3));
    assert_eq!((said(absent), said("the regulator has ended"), said("regulator found")), (1, 1, 2));
}

#[test]
fn regulator_that_refuses_is_told_of_once_and_harms_nobody() {
    let socket = socket();
    let config = Config { socket: socket.clone(), users: Vec::new(), ..Config::default() };
    let holders = Holders::start(config).unwrap();
    let fixture = serve(&system(&socket));
    until("it has been asked twice", || holders.status().refused >= 2);
    let mut locked = of(&fixture, "locked");
    assert_eq!(locked.run(1).status, Status::Done);
    let told = told(&fixture);
    assert_eq!(told.note, "the regulator refuses: this user may not hold the lock");
    assert_eq!((told.locked, told.unlocked), (0, 1));
    let log = fixture.log.lock().unwrap();
    let lines: Vec<_> = log.iter().filter(|line| line.contains("refuses")).collect();
    let [line] = lines[..] else { panic!("{log:?}") };
    assert!(
        line.ends_with("go on without it") && line.contains(socket.to_str().unwrap()),
        "{line}"
    );
}

#[test]
fn nobody_asks_the_regulator_when_no_service_does() {
    let socket = socket();
    let holders = regulator(&socket);
    let fixture = serve(&system(&socket).replace(", bandwidth_lock: true", ""));
    assert_eq!(of(&fixture, "locked").run(1).status, Status::Done);
    assert!(holders.status().holders.is_empty());
    assert_eq!(fixture.client().snapshot().unwrap().bandwidth, None);
}

/// Measures the time that the lock adds to a request that does nothing, with three kinds of
/// regulator: turns with and without in turn, on one server, and a pause after each request. Run
/// with `cargo test -p keeptime-accel-server --test bandwidth -- --ignored --exact --nocapture
/// what_the_lock_adds_to_a_request`.
#[test]
#[ignore = "a measurement"]
fn what_the_lock_adds_to_a_request() {
    const TURNS: usize = 100;
    const REQUESTS: usize = 250;
    for kind in ["no regulator", "a regulator that is awake", "a regulator that sleeps"] {
        let socket = socket();
        let holders = (kind != "no regulator").then(|| regulator(&socket));
        let text = system(&socket).replace("priority: 0", "priority: 90");
        let fixture = serve(&text.replace("kernel: busy", "kernel: empty"));
        let mut client = fixture.client();
        let mut of = |name: &str| client.register(&Registration::service(name).chain(name, 5));
        let callbacks = [of("plain").unwrap(), of("locked").unwrap()];
        let stop = AtomicBool::new(false);
        let mut turns = [const { Vec::new() }; 2];
        std::thread::scope(|scope| {
            let (ended, requests) = std::sync::mpsc::channel::<()>();
            if let Some(holders) = holders.as_ref().filter(|_| kind.ends_with("sleeps")) {
                let stop = &stop;
                // As a thread of a core, but that it goes to sleep after each request.
                scope.spawn(move || {
                    realtime::thread::set_policy(realtime::thread::Scheduling::Fifo(95)).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        if holders.wait_until_held(None) {
                            requests.recv().unwrap();
                        }
                    }
                });
            }
            for turn in 0..2 * TURNS {
                let mut times: Vec<u64> = (0..REQUESTS)
                    .map(|_| {
                        let begun = realtime::clock::monotonic_ns();
                        client.run(callbacks[turn % 2], &Request::new()).unwrap();
                        let time_ns = realtime::clock::monotonic_ns() - begun;
                        if turn % 2 == 1 {
                            // Nobody hears it but the thread that is there to be woken.
                            let _ = ended.send(());
                        }
                        std::thread::sleep(Duration::from_micros(30));
                        time_ns
                    })
                    .collect();
                times.sort_unstable();
                turns[turn % 2].push(times[REQUESTS / 2] as f64);
            }
            stop.store(true, Ordering::Relaxed);
            holders.iter().for_each(Holders::end_waits);
        });
        let mut ratios: Vec<f64> =
            turns[1].iter().zip(&turns[0]).map(|(on, off)| on / off).collect();
        let mut differences: Vec<f64> =
            turns[1].iter().zip(&turns[0]).map(|(on, off)| on - off).collect();
        let quartiles = |values: &mut Vec<f64>| {
            values.sort_unstable_by(f64::total_cmp);
            [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
        };
        let [_, plain, _] = quartiles(&mut turns[0]);
        let [_, locked, _] = quartiles(&mut turns[1]);
        let [low, ratio, high] = quartiles(&mut ratios);
        let [least, difference, most] = quartiles(&mut differences);
        println!(
            "{kind}: {plain:.0} ns without, {locked:.0} ns with (medians of {TURNS} turns' medians \
             of {REQUESTS}); ratio {ratio:.4} ({low:.4} to {high:.4}), difference {difference:.0} \
             ns ({least:.0} to {most:.0}), quartiles of the turns",
        );
        let told = told(&fixture);
        println!(
            "  {} with the lock, {} without, taken {} times",
            told.locked, told.unlocked, told.acquisitions
        );
    }
}
