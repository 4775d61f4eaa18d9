//! The devices behind the accelerators of a system, by what its file says.

mod kernels;

use crate::{Error, Options, config_error, numbers, scheduling};
use device::Device;
#[cfg(feature = "vulkan")]
use device::hosted::Unit;
use device::software::{self, SoftwareDevice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use system::{Accelerator, ArbitrationPolicy, DeviceKind, System};

/// Starts the device of an accelerator.
///
/// # Errors
/// [`Error::Config`] names the key that cannot be served, [`Error::Start`] the accelerator whose
/// device does not start.
pub(crate) fn start(
    system: &System,
    accelerator: &Accelerator,
    policy: ArbitrationPolicy,
    options: &Options,
) -> Result<Arc<dyn Device>, Error> {
    let key = |name: &str| format!("accelerators.{}.{name}", accelerator.id);
    if policy == ArbitrationPolicy::Timeslice && accelerator.device != DeviceKind::Cpu {
        let expected = "expected cpu: with policy timeslice time slices are the software \
                        accelerator's";
        return Err(config_error(&key("device"), &accelerator.device.to_string(), expected));
    }
    let given = options.accelerator_cores.get(&accelerator.id).cloned();
    let cores = given.unwrap_or_else(|| numbers(&accelerator.cores));
    let levels = u8::try_from(accelerator.buckets).unwrap_or(u8::MAX);
    let threads = scheduling(system.server.priority, 2);
    let file = |path: &Path| system.path(path);
    let started = match accelerator.device {
        DeviceKind::Cpu => {
            let sharing = match policy {
                ArbitrationPolicy::Timeslice => {
                    software::Sharing::TimeSlice { slice_ns: system.server.slice_ns }
                }
                _ => software::Sharing::Levels,
            };
            let rest = software::Config::default();
            let config = software::Config { levels, cores, policy: threads, sharing, ..rest };
            SoftwareDevice::on_cores(config).map(|device| device as Arc<dyn Device>)
        }
        DeviceKind::Cuda(ordinal) => {
            let config = cuda(accelerator, file)?;
            let ordinal = ordinal as usize;
            let config = device_cuda::Config {
                ordinal,
                levels,
                cores,
                policy: threads,
                whole: options.whole_launches,
                host: options.gpu_host.clone(),
                ..config
            };
            device_cuda::start(&config).map(|device| device as Arc<dyn Device>)
        }
        #[cfg(feature = "vulkan")]
        DeviceKind::Vulkan(index) => {
            let unit = |core: &usize| Unit { core: Some(*core), ..Unit::default() };
            let modules = accelerator.kernels.iter().filter_map(|of| kernels::module(of, file));
            let config = device_vulkan::Config {
                device: device_vulkan::Select::Index(index as usize),
                levels,
                units: cores.iter().map(unit).collect(),
                policy: threads,
                spin: accelerator.spin,
                modules: modules.collect::<Result<_, _>>()?,
                ..device_vulkan::Config::default()
            };
            device_vulkan::start(config).map(|device| device as Arc<dyn Device>)
        }
        #[cfg(feature = "onnx")]
        DeviceKind::Onnx => {
            let models = accelerator.kernels.iter().filter_map(|of| kernels::model(of, file));
            let config = device_onnx::Config {
                models: models.collect(),
                provider: match accelerator.provider {
                    Some(ordinal) => device_onnx::Provider::Cuda {
                        device: u16::try_from(ordinal).unwrap_or(u16::MAX),
                    },
                    None => device_onnx::Provider::Cpu,
                },
                levels,
                policy: threads,
                core: cores.first().copied(),
                ..device_onnx::Config::default()
            };
            device_onnx::start(&config).map(|device| device as Arc<dyn Device>)
        }
        #[cfg(not(feature = "vulkan"))]
        DeviceKind::Vulkan(_) => Err(not_built("vulkan")),
        #[cfg(not(feature = "onnx"))]
        DeviceKind::Onnx => Err(not_built("onnx")),
    };
    started.map_err(|reason| {
        let (id, device) = (accelerator.id.clone(), accelerator.device.to_string());
        Error::Start { id, device, reason }
    })
}

/// Refusal of a device whose kind was left out of this build; the feature has the kind's name.
#[cfg(not(all(feature = "onnx", feature = "vulkan")))]
fn not_built(feature: &str) -> device::Error {
    device::Error::Start(format!(
        "this keeptime was built without it; build it with the feature {feature}: cargo install \
         --path crates/cli --features {feature}"
    ))
}

/// Builds the configuration of a GPU from an accelerator's own keys.
fn cuda(
    accelerator: &Accelerator,
    file: impl Fn(&Path) -> PathBuf,
) -> Result<device_cuda::Config, Error> {
    let services = accelerator.kernels.iter().filter_map(|of| kernels::service(of, &file));
    Ok(device_cuda::Config {
        // Bounds are for requests one after the other, unless the file says otherwise.
        lowest: if accelerator.concurrent_lowest { 4 } else { 1 },
        spins: accelerator.spin,
        blocks_per_slice: accelerator.blocks_per_slice,
        slices_at_once: accelerator.slices_at_once,
        services: services.collect::<Result<_, _>>()?,
        ..device_cuda::Config::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_gpu_reach_it() {
        let keys = |accelerator: &str, kernel: &str| {
            let text = format!(
                "accelerators: [{{id: gpu0, buckets: 6, device: 'cuda:0', {accelerator}, \
                 kernels: [{{name: k, code: faults.ptx, function: f, {kernel}}}]}}]"
            );
            let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../device-cuda/tests/system.yaml");
            let system = System::parse(&text, tests).unwrap();
            let mut config = cuda(&system.accelerators[0], |path| system.path(path)).unwrap();
            let device_cuda::Program::Kernel(kernel) = config.services.remove(0).program else {
                panic!("it is a kernel")
            };
            assert_eq!(config.slices_at_once, if config.spins { 3 } else { 1 });
            let slices = (config.blocks_per_slice, kernel.blocks_per_slice, kernel.in_place);
            (config.lowest, config.spins, slices)
        };
        let given = keys(
            "spin: true, concurrent_lowest: true, blocks_per_slice: 528, slices_at_once: 3",
            "blocks_per_slice: 9, in_place: true",
        );
        assert_eq!(given, (4, true, (528, 9, true)));
        assert_eq!(keys("spin: false", "threads: 1"), (1, false, (0, 0, false)));
    }
}
