//! Configuration of a device.

use crate::BUILT_IN;
use device::Error;
use realtime::thread::Scheduling;
use std::fmt;
use std::path::PathBuf;

/// The environment variable that names the runtime's library where the configuration does not.
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

/// The largest batch that a model may be offered with.
const MOST_BATCH: u32 = 256;
/// The most threads that may compute one model.
const MOST_THREADS: usize = 256;

/// Configuration of an [`crate::OnnxDevice`]. The default has no models, six levels, and computes
/// on the processor, with one thread on whatever core is free, with the ordinary policy.
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of the runtime's library, such as `libonnxruntime.so.1.31.1`, version 1.17 or newer;
    /// if none is given, the variable [`LIBRARY_VARIABLE`] tells. A process loads one only.
    pub library: Option<PathBuf>,
    /// Models that the device offers beside `empty`, `busy` and `vecadd`.
    pub models: Vec<Model>,
    /// Processor that computes.
    pub provider: Provider,
    /// Number of threads that compute one operation of a model, 1 to 256: the unit, and others that
    /// the runtime makes for each model. These get the same policy, but run on the cores of whoever
    /// starts the device; they sleep while there is nothing to do.
    pub threads: usize,
    /// Number of levels, at least one.
    pub levels: u8,
    /// Scheduling of the device's threads. When it is refused they run with the normal one, and
    /// [`device::Statistics::realtime`] tells.
    pub policy: Scheduling,
    /// The core that the unit is kept on, if any.
    pub core: Option<usize>,
    /// The core of the copy engine's thread, if it is to have one. With a real-time policy it
    /// should not be the core of the unit, or copies and cancellations wait for its models.
    pub copy_core: Option<usize>,
}

/// A model that the device offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    /// The name of its kernel; not `empty`, `busy` or `vecadd`.
    pub name: String,
    /// Path of its `.onnx` file.
    pub path: PathBuf,
    /// The largest batch, 1 to 256, where the model leaves the first size of its tensors open.
    /// The device keeps tensors for each size up to it.
    pub most: u32,
}

/// Processor that computes the models.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Provider {
    /// The processor, by the runtime's own kernels.
    #[default]
    Cpu,
    /// An NVIDIA GPU. Needs a library that was built for it, with CUDA's and cuDNN's libraries
    /// where the loader finds them.
    Cuda {
        /// Number of the GPU, counted by the driver.
        device: u16,
    },
}

impl Default for Config {
    fn default() -> Config {
        Config {
            library: None,
            models: Vec::new(),
            provider: Provider::Cpu,
            threads: 1,
            levels: 6,
            policy: Scheduling::Normal,
            core: None,
            copy_core: None,
        }
    }
}

impl Model {
    /// A model whose batch is at most 16.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Model {
        Model { name: name.into(), path: path.into(), most: 16 }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provider::Cpu => write!(f, "cpu"),
            Provider::Cuda { device } => write!(f, "cuda:{device}"),
        }
    }
}

impl Config {
    /// Names are there and different, numbers in their range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return Err(Error::Start(format!(
                "{} threads, expected 1 to {MOST_THREADS}",
                self.threads
            )));
        }
        let mut names = BUILT_IN.to_vec();
        for Model { name, path, most } in &self.models {
            let wrong = |what: String| Err(Error::Start(format!("{}: {what}", path.display())));
            if name.is_empty() || names.contains(&name.as_str()) {
                return wrong(format!("the name {name:?} of the model is empty or taken"));
            }
            if !(1..=MOST_BATCH).contains(most) {
                return wrong(format!("batches of at most {most}, expected 1 to {MOST_BATCH}"));
            }
            names.push(name);
        }
        Ok(())
    }
}
