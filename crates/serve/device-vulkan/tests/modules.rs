//! Kernels of one's own: what they see, what they do not see, and what is refused.

mod support;

use device::{Device, Error, Event, Launch, Level, Status};
use device_vulkan::{Config, Groups, Module, Source};
use support::{config, launch, memory, module, read_words, usable, words};

const SCALE: &str = "
    struct Arguments { low: vec4<u32>, high: vec4<u32> }
    @group(0) @binding(0) var<storage, read> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @group(0) @binding(2) var<uniform> arguments: Arguments;
    @compute @workgroup_size(64)
    fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arguments.low.x {
            output[id.x] = input[id.x] * arguments.low.y + arguments.high.z + arrayLength(&input);
        }
    }";

/// Reads and writes far beyond its buffers, at the distance that the arguments say.
const STRAY: &str = "
    struct Arguments { low: vec4<u32>, high: vec4<u32> }
    @group(0) @binding(0) var<storage, read> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @group(0) @binding(2) var<uniform> arguments: Arguments;
    @compute @workgroup_size(1)
    fn stray() {
        let value = input[arguments.low.x];
        output[arguments.low.y] = 0xbadu;
        output[0] = value;
    }";

/// Leaves something behind in both buffers, and says what was there at another place.
const LEAVE: &str = "
    struct Arguments { low: vec4<u32>, high: vec4<u32> }
    @group(0) @binding(0) var<storage, read_write> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @group(0) @binding(2) var<uniform> arguments: Arguments;
    @compute @workgroup_size(1)
    fn leave() {
        input[arguments.low.y] = arguments.low.z;
        output[arguments.low.y] = arguments.low.z;
        output[0] = input[arguments.low.x] + 2u * output[arguments.low.x];
    }";

/// SPIR-V without the checks that a translation by the device adds.
fn unchecked(text: &str) -> Source {
    use naga::back::spv;
    use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    let module = naga::front::wgsl::parse_str(text).unwrap();
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
    let info = validator.validate(&module).unwrap();
    let unchecked = BoundsCheckPolicy::Unchecked;
    let bounds_check_policies =
        BoundsCheckPolicies { index: unchecked, buffer: unchecked, ..Default::default() };
    let options = spv::Options { bounds_check_policies, ..Default::default() };
    Source::Spirv(spv::write_vec(&module, &info, &options, None).unwrap())
}

#[test]
fn module_of_ones_own_sees_its_memory_and_its_arguments() {
    for found in usable() {
        for source in [Source::Wgsl(SCALE.into()), unchecked(SCALE)] {
            let groups = Groups::Elements { argument: 0, per_group: 64 };
            let module = Module { groups, ..module("scale", source) };
            let device =
                device_vulkan::start(Config { modules: vec![module], ..config(&found) }).unwrap();
            let kernels = device.kernels();
            let info = kernels.iter().find(|kernel| kernel.name == "scale").unwrap();
            assert_eq!(info.description, "a test");
            for n in [1, 64, 65, 1000, 65] {
                let (input, output) = (words(&vec![5; n]), words(&vec![7; n + 1]));
                let arguments = [n as u64, 3, 11 << 32, 0];
                // Two elements less than there are: those stay as they are.
                let arguments = [arguments[0].saturating_sub(2), 3, arguments[2], 0];
                let outcome = launch(&device, "scale", arguments, &input, &output);
                assert_eq!(outcome.status, Status::Done);
                // A binding has four words at least.
                let expected = 5 * 3 + 11 + n.max(4) as u32;
                let got = read_words(&output);
                let (changed, same) = got.split_at(n.saturating_sub(2));
                assert!(changed.iter().all(|word| *word == expected), "{n}: {changed:?}");
                assert!(same.iter().all(|word| *word == 7), "{n}: {same:?}");
            }
        }
    }
}

#[test]
fn groups_that_the_device_does_not_take_are_refused() {
    for found in usable() {
        let groups = Groups::Elements { argument: 0, per_group: 64 };
        let module = Module { groups, ..module("scale", Source::Wgsl(SCALE.into())) };
        let device =
            device_vulkan::start(Config { modules: vec![module], ..config(&found) }).unwrap();
        let kernel = device.kernel("scale").unwrap();
        let refused = device.check(&Launch::new(kernel, [u64::MAX, 0, 0, 0]));
        assert!(
            matches!(refused, Err(Error::BadArgument { kernel: "scale", index: 0, .. })),
            "{refused:?}"
        );
        assert_eq!(device.check(&Launch::new(kernel, [64 * 65_535, 0, 0, 0])), Ok(()));
    }
}

#[test]
fn accesses_beyond_a_buffer_reach_nobody_elses_data() {
    const SECRET: u32 = 0x5ec2_e700;
    for found in usable() {
        for source in [Source::Wgsl(STRAY.into()), unchecked(STRAY)] {
            let modules = vec![module("stray", source)];
            // One unit, so that all launches use the same staging buffers.
            let units = vec![device::hosted::Unit::default()];
            let device = device_vulkan::start(Config { modules, units, ..config(&found) }).unwrap();
            for beyond in [8, 9, 1000, 20_000, 1 << 20, 1 << 28, u64::from(u32::MAX)] {
                let secrets = words(&[SECRET; 65_536]);
                let sum = memory(32_768 * 4);
                let vecadd = launch(&device, "vecadd", [32_768, 0, 0, 0], &secrets, &sum);
                assert_eq!(vecadd.status, Status::Done);
                let (input, output) = (words(&[42; 8]), words(&[7; 8]));
                // A neighbour in the same mapping as the output.
                let both = words(&[7; 16]);
                let (mine, other) = (both.slice(0, 32).unwrap(), both.slice(32, 32).unwrap());
                let outcome = launch(&device, "stray", [beyond, beyond, 0, 0], &input, &mine);
                assert_eq!(outcome.status, Status::Done);
                let value = read_words(&mine)[0];
                assert!(value == 0 || value == 42, "word {beyond} is {value:#x}");
                assert_eq!(read_words(&other), [7; 8]);
                // Bytes of a binding beyond the memory belong to nobody.
                for word in 1..4 {
                    launch(&device, "vecadd", [32_768, 0, 0, 0], &secrets, &sum);
                    launch(&device, "stray", [word, 0, 0, 0], &words(&[42]), &output);
                    assert_eq!(read_words(&output), [0, 7, 7, 7, 7, 7, 7, 7], "word {word}");
                }
                // Inside, it reads what is there.
                let output = words(&[7; 8]);
                launch(&device, "stray", [7, 7, 0, 0], &input, &output);
                assert_eq!(read_words(&output), [42, 7, 7, 7, 7, 7, 7, 0xbad]);
            }
        }
    }
}

#[test]
fn launches_leave_nothing_behind() {
    for found in usable() {
        let modules = vec![module("leave", Source::Wgsl(LEAVE.into()))];
        let units = vec![device::hosted::Unit::default()];
        let device = device_vulkan::start(Config { modules, units, ..config(&found) }).unwrap();
        let (input, output) = (words(&[0]), words(&[0]));
        // The third word of a binding, which has four words where the memory has one.
        launch(&device, "leave", [0, 2, 100, 0], &input, &output);
        launch(&device, "leave", [2, 0, 1, 0], &input, &output);
        assert_eq!(read_words(&output), [0]);
        // The input of a launch is not written, whatever the kernel does.
        assert_eq!(read_words(&input), [0]);
    }
}

#[test]
fn wrong_modules_are_refused_by_name() {
    let Some(found) = usable().into_iter().next() else { return };
    let wgsl = |text: &str| Source::Wgsl(text.into());
    let cases = [
        (module("typo", wgsl("@compute fn typo( {}")), "expected"),
        (module("untyped", wgsl("@compute @workgroup_size(1) fn untyped() { nothing(); }")), "no"),
        (module("other", wgsl(SCALE)), "no compute entry point \"other\""),
        (module("noise", Source::Spirv(vec![1, 2, 3, 4, 5, 6])), "not SPIR-V"),
        (module("nothing", Source::Spirv(Vec::new())), "not SPIR-V"),
        (module("stranger", unchecked(SCALE)), "no compute entry point \"stranger\""),
        (module("vecadd", wgsl("@compute @workgroup_size(1) fn vecadd() {}")), "already"),
        (
            Module {
                groups: Groups::Elements { argument: 4, per_group: 1 },
                ..module("scale", wgsl(SCALE))
            },
            "argument 4",
        ),
        (
            Module { groups: Groups::Fixed([u32::MAX, 1, 1]), ..module("scale", wgsl(SCALE)) },
            "work groups",
        ),
    ];
    for (module, reason) in cases {
        let name = module.name.clone();
        let result = device_vulkan::start(Config { modules: vec![module], ..config(&found) });
        match result {
            Err(Error::Start(text)) => {
                assert!(text.contains(&format!("module {name} (a test): ")), "{text}");
                assert!(text.contains(reason), "{name}: {text}");
            }
            Err(error) => panic!("{name}: {error}"),
            Ok(_) => panic!("{name} was accepted"),
        }
    }
}

#[test]
fn device_that_lost_a_launch_for_memory_goes_on() {
    for found in usable() {
        let modules = vec![module("stray", Source::Wgsl(STRAY.into()))];
        let device = device_vulkan::start(Config { modules, ..config(&found) }).unwrap();
        // No buffer of a device has more than 4 GiB; the pages are never touched.
        let huge = memory((4 << 30) + 4);
        let context = device.create_context().unwrap();
        let stream = device.create_stream(context, Level(0)).unwrap();
        let event = Event::new();
        let mut order = Launch::new(device.kernel("stray").unwrap(), [0; 4]);
        (order.input, order.output) = (huge, memory(64));
        device.launch(stream, order, &event).unwrap();
        let failed = Status::Failed(device::FailureCode::Memory as u32);
        assert_eq!(event.wait().status, failed);
        let outcome = launch(&device, "stray", [0; 4], &words(&[3; 4]), &memory(64));
        assert_eq!(outcome.status, Status::Done);
    }
}
