//! The software accelerator's own promises, beyond the contract: how it starts and how it ends.

use device::software::{Config, SoftwareDevice};
use device::{Device, Error, Event, Launch, Level, Observer, OperationOutcome, Status};
use realtime::thread::Scheduling;
use realtime::work::Calibration;
use shm::memory::PeerSlice;
use std::sync::{Arc, Mutex, mpsc};

fn config() -> Config {
    let calibration = Calibration { iterations_per_us: 300.0, spread: 0.0 };
    Config { calibration: Some(calibration), ..Config::default() }
}

/// A device with endless work and an empty launch behind it.
fn loaded() -> (Arc<SoftwareDevice>, [Event; 2]) {
    let device = SoftwareDevice::on_cores(config()).unwrap();
    let stream = device.create_stream(device.create_context().unwrap(), Level(0)).unwrap();
    let events = [Event::new(), Event::new()];
    let busy = Launch::new(device.kernel("busy").unwrap(), [100_000_000_000, 0, 0, 0]);
    device.launch(stream, busy, &events[0]).unwrap();
    let empty = Launch::new(device.kernel("empty").unwrap(), [0; 4]);
    device.launch(stream, empty, &events[1]).unwrap();
    (device, events)
}

#[test]
fn dropped_device_completes_every_event() {
    let (device, events) = loaded();
    drop(device);
    for event in events {
        assert_eq!(event.query().unwrap().status, Status::Cancelled);
    }
}

#[test]
fn closed_device_refuses_new_work() {
    let (device, events) = loaded();
    device.shutdown();
    device.shutdown();
    assert!(events.iter().all(|event| event.query().is_some()));
    assert_eq!(device.create_context(), Err(Error::Closed));
}

#[test]
fn observer_may_hold_the_last_reference_to_the_device() {
    struct Last(Mutex<Option<Arc<SoftwareDevice>>>, mpsc::Sender<()>);
    impl Observer for Last {
        fn completed(&self, _: u64, _: &OperationOutcome) {
            self.0.lock().unwrap().take();
            self.1.send(()).unwrap();
        }
    }
    let device = SoftwareDevice::on_cores(config()).unwrap();
    let stream = device.create_stream(device.create_context().unwrap(), Level(0)).unwrap();
    let (sender, dropped) = mpsc::channel();
    let empty = Launch::new(device.kernel("empty").unwrap(), [0; 4]);
    let last = Arc::new(Last(Mutex::new(Some(device.clone())), sender));
    device.launch(stream, empty, &Event::observed(last, 0)).unwrap();
    drop(device);
    dropped.recv().unwrap();
}

#[test]
fn what_a_launch_holds_is_let_go_when_the_next_one_of_its_stream_has_ended() {
    let device = SoftwareDevice::on_cores(config()).unwrap();
    let stream = device.create_stream(device.create_context().unwrap(), Level(0)).unwrap();
    let held = Arc::new(());
    struct Holds(#[expect(dead_code, reason = "only dropped")] Arc<()>);
    impl Observer for Holds {
        fn completed(&self, _: u64, _: &OperationOutcome) {}
    }
    let empty = Launch::new(device.kernel("empty").unwrap(), [0; 4]);
    let event = Event::observed(Arc::new(Holds(held.clone())), 0);
    device.launch(stream, empty.clone(), &event).unwrap();
    drop(event);
    for _ in 0..2 {
        let event = Event::new();
        device.launch(stream, empty.clone(), &event).unwrap();
        event.wait();
    }
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn refused_policy_is_told_and_the_device_works() {
    let device =
        SoftwareDevice::on_cores(Config { policy: Scheduling::Fifo(5), ..config() }).unwrap();
    let statistics = device.statistics();
    println!("real-time: {}", statistics.realtime);
    assert!(statistics.compute_threads.iter().all(|thread| *thread != 0));
    let stream = device.create_stream(device.create_context().unwrap(), Level(0)).unwrap();
    let (memory, event) = (PeerSlice::anonymous(64).unwrap(), Event::new());
    device.copy(stream, memory.clone(), memory, &event).unwrap();
    assert_eq!(event.wait().status, Status::Done);
}

#[test]
fn impossible_configurations_are_refused() {
    for bad in [
        Config { levels: 0, ..config() },
        Config { cores: vec![0; 65], ..config() },
        Config { cores: vec![100_000], ..config() },
    ] {
        assert!(matches!(SoftwareDevice::on_cores(bad), Err(Error::Start(_))));
    }
}
