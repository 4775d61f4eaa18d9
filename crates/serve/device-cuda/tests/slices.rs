//! Launches of several slices: each has memory of the GPU to itself from its first slice to its
//! end. On GPUs, and on the fake driver, which counts what became of copies and memory.

mod support;

use device::{Device, Event, FailureCode, Launch, Status, StreamId};
use device_cuda::{Config, CudaDevice, Program, Service, start, thread_blocks};
use shm::memory::PeerSlice;
use support::{Numbers, apart, begin, device, end, fault, gpus, on_the_fake_driver, stream, turn};

/// A unit's input, output and workspace.
const BUFFERS: u64 = 3;
const LOST: Status = Status::Failed(FailureCode::Lost as u32);

/// Every kernel whose slices share something, with arguments that no number of blocks divides, and
/// how many numbers it reads and writes.
const KERNELS: [Known; 11] = [
    ("vecadd", [5_000, 0, 0, 0], 10_000, 5_000),
    ("matmul", [100, 0, 0, 0], 20_000, 10_000),
    ("reduce", [100_000, 0, 0, 0], 100_000, 2),
    ("histogram", [30_000, 50, 0, 0], 30_000, 50),
    ("stencil", [97, 61, 0, 0], 97 * 61, 97 * 61),
    ("convolution", [97, 61, 0, 0], 97 * 61 + 9, 97 * 61),
    ("activation", [97, 61, 0, 0], 97 * 61 + 97, 97 * 61),
    ("sad", [97, 61, 2, 0], 97 * 61 / 2 + 1, 24 * 15 * 25),
    ("bfs", [3_000, 9_000, 0, 5], 3_001 + 9_000 + 3_000, 3_000),
    ("spmv", [3_000, 4_000, 9_000, 5], 3_001 + 18_000 + 4_000, 3_000),
    ("lbm", [17, 11, 7, 1_200_000], 19 * 17 * 11 * 7, 19 * 17 * 11 * 7),
];

/// A launch with numbers that depend on the seed, as a request brings them along.
fn launch(device: &CudaDevice, (name, arguments, input, output): Known, seed: u32) -> Launch {
    let numbers: Vec<u8> = (0..input as u32)
        .flat_map(|i| match name {
            // Bins, some of them too large.
            "histogram" => ((i * 7 + seed) % 60).to_ne_bytes(),
            // Rows that begin where they like, with indices within and without.
            "bfs" | "spmv" if i < 12_001 => ((i * 37 + seed) % 9_500).to_ne_bytes(),
            _ => (((i * 31 + seed) % 1009) as f32 / 8.0).to_ne_bytes(),
        })
        .collect();
    let memory = |numbers: usize| PeerSlice::anonymous(4 * numbers).unwrap();
    let launch = Launch::new(device.kernel(name).unwrap(), arguments);
    let launch = Launch { input: memory(input), output: memory(output), ..launch };
    launch.input.write(0, &numbers).unwrap();
    launch.output.write(0, &vec![UNTOUCHED; 4 * output]).unwrap();
    launch
}

type Known = (&'static str, [u64; 4], usize, usize);

/// Content of an output before anything is written to it.
const UNTOUCHED: u8 = 0xa5;

/// Long enough to be met between its slices.
const LONG: Known = ("matmul", [512, 0, 0, 0], 2 * 512 * 512, 512 * 512);
/// Long enough for a machine whose cores are wanted by others.
const LONGER: Known = ("matmul", [768, 0, 0, 0], 2 * 768 * 768, 768 * 768);
const LONGEST: Known = ("matmul", [1280, 0, 0, 0], 2 * 1280 * 1280, 1280 * 1280);

fn bytes(memory: &PeerSlice) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

fn put(device: &CudaDevice, stream: StreamId, launch: &Launch) -> Event {
    let event = Event::new();
    device.launch(stream, launch.clone(), &event).unwrap();
    event
}

fn compute(device: &CudaDevice, stream: StreamId, launch: &Launch) -> Vec<u8> {
    assert_eq!(end(&put(device, stream, launch)).status, Status::Done);
    bytes(&launch.output)
}

/// Waits until this number of slices more have ended.
fn some_slices(device: &CudaDevice, before: u64, count: u64) {
    testing::until("slices end", || device.statistics().blocks >= before + count);
}

/// The tests' `scale`, in slices.
fn scale(name: &str, blocks_per_slice: u32, in_place: bool) -> Service {
    let mut service = Service { name: name.into(), ..fault("scale", 4) };
    let Program::Kernel(function) = &mut service.program else { unreachable!("it is a kernel") };
    (function.blocks_per_slice, function.in_place) = (blocks_per_slice, in_place);
    service
}

#[test]
fn slices_compute_what_the_whole_does_on_the_fake_driver() {
    let (_, counts) = on_the_fake_driver("slices_compute_what_the_whole_does", &[]);
    // One copy in and one out for each launch, in however many slices.
    let launches = (1 + 2 * 2 * 3) * KERNELS.len() as u64;
    assert_eq!(counts.of("copies_executed"), 2 * launches);
    assert_eq!(counts.of("allocated"), counts.of("freed"));
    assert_eq!(counts.of("stale"), 0);
}

#[test]
fn slices_compute_what_the_whole_does() {
    let _turn = turn();
    for ordinal in gpus() {
        let sliced = |blocks_per_slice, slices_at_once| {
            let config = Config { ordinal, slices_at_once, ..Config::default() };
            start(&Config { blocks_per_slice, ..config }).unwrap()
        };
        let whole = sliced(0, 1);
        let results = KERNELS.map(|known| {
            let before = whole.statistics().blocks;
            let result = compute(&whole, stream(&whole, 0), &launch(&whole, known, 1));
            assert_eq!(whole.statistics().blocks - before, 1, "{}", known.0);
            result
        });
        drop(whole);
        for (size, at_once) in [(1, 1), (3, 1), (1, 5), (3, 2)] {
            let device = sliced(size, at_once);
            // The upper the level, the more units run the slices at the same time.
            for level in [0, 2, 5] {
                let stream = stream(&device, level);
                for (known, result) in KERNELS.into_iter().zip(&results) {
                    let (name, arguments, ..) = known;
                    let before = device.statistics().blocks;
                    let got = compute(&device, stream, &launch(&device, known, 1));
                    assert!(got == *result, "{name} at level {level} in slices of {size}");
                    let slices = thread_blocks(name, arguments).unwrap().div_ceil(size.into());
                    assert_eq!(device.statistics().blocks - before, slices, "{name}");
                }
            }
        }
    }
}

#[test]
fn kernels_in_place_compute_what_they_do_on_copies_on_the_fake_driver() {
    let (_, counts) = on_the_fake_driver("kernels_in_place_compute_what_they_do_on_copies", &[]);
    assert_eq!(counts.of("copies_executed"), 2 * KERNELS.len() as u64, "only the first ones");
    assert_eq!(counts.of("stale"), 0);
}

#[test]
fn kernels_in_place_compute_what_they_do_on_copies() {
    let _turn = turn();
    for ordinal in gpus() {
        let copying = start(&Config { ordinal, ..Config::default() }).unwrap();
        let results = KERNELS
            .map(|known| compute(&copying, stream(&copying, 0), &launch(&copying, known, 1)));
        drop(copying);
        for blocks_per_slice in [0, 3] {
            let config = Config { ordinal, in_place: true, blocks_per_slice, ..Config::default() };
            let device = start(&config).unwrap();
            for (known, result) in KERNELS.into_iter().zip(&results) {
                let got = compute(&device, stream(&device, 5), &launch(&device, known, 1));
                assert!(got == *result, "{} in slices of {blocks_per_slice}", known.0);
            }
        }
    }
}

#[test]
fn urgent_request_comes_in_between_slices_on_the_fake_driver() {
    on_the_fake_driver("urgent_request_comes_in_between_slices", &[]);
}

#[test]
fn urgent_request_comes_in_between_slices() {
    let _turn = turn();
    for ordinal in gpus() {
        let config = Config { ordinal, levels: 2, lowest: 1, ..Config::default() };
        let device = start(&Config { blocks_per_slice: 4, ..config }).unwrap();
        let (low, high) = (stream(&device, 0), stream(&device, 1));
        let (long, short) = (launch(&device, LONG, 1), launch(&device, KERNELS[0], 2));
        let expected = compute(&device, low, &long);
        for _ in 0..3 {
            let before = device.statistics().blocks;
            let less = put(&device, low, &long);
            some_slices(&device, before, 2);
            let urgent = end(&put(&device, high, &short));
            let less = end(&less);
            assert_eq!((urgent.status, less.status), (Status::Done, Status::Done));
            let times = (urgent.started_ns, urgent.finished_ns, less.started_ns, less.finished_ns);
            assert!(less.started_ns < urgent.started_ns, "{times:?}");
            assert!(urgent.finished_ns < less.finished_ns, "{times:?}");
            assert!(bytes(&long.output) == expected, "what came in between has changed it");
        }
    }
}

#[test]
fn cancelled_launch_writes_nothing_and_gives_its_memory_back_on_the_fake_driver() {
    let test = "cancelled_launch_writes_nothing_and_gives_its_memory_back";
    let (_, counts) = on_the_fake_driver(test, &[]);
    // The buffers of three units and of the calibration; and the one residence.
    assert!(counts.of("allocated") <= 4 * BUFFERS + 1, "{}", counts.of("allocated"));
    assert_eq!(counts.of("allocated"), counts.of("freed"));
}

#[test]
fn cancelled_launch_writes_nothing_and_gives_its_memory_back() {
    let _turn = turn();
    for ordinal in gpus() {
        let config = Config { ordinal, levels: 2, lowest: 2, ..Config::default() };
        let device = start(&Config { blocks_per_slice: 4, ..config }).unwrap();
        let mut expected = None;
        for time in 0..20 {
            let long = launch(&device, LONG, 1);
            let stream = stream(&device, 0);
            let before = device.statistics().blocks;
            let event = put(&device, stream, &long);
            // From before its first slice on.
            some_slices(&device, before, time);
            device.cancel(stream).unwrap();
            assert_eq!(end(&event).status, Status::Cancelled);
            assert!(bytes(&long.output).iter().all(|byte| *byte == UNTOUCHED));
            if time % 5 == 0 {
                let result = compute(&device, stream, &long);
                assert!(result == *expected.get_or_insert_with(|| result.clone()));
            }
        }
        // Or more urgent work has all units, so that no slice runs.
        for _ in 0..10 {
            let long = launch(&device, LONG, 1);
            let stream = stream(&device, 0);
            let before = device.statistics().blocks;
            let event = put(&device, stream, &long);
            some_slices(&device, before, 2);
            let urgent = begin(&device, 1, "busy", 20_000_000, None);
            some_slices(&device, before, 50);
            device.cancel(stream).unwrap();
            assert_eq!(end(&event).status, Status::Cancelled);
            assert!(bytes(&long.output).iter().all(|byte| *byte == UNTOUCHED));
            assert_eq!(end(&urgent).status, Status::Done);
        }
    }
}

#[test]
fn launches_at_once_do_not_mix_on_the_fake_driver() {
    let (_, counts) = on_the_fake_driver("launches_at_once_do_not_mix", &[]);
    // At most the units' own, and as many residences of each of two sizes as there are launches.
    assert!(counts.of("allocated") <= 7 * BUFFERS + 2 * 8, "{}", counts.of("allocated"));
    assert_eq!(counts.of("allocated"), counts.of("freed"));
}

#[test]
fn launches_at_once_do_not_mix() {
    let _turn = turn();
    for ordinal in gpus() {
        let config = Config { ordinal, levels: 3, lowest: 4, ..Config::default() };
        let services = vec![scale("sliced", 2, false)];
        let device = device(Config { blocks_per_slice: 3, services, ..config });
        // Eight at the same time, two of each kernel, at all levels, each with numbers of its own.
        let some = [KERNELS[0], KERNELS[2], KERNELS[3], KERNELS[4]];
        let launches: Vec<_> = (0..8u32)
            .map(|i| {
                let launch = launch(&device, some[i as usize % 4], 10 + i);
                let stream = stream(&device, (i % 3) as u8);
                let alone = compute(&device, stream, &launch);
                (launch, stream, alone)
            })
            .collect();
        for _ in 0..30 {
            let clear = |launch: &Launch| {
                launch.output.write(0, &vec![UNTOUCHED; launch.output.len()]).unwrap();
            };
            launches.iter().for_each(|(launch, ..)| clear(launch));
            let put = |(launch, stream, _): &(Launch, StreamId, _)| put(&device, *stream, launch);
            let events: Vec<Event> = launches.iter().map(put).collect();
            for (event, (launch, _, alone)) in events.iter().zip(&launches) {
                assert_eq!(end(event).status, Status::Done);
                assert!(bytes(&launch.output) == *alone, "{:?}", launch.kernel);
            }
        }
    }
}

#[test]
fn context_reset_between_slices_loses_the_launch_on_the_fake_driver() {
    on_the_fake_driver("context_reset_between_slices_loses_the_launch", &[]);
}

/// One that runs, and one that more urgent work keeps from running: both have begun.
#[test]
fn context_reset_between_slices_loses_the_launch() {
    let _turn = turn();
    for ordinal in gpus() {
        let config = Config { ordinal, levels: 3, lowest: 1, ..Config::default() };
        let device = device(apart(Config { blocks_per_slice: 1, ..config }));
        let [low, middle, high] = [0, 1, 2].map(|level| stream(&device, level));
        let (waits, next) = (launch(&device, LONGER, 1), launch(&device, LONG, 3));
        let expected = [&waits, &next].map(|launch| compute(&device, low, launch));
        let illegal = Launch::new(device.kernel("illegal").unwrap(), [0; 4]);
        let (mut resets, mut lost) = (0, 0);
        while lost < 3 {
            let runs = launch(&device, LONGEST, 2);
            waits.output.write(0, &vec![UNTOUCHED; waits.output.len()]).unwrap();
            let before = device.statistics().blocks;
            let waiting = put(&device, low, &waits);
            some_slices(&device, before, 2);
            // It takes all units that run level 1, and so that of level 0.
            let running = put(&device, middle, &runs);
            some_slices(&device, before, 10);
            let breaks = put(&device, high, &illegal);
            // The first one in the next life: what the others had must not be taken for its.
            let after = put(&device, high, &next);
            assert_eq!((end(&breaks).status, end(&after).status), (LOST, Status::Done));
            assert!(bytes(&next.output) == expected[1]);
            resets += 1;
            assert_eq!(device.statistics().resets, resets);
            let ended = (end(&running).status, end(&waiting).status);
            // If this thread was kept from its core for as long as the launch takes, it had ended
            // before the reset, which then took nothing from it.
            if ended.0 == Status::Done {
                assert!(resets < 50, "never in time: {lost} of {resets}");
                continue;
            }
            assert_eq!(ended, (LOST, LOST));
            assert!(bytes(&waits.output).iter().all(|byte| *byte == UNTOUCHED));
            assert!(compute(&device, low, &waits) == expected[0]);
            lost += 1;
        }
    }
}

#[test]
fn service_works_on_a_copy_or_in_place_on_the_fake_driver() {
    let (_, counts) = on_the_fake_driver("service_works_on_a_copy_or_in_place", &[]);
    // Of what is not in place: in and out.
    assert_eq!(counts.of("copies_executed"), 2 * 4);
    assert_eq!(counts.of("stale"), 0);
}

#[test]
fn service_works_on_a_copy_or_in_place() {
    let _turn = turn();
    for ordinal in gpus() {
        let services = vec![
            scale("copied", 3, false),
            scale("in place", 3, true),
            scale("whole in place", 0, true),
        ];
        let device = device(Config { ordinal, services, ..Config::default() });
        for (name, slices) in [("copied", 14), ("in place", 14), ("whole in place", 1)] {
            let numbers = Numbers::new(10_500);
            for time in 0..4 {
                numbers.fill(1_000 * time);
                let kernel = device.kernel(name).unwrap();
                let launch = Launch { kernel, ..numbers.launch(&device, 3) };
                let before = device.statistics().blocks;
                let outcome = end(&put(&device, stream(&device, 1), &launch));
                assert_eq!(outcome.status, Status::Done, "{name}");
                assert!(numbers.are_scaled(3), "{name} the {time}th time");
                assert_eq!(device.statistics().blocks - before, slices, "{name}");
            }
        }
    }
}

#[test]
fn launch_that_finds_no_memory_fails_alone_on_the_fake_driver() {
    let bytes = (4 << 20).to_string();
    let variables = [("FAKE_CUDA_MEMORY", bytes.as_str())];
    let (_, counts) = on_the_fake_driver("launch_that_finds_no_memory_fails_alone", &variables);
    assert_eq!(counts.of("allocated"), counts.of("freed"));
}

#[test]
fn launch_that_finds_no_memory_fails_alone() {
    if std::env::var_os("FAKE_CUDA_MEMORY").is_none() {
        return println!("SKIP: only the fake driver can be told how much memory it has");
    }
    let config = Config { levels: 2, lowest: 2, ..Config::default() };
    let device = start(&Config { blocks_per_slice: 100, ..config }).unwrap();
    let small = launch(&device, KERNELS[4], 1);
    let large = launch(&device, ("vecadd", [1 << 20, 0, 0, 0], 2 << 20, 1 << 20), 1);
    let expected = compute(&device, stream(&device, 0), &small);
    for level in [0, 1, 0] {
        let (first, second) = (stream(&device, level), stream(&device, level));
        let events = [put(&device, first, &large), put(&device, second, &small)];
        let memory = Status::Failed(FailureCode::Memory as u32);
        assert_eq!(events.map(|event| end(&event).status), [memory, Status::Done]);
        assert!(bytes(&large.output).iter().all(|byte| *byte == UNTOUCHED));
        assert!(bytes(&small.output) == expected);
    }
    assert_eq!(device.statistics().resets, 0);
}
