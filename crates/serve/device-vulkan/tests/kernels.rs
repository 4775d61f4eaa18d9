//! Launches of many blocks, what runs meanwhile, and how devices are named.

mod support;

use device::hosted::Unit;
use device::software::{self, SoftwareDevice};
use device::{Device, Event, Launch, Level, Status};
use device_vulkan::{Config, Select};
use realtime::clock::monotonic_ns;
use realtime::work::Calibration;
use shm::memory::PeerSlice;
use std::time::Duration;
use support::{config, floats, launch, memory, read_floats, read_words, usable, words};

/// Numbers between -1 and 1, in no order.
fn numbers(count: usize) -> Vec<f32> {
    let number = |i: usize| (i as u32).wrapping_mul(2_654_435_769) as f32 / (1u32 << 31) as f32;
    (0..count).map(|i| number(i) - 1.0).collect()
}

/// Runs a kernel on the software accelerator, too.
fn reference(kernel: &str, arguments: [u64; 4], input: &PeerSlice, output: &PeerSlice) {
    let calibration = Some(Calibration { iterations_per_us: 300.0, spread: 0.0 });
    let config = software::Config { calibration, ..software::Config::default() };
    let device = SoftwareDevice::on_cores(config).unwrap();
    let context = device.create_context().unwrap();
    let stream = device.create_stream(context, Level(0)).unwrap();
    let mut order = Launch::new(device.kernel(kernel).unwrap(), arguments);
    (order.input, order.output) = (input.clone(), output.clone());
    let event = Event::new();
    device.launch(stream, order, &event).unwrap();
    assert_eq!(event.wait().status, Status::Done);
}

#[test]
fn launches_of_many_blocks_compute_what_the_software_accelerator_does() {
    // Arguments, numbers of the input and of the output, and how far apart two results may be.
    let cases: [(&str, [u64; 4], usize, usize, f32); 11] = [
        ("vecadd", [300_001, 0, 0, 0], 600_002, 300_001, 0.0),
        ("matmul", [600, 0, 0, 0], 720_000, 360_000, 2e-3),
        ("stencil", [1_000, 701, 0, 0], 701_000, 701_000, 1e-6),
        ("stencil", [1, 400_000, 0, 0], 400_000, 400_000, 1e-6),
        ("stencil", [300_000, 3, 0, 0], 900_000, 900_000, 1e-6),
        ("convolution", [1_000, 701, 0, 0], 701_009, 701_000, 1e-6),
        ("convolution", [1, 400_000, 0, 0], 400_009, 400_000, 1e-6),
        ("convolution", [300_000, 3, 0, 0], 900_009, 900_000, 1e-6),
        ("activation", [1_000, 701, 0, 0], 702_000, 701_000, 0.0),
        ("activation", [1, 400_000, 0, 0], 400_001, 400_000, 0.0),
        ("activation", [300_000, 3, 0, 0], 1_200_000, 900_000, 0.0),
    ];
    for found in usable() {
        let units = vec![Unit::default(); 2];
        let device = device_vulkan::start(Config { units, ..config(&found) }).unwrap();
        for (kernel, arguments, input, output, tolerance) in cases {
            let input = floats(&numbers(input));
            let (got, expected) = (memory(output * 4), memory(output * 4));
            let before = device.statistics().blocks;
            let outcome = launch(&device, kernel, arguments, &input, &got);
            assert_eq!(outcome.status, Status::Done);
            assert!(device.statistics().blocks > before + 1, "{kernel} is one block");
            reference(kernel, arguments, &input, &expected);
            let (got, expected) = (read_floats(&got), read_floats(&expected));
            // Written so that a NaN is not near anything.
            let near = |i: &usize| (got[*i] - expected[*i]).abs() <= tolerance;
            if let Some(i) = (0..output).find(|i| !near(i)) {
                panic!("{kernel} {arguments:?}: element {i} is {}, not {}", got[i], expected[i]);
            }
        }
        histogram_and_reduce(&device);
    }
}

fn histogram_and_reduce(device: &device_vulkan::VulkanDevice) {
    let n = 500_003;
    let values: Vec<u32> = (0..n).map(|i: u32| i.wrapping_mul(2_654_435_769) >> 20).collect();
    let (got, expected) = (memory(4_000 * 4), memory(4_000 * 4));
    let arguments = [n.into(), 4_000, 0, 0];
    let outcome = launch(device, "histogram", arguments, &words(&values), &got);
    assert_eq!(outcome.status, Status::Done);
    reference("histogram", arguments, &words(&values), &expected);
    assert!(read_words(&got) == read_words(&expected));
    if device.kernel("reduce").is_none() {
        println!("SKIP: reduce needs double precision, which the device does not have");
        return;
    }
    let values = floats(&numbers(n as usize));
    let (got, expected) = (memory(8), memory(8));
    let outcome = launch(device, "reduce", [n.into(), 0, 0, 0], &values, &got);
    assert_eq!(outcome.status, Status::Done);
    reference("reduce", [n.into(), 0, 0, 0], &values, &expected);
    let sum = |memory: &PeerSlice| {
        let mut bytes = [0; 8];
        memory.read(0, &mut bytes).unwrap();
        f64::from_ne_bytes(bytes)
    };
    assert!((sum(&got) - sum(&expected)).abs() < 1e-8, "{} {}", sum(&got), sum(&expected));
}

#[test]
fn lower_work_leaves_the_unit_that_is_kept_for_urgent_launches() {
    for found in usable() {
        let units = vec![Unit::default(), Unit { least: Level(3), ..Unit::default() }];
        let device = device_vulkan::start(Config { units, ..config(&found) }).unwrap();
        let context = device.create_context().unwrap();
        let low = device.create_stream(context, Level(0)).unwrap();
        let high = device.create_stream(context, Level(5)).unwrap();
        let (long, urgent) = (Event::new(), Event::new());
        let minutes = Launch::new(device.kernel("busy").unwrap(), [300_000_000_000, 0, 0, 0]);
        device.launch(low, minutes, &long).unwrap();
        testing::until("a block ends", || device.statistics().blocks > 0);
        for _ in 0..50 {
            let empty = Launch::new(device.kernel("empty").unwrap(), [0; 4]);
            device.launch(high, empty, &urgent).unwrap();
            let outcome = urgent.wait_timeout(Duration::from_secs(60)).expect("an end");
            assert_eq!(outcome.status, Status::Done);
        }
        assert!(long.query().is_none(), "minutes of work have ended");
        device.cancel(low).unwrap();
        let outcome = long.wait();
        assert_eq!(outcome.status, Status::Cancelled);
        // Its blocks ran one after the other: on two units they would overlap.
        let lasted_ns = outcome.finished_ns - outcome.started_ns;
        assert!(outcome.busy_ns <= lasted_ns, "{outcome:?}");
    }
}

#[test]
fn busy_lasts_as_long_as_it_is_told() {
    for (name, times) in times_of_busy() {
        println!("{name}: 5 ms of busy last {} us (median)", times[7] / 1_000);
        // A shared machine changes its speed meanwhile.
        assert!(times[7] >= 1_000_000, "{times:?}");
    }
}

/// A bound in time, for a machine without other work: `cargo xtask soak` runs it.
mod soak {
    use super::*;

    #[test]
    #[ignore = "soak"]
    fn busy_for_5_ms_lasts_less_than_a_second() {
        for (_, times) in times_of_busy() {
            assert!(times[7] < 1_000_000_000, "{times:?}");
        }
    }
}

/// By device, the times of launches that are busy for 5 ms, sorted, ns.
fn times_of_busy() -> Vec<(String, Vec<u64>)> {
    let mut all = Vec::new();
    for found in usable() {
        let device = device_vulkan::start(config(&found)).unwrap();
        let mut times: Vec<u64> = (0..15)
            .map(|_| {
                let arguments = [5_000_000, 0, 0, 0];
                let nothing = PeerSlice::empty();
                launch(&device, "busy", arguments, &nothing, &nothing).busy_ns
            })
            .collect();
        times.sort_unstable();
        all.push((found.name.clone(), times));
    }
    all
}

#[test]
fn empty_launch_returns() {
    for found in usable() {
        for spin in [false, true] {
            let device = device_vulkan::start(Config { spin, ..config(&found) }).unwrap();
            let context = device.create_context().unwrap();
            let stream = device.create_stream(context, Level(0)).unwrap();
            let (event, kernel) = (Event::new(), device.kernel("empty").unwrap());
            let mut times: Vec<(u64, u64)> = (0..1_000)
                .map(|_| {
                    let start_ns = monotonic_ns();
                    device.launch(stream, Launch::new(kernel, [0; 4]), &event).unwrap();
                    let outcome = event.wait();
                    assert_eq!(outcome.status, Status::Done);
                    (monotonic_ns() - start_ns, outcome.busy_ns)
                })
                .collect();
            times.sort_unstable();
            let us = |percent: usize| times[times.len() * percent / 100].0 / 1_000;
            println!(
                "{}, spin {spin}: an empty launch takes {} us (median), {} us (99 %), block {} us",
                found.name,
                us(50),
                us(99),
                times[500].1 / 1_000
            );
        }
    }
}

#[test]
fn devices_are_selected_by_number_and_by_name() {
    let Some(found) = usable().into_iter().next() else { return };
    assert!(!found.name.is_empty() && !found.driver.is_empty() && found.compute_queues > 0);
    let part = found.name.split_whitespace().next().unwrap().to_uppercase();
    let by_name = Config { device: Select::Name(part), ..Config::default() };
    let device = device_vulkan::start(by_name).unwrap();
    assert!(device.properties().name.starts_with(&found.name));
    for wrong in [Select::Index(1_000), Select::Name("no such device".into())] {
        let started = device_vulkan::start(Config { device: wrong, ..Config::default() });
        let Err(error) = started else { panic!("a device that does not exist was started") };
        assert!(error.to_string().contains(&found.name), "{error}");
    }
}

#[test]
fn devices_can_be_started_again_and_again() {
    for found in usable() {
        for _ in 0..5 {
            let device = device_vulkan::start(config(&found)).unwrap();
            let context = device.create_context().unwrap();
            let stream = device.create_stream(context, Level(0)).unwrap();
            let event = Event::new();
            let busy = Launch::new(device.kernel("busy").unwrap(), [300_000_000_000, 0, 0, 0]);
            device.launch(stream, busy, &event).unwrap();
            // While it runs.
            drop(device);
            assert_eq!(event.wait().status, Status::Cancelled);
        }
    }
}
