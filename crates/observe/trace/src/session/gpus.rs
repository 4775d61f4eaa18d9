//! Users of the machine's GPUs, by NVIDIA's management library (NVML).
//!
//! NVML is asked once, when the program has ended: its queries take locks of the kernel's driver,
//! for which calls of running programs wait. It remembers how much of a GPU each process used in
//! the last seconds or minutes, so that one query tells of the whole of a short recording.

use crate::metadata::{Gpu, GpuUser};
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::error::NvmlError;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Name under which the library lies in a container, where no development files are.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Reasons for lower clocks that a user can do something about.
const SLOWDOWNS: [(ThrottleReasons, &str); 6] = [
    (ThrottleReasons::SW_POWER_CAP, "power cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "temperature"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "temperature, by the hardware"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "clocks set by an administrator"),
];

/// The machine's GPUs with their users in the last `period`, none where NVML is missing.
pub(super) fn gpus(period: Duration) -> Vec<Gpu> {
    let read = || -> Result<Vec<Gpu>, NvmlError> {
        let nvml = Nvml::builder().lib_path(LIBRARY.as_ref()).init()?;
        (0..nvml.device_count()?).map(|number| gpu(&nvml, number, period)).collect()
    };
    read().unwrap_or_default()
}

fn gpu(nvml: &Nvml, number: u32, period: Duration) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(number)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = since.saturating_sub(period).as_micros() as u64;
    let mut users: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    // No samples are an error of their own.
    for sample in device.process_utilization_stats(since).unwrap_or_default() {
        let (sum, count) = users.entry(sample.pid).or_default();
        *sum += u64::from(sample.sm_util);
        *count += 1;
    }
    for process in device.running_compute_processes().unwrap_or_default() {
        users.entry(process.pid).or_default();
    }
    let user = |(pid, (sum, count)): (u32, (u64, u64))| GpuUser {
        pid,
        name: name(pid),
        percent: sum.checked_div(count),
    };
    let reasons = device.current_throttle_reasons().unwrap_or(ThrottleReasons::empty());
    let slowed = SLOWDOWNS.iter().filter(|(reason, _)| reasons.contains(*reason));
    Ok(Gpu {
        number,
        name: device.name().unwrap_or_default(),
        users: users.into_iter().map(user).collect(),
        slowed: slowed.map(|(_, words)| (*words).to_owned()).collect(),
    })
}

/// The name of a process, if it is one of this machine's that can be seen from here.
fn name(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}
