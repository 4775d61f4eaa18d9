//! The accelerator of the bench, in this process.

use std::sync::Arc;

use anyhow::Context;
use device::Device;
use device::software::{Config, SoftwareDevice};
use realtime::thread::Scheduling;
use realtime::work::Calibration;

/// Starts a device whose threads stay on these cores. A CUDA GPU works in the client's memory, so
/// that it has the memory in common with the processor's cores as an integrated one has.
pub(super) fn start(
    name: &str,
    cores: &[usize],
    policy: Scheduling,
) -> anyhow::Result<Arc<dyn Device>> {
    let ordinal = |kind: &str| name.strip_prefix(kind).and_then(|number| number.parse().ok());
    if let Some(ordinal) = ordinal("cuda:") {
        let cores = cores.to_vec();
        let config = device_cuda::Config {
            ordinal,
            cores,
            policy,
            in_place: true,
            ..device_cuda::Config::default()
        };
        return Ok(device_cuda::start(&config)?);
    }
    if name.starts_with("vulkan:") {
        let text = format!(
            "accelerators: [{{id: bench, buckets: 1, device: \"{name}\", cores: {cores:?}}}]\n"
        );
        let system = system::System::parse(&text, "bench.yaml")?;
        let options = accel_server::Options::default();
        return Ok(accel_server::start_device(&system, "bench", &options)?);
    }
    // Nothing here is calibrated work.
    let calibration = Some(Calibration { iterations_per_us: 1000.0, spread: 0.0 });
    let config = Config { cores: cores.to_vec(), policy, calibration, ..Config::default() };
    SoftwareDevice::on_cores(config)
        .map(|device| device as Arc<dyn Device>)
        .context("the software accelerator")
}
