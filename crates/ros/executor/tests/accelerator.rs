//! Callbacks that use an accelerator, the software one, through a real server.

use accel::{Registration, Request, Status, Wait};
use accel_server::{Options, Server};
use executor::{Error, Executor, ExecutorPolicy, Queue, Settings, Thread};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A server with one accelerator, in a folder of its own.
struct Fixture {
    server: Option<Server>,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let text = "accelerators: [{id: gpu0, buckets: 3}]\nserver: {priority: 0}";
        let system = system::System::parse(text, "test.yaml").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let options = Options { socket: Some(folder.path().join("server")), ..Options::default() };
        Fixture { server: Some(Server::start(&system, options).unwrap()), folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("server")
    }

    fn done(&self) -> u64 {
        self.server.as_ref().unwrap().counters().done
    }

    fn executor(&self, wait: Wait, threads: usize) -> Executor {
        let threads = vec![Thread::default(); threads];
        let mut executor = Executor::new(ExecutorPolicy::ChainAware, threads).unwrap();
        executor.connect(&self.socket(), wait).unwrap();
        executor
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.server.take().unwrap().stop();
    }
}

fn once() -> Arc<Queue<()>> {
    let queue = Queue::new(1);
    queue.push(());
    queue
}

fn busy(time_ns: u64) -> Request {
    Request::new().arguments(&[time_ns])
}

#[test]
fn synchronous_request_is_done_when_the_callback_goes_on() {
    for wait in [Wait::Suspend, Wait::Spin] {
        let fixture = Fixture::new();
        let mut executor = fixture.executor(wait, 2);
        let service = executor.register(&Registration::service("busy").chain("c", 1)).unwrap();
        executor.subscription(Settings::new("ask", 1), once(), move |context, ()| {
            let outcome = context.accelerators().unwrap().run(service, &busy(2_000_000)).unwrap();
            assert_eq!(outcome.status, Status::Done);
            assert!(outcome.busy_ns > 0 && outcome.finished_ns >= outcome.started_ns);
            context.stop();
        });
        let report = executor.run(u64::MAX).unwrap();
        assert_eq!(fixture.done(), 1);
        assert!(report.callbacks[0].execution_max_ns >= 1_000_000, "{report:?}");
    }
}

#[test]
fn asynchronous_request_runs_while_the_callback_computes() {
    let fixture = Fixture::new();
    let mut executor = fixture.executor(Wait::Suspend, 1);
    let service = executor.register(&Registration::service("busy").chain("c", 1)).unwrap();
    executor.subscription(Settings::new("ask", 1), once(), move |context, ()| {
        let client = context.accelerators().unwrap();
        let mut ticket = client.submit(service, &busy(20_000_000)).unwrap();
        let mut steps = 0_u64;
        while client.poll(&mut ticket).unwrap().is_none() {
            steps += 1;
        }
        // The request took 20 ms of work, and this thread went on meanwhile.
        assert!(steps > 0);
        let outcome = client.wait(&mut ticket, None).unwrap();
        assert_eq!(outcome.status, Status::Done);
        context.stop();
    });
    executor.run(u64::MAX).unwrap();
    assert_eq!(fixture.done(), 1);
}

#[test]
fn continuation_runs_after_its_request_and_others_run_before_it() {
    let fixture = Fixture::new();
    let mut executor = fixture.executor(Wait::Suspend, 1);
    let log = Arc::new(Mutex::new(Vec::new()));
    let ended = log.clone();
    let registration = Registration::service("busy").chain("c", 2);
    let settings = Settings::new("continuation", 9);
    let continuation = executor
        .continuation(settings, &registration, move |context, outcome| {
            ended.lock().unwrap().push(("continuation", outcome.unwrap().status));
            context.stop();
        })
        .unwrap();
    let sent = log.clone();
    executor.subscription(Settings::new("ask", 5), once(), move |_, ()| {
        continuation.submit(&busy(30_000_000)).unwrap();
        sent.lock().unwrap().push(("ask", Status::Done));
    });
    let others = log.clone();
    executor.subscription(Settings::new("other", 1), once(), move |_, ()| {
        others.lock().unwrap().push(("other", Status::Done));
    });
    let report = executor.run(u64::MAX).unwrap();
    // The request keeps the accelerator for 30 ms of work; the least urgent callback does not wait
    // for it, and the most urgent one does.
    let names: Vec<&str> = log.lock().unwrap().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["ask", "other", "continuation"]);
    assert!(log.lock().unwrap().iter().all(|(_, status)| *status == Status::Done));
    assert_eq!(report.callbacks[0].kind, executor::Kind::Client);
}

#[test]
fn continuation_says_when_too_many_requests_are_on_the_way() {
    let fixture = Fixture::new();
    let mut executor = fixture.executor(Wait::Suspend, 1);
    let settings = Settings::new("continuation", 1);
    let mut left = 16;
    let continuation = executor
        .continuation(settings, &Registration::service("empty"), move |context, outcome| {
            outcome.unwrap();
            left -= 1;
            if left == 0 {
                context.stop();
            }
        })
        .unwrap();
    executor.subscription(Settings::new("ask", 2), once(), move |_, ()| {
        for _ in 0..16 {
            continuation.submit(&Request::new()).unwrap();
        }
        // No continuation can have run: this callback has the only thread.
        let full = continuation.submit(&Request::new()).unwrap_err();
        assert!(matches!(full, Error::Full { outstanding: 16 }), "{full}");
    });
    let report = executor.run(u64::MAX).unwrap();
    assert_eq!((report.callbacks[0].count, fixture.done()), (16, 16));
}

#[test]
fn request_without_a_server_is_an_error() {
    let mut executor = Executor::new(ExecutorPolicy::Ros2, vec![Thread::default()]).unwrap();
    let registration = Registration::service("empty");
    assert!(matches!(executor.register(&registration), Err(Error::NotConnected)));
    assert!(executor.clients().is_empty());
    let nowhere = tempfile::tempdir().unwrap().path().join("server");
    assert!(matches!(
        executor.connect(&nowhere, Wait::Suspend),
        Err(Error::Accelerator(accel::Error::NoServer { .. }))
    ));
}
