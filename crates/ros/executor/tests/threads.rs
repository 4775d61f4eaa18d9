//! Several threads: groups that exclude, groups that do not, cores and priorities.

use executor::{Error, Exclusion, Executor, ExecutorPolicy, Queue, Settings, Thread};
use realtime::clock::monotonic_ns;
use realtime::thread as rt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};

const POLICIES: [ExecutorPolicy; 2] = [ExecutorPolicy::ChainAware, ExecutorPolicy::Ros2];

fn threads(count: usize) -> Vec<Thread> {
    vec![Thread::default(); count]
}

fn full(depth: usize) -> Arc<Queue<usize>> {
    let queue = Queue::new(depth);
    (0..depth).for_each(|number| queue.push(number));
    queue
}

#[test]
fn callbacks_of_an_excluding_group_never_overlap() {
    for policy in POLICIES {
        let mut executor = Executor::new(policy, threads(4)).unwrap();
        let group = executor.group(Exclusion::Mutual);
        let (inside, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for (name, priority) in [("a", 1), ("b", 2), ("c", 3)] {
            let (inside, ended) = (inside.clone(), ended.clone());
            let settings = Settings::new(name, priority).group(group);
            executor.subscription(settings, full(100), move |context, _| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                for _ in 0..50 {
                    std::thread::yield_now();
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                if ended.fetch_add(1, Ordering::SeqCst) == 299 {
                    context.stop();
                }
            });
        }
        let report = executor.run(u64::MAX).unwrap();
        assert!(report.callbacks.iter().all(|callback| callback.count == 100), "{policy:?}");
    }
}

#[test]
fn callbacks_of_different_groups_run_beside_each_other() {
    for policy in POLICIES {
        let mut executor = Executor::new(policy, threads(2)).unwrap();
        let both = Arc::new(Barrier::new(2));
        for name in ["left", "right"] {
            let (group, both) = (executor.group(Exclusion::Mutual), both.clone());
            executor.subscription(
                Settings::new(name, 1).group(group),
                full(1),
                move |context, _| {
                    // Passed only when the other one is inside as well.
                    both.wait();
                    context.stop();
                },
            );
        }
        executor.run(u64::MAX).unwrap();
    }
}

#[test]
fn callback_of_a_reentrant_group_runs_beside_itself() {
    for policy in POLICIES {
        let mut executor = Executor::new(policy, threads(2)).unwrap();
        let (group, both) = (executor.group(Exclusion::Reentrant), Barrier::new(2));
        let settings = Settings::new("both", 1).group(group);
        executor.parallel_subscription(settings, full(2), move |context, _| {
            both.wait();
            context.stop();
        });
        assert_eq!(executor.run(u64::MAX).unwrap().callbacks[0].count, 2, "{policy:?}");
    }
}

#[test]
fn parallel_callback_in_an_excluding_group_does_not() {
    let mut executor = Executor::new(ExecutorPolicy::ChainAware, threads(3)).unwrap();
    let inside = AtomicUsize::new(0);
    executor.parallel_subscription(Settings::new("one", 1), full(200), move |context, number| {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
        std::thread::yield_now();
        inside.fetch_sub(1, Ordering::SeqCst);
        if number == 199 {
            context.stop();
        }
    });
    assert_eq!(executor.run(u64::MAX).unwrap().callbacks[0].count, 200);
}

#[test]
fn free_thread_serves_what_a_busy_one_leaves() {
    // One callback blocks until the other one, of another group and less urgent, has run.
    for policy in POLICIES {
        let mut executor = Executor::new(policy, threads(2)).unwrap();
        let (group, passed) = (executor.group(Exclusion::Mutual), Queue::new(1));
        let (first, told) = (full(1), passed.clone());
        executor.subscription(Settings::new("first", 2), first, move |context, _| {
            use executor::Input;
            testing::until("the other one has run", || passed.ready());
            context.stop();
        });
        let settings = Settings::new("second", 1).group(group);
        executor.subscription(settings, full(1), move |_, _| told.push(()));
        executor.run(u64::MAX).unwrap();
    }
}

#[test]
fn threads_take_their_cores_and_say_which_priority_is_refused() {
    let core = *rt::cores().last().unwrap();
    let thread = Thread { cores: vec![core], priority: 5 };
    let mut executor =
        Executor::new(ExecutorPolicy::ChainAware, vec![thread.clone(), thread]).unwrap();
    let policies = Queue::new(1);
    let seen = policies.clone();
    executor.subscription(Settings::new("look", 1), full(1), move |context, _| {
        seen.push((rustix::thread::sched_getcpu(), rt::policy()));
        context.stop();
    });
    // On a thread of its own, which keeps core and priority.
    let report = std::thread::spawn(|| executor.run(u64::MAX).unwrap()).join().unwrap();
    let (ran_on, policy) = executor::Input::take(&policies).unwrap().message;
    assert_eq!(ran_on, core);
    match report.refused {
        None => assert_eq!(policy, rt::Scheduling::Fifo(5)),
        Some(why) => {
            assert!(policy == rt::Scheduling::Normal && why.contains("SCHED_FIFO"), "{why}")
        }
    }
}

#[test]
fn core_that_does_not_exist_ends_all_threads() {
    let absent = Thread { cores: vec![1_000_000], priority: 0 };
    for threads in [
        vec![absent.clone()],
        vec![Thread::default(), absent.clone()],
        vec![absent, Thread::default()],
    ] {
        let executor = Executor::new(ExecutorPolicy::Ros2, threads).unwrap();
        let error = std::thread::spawn(|| executor.run(u64::MAX)).join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Thread(realtime::Error::Cores { .. })), "{error}");
    }
    assert!(matches!(Executor::new(ExecutorPolicy::Ros2, Vec::new()), Err(Error::NoThreads)));
}

/// As the threads of DDS are: of the executor's priority, on its core.
#[test]
fn what_a_thread_of_the_same_priority_brings_is_there_for_the_next_choice() {
    let core = *rt::cores().last().unwrap();
    let (low, high) = (full(2), Queue::new(1));
    let (tell, told) = channel();
    let (allow, allowed) = channel();
    let queue = high.clone();
    std::thread::spawn(move || {
        rt::pin(&[core]).unwrap();
        allow.send(rt::set_policy(rt::Scheduling::Fifo(10)).is_ok()).unwrap();
        while told.recv().is_ok() {
            queue.push(100);
        }
    });
    if !allowed.recv().unwrap() {
        eprintln!("SKIP: SCHED_FIFO is refused");
        return;
    }
    let thread = Thread { cores: vec![core], priority: 10 };
    let mut executor = Executor::new(ExecutorPolicy::ChainAware, vec![thread]).unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    executor.subscription(Settings::new("low", 1), low, move |_, number| {
        seen.lock().unwrap().push(number);
        tell.send(()).unwrap();
    });
    let seen = log.clone();
    executor.subscription(Settings::new("high", 2), high, move |context, number| {
        let mut seen = seen.lock().unwrap();
        seen.push(number);
        if seen.len() == 4 {
            context.stop();
        }
    });
    let end_ns = monotonic_ns() + 10_000_000_000;
    std::thread::spawn(move || executor.run(end_ns).unwrap()).join().unwrap();
    assert_eq!(*log.lock().unwrap(), [0, 100, 1, 100]);
}
