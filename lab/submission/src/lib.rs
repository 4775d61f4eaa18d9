//! Cost of handing work to an accelerator, by the way of handing it over.
//!
//! The method is that of "API Comparison of CPU-To-GPU Command Offloading Latency on Embedded
//! Platforms (Artifact)" (DARTS 5.1.4): a [`network::Network`] of parameterised width and depth is
//! submitted again and again, and of each repetition two times are taken, that of the submission
//! and that until the result is there. Other than there
//!
//! - all methods are timed at the same two points by the same clock ([`measure`]);
//! - what is built once is counted apart ([`method::Step`]);
//! - what each method computed is compared with the processor's own result;
//! - methods that came later take part, too ([`method::Method`]).
//!
//! [`open`] opens an accelerator, [`study::run`] measures several of them in turns, and
//! [`summary`] says what there is to say of a case.

mod cuda;
pub mod measure;
pub mod method;
pub mod network;
mod onnx;
pub mod output;
mod software;
pub mod study;
pub mod summary;
mod vulkan;

pub use method::{About, Accelerator, Built, Error, Method, Run, Step};

/// Accelerator to open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Select {
    /// The software accelerator, on these cores; anywhere if there are none.
    Software(Vec<usize>),
    /// The NVIDIA GPU of this number, as the driver counts.
    Cuda(usize),
    /// The Vulkan device of this number, as [`device_vulkan::devices`] counts.
    Vulkan(usize),
    /// ONNX Runtime's processor provider, on this core; anywhere if there is none.
    Onnx(Option<usize>),
}

impl std::fmt::Display for Select {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Select::Software(_) => f.write_str("cpu"),
            Select::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Select::Vulkan(index) => write!(f, "vulkan:{index}"),
            Select::Onnx(_) => f.write_str("onnx"),
        }
    }
}

impl std::str::FromStr for Select {
    type Err = String;

    fn from_str(text: &str) -> Result<Select, String> {
        let numbered = |kind: &str| text.strip_prefix(kind)?.strip_prefix(':')?.parse().ok();
        match text {
            "cpu" => Ok(Select::Software(Vec::new())),
            "onnx" => Ok(Select::Onnx(None)),
            _ => (numbered("cuda").map(Select::Cuda))
                .or_else(|| numbered("vulkan").map(Select::Vulkan))
                .ok_or_else(|| "expected cpu, onnx, cuda:N or vulkan:N".into()),
        }
    }
}

/// Accelerators of this machine that could take part: the software accelerator, each GPU, each
/// Vulkan device that can be used, and ONNX Runtime where its library is named.
pub fn found() -> Vec<Select> {
    let mut found = vec![Select::Software(Vec::new())];
    if std::env::var_os(device_onnx::LIBRARY_VARIABLE).is_some() {
        found.push(Select::Onnx(None));
    }
    // An error means that there is none.
    let gpus = device_cuda::devices().unwrap_or_default();
    found.extend(gpus.iter().map(|gpu| Select::Cuda(gpu.ordinal)));
    let vulkan = device_vulkan::devices().unwrap_or_default();
    let usable = vulkan.iter().filter(|device| device.missing.is_none());
    found.extend(usable.map(|device| Select::Vulkan(device.index)));
    found
}

/// Opens an accelerator. Threads that its driver starts inherit the calling thread's cores and
/// policy, so call this before the thread is pinned.
///
/// # Errors
/// [`Error::Unavailable`] when the machine does not have it.
pub fn open(select: &Select) -> Result<Box<dyn Accelerator>, Error> {
    match select {
        Select::Software(cores) => software::open(cores),
        Select::Cuda(ordinal) => cuda::open(*ordinal),
        Select::Vulkan(index) => vulkan::open(*index),
        Select::Onnx(core) => onnx::open(*core),
    }
}
