//! Sessions come and go: registration, limits, rights, death, restart.

mod support;

use accel::control::Code;
use accel::{Client, Error, Registration, Request, Status};
use accel_server::{Options, Server};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;
use support::{Busy, PATIENCE, command_of, given, one_gpu, serve, signal, spawn, work};

fn code(error: Error) -> Code {
    match error {
        Error::Refused(refusal) => refusal.code.unwrap(),
        other => panic!("{other}"),
    }
}

#[test]
fn several_callbacks_and_services_share_one_session() {
    let fixture = serve(&one_gpu(
        "buckets: 6",
        "services: [{name: nap, accelerator: gpu0, kernel: busy, arguments: [1000000]}]",
    ));
    let mut client = fixture.client();
    let of =
        |service: &str, callback| Registration::service(service).chain("c", 4).callback(callback);
    let empty = client.register(&of("empty", 1)).unwrap();
    let nap = client.register(&of("nap", 2)).unwrap();
    let sum = client.register(&of("vecadd", 3).memory(120)).unwrap();
    client.run(empty, &Request::new()).unwrap();
    // The service fixes the argument: what the request says does not count.
    let napped = client.run(nap, &work(100_000)).unwrap();
    assert!(napped.busy_ns > 100_000, "{napped:?}");
    client.run(sum, &Request::new().arguments(&[10]).input(0, 80).output(80, 40)).unwrap();
    assert_eq!(client.status().unwrap().registrations, 3);
    client.deregister(nap).unwrap();
    assert!(matches!(client.run(nap, &work(1)), Err(Error::UnknownCallback(1))));
    assert_eq!(client.status().unwrap().registrations, 2);
    client.run(empty, &Request::new()).unwrap();
}

#[test]
fn two_accelerators_in_one_process_are_told_apart() {
    let yaml =
        "accelerators: [{id: left, buckets: 2}, {id: right, buckets: 2}]\nserver: {priority: 0}";
    let fixture = serve(yaml);
    let on = |id: &str| Registration::service("busy").chain("c", 3).accelerator(id);
    let mut left = Busy::with(&fixture, on("left"));
    let mut right = Busy::with(&fixture, on("right"));
    let mut long = left.submit(1000);
    fixture.until("the left one works", |c| c.running == 1);
    let short = right.run(1);
    let long = left.wait(&mut long);
    assert!(short.finished_ns < long.finished_ns);
    let unknown = fixture.client().register(&on("middle")).unwrap_err();
    assert!(unknown.to_string().contains("expected one of [\"left\", \"right\"]"), "{unknown}");
}

#[test]
fn chains_that_name_no_accelerator_are_spread_and_stay_together() {
    let yaml =
        "accelerators: [{id: left, buckets: 2}, {id: right, buckets: 2}]\nserver: {priority: 0}";
    let fixture = serve(yaml);
    let launches = || -> Vec<u64> {
        let devices = fixture.server().devices();
        devices.iter().map(|(_, device)| device.statistics().launches).collect()
    };
    let mut clients = Vec::new();
    for (chain, priority, expected) in
        [("a", 3, [1, 0]), ("b", 4, [1, 1]), ("a", 3, [2, 1]), ("b", 4, [2, 2]), ("c", 5, [3, 2])]
    {
        let mut client = Busy::with(&fixture, Registration::service("busy").chain(chain, priority));
        client.run(1);
        assert_eq!(launches(), expected, "chain {chain}");
        clients.push(client);
    }
}

#[test]
fn deregistration_cancels_what_waits() {
    let fixture = serve(&one_gpu("buckets: 1", ""));
    let mut first = Busy::new(&fixture, "first", 9);
    let mut second = Busy::new(&fixture, "second", 1);
    let mut running = first.submit(1000);
    fixture.until("the first request runs", |c| c.running == 1);
    let mut waiting = second.submit(1);
    fixture.until("the second request waits", |c| c.queued == 1);
    second.client.deregister(second.callback).unwrap();
    assert_eq!(second.wait(&mut waiting).status, Status::Cancelled);
    // The memory of a registration that ends under a running request outlives the request.
    first.client.deregister(first.callback).unwrap();
    assert_eq!(first.wait(&mut running).status, Status::Done);
}

#[test]
fn unknown_services_and_bad_sizes_are_refused_in_words() {
    let fixture = serve(&one_gpu("buckets: 6", ""));
    let mut client = fixture.client();
    let unknown = client.register(&Registration::service("teleport")).unwrap_err();
    let said = unknown.to_string();
    assert!(said.contains("\"teleport\": this server offers") && said.contains("vecadd"), "{said}");
    let huge = client.register(&Registration::service("vecadd").memory(65 << 20)).unwrap_err();
    assert_eq!(code(huge), Code::Limit);
    let add = client.register(&Registration::service("vecadd").memory(1200)).unwrap();
    let status = |outcome: Result<_, Error>| match outcome {
        Err(Error::Failed { status, .. }) => status,
        other => panic!("{other:?}"),
    };
    let beyond = Request::new().arguments(&[100]).input(0, 800).output(801, 400);
    assert_eq!(status(client.run(add, &beyond)), Status::OutOfRange);
    let wrapped = Request::new().arguments(&[100]).input(usize::MAX, 800).output(0, 400);
    assert_eq!(status(client.run(add, &wrapped)), Status::OutOfRange);
    let liar = Request::new().arguments(&[u64::MAX]).input(0, 800).output(800, 400);
    assert_eq!(status(client.run(add, &liar)), Status::BadArguments);
    let good = Request::new().arguments(&[100]).input(0, 800).output(800, 400);
    client.run(add, &good).unwrap();
}

#[test]
fn limits_hold_and_are_freed_again() {
    let yaml = one_gpu(
        "buckets: 6",
        "server: {priority: 0, limits: {sessions: 2, registrations: 2, memory: 8 KiB}}",
    );
    let fixture = serve(&yaml);
    let mut client = fixture.client();
    let page = Registration::service("vecadd").memory(4096);
    let first = client.register(&page).unwrap();
    client.register(&page).unwrap();
    let third = client.register(&Registration::service("empty")).unwrap_err();
    assert!(third.to_string().contains("2 registrations"), "{third}");
    client.deregister(first).unwrap();
    let larger = client.register(&Registration::service("vecadd").memory(4097)).unwrap_err();
    assert!(larger.to_string().contains("4096 bytes are left"), "{larger}");
    client.register(&page).unwrap();

    let second = fixture.client();
    let refused = Client::connect(&fixture.socket).err().unwrap();
    assert_eq!(code(refused), Code::Limit);
    drop(second);
    fixture.until("the session is gone", |c| c.sessions == 1);
    fixture.client();
}

#[test]
fn priorities_outside_the_users_range_are_refused() {
    let me = rustix_uid();
    let rules = format!("server: {{priority: 0, access: [{{user: {me}, priority: [10, 20]}}]}}");
    let fixture = serve(&one_gpu("buckets: 6", &rules));
    let mut client = fixture.client();
    for priority in [0, 9, 21, u32::MAX] {
        let refused = client.register(&Registration::service("empty").chain("c", priority));
        assert_eq!(code(refused.unwrap_err()), Code::Priority, "{priority}");
    }
    let callback = client.register(&Registration::service("empty").chain("c", 20)).unwrap();
    assert_eq!(code(client.reprioritise(callback, 21).unwrap_err()), Code::Priority);
    client.run(callback, &Request::new()).unwrap();
}

fn rustix_uid() -> u32 {
    // SAFETY: always succeeds and touches nothing.
    unsafe { libc::getuid() }
}

#[test]
fn users_outside_the_rules_are_turned_away() {
    if rustix_uid() != 0 {
        eprintln!("SKIP: only root can become another user");
        return;
    }
    let rules = "server: {priority: 0, mode: \"0666\", access: [{user: 65533, priority: [0, 99]}]}";
    let fixture = serve(&one_gpu("buckets: 6", rules));
    // The folder of the tests may be closed to other users.
    let name = format!("keeptime-test-client-{}", std::process::id());
    let program = std::env::temp_dir().join(name);
    // By another process: what this one has open for writing is also open in processes that other
    // tests have just forked, and cannot be executed meanwhile.
    let own = std::env::current_exe().unwrap();
    assert!(Command::new("cp").args([&own, &program]).status().unwrap().success());
    for (uid, said) in [(65534, "user 65534 is not among server.access"), (65533, "welcome")] {
        let mut child = command_of(&program, "client_that_says_how_it_was_received", &fixture, "");
        let mut child = child.uid(uid).gid(uid).current_dir("/").spawn().unwrap();
        let mut output = String::new();
        child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        child.wait().unwrap();
        assert!(output.contains(said), "user {uid}: {output}");
    }
    std::fs::remove_file(&program).unwrap();
}

#[test]
fn client_of_a_namespace_that_cannot_be_seen_is_refused_in_words() {
    let namespace = ["--pid", "--fork", "--kill-child"];
    let mut unshare = Command::new("unshare");
    if !matches!(unshare.args(namespace).arg("true").status(), Ok(status) if status.success()) {
        eprintln!("SKIP: no process-id namespace can be made");
        return;
    }
    let outer = serve(&one_gpu("buckets: 2", ""));
    let server = command_of(&std::env::current_exe().unwrap(), "server_on_its_own", &outer, "");
    let mut unshare = Command::new("unshare");
    unshare.args(namespace).arg(server.get_program()).args(server.get_args());
    unshare.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut server = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let inner = lines.find_map(|line| Some(line.unwrap().split_once("serves ")?.1.to_owned()));
    let refused = Client::connect(inner.unwrap()).err().unwrap();
    let said = refused.to_string();
    assert_eq!(code(refused), Code::NotAllowed);
    assert!(said.contains("process-id namespace that is not visible from here"), "{said}");
    drop(server.stdin.take());
    server.wait().unwrap();
}

#[test]
#[ignore = "run by client_of_a_namespace_that_cannot_be_seen_is_refused_in_words"]
fn server_on_its_own() {
    let Some((outer, _)) = given() else { return };
    // It is seen from outside, and can be a client there.
    Client::connect(outer).unwrap();
    let fixture = serve(&one_gpu("buckets: 2", ""));
    println!("serves {}", fixture.socket.display());
    // Until the test has gone.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
#[ignore = "run by users_outside_the_rules_are_turned_away"]
fn client_that_says_how_it_was_received() {
    let Some((socket, _)) = given() else { return };
    match Client::connect(socket) {
        Ok(_) => println!("welcome"),
        Err(error) => println!("{error}"),
    }
}

#[test]
#[ignore = "run as a process of its own by the tests about dead and stopped clients"]
fn client_that_keeps_the_device_busy() {
    let Some((socket, word)) = given() else { return };
    let mut client = Client::connect(socket).unwrap();
    let busy = Registration::service("busy").chain("victim", 90).memory(1 << 20);
    let busy = client.register(&busy).unwrap();
    let ms = word.parse().unwrap();
    let mut tickets: Vec<_> = (0..8).map(|_| client.submit(busy, &work(ms)).unwrap()).collect();
    client.wait(&mut tickets[7], None).unwrap();
}

#[test]
fn what_a_killed_client_had_is_reclaimed_at_once() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let mut other = Busy::new(&fixture, "other", 1);
    fixture.until("only the other is there", |c| c.sessions == 1);
    let before = fixture.server().counters();
    for round in 0..5 {
        // Each of the eight requests would take a minute.
        let mut victim = spawn("client_that_keeps_the_device_busy", &fixture, "60000");
        fixture.until("the victim's requests are there", |c| c.running == 1 && c.queued == 7);
        let killed = Instant::now();
        signal(&victim, libc::SIGKILL);
        fixture.until("all of it is reclaimed", |c| {
            (c.sessions, c.queued, c.running) == (1, 0, 0) && c.memory_bytes == before.memory_bytes
        });
        println!("round {round}: reclaimed after {:?}", killed.elapsed());
        victim.wait().unwrap();
        assert_eq!(other.run(1).status, Status::Done);
    }
}

#[test]
fn stopped_client_holds_nobody_up() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let mut other = Busy::new(&fixture, "other", 1);
    let mut victim = spawn("client_that_keeps_the_device_busy", &fixture, "1");
    fixture.until("the victim is there", |c| c.sessions == 2 && c.registrations == 2);
    signal(&victim, libc::SIGSTOP);
    for _ in 0..20 {
        assert_eq!(other.run(1).status, Status::Done);
    }
    fixture.until("also the stopped client's requests are done", |c| c.queued + c.running == 0);
    signal(&victim, libc::SIGKILL);
    victim.wait().unwrap();
}

#[test]
#[ignore = "run by session_ends_with_its_process_although_a_child_holds_the_socket"]
fn client_that_leaves_its_socket_to_a_child() {
    let Some((socket, _)) = given() else { return };
    let mut client = Client::connect(socket).unwrap();
    client.register(&Registration::service("busy").memory(4096)).unwrap();
    for fd in 3..64 {
        // SAFETY: clears the close-on-exec flag of whatever is open; nothing else depends on it.
        unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    }
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    println!("child {}", child.id());
    child.wait().unwrap();
}

#[test]
fn session_ends_with_its_process_although_a_child_holds_the_socket() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let mut victim = spawn("client_that_leaves_its_socket_to_a_child", &fixture, "");
    let mut output = victim.stdout.take().unwrap();
    let mut said = String::new();
    let child: i32 = loop {
        let mut byte = [0];
        assert_eq!(output.read(&mut byte).unwrap(), 1, "{said}");
        said.push(char::from(byte[0]));
        // Behind the name of the test, where one thread runs the tests; it ends with the word, too.
        let line = said.lines().find_map(|line| line.rsplit_once("child "));
        if let (Some((_, number)), true) = (line, said.ends_with('\n')) {
            break number.parse().unwrap();
        }
    };
    fixture.until("the victim is registered", |c| c.registrations == 1);
    signal(&victim, libc::SIGKILL);
    victim.wait().unwrap();
    fixture.until("the session is gone", |c| c.sessions == 0 && c.memory_bytes == 0);
    // SAFETY: the number was read from the victim's own output; the child sleeps.
    unsafe { libc::kill(child, libc::SIGKILL) };
}

#[test]
fn clients_find_a_restarted_server_and_keep_their_memory() {
    let mut fixture = serve(&one_gpu("buckets: 2", ""));
    let mut client = fixture.client();
    let add = client.register(&Registration::service("vecadd").chain("c", 5).memory(24)).unwrap();
    client.memory(add).unwrap().write_f32(0, &[1.0, 2.0, 30.0, 40.0]).unwrap();
    let mut busy = Busy::new(&fixture, "busy", 9);
    let mut in_flight = busy.submit(60_000);
    fixture.until("the request runs", |c| c.running == 1);

    fixture.stop();
    let lost = busy.client.wait(&mut in_flight, None).unwrap_err();
    let said = lost.to_string();
    assert!(matches!(lost, Error::ServerLost { launch_id: Some(1), .. }), "{lost:?}");
    assert!(said.contains("request 1 was in flight") && said.contains("ending"), "{said}");
    let gone = busy.client.run(busy.callback, &work(1)).unwrap_err();
    assert!(matches!(gone, Error::NoServer { .. }), "{gone:?}");

    fixture.start();
    busy.client.reconnect(PATIENCE).unwrap();
    assert_eq!(busy.run(1).status, Status::Done);
    assert!(busy.client.poll(&mut in_flight).is_err(), "a ticket of the old session");
    // The other client has noticed nothing so far; its next request may find the old session.
    let request = Request::new().arguments(&[2]).input(0, 16).output(16, 8);
    match client.run(add, &request) {
        Err(Error::ServerLost { .. }) => client.run(add, &request).unwrap(),
        outcome => outcome.unwrap(),
    };
    let mut sums = [0.0; 2];
    client.memory(add).unwrap().read_f32(4, &mut sums).unwrap();
    assert_eq!(sums, [31.0, 42.0]);
}

#[test]
fn second_server_does_not_take_over_the_socket() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let system = system::System::parse("accelerators: [{id: gpu0, buckets: 1}]", "x").unwrap();
    let options = Options { socket: Some(fixture.socket.clone()), ..Options::default() };
    let error = Server::start(&system, options).err().unwrap();
    assert!(error.to_string().contains("already in use by process"), "{error}");
    fixture.client();
}

#[test]
fn configuration_that_cannot_be_served_names_its_key() {
    for (yaml, said) in [
        ("server: {priority: 0}", "accelerators: none: expected at least one to serve"),
        (
            "accelerators: [{id: a, buckets: 1, device: \"cuda:99\"}]",
            "accelerators.a.device: cuda:99: device: ",
        ),
        (
            "accelerators: [{id: a, buckets: 1}]\nservices: [{name: s, accelerator: a, kernel: warp}]",
            "services.s.kernel: \"warp\": expected one of",
        ),
        (
            "accelerators: [{id: a, buckets: 1}]\nserver: {access: [{group: nobody at all, priority: [0, 1]}]}",
            "server.access[0].group: \"nobody at all\"",
        ),
    ] {
        let system = system::System::parse(yaml, "x").unwrap();
        let name = format!("keeptime-refused-{}.sock", std::process::id());
        let socket = Some(std::env::temp_dir().join(name));
        let error = Server::start(&system, Options { socket, ..Options::default() }).err().unwrap();
        assert!(error.to_string().contains(said), "{error}");
    }
}
