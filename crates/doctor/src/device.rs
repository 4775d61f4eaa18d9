//! Accelerators that a server could serve here: each is started, which is the only proof.

use std::fs::DirEntry;
use std::path::Path;

use device::Device;
use device::software::SoftwareDevice;

use crate::Finding;

/// The vendor's number of NVIDIA's PCI devices.
const NVIDIA: &str = "0x10de";

/// The accelerator of threads of the processor.
pub(crate) fn software() -> Finding {
    match SoftwareDevice::on_cores(device::software::Config::default()) {
        Ok(device) => {
            let (levels, kernels) = (device.properties().levels, device.kernels().len());
            Finding::ok(format!("software, {levels} levels, {kernels} kernels"))
        }
        Err(error) => Finding::missing(error.to_string()),
    }
}

/// The driver that CUDA programs use, with its GPUs.
pub(crate) fn cuda_driver() -> Finding {
    match device_cuda::devices() {
        Ok(gpus) if gpus.is_empty() => Finding::missing("the driver sees no GPU")
            .mend("use a machine with an NVIDIA GPU; in a container: docker run --gpus all"),
        Ok(gpus) => Finding::ok(gpus.iter().map(describe).collect::<Vec<_>>().join("; ")),
        Err(reason) => Finding::missing(reason).mend(grant_driver()),
    }
}

/// The way to a driver: a container lacks only the libraries of one that the kernel has.
pub(crate) fn grant_driver() -> &'static str {
    if Path::new("/proc/driver/nvidia/version").exists() {
        return "docker run --gpus all";
    }
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let vendor = |device: DirEntry| std::fs::read_to_string(device.path().join("vendor"));
    match devices.map(vendor).any(|vendor| vendor.is_ok_and(|number| number.trim() == NVIDIA)) {
        true => "install the GPU's driver (Debian: sudo apt install nvidia-driver)",
        false => "use a machine with an NVIDIA GPU",
    }
}

fn describe(gpu: &device_cuda::Found) -> String {
    let gib = gpu.memory as f64 / f64::from(1 << 30);
    let (major, minor) = gpu.capability;
    format!("cuda:{} {}, {gib:.0} GiB, compute {major}.{minor}", gpu.ordinal, gpu.name)
}

/// The GPUs that a server could serve.
pub(crate) fn cuda_devices() -> Finding {
    let gpus = match device_cuda::devices() {
        Ok(gpus) if !gpus.is_empty() => gpus,
        _ => return cuda_driver(),
    };
    let start = |gpu: &device_cuda::Found| {
        let config = device_cuda::Config { ordinal: gpu.ordinal, ..Default::default() };
        let about = describe(gpu);
        match device_cuda::start(&config) {
            Ok(device) => Ok(format!("{about}, {} kernels", device.kernels().len())),
            Err(error) => Err(format!("{about}: {error}")),
        }
    };
    of_all(gpus.iter().map(start).collect())
        .mend("end other users of the GPU (nvidia-smi lists them)")
}

/// Summary of devices: those that can be used, else those that cannot, with the reason.
fn of_all(devices: Vec<Result<String, String>>) -> Finding {
    let all = |texts: Vec<&str>| texts.join("; ");
    let usable: Vec<&str> = devices.iter().flatten().map(String::as_str).collect();
    let refused = devices.iter().filter_map(|device| device.as_ref().err()).map(String::as_str);
    match (usable.is_empty(), usable.len() == devices.len()) {
        (true, _) => Finding::missing(all(refused.collect())),
        (false, true) => Finding::ok(all(usable)),
        (false, false) => Finding::limited(all(usable.into_iter().chain(refused).collect())),
    }
}

/// A kind of accelerator that this program was built without.
#[cfg(not(all(feature = "onnx", feature = "vulkan")))]
fn not_built() -> Finding {
    Finding::missing("not part of this build")
        .mend("cargo install --path crates/cli --features full")
}

/// The Vulkan loader and its devices, in a build without them.
#[cfg(not(feature = "vulkan"))]
pub(crate) fn vulkan() -> Finding {
    not_built()
}

/// The Vulkan loader and its devices.
#[cfg(feature = "vulkan")]
pub(crate) fn vulkan() -> Finding {
    let install = "sudo apt install libvulkan1 mesa-vulkan-drivers";
    let found = match device_vulkan::devices() {
        Ok(found) => found,
        Err(error) => return Finding::missing(error.to_string()).mend(install),
    };
    let describe = |device: &device_vulkan::Found| {
        let about = format!("vulkan:{} {}", device.index, device.name);
        device.missing.as_ref().map_or(Ok(about.clone()), |lacks| Err(format!("{about}: {lacks}")))
    };
    match found.is_empty() {
        true => Finding::missing("the loader finds no device").mend(install),
        false => of_all(found.iter().map(describe).collect()).mend(install),
    }
}

/// ONNX Runtime, in a build without it.
#[cfg(not(feature = "onnx"))]
pub(crate) fn onnx() -> Finding {
    not_built()
}

/// ONNX Runtime, whose library a variable names.
#[cfg(feature = "onnx")]
pub(crate) fn onnx() -> Finding {
    let variable = device_onnx::LIBRARY_VARIABLE;
    let install =
        format!("pip install onnxruntime, then set {variable} to its libonnxruntime.so.*");
    if std::env::var_os(variable).is_none_or(|path| path.is_empty()) {
        return Finding::missing(format!("{variable} names no library")).mend(install);
    }
    match device_onnx::start(&device_onnx::Config::default()) {
        Ok(device) => Finding::ok(device.properties().name.clone()),
        Err(error) => Finding::missing(error.to_string()).mend(install),
    }
}
