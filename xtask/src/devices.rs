//! Things that the tests of devices need beside a compiler: ONNX Runtime's library, and a Vulkan
//! driver that computes on processor cores.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::debian;
use crate::step::Step;
use crate::wheel::Wheel;

/// The environment variable by which the library is found.
pub(crate) const ONNX_VARIABLE: &str = "ORT_DYLIB_PATH";
/// The library, as its package has it.
const ONNX_LIBRARY: &str = "onnxruntime/capi/libonnxruntime.so.1.31.1";

const ONNX: Wheel = Wheel {
    requirement: "onnxruntime==1.31.1",
    hash: "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
    platform: &[
        "--platform=manylinux_2_28_x86_64",
        "--python-version=3.11",
        "--implementation=cp",
        "--abi=cp311",
    ],
};

/// The conformance suite on each device, then a reduced submission study on all of them.
///
/// # Errors
/// If one does not conform, or computes something wrong.
pub(crate) fn run() -> anyhow::Result<()> {
    vulkan_driver();
    let library = onnx_library()?;
    let crates = "-p keeptime-device -p keeptime-device-cuda -p keeptime-device-onnx \
                  -p keeptime-device-vulkan -p keeptime-submission";
    Step::cargo(&format!("test {crates}")).env(ONNX_VARIABLE, &library).run()?;
    Step::cargo(
        "run --release -p keeptime-lab --no-default-features -- bench submission --quick --out",
    )
    .arg(crate::target().join("submission"))
    .env(ONNX_VARIABLE, &library)
    .run()
}

/// ONNX Runtime's library, fetched if it is not there; the one that the variable names, if any.
///
/// # Errors
/// If the package cannot be fetched or is not what is expected.
pub(crate) fn onnx_library() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os(ONNX_VARIABLE) {
        return Ok(given.into());
    }
    let folder = crate::target().join("onnxruntime");
    let library = std::path::absolute(folder.join("onnxruntime").join(ONNX_LIBRARY))?;
    let marker = folder.join("complete");
    if fs::read_to_string(&marker).is_ok_and(|found| found == ONNX.requirement) {
        return Ok(library);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the old ONNX Runtime")?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    ONNX.unpacked(&folder)?;
    fs::write(marker, ONNX.requirement).context("cannot mark ONNX Runtime as complete")?;
    Ok(library)
}

/// Installs Mesa's Vulkan driver for processor cores where the machine has none and lets us. The
/// tests of Vulkan say what they leave out otherwise.
pub(crate) fn vulkan_driver() {
    let has = |folder: &str, file: &str| Path::new(folder).join(file).exists();
    let loader = has("/usr/lib/x86_64-linux-gnu", "libvulkan.so.1");
    let drivers = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    if loader
        && drivers.iter().any(|folder| fs::read_dir(folder).is_ok_and(|mut of| of.next().is_some()))
    {
        return;
    }
    if !debian::install(&["libvulkan1", "mesa-vulkan-drivers"]) {
        eprintln!("==> no Vulkan driver here");
    }
}
