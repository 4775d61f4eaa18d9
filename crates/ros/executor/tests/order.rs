//! Order of callbacks, through the public interface: concrete schedules under both policies.

use executor::{Executor, ExecutorPolicy, Period, Queue, Release, Report, Settings, Thread, Topic};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use std::sync::{Arc, Mutex};

/// The names of callbacks, in the order in which they ran.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, name: &'static str) -> usize {
        let mut log = self.0.lock().unwrap();
        log.push(name);
        log.len()
    }

    fn names(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

fn executor(policy: ExecutorPolicy) -> Executor {
    Executor::new(policy, vec![Thread::default()]).unwrap()
}

/// A pipeline of a critical chain, `see` and `act`, beside two callbacks of others. All messages
/// but that for `act` are there from the start; `see` sends that one.
fn pipeline(policy: ExecutorPolicy) -> Vec<&'static str> {
    let (mut executor, log, act) = (executor(policy), Log::default(), Queue::new(1));
    let ready = |depth| {
        let queue = Queue::new(depth);
        (0..depth).for_each(|_| queue.push(()));
        queue
    };
    for (name, priority, depth) in [("log", 1, 1), ("map", 2, 2)] {
        let log = log.clone();
        executor.subscription(Settings::new(name, priority), ready(depth), move |context, ()| {
            if log.add(name) == 5 {
                context.stop();
            }
        });
    }
    let (seen, acted, sent) = (log.clone(), log.clone(), act.clone());
    executor.subscription(Settings::new("see", 3), ready(1), move |context, ()| {
        sent.push(());
        if seen.add("see") == 5 {
            context.stop();
        }
    });
    executor.subscription(Settings::new("act", 4), act, move |context, ()| {
        if acted.add("act") == 5 {
            context.stop();
        }
    });
    executor.run(u64::MAX).unwrap();
    log.names()
}

#[test]
fn ros2_works_off_its_sample_before_it_sees_the_critical_message() {
    assert_eq!(pipeline(ExecutorPolicy::Ros2), ["log", "map", "see", "map", "act"]);
}

#[test]
fn chain_aware_brings_the_critical_chain_to_its_end_first() {
    assert_eq!(pipeline(ExecutorPolicy::ChainAware), ["see", "act", "map", "map", "log"]);
}

/// A timer that is due at once, a message and a request, registered in the opposite order.
fn classes(policy: ExecutorPolicy, priorities: [u32; 3]) -> Vec<&'static str> {
    let (mut executor, log) = (executor(policy), Log::default());
    let [of_service, of_message, of_timer] = priorities;
    let add = |name: &'static str| {
        let log = log.clone();
        move |context: &mut executor::Context| {
            if log.add(name) == 3 {
                context.stop();
            }
        }
    };
    let (requests, messages) = (Queue::new(1), Queue::new(1));
    requests.push(());
    messages.push(());
    let serve = add("service");
    executor.service(Settings::new("service", of_service), requests, move |c, ()| serve(c));
    let read = add("message");
    executor.subscription(Settings::new("message", of_message), messages, move |c, ()| read(c));
    let tick = add("timer");
    executor.timer(Settings::new("timer", of_timer), Period::new(1, u64::MAX), move |c, _| tick(c));
    executor.run(u64::MAX).unwrap();
    log.names()
}

#[test]
fn ros2_goes_by_class_and_not_by_priority() {
    assert_eq!(classes(ExecutorPolicy::Ros2, [3, 2, 1]), ["timer", "message", "service"]);
    assert_eq!(classes(ExecutorPolicy::ChainAware, [3, 2, 1]), ["service", "message", "timer"]);
    assert_eq!(classes(ExecutorPolicy::ChainAware, [1, 3, 2]), ["message", "timer", "service"]);
}

#[test]
fn timers_are_released_at_multiples_of_their_period() {
    let mut executor = executor(ExecutorPolicy::ChainAware);
    let (first_ns, period_ns) = (monotonic_ns() + 2_000_000, 3_000_000);
    let releases = Arc::new(Mutex::new(Vec::new()));
    let seen = releases.clone();
    let period = Period::new(first_ns, period_ns);
    executor.timer(Settings::new("tick", 1), period, move |context, release| {
        assert_eq!(context.ready_ns(), release.due_ns);
        assert!(monotonic_ns() >= release.due_ns);
        seen.lock().unwrap().push(release);
        // The first execution takes longer than two periods.
        if seen.lock().unwrap().len() == 1 {
            sleep_until_ns(release.due_ns + 2 * period_ns + period_ns / 2);
        }
        if release.number >= 6 {
            context.stop();
        }
    });
    let Report { callbacks, .. } = executor.run(u64::MAX).unwrap();
    let releases = releases.lock().unwrap();
    for release in releases.iter() {
        assert_eq!(release.due_ns, first_ns + release.number * period_ns);
    }
    // After the long one the timer is served once, and says what it left out.
    let [long, after, ..] = releases[..] else { panic!("{releases:?}") };
    assert!(after.number == long.number + 1 && after.missed >= 1, "{releases:?}");
    let missed: u64 = releases.iter().map(|release| release.missed).sum();
    assert_eq!((callbacks[0].dropped, callbacks[0].count), (missed, releases.len() as u64));
}

#[test]
fn timer_that_catches_up_is_served_for_every_release_after_the_start() {
    let (mut executor, jobs) = (executor(ExecutorPolicy::ChainAware), Queue::new(usize::MAX));
    let releases = Arc::new(Mutex::new(Vec::new()));
    let (seen, started) = (releases.clone(), jobs.clone());
    // Five releases, all due before the executor runs.
    let period = Period { until_ns: 5_000, catches_up: true, ..Period::new(0, 1_000) };
    executor.timer(Settings::new("tick", 1), period, move |context, release| {
        assert!(context.until_ns() > context.ready_ns());
        seen.lock().unwrap().push(("tick", release.number, release.due_ns));
        started.push(release);
    });
    let ended = releases.clone();
    executor.subscription(Settings::new("act", 2), jobs, move |context, release: Release| {
        ended.lock().unwrap().push(("act", release.number, release.due_ns));
        assert_eq!(release.missed, 0);
        if release.number == 4 {
            context.stop();
        }
    });
    let start_ns = monotonic_ns() - 1_000_000;
    executor.start_at(start_ns);
    let report = executor.run(u64::MAX).unwrap();
    // A job that has begun is brought to its end before the next one starts.
    let jobs = (0..5).map(|number| (number, start_ns + 1_000 * number));
    let expected =
        jobs.flat_map(|(number, due_ns)| ["tick", "act"].map(|name| (name, number, due_ns)));
    assert_eq!(*releases.lock().unwrap(), expected.collect::<Vec<_>>());
    assert_eq!((report.callbacks[0].count, report.callbacks[0].dropped), (5, 0));
}

#[test]
fn executor_wakes_for_messages_of_other_threads_and_ends_in_time() {
    let (topic, log) = (Topic::new(), Arc::new(Mutex::new(Vec::new())));
    let mut waiting = executor(ExecutorPolicy::Ros2);
    let seen = log.clone();
    waiting.subscription(Settings::new("read", 1), topic.subscribe(4), move |context, number| {
        seen.lock().unwrap().push(number);
        if number == 3 {
            context.stop();
        }
    });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| waiting.run(u64::MAX).unwrap());
        for number in 1..=3 {
            topic.publish(&number);
            testing::until("it is read", || log.lock().unwrap().len() == number);
        }
        let report = running.join().unwrap();
        assert_eq!((report.callbacks[0].count, report.callbacks[0].dropped), (3, 0));
    });
    assert_eq!(*log.lock().unwrap(), [1, 2, 3]);

    let idle = executor(ExecutorPolicy::ChainAware);
    let end_ns = monotonic_ns() + 5_000_000;
    idle.run(end_ns).unwrap();
    assert!(monotonic_ns() >= end_ns);
}

#[test]
fn message_that_was_replaced_counts_as_dropped() {
    let (mut executor, queue) = (executor(ExecutorPolicy::ChainAware), Queue::new(1));
    (0..4).for_each(|number| queue.push(number));
    executor.subscription(Settings::new("read", 1), queue, |context, number| {
        assert_eq!(number, 3);
        context.stop();
    });
    let report = executor.run(u64::MAX).unwrap();
    assert_eq!((report.callbacks[0].count, report.callbacks[0].dropped), (1, 3));
}
