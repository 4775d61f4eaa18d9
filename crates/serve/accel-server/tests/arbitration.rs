//! Order of requests: buckets, priorities, policies, overruns. The order is read off the device's
//! own time stamps, never off a wall-clock bound.

mod support;

use accel::{Registration, Request, Status};
use realtime::thread;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Busy, one_gpu, serve, work};

#[test]
fn device_computes_in_the_clients_memory() {
    let fixture = serve(&one_gpu("buckets: 6", ""));
    let mut client = fixture.client();
    let n = 1000;
    let add = Registration::service("vecadd").chain("sum", 5).memory(12 * n);
    let add = client.register(&add).unwrap();
    let numbers: Vec<f32> = (0..2 * n).map(|i| i as f32).collect();
    client.memory(add).unwrap().write_f32(0, &numbers).unwrap();
    let request = Request::new().arguments(&[n as u64]).input(0, 8 * n).output(8 * n, 4 * n);
    let outcome = client.run(add, &request).unwrap();
    let mut sums = vec![0.0; n];
    client.memory(add).unwrap().read_f32(2 * n, &mut sums).unwrap();
    assert!(sums.iter().enumerate().all(|(i, &sum)| sum == (2 * i + n) as f32));
    let times = [
        outcome.submitted_ns,
        outcome.arrived_ns,
        outcome.started_ns,
        outcome.finished_ns,
        outcome.answered_ns,
    ];
    assert!(times.is_sorted() && times[0] > 0, "{times:?}");
}

/// Fills the device with one request, queues others behind it, and returns the order in which
/// they were begun.
fn order_behind_a_running_request(yaml: &str, priorities: &[u32]) -> Vec<u32> {
    let fixture = serve(yaml);
    let mut first = Busy::new(&fixture, "first", 1000);
    let mut clients: Vec<Busy> =
        priorities.iter().map(|&p| Busy::new(&fixture, &format!("chain{p}"), p)).collect();
    let mut running = first.submit(1000);
    fixture.until("the first request runs", |c| c.running == 1);
    let mut tickets = Vec::new();
    for (index, client) in clients.iter_mut().enumerate() {
        tickets.push(client.submit(1));
        fixture.until("the request is queued", |c| c.queued + c.running == index as u64 + 2);
    }
    first.wait(&mut running);
    let mut started: Vec<(u64, u32)> = Vec::new();
    for ((client, ticket), &priority) in clients.iter_mut().zip(&mut tickets).zip(priorities) {
        started.push((client.wait(ticket).started_ns, priority));
    }
    started.sort_unstable();
    started.into_iter().map(|(_, priority)| priority).collect()
}

#[test]
fn inside_a_bucket_the_higher_chain_priority_goes_first() {
    let order = order_behind_a_running_request(&one_gpu("buckets: 1", ""), &[3, 7, 1, 9, 5]);
    assert_eq!(order, [9, 7, 5, 3, 1]);
}

#[test]
fn fifo_ignores_priorities() {
    let yaml = one_gpu("buckets: 6", "server: {priority: 0, policy: fifo}");
    assert_eq!(order_behind_a_running_request(&yaml, &[3, 7, 1, 9, 5]), [3, 7, 1, 9, 5]);
}

#[test]
fn higher_bucket_preempts_a_running_request() {
    let fixture = serve(&one_gpu("buckets: 6", ""));
    let mut low = Busy::new(&fixture, "low", 1);
    let mut high = Busy::new(&fixture, "high", 2);
    let mut long = low.submit(1000);
    fixture.until_begun();
    let short = high.run(1);
    let long = low.wait(&mut long);
    assert!(long.started_ns < short.started_ns, "the low request had begun");
    assert!(short.finished_ns < long.finished_ns, "the high request overtook it");
}

#[test]
fn timeslice_lets_client_processes_take_turns() {
    let yaml = one_gpu("buckets: 6", "server: {priority: 0, policy: timeslice, slice: 2 ms}");
    let fixture = serve(&yaml);
    let mut one = Busy::new(&fixture, "one", 9);
    let mut other = Busy::new(&fixture, "other", 1);
    let mut first = one.submit(1000);
    fixture.until_begun();
    let second = other.run(20);
    let first = one.wait(&mut first);
    assert!(second.finished_ns < first.finished_ns, "the later client had its turns");
    assert!(second.started_ns > first.started_ns);
}

#[test]
fn lowest_bucket_runs_requests_together_only_where_the_system_says_so() {
    for concurrent in [true, false] {
        let keys = format!("buckets: 2, concurrent_lowest: {concurrent}");
        let fixture = serve(&one_gpu(&keys, ""));
        // Two chains in two buckets: the lower one has two clients.
        let _upper = Busy::new(&fixture, "upper", 9);
        let mut clients = [Busy::new(&fixture, "low", 1), Busy::new(&fixture, "low", 1)];
        let tickets = clients.each_mut().map(|client| client.submit(1000));
        if concurrent {
            fixture.until("both requests run", |c| c.running == 2);
        } else {
            fixture.until("one request is done", |c| {
                assert!(c.running < 2, "{c:?}");
                c.done == 1
            });
        }
        for (client, mut ticket) in clients.iter_mut().zip(tickets) {
            client.wait(&mut ticket);
        }
    }
}

#[test]
fn chains_spread_over_the_buckets_anew_when_they_come_and_go() {
    let fixture = serve(&one_gpu("buckets: 4", ""));
    let mut client = fixture.client();
    let mut register = |priority: u32| {
        let chain = Registration::service("empty").chain(&format!("c{priority}"), priority);
        let callback = client.register(&chain).unwrap();
        (callback, client.bucket(callback).unwrap())
    };
    let (only, bucket) = register(50);
    assert_eq!(bucket, 3, "the only chain has the highest bucket");
    let (_, bucket) = register(10);
    assert_eq!(bucket, 1, "two chains share four buckets evenly");
    let (_, bucket) = register(10);
    assert_eq!(bucket, 1, "another callback of the same chain moves nothing");
    let (_, bucket) = register(90);
    assert_eq!(bucket, 3);
    client.deregister(only).unwrap();
    let rest = Registration::service("empty").chain("c5", 5);
    let rest = client.register(&rest).unwrap();
    assert_eq!(client.bucket(rest).unwrap(), 1, "three chains 90, 10, 5 are spread to 3, 2, 1");
    client.reprioritise(rest, 99).unwrap();
    assert_eq!(client.bucket(rest).unwrap(), 3);
}

/// About buckets only: with admission, a chain that declares nothing would be refused beside it.
const CONFIGURED: &str = "
server: {priority: 0, admission: \"off\"}
executors: [{id: e, core: 0, priority: 0}]
chains:
- {id: steer, priority: 8, period: 1 s, bucket: {gpu0: 1}, callbacks: [{id: a, executor: e, segments: [{accel: gpu0, exec: 1 ms}]}]}
";

#[test]
fn explicit_bucket_of_the_configuration_wins() {
    let fixture = serve(&one_gpu("buckets: 6", CONFIGURED));
    let mut client = fixture.client();
    let steer = client.register(&Registration::service("empty").chain("steer", 8)).unwrap();
    assert_eq!(client.bucket(steer).unwrap(), 1);
    let lower = client.register(&Registration::service("empty").chain("other", 7)).unwrap();
    assert!(client.bucket(lower).unwrap() <= 1, "a lower chain overtakes the explicit bucket");
}

#[test]
fn priorities_say_the_bucket_where_the_accelerator_says_from_which_on_each_is() {
    let fixture = serve(&one_gpu("buckets: 3, bucket_from: [0, 10, 50]", ""));
    let mut client = fixture.client();
    for (priority, bucket) in [(60, 2), (50, 2), (49, 1), (10, 1), (9, 0)] {
        let chain = Registration::service("empty").chain(&format!("c{priority}"), priority);
        let callback = client.register(&chain).unwrap();
        assert_eq!(client.bucket(callback).unwrap(), bucket, "of priority {priority}");
    }
}

#[test]
fn configured_chain_cannot_be_registered_at_another_priority() {
    let fixture = serve(&one_gpu("buckets: 6", CONFIGURED));
    let mut client = fixture.client();
    let refused = client.register(&Registration::service("empty").chain("steer", 9)).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("asks for priority 9, the configuration gives it 8"), "{said}");
    let steer = client.register(&Registration::service("empty").chain("steer", 8)).unwrap();
    assert!(client.reprioritise(steer, 9).is_err());
}

#[test]
fn new_priority_counts_for_requests_sent_from_then_on() {
    let fixture = serve(&one_gpu("buckets: 1", ""));
    let mut first = Busy::new(&fixture, "first", 100);
    let mut riser = Busy::new(&fixture, "riser", 1);
    let mut other = Busy::new(&fixture, "other", 50);
    let mut running = first.submit(1000);
    fixture.until("the first request runs", |c| c.running == 1);
    let mut at_other = other.submit(1);
    fixture.until("one waits", |c| c.queued == 1);
    riser.client.reprioritise(riser.callback, 60).unwrap();
    let mut at_riser = riser.submit(1);
    first.wait(&mut running);
    let (at_other, at_riser) = (other.wait(&mut at_other), riser.wait(&mut at_riser));
    assert!(at_riser.started_ns < at_other.started_ns);
}

#[test]
fn waiting_request_keeps_its_urgency_when_its_chain_gets_another_priority() {
    let fixture = serve(&one_gpu("buckets: 3", ""));
    let mut low = Busy::new(&fixture, "low", 10);
    let mut mover = Busy::new(&fixture, "mover", 90);
    let mut long = low.submit(1000);
    fixture.until_begun();
    let mut running = mover.submit(50);
    let mut waiting = mover.submit(1);
    fixture.until("the second request waits", |c| (c.running, c.queued) == (2, 1));
    mover.client.reprioritise(mover.callback, 50).unwrap();
    mover.wait(&mut running);
    let (waiting, long) = (mover.wait(&mut waiting), low.wait(&mut long));
    assert!(waiting.finished_ns < long.finished_ns, "it fell behind a lower chain");
}

#[test]
fn overrun_is_counted_reported_and_told_to_the_client() {
    let fixture = serve(&one_gpu("buckets: 6", ""));
    let declared = Registration::service("busy").chain("liar", 5).exec(Duration::from_millis(400));
    let mut liar = Busy::with(&fixture, declared);
    // Far below what it declared: a machine that stands still for a while does not matter.
    let honest = liar.run(1);
    assert!(!honest.overran && !honest.demoted);
    let outcome = liar.run(1000);
    assert!(outcome.overran && !outcome.demoted);
    assert_eq!(fixture.server().counters().overruns, 1);
    fixture.until_logged("longer than the declared 400000 us");
}

#[test]
fn overrun_is_demoted_where_the_configuration_says_so() {
    let yaml = one_gpu("buckets: 3", "server: {priority: 0, overrun: demote}");
    let fixture = serve(&yaml);
    let declared = Registration::service("busy").chain("liar", 9).exec(Duration::from_millis(400));
    let mut liar = Busy::with(&fixture, declared);
    let mut middle = Busy::new(&fixture, "middle", 5);
    let _lowest = Busy::new(&fixture, "lowest", 1);
    let mut long = liar.submit(3000);
    fixture.until("the liar is found out", |c| c.demotions == 1);
    let short = middle.run(1);
    // The liar's bucket is free again for its next request, which ends before the demoted one.
    let next = liar.run(1);
    let long = liar.wait(&mut long);
    assert!(long.overran && long.demoted);
    assert!(short.finished_ns < long.finished_ns, "a lower chain overtakes the demoted request");
    assert!(next.finished_ns < long.finished_ns && !next.demoted);
    // Lanes are reused: it can happen again.
    assert!(liar.run(1000).demoted);
    assert_eq!(fixture.server().counters().demotions, 2);
}

#[test]
fn asynchronous_requests_are_polled_waited_for_and_cancelled() {
    let fixture = serve(&one_gpu("buckets: 1", ""));
    let mut first = Busy::new(&fixture, "first", 9);
    let mut second = Busy::new(&fixture, "second", 5);
    let mut running = first.submit(1000);
    fixture.until("the first request runs", |c| c.running == 1);
    assert_eq!(first.client.poll(&mut running).unwrap(), None);
    let timed_out = first.client.wait(&mut running, Some(Duration::from_millis(1)));
    assert!(matches!(timed_out, Err(accel::Error::TimedOut { .. })), "{timed_out:?}");

    let mut queued = second.submit(1);
    assert!(second.client.cancel(&mut queued).unwrap(), "a queued request is taken back");
    assert_eq!(second.wait(&mut queued).status, Status::Cancelled);
    assert!(!first.client.cancel(&mut running).unwrap(), "a running one is not");
    assert_eq!(first.wait(&mut running).status, Status::Done);
    assert_eq!(first.client.poll(&mut running).unwrap().unwrap().status, Status::Done);
    assert!(!first.client.cancel(&mut running).unwrap());
}

#[test]
fn spinning_clients_get_the_same_answers() {
    let fixture = serve(&one_gpu("buckets: 6", ""));
    let mut busy = Busy::new(&fixture, "spin", 5);
    busy.client.set_wait(accel::Wait::Spin);
    for _ in 0..20 {
        assert_eq!(busy.run(1).status, Status::Done);
    }
    assert_eq!(fixture.server().counters().done, 20);
}

#[test]
fn forgotten_tickets_give_their_slots_back() {
    let fixture = serve(&one_gpu("buckets: 1", ""));
    let mut client = fixture.client();
    let empty = client.register(&Registration::service("empty").chain("c", 1)).unwrap();
    let mut sent = 0;
    while sent < 1000 {
        match client.submit(empty, &Request::new()) {
            Ok(ticket) => drop(ticket),
            Err(accel::Error::Full { .. }) => continue,
            Err(error) => panic!("{error}"),
        }
        sent += 1;
    }
    fixture.until("all are done", |c| c.done == 1000);
}

#[test]
fn ring_that_is_full_says_so() {
    let fixture = serve(&one_gpu("buckets: 1", ""));
    let mut busy = Busy::new(&fixture, "c", 1);
    let mut tickets: Vec<_> = (0..64).map(|_| busy.submit(5)).collect();
    let full = busy.client.submit(busy.callback, &work(1));
    assert!(matches!(full, Err(accel::Error::Full { slots: 64 })));
    for ticket in &mut tickets {
        assert_eq!(busy.wait(ticket).status, Status::Done);
    }
}

/// Something more urgent has the core of the unit for four fifths of the time, so that a request
/// takes five times its work, and longer than declared. That time is not the request's.
#[test]
fn interference_is_no_overrun() {
    const BUDGET: Duration = Duration::from_millis(60);
    let fixture = serve(&one_gpu("buckets: 2, cores: [0]", ""));
    let mut busy = Busy::with(&fixture, Registration::service("busy").chain("c", 9).exec(BUDGET));
    let over = AtomicBool::new(false);
    let (begun, has_begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || {
            thread::pin(&[0]).unwrap();
            begun.send(thread::set_policy(thread::Scheduling::Fifo(50)).is_ok()).unwrap();
            while !over.load(Ordering::Relaxed) {
                let end = Instant::now() + Duration::from_millis(4);
                while Instant::now() < end {}
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        if !has_begun.recv().unwrap() {
            over.store(true, Ordering::Relaxed);
            return eprintln!("SKIP: interference takes the right to SCHED_FIFO");
        }
        let outcome = busy.run(20);
        over.store(true, Ordering::Relaxed);
        let took = Duration::from_nanos(outcome.finished_ns - outcome.started_ns);
        assert!(took > BUDGET, "nothing interfered: {took:?}");
        assert!(!outcome.overran && outcome.busy_ns < BUDGET.as_nanos() as u64, "{outcome:?}");
    });
}
