//! Messages of Vulkan's validation layers on a device at work.

mod support;

use device::{Device, Status};
use device_vulkan::{Config, Source, VulkanDevice};
use std::process::Command;
use support::{config, floats, launch, memory, module, usable};

const LAYER: &str = "VK_LAYER_KHRONOS_validation";

/// Adds one to each word of the output.
const ONE: &str = "
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @compute @workgroup_size(1)
    fn one() {
        for (var i = 0u; i < arrayLength(&output); i++) {
            output[i] += 1u;
        }
    }";

fn is_installed() -> bool {
    // SAFETY: the loader is the system's; its initialisers have no requirements.
    let Ok(entry) = (unsafe { ash::Entry::load() }) else { return false };
    // SAFETY: no requirements.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
    let is_it = |name: &std::ffi::CStr| name.to_str() == Ok(LAYER);
    layers.iter().any(|layer| layer.layer_name_as_c_str().is_ok_and(is_it))
}

#[test]
fn validation_layers_have_nothing_to_say() {
    if usable().is_empty() {
        return;
    }
    if !is_installed() {
        return println!("SKIP: {LAYER} is not installed");
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "works_in_all_ways"])
        .env("VK_INSTANCE_LAYERS", LAYER)
        .env("VK_LAYER_ENABLES", "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(!said.contains("Validation") && !said.contains("VUID"), "{said}");
}

/// Work that the layers look at, in a process of its own.
#[test]
#[ignore = "validation_layers_have_nothing_to_say starts it"]
fn works_in_all_ways() {
    for found in usable() {
        for import in [true, false] {
            let modules = vec![module("one", Source::Wgsl(ONE.into()))];
            let config = Config { import, modules, ..config(&found) };
            let device = device_vulkan::start(config).unwrap();
            // More than the heap of a driver for processor cores; the pages are never touched.
            let huge = memory(3 << 30);
            let (input, output) = (huge.slice(0, 80).unwrap(), huge.slice(128, 40).unwrap());
            let outcome = launch(&device, "vecadd", [10, 0, 0, 0], &input, &output);
            assert_eq!(outcome.status, Status::Done);
            // As large as one block, and as many.
            for n in [1, 1000, 300_000] {
                let input = floats(&vec![1.0; 2 * n]);
                for offset in [0, 4, 2, 64] {
                    let all = memory(n * 4 + 64 + 4096);
                    let output = all.slice(offset, n * 4).unwrap();
                    let arguments = [n as u64, 1, 0, 0];
                    for kernel in ["vecadd", "stencil", "one", "histogram"] {
                        let arguments =
                            if kernel == "stencil" { [1, n as u64, 0, 0] } else { arguments };
                        let outcome = launch(&device, kernel, arguments, &input, &output);
                        assert_eq!(outcome.status, Status::Done);
                    }
                }
                come_and_go(&device);
            }
        }
    }
}

/// Has the device let go of memory while others still use theirs.
fn come_and_go(device: &VulkanDevice) {
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let (input, output) = (floats(&[1.0; 2_000]), memory(4_000));
                    let arguments = [1_000, 0, 0, 0];
                    let outcome = launch(device, "vecadd", arguments, &input, &output);
                    assert_eq!(outcome.status, Status::Done);
                    drop((input, output));
                    device.destroy_context(device.create_context().unwrap()).unwrap();
                }
            });
        }
    });
}
