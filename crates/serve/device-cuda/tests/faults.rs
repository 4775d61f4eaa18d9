//! Kernels that break their process or never end, and a GPU that does not come back. On GPUs, and
//! on the fake driver.

mod support;

use device::{Device, Event, FailureCode, Status};
use device_cuda::{Config, CudaDevice};
use realtime::thread::{self, Scheduling};
use std::process::Command;
use std::time::{Duration, Instant};
use support::{
    Numbers, apart, begin, begin_alone, device, end, gpus, on_the_fake_driver, stream, turn,
};

const LOST: Status = Status::Failed(FailureCode::Lost as u32);
const ENDLESS: Status = Status::Failed(FailureCode::Endless as u32);
const BUDGET: Option<Duration> = Some(Duration::from_millis(1));
/// Shortest time that counts as endless.
const LEAST: Duration = Duration::from_millis(500);

/// On each GPU, with units that sleep and with units that spin.
fn on_all(test: impl Fn(Config)) {
    let _turn = turn();
    for ordinal in gpus() {
        for spins in [false, true] {
            test(apart(Config { ordinal, spins, ..Config::default() }));
        }
    }
}

/// All levels compute, what is built in and what is not, with memory that was there before.
fn works(device: &CudaDevice, numbers: &Numbers) {
    for level in 0..device.properties().levels {
        let (stream, factor) = (stream(device, level), u64::from(level) + 2);
        // From the second time on it is a graph.
        for time in 0..3 {
            numbers.fill(usize::from(level) + time);
            assert_eq!(numbers.scale(device, stream, factor).status, Status::Done);
            assert!(numbers.are_scaled(factor), "level {level}");
        }
        assert_eq!(end(&begin(device, level, "busy", 1_000_000, BUDGET)).status, Status::Done);
    }
}

/// Others, of which each ends, and for no fault of its own.
fn are_innocent(others: &[Event]) {
    for other in others {
        let status = end(other).status;
        assert!([Status::Done, LOST].contains(&status), "{status:?}");
    }
}

#[test]
fn illegal_access_is_survived_on_the_fake_driver() {
    on_the_fake_driver("illegal_access_is_survived", &[]);
}

#[test]
fn illegal_access_is_survived() {
    on_all(|config| {
        let device = device(config);
        let numbers = Numbers::new(1000);
        works(&device, &numbers);
        for resets in 1..=2 {
            let run = |level: u8| begin(&device, level, "busy", 30_000_000, None);
            let others: Vec<Event> = [0, 0, 1, 3, 5].into_iter().map(run).collect();
            let illegal = begin(&device, 2, "illegal", 0, BUDGET);
            assert_eq!(end(&illegal).status, LOST);
            are_innocent(&others);
            works(&device, &numbers);
            assert_eq!(device.statistics().resets, resets);
        }
    });
}

#[test]
fn endless_launch_is_ended_on_the_fake_driver() {
    on_the_fake_driver("endless_launch_is_ended", &[]);
}

#[test]
fn endless_launch_is_ended_although_its_thread_keeps_the_core_on_the_fake_driver() {
    on_the_fake_driver("endless_launch_is_ended_although_its_thread_keeps_the_core", &[]);
}

/// All threads of the device at one real-time priority on one core, one of which never sleeps.
#[test]
fn endless_launch_is_ended_although_its_thread_keeps_the_core() {
    if let Err(error) =
        std::thread::spawn(|| thread::set_policy(Scheduling::Fifo(1))).join().unwrap()
    {
        return println!("SKIP: {error}");
    }
    let cores: Vec<usize> = thread::cores().pop().into_iter().collect();
    let _turn = turn();
    for ordinal in gpus() {
        let (spins, policy, cores) = (true, Scheduling::Fifo(1), cores.clone());
        endless_is_ended(apart(Config { ordinal, spins, policy, cores, ..Config::default() }));
    }
}

#[test]
fn endless_launch_is_ended() {
    on_all(endless_is_ended);
}

fn endless_is_ended(config: Config) {
    let device = device(config);
    let numbers = Numbers::new(1000);
    works(&device, &numbers);
    let start = Instant::now();
    let endless = begin(&device, 2, "endless", 0, BUDGET);
    assert!(endless.wait_timeout(LEAST - Duration::from_millis(50)).is_none());
    let ended = end(&endless);
    let took = start.elapsed();
    assert_eq!(ended.status, ENDLESS);
    assert!(ended.overrun, "{ended:?}");
    assert!(took >= LEAST, "{took:?}");
    works(&device, &numbers);
    assert_eq!(device.statistics().resets, 1);
}

#[test]
fn others_do_not_suffer_from_an_endless_launch_on_the_fake_driver() {
    on_the_fake_driver("others_do_not_suffer_from_an_endless_launch", &[]);
}

/// While it runs others launch, with a budget that they exceed by waiting, without one, and with
/// memory for which more must be allocated; and a client goes.
#[test]
fn others_do_not_suffer_from_an_endless_launch() {
    on_all(|config| {
        let device = device(config);
        let numbers = Numbers::new(1000);
        let goes = Numbers::new(1000);
        let context = device.create_context().unwrap();
        let short_lived = device.create_stream(context, device::Level(1)).unwrap();
        assert_eq!(goes.scale(&device, short_lived, 2).status, Status::Done);
        works(&device, &numbers);
        let long = Some(Duration::from_millis(150));
        let endless = begin_alone(&device, 2, "endless", 0, long);
        drop(goes);
        device.destroy_context(context).unwrap();
        let mut others = Vec::new();
        for level in [0, 3, 4, 5] {
            others.push(begin(&device, level, "busy", 1_000_000, BUDGET));
            others.push(begin(&device, level, "busy", 1_000_000, None));
        }
        let larger = Numbers::new(1 << 20);
        others.push(Event::new());
        let launch = larger.launch(&device, 2);
        device.launch(stream(&device, 1), launch, others.last().unwrap()).unwrap();
        assert_eq!(end(&endless).status, ENDLESS);
        are_innocent(&others);
        works(&device, &numbers);
        works(&device, &larger);
        assert_eq!(device.statistics().resets, 1);
    });
}

#[test]
fn memory_grows_beside_an_endless_launch_on_the_fake_driver() {
    on_the_fake_driver("memory_grows_beside_an_endless_launch", &[]);
}

/// Of a unit that has some already.
#[test]
fn memory_grows_beside_an_endless_launch() {
    on_all(|config| {
        let device = device(Config { levels: 2, lowest: 1, ..config });
        let (numbers, larger) = (Numbers::new(1000), Numbers::new(1 << 20));
        let upper = stream(&device, 1);
        // While one unit is busy, most of these are the other one's.
        let busy = begin(&device, 0, "busy", 50_000_000, None);
        for _ in 0..10 {
            assert_eq!(numbers.scale(&device, upper, 2).status, Status::Done);
        }
        assert_eq!(end(&busy).status, Status::Done);
        let endless = begin_alone(&device, 0, "endless", 0, BUDGET);
        let event = Event::new();
        device.launch(upper, larger.launch(&device, 2), &event).unwrap();
        assert_eq!(end(&endless).status, ENDLESS);
        are_innocent(&[event]);
        works(&device, &larger);
        assert_eq!(device.statistics().resets, 1);
    });
}

#[test]
fn device_can_be_dropped_with_an_endless_launch_on_the_fake_driver() {
    on_the_fake_driver("device_can_be_dropped_with_an_endless_launch", &[]);
}

#[test]
fn device_can_be_dropped_with_an_endless_launch() {
    on_all(|config| {
        let first = device(config.clone());
        let numbers = Numbers::new(1000);
        works(&first, &numbers);
        let endless = begin_alone(&first, 2, "endless", 0, BUDGET);
        drop(first);
        assert_eq!(end(&endless).status, ENDLESS);
        // Nothing is left of it on the GPU.
        works(&device(config), &numbers);
    });
}

#[test]
fn device_can_be_dropped_after_a_reset_on_the_fake_driver() {
    on_the_fake_driver("device_can_be_dropped_after_a_reset", &[]);
}

/// Most of its units have not noticed it yet.
#[test]
fn device_can_be_dropped_after_a_reset() {
    on_all(|config| {
        let first = device(config.clone());
        let numbers = Numbers::new(1000);
        works(&first, &numbers);
        assert_eq!(end(&begin(&first, 2, "illegal", 0, BUDGET)).status, LOST);
        assert_eq!(end(&begin(&first, 0, "empty", 0, BUDGET)).status, Status::Done);
        assert_eq!(first.statistics().resets, 1);
        drop(first);
        works(&device(config), &numbers);
    });
}

#[test]
fn gpu_that_does_not_come_back_is_lost_on_the_fake_driver() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let variables = [("FAKE_CUDA_GONE", gone.to_str().unwrap())];
    on_the_fake_driver("gpu_that_does_not_come_back_is_lost", &variables);
}

#[test]
fn gpu_that_does_not_come_back_is_lost() {
    let Some(gone) = std::env::var_os("FAKE_CUDA_GONE") else {
        return println!("SKIP: only the fake driver can be told so");
    };
    let device = device(apart(Config::default()));
    let numbers = Numbers::new(1000);
    works(&device, &numbers);
    std::fs::write(gone, "").unwrap();
    assert_eq!(end(&begin(&device, 2, "endless", 0, BUDGET)).status, ENDLESS);
    for level in 0..6 {
        assert_eq!(end(&begin(&device, level, "empty", 0, None)).status, LOST);
        assert_eq!(numbers.scale(&device, stream(&device, level), 2).status, LOST);
    }
    let statistics = device.statistics();
    assert_eq!(statistics.resets, 0);
    assert!(statistics.fault.is_some_and(|why| why.contains("NO_DEVICE")));
}

/// The ordinal of the GPU whose context is to be broken, for the process that breaks it.
const BREAKS: &str = "KEEPTIME_TEST_BREAKS";

#[test]
fn gpu_of_this_process_is_lost_with_its_context_on_the_fake_driver() {
    on_the_fake_driver("gpu_of_this_process_is_lost_with_its_context", &[]);
}

#[test]
fn gpu_of_this_process_is_lost_with_its_context() {
    match std::env::var(BREAKS) {
        Ok(ordinal) => break_the_context(ordinal.parse().unwrap()),
        Err(_) => gpus().into_iter().for_each(lose_in_a_process_of_its_own),
    }
}

/// Nothing else in the process would get a context after that, on any GPU.
fn lose_in_a_process_of_its_own(ordinal: usize) {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "gpu_of_this_process_is_lost_with_its_context", "--nocapture"])
        .env(BREAKS, ordinal.to_string())
        .env_remove("FAKE_CUDA_COUNT")
        .output()
        .unwrap();
    let (said, cause) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said.contains("1 passed"), "GPU {ordinal}: {said}{cause}");
}

fn break_the_context(ordinal: usize) {
    let device = device(Config { ordinal, ..Config::default() });
    let numbers = Numbers::new(1000);
    works(&device, &numbers);
    assert_eq!(end(&begin(&device, 2, "illegal", 0, BUDGET)).status, LOST);
    for level in 0..6 {
        assert_eq!(end(&begin(&device, level, "empty", 0, None)).status, LOST);
        assert_eq!(numbers.scale(&device, stream(&device, level), 2).status, LOST);
    }
    let statistics = device.statistics();
    assert!(statistics.fault.is_some_and(|why| why.contains("broke the CUDA context")));
}

#[test]
fn killed_process_is_started_anew_on_the_fake_driver() {
    on_the_fake_driver("killed_process_is_started_anew", &[]);
}

#[test]
fn killed_process_is_started_anew() {
    on_all(|config| {
        let device = device(config);
        let numbers = Numbers::new(1000);
        works(&device, &numbers);
        let running: Vec<Event> =
            [0, 2, 5].map(|level| begin(&device, level, "busy", 50_000_000, None)).into();
        let children = format!("/proc/{}/task", std::process::id());
        let pids = std::fs::read_dir(children).unwrap().flat_map(|task| {
            let children = std::fs::read_to_string(task.unwrap().path().join("children"));
            let pids = children.unwrap_or_default();
            pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>()
        });
        let [pid] = pids.collect::<Vec<_>>().try_into().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        are_innocent(&running);
        works(&device, &numbers);
        assert_eq!(device.statistics().resets, 1);
    });
}
