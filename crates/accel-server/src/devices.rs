//! The devices behind the accelerators of a system, by what its file says.

use crate::{Error, Options, config_error, numbers, scheduling};
use device::Device;
use device::software::{self, SoftwareDevice};
use std::sync::Arc;
use system::{Accelerator, DeviceKind, Policy, Server};

/// Starts the device of an accelerator.
///
/// # Errors
/// [`Error::Config`] names the key that cannot be served, [`Error::Device`] the accelerator whose
/// device does not start.
pub(crate) fn start(
    accelerator: &Accelerator,
    policy: Policy,
    server: &Server,
    options: &Options,
) -> Result<Arc<dyn Device>, Error> {
    let given = options.accelerator_cores.get(&accelerator.id).cloned();
    let cores = given.unwrap_or_else(|| numbers(&accelerator.cores));
    let levels = u8::try_from(accelerator.buckets).unwrap_or(u8::MAX);
    let threads = scheduling(server.priority, 2);
    let started = match accelerator.device {
        DeviceKind::Cpu => {
            let sharing = match policy {
                Policy::Timeslice => software::Sharing::TimeSlice { slice_ns: server.slice_ns },
                _ => software::Sharing::Levels,
            };
            let config = software::Config {
                levels,
                cores,
                policy: threads,
                sharing,
                ..software::Config::default()
            };
            SoftwareDevice::on_cores(config).map(|device| device as Arc<dyn Device>)
        }
        kind if policy == Policy::Timeslice => {
            let key = format!("accelerators.{}.device", accelerator.id);
            let expected = "expected cpu: with policy timeslice time slices are the software \
                            accelerator's";
            return Err(config_error(&key, &kind.to_string(), expected));
        }
        DeviceKind::Cuda(ordinal) => {
            let config = device_cuda::Config {
                ordinal: ordinal as usize,
                levels,
                cores,
                policy: threads,
                // Bounds are for requests one after the other, unless the file says otherwise.
                lowest: if accelerator.concurrent_lowest { 4 } else { 1 },
                ..device_cuda::Config::default()
            };
            device_cuda::start(&config).map(|device| device as Arc<dyn Device>)
        }
        kind => {
            let key = format!("accelerators.{}.device", accelerator.id);
            let expected = "expected cpu or cuda:0, cuda:1, ...: this version serves no others";
            return Err(config_error(&key, &kind.to_string(), expected));
        }
    };
    started.map_err(|reason| Error::Device { id: accelerator.id.clone(), reason })
}
