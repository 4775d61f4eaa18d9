//! Client memory that the device reaches itself: what it copies no more, what it still copies, and
//! that nobody sees the difference.

mod support;

use device::hosted::Unit;
use device::{Device, Event, Launch, Level, Status};
use device_vulkan::{ClientMemory, Config, Found, Groups, Module, Source, VulkanDevice};
use shm::memory::PeerSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{config, floats, launch, memory, module, read_floats, read_words, usable, words};

/// Sums of neighbours, as far as there are some; the last work group leaves what is there.
const SUMS: &str = "
    struct Arguments { low: vec4<u32>, high: vec4<u32> }
    @group(0) @binding(0) var<storage, read> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @group(0) @binding(2) var<uniform> arguments: Arguments;
    @compute @workgroup_size(64)
    fn sums(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arguments.low.x && id.x < arrayLength(&output) {
            output[id.x] += input[id.x] + 3u * input[id.x + 1u] + arrayLength(&input);
        }
    }";

/// The same, but it says that it writes its input.
const GREEDY: &str = "
    @group(0) @binding(0) var<storage, read_write> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @compute @workgroup_size(1)
    fn greedy() {
        input[0] += 1u;
        output[0] = input[0];
    }";

fn modules() -> Vec<Module> {
    let groups = Groups::Elements { argument: 0, per_group: 64 };
    let sums = Module { groups, ..module("sums", Source::Wgsl(SUMS.into())) };
    vec![sums, module("greedy", Source::Wgsl(GREEDY.into()))]
}

/// The devices that reach client memory themselves.
fn importing() -> Vec<Found> {
    let mut found = usable();
    found.retain(|one| {
        if !one.imports {
            println!("SKIP: {} does not import memory", one.name);
        }
        one.imports
    });
    found
}

fn start(found: &Found, import: bool) -> Arc<VulkanDevice> {
    let units = vec![Unit::default()];
    device_vulkan::start(Config { import, units, modules: modules(), ..config(found) }).unwrap()
}

fn state(device: &VulkanDevice) -> ClientMemory {
    device.backend().client_memory()
}

/// Launches and says how many bytes were copied for it.
fn staged(
    device: &VulkanDevice,
    kernel: &str,
    arguments: [u64; 4],
    input: &PeerSlice,
    output: &PeerSlice,
) -> u64 {
    let before = state(device).staged_bytes;
    assert_eq!(launch(device, kernel, arguments, input, output).status, Status::Done);
    state(device).staged_bytes - before
}

#[test]
fn no_byte_is_copied_where_the_device_reaches_the_memory() {
    const N: usize = 300_000;
    for found in importing() {
        let (imports, copies) = (start(&found, true), start(&found, false));
        let values: Vec<f32> = (0..2 * N).map(|i| i as f32).collect();
        let (input, output) = (floats(&values), memory(N * 4));
        let arguments = [N as u64, 0, 0, 0];
        assert_eq!(staged(&imports, "vecadd", arguments, &input, &output), 0);
        let sums = read_floats(&output);
        assert!(sums.iter().enumerate().all(|(i, sum)| *sum == (2 * i + N) as f32));
        assert_eq!(staged(&imports, "sums", arguments, &input, &output), 0);
        assert_eq!(staged(&imports, "reduce", arguments, &input, &output), 0);
        assert_eq!(staged(&imports, "histogram", [N as u64, 9, 0, 0], &input, &output), 0);
        assert_eq!(staged(&imports, "matmul", [300, 0, 0, 0], &input, &output), 0);
        assert_eq!(staged(&imports, "stencil", [301, 900, 0, 0], &input, &output), 0);
        assert_eq!(staged(&imports, "convolution", [301, 900, 0, 0], &input, &output), 0);
        assert_eq!(staged(&imports, "activation", [301, 900, 0, 0], &input, &output), 0);
        let all = 3 * N as u64 * 4;
        assert_eq!(staged(&copies, "vecadd", arguments, &input, &output), all);
        assert_eq!(state(&copies).imported, 0);
        // At an odd address only that side is copied.
        let odd = memory(N * 8 + 2).slice(2, N * 8).unwrap();
        assert_eq!(staged(&imports, "vecadd", arguments, &odd, &output), all / 3 * 2);
        // A kernel that writes its input must have its own.
        let before = read_words(&input);
        assert_eq!(staged(&imports, "greedy", [0; 4], &input, &output), N as u64 * 8);
        assert_eq!(read_words(&output)[0], before[0] + 1);
        assert_eq!(read_words(&input), before);
    }
}

/// Runs the same with both, on memory with something in it everywhere, and compares all of it.
/// Input and output are offset and length.
fn same(
    devices: &[Arc<VulkanDevice>; 2],
    kernel: &str,
    arguments: [u64; 4],
    [input, output]: [(usize, usize); 2],
) {
    let bytes = (input.0 + input.1).max(output.0 + output.1) + 100;
    let filled: Vec<u8> = (0..bytes).map(|i| (i * 37 % 61) as u8).collect();
    let [imported, copied] = devices.each_ref().map(|device| {
        let all = memory(bytes);
        all.write(0, &filled).unwrap();
        let part = |(offset, length)| all.slice(offset, length).unwrap();
        let outcome = launch(device, kernel, arguments, &part(input), &part(output));
        assert_eq!(outcome.status, Status::Done);
        let mut after = vec![0; bytes];
        all.read(0, &mut after).unwrap();
        after
    });
    let place = format!("{kernel} {arguments:?}, input at {input:?}, output at {output:?}");
    let differs = (0..bytes).find(|i| imported[*i] != copied[*i]);
    assert_eq!(differs, None, "{place}");
    let changed = |i: &usize| copied[*i] != filled[*i];
    let beyond = |i: &usize| *i < output.0 || *i >= output.0 + output.1;
    assert_eq!((0..bytes).filter(changed).find(beyond), None, "{place}");
    // Otherwise nothing was compared.
    assert!(output.1 < 4 || (0..bytes).any(|i| changed(&i)), "{place}");
}

#[test]
fn results_are_the_same_at_all_offsets_and_lengths() {
    let built_in: [(&str, [u64; 4], usize, usize); 7] = [
        ("vecadd", [140_001, 0, 0, 0], 280_002, 140_001),
        ("matmul", [300, 0, 0, 0], 180_000, 90_000),
        ("reduce", [140_001, 0, 0, 0], 140_001, 2),
        ("histogram", [140_001, 50, 0, 0], 140_001, 50),
        ("stencil", [997, 150, 0, 0], 149_550, 149_550),
        ("convolution", [997, 150, 0, 0], 149_559, 149_550),
        ("activation", [997, 150, 0, 0], 150_547, 149_550),
    ];
    for found in importing() {
        let devices = [start(&found, true), start(&found, false)];
        for (kernel, arguments, input, output) in built_in {
            for (first, gap) in [(0, 0), (4, 0), (16, 12), (4092, 4), (3, 0), (8, 2), (1, 3)] {
                let output = (first + input * 4 + gap, output * 4);
                same(&devices, kernel, arguments, [(first, input * 4), output]);
            }
        }
        for bytes in [0, 1, 4, 15, 16, 17, 20, 66, 1000, 4096] {
            for first in [0, 1, 4, 16, 48] {
                // The output begins as the input does, or at an alignment of its own.
                for second in [first + bytes, 8192, 8196, 8193] {
                    for argument in [bytes as u64 / 4, bytes as u64] {
                        let parts = [(first, bytes), (second, bytes)];
                        same(&devices, "sums", [argument.max(1), 0, 0, 0], parts);
                    }
                }
            }
        }
        for apart in [0, 4, 16, 400, 4096] {
            same(&devices, "sums", [1000, 0, 0, 0], [(0, 4000), (apart, 4000)]);
            same(&devices, "stencil", [50, 20, 0, 0], [(apart, 4000), (0, 4000)]);
        }
    }
}

#[test]
fn memory_that_the_driver_refuses_is_copied() {
    for found in importing() {
        let device = start(&found, true);
        // More than the heap of a driver for processor cores; the pages are never touched.
        let huge = memory(3 << 30);
        let (input, output) = (huge.slice(0, 64).unwrap(), huge.slice(64, 64).unwrap());
        input.write_u32(0, &[5; 16]).unwrap();
        let copied = staged(&device, "sums", [16, 0, 0, 0], &input, &output);
        let (last, inner) = ([5 + 16], [5 + 15 + 16; 15]);
        let sums = read_words(&output);
        assert_eq!(sums[..15], inner);
        // The word beyond the input is its last word or zero, and not the output.
        assert!(sums[15..] == last || sums[15] == inner[0], "{sums:?}");
        if state(&device).imported > 0 {
            println!("SKIP: {} takes as much", found.name);
            continue;
        }
        assert_eq!(copied, 3 * 64);
    }
}

#[test]
fn memory_at_the_address_of_memory_that_is_gone_is_not_taken_for_it() {
    for found in importing() {
        let device = start(&found, true);
        let (context, mut again, mut last) = (device.create_context().unwrap(), 0, 0);
        let stream = device.create_stream(context, Level(0)).unwrap();
        for i in 0..200 {
            // Of the same size, so that it comes to lie where the last one was.
            let all = words(&vec![i; 40_000]);
            let address = all.as_ptr().addr();
            again += u32::from(address == last);
            last = address;
            let (input, output) = (all.slice(0, 120_000).unwrap(), all.slice(120_000, 40_000));
            let output = output.unwrap();
            let mut order = Launch::new(device.kernel("sums").unwrap(), [10_000, 0, 0, 0]);
            (order.input, order.output) = (input, output.clone());
            let event = Event::new();
            device.launch(stream, order, &event).unwrap();
            assert_eq!(event.wait().status, Status::Done);
            assert!(read_words(&output).iter().all(|sum| *sum == 5 * i + 30_000), "{i}");
            drop((all, output));
            // Sometimes the device lets go of it, too; sometimes it has many.
            if i % 3 != 0 {
                lets_go(&device, 0);
            }
        }
        println!("{}: the same address {again} times", found.name);
        assert!(again > 0);
        assert_eq!(state(&device).staged_bytes, 0);
    }
}

/// Waits until the device has so many mappings, none less. It lets go when a context goes, but not
/// of what a launch had that has just told its end.
fn lets_go(device: &VulkanDevice, expected: usize) {
    testing::until_ok("so many mappings", || {
        device.destroy_context(device.create_context().unwrap()).unwrap();
        let imported = state(device).imported;
        assert!(imported >= expected, "{imported}, not {expected}");
        if imported == expected { Ok(()) } else { Err(imported) }
    });
}

#[test]
fn contexts_that_come_and_go_leave_no_memory_behind() {
    for found in importing() {
        let device = start(&found, true);
        let (input, shared) = (words(&[7; 64]), words(&[0; 64]));
        for _ in 0..300 {
            let output = memory(256);
            staged(&device, "sums", [64, 0, 0, 0], &input, &output);
            staged(&device, "sums", [64, 0, 0, 0], &input, &shared);
            // `launch` ends its context while its memory is there, and perhaps in use.
            assert!((2..=10).contains(&state(&device).imported));
        }
        lets_go(&device, 2);
        drop(input);
        assert_eq!(state(&device).imported, 2);
        lets_go(&device, 1);
        drop(shared);
        lets_go(&device, 0);
        assert_eq!(state(&device).staged_bytes, 0);
    }
}

/// Sets it at the end, also when the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn memory_that_changes_meanwhile_harms_nobody() {
    const N: usize = 200_000;
    for found in importing() {
        let device = start(&found, true);
        let all = words(&vec![7; N + 2_000]);
        let input = all.slice(0, N * 4).unwrap();
        let (output, after) = (all.slice(N * 4, 4_000), all.slice(N * 4 + 4_000, 4_000));
        let (output, after) = (output.unwrap(), after.unwrap());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = End(&done);
            scope.spawn(|| {
                let mut state = 1u32;
                while !done.load(Ordering::Relaxed) {
                    let values = [(); 256].map(|()| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        state >> (state % 32)
                    });
                    input.write_u32(state as usize % (N - 256), &values).unwrap();
                }
            });
            for _ in 0..200 {
                let arguments = [N as u64, 1_000, 0, 0];
                assert_eq!(staged(&device, "histogram", arguments, &input, &output), 0);
                // Whatever the values were, each was counted once.
                let counts = read_words(&output);
                assert_eq!(counts.iter().map(|count| *count as usize).sum::<usize>(), N);
                assert_eq!(read_words(&after), [7; 1_000]);
            }
        });
    }
}
